//! Results of tool calls that the operator allows to be reused. In memory, outside the actors: a restart loses them.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use domain::arguments_hash::ArgumentsHash;
use domain::tool::catalogue::{CatalogueEntry, Pin};
use domain::tool::{Part, Source, ToolResult};

/// The maximum number of kept results.
const RESULTS_MAX: usize = 512;
/// The maximum size of one kept result, and of all of them, in bytes of text.
const RESULT_BYTES_MAX: usize = 256 * 1024;
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The kept results, by server, address, tool and arguments.
#[derive(Default)]
pub struct ReusedResults(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    results: HashMap<ArgumentsHash, KeptResult>,
    bytes: usize,
    /// The number of calls that may have changed something.
    changes: u64,
}

struct KeptResult {
    source: Source,
    pin: Pin,
    result: ToolResult,
    bytes: usize,
    until: Instant,
}

/// The moment at which a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Began(u64);

impl ReusedResults {
    /// Returns the kept result of a call, unless the tool changed.
    #[must_use]
    pub fn get(&self, entry: &CatalogueEntry, hash: &ArgumentsHash) -> Option<ToolResult> {
        let kept = self.0.lock();
        let found = kept.results.get(hash).filter(|found| found.until > Instant::now() && found.pin == entry.pin)?;
        Some(found.result.clone())
    }

    /// Notes the moment before a call.
    #[must_use]
    pub fn now(&self) -> Began {
        Began(self.0.lock().changes)
    }

    /// Keeps a result for this time, if it succeeded, is complete and is short. A result whose call began before a
    /// change is not kept.
    pub fn keep(
        &self,
        entry: &CatalogueEntry,
        hash: &ArgumentsHash,
        result: &ToolResult,
        time: Duration,
        began: Began,
    ) {
        let is_text =
            |part: &Part| matches!(part, Part::Text(_) | Part::Structured(_) | Part::Link(_) | Part::Resource { .. });
        if result.is_error || result.cut.is_some() || !result.parts.iter().all(is_text) {
            return;
        }
        let bytes = result.to_text().len();
        let kept = &mut *self.0.lock();
        if bytes > RESULT_BYTES_MAX || kept.changes != began.0 {
            return;
        }
        let now = Instant::now();
        let (source, pin, result) = (entry.tool.source.clone(), entry.pin.clone(), result.clone());
        kept.remove(hash);
        kept.bytes += bytes;
        kept.results.insert(hash.clone(), KeptResult { source, pin, result, bytes, until: now + time });
        while kept.results.len() > RESULTS_MAX || kept.bytes > BYTES_MAX {
            let first = kept.results.iter().min_by_key(|(_, kept)| kept.until).map(|(hash, _)| hash.clone());
            let Some(first) = first else { break };
            kept.remove(&first);
        }
    }

    /// Drops the results of a server before and after a call that may change its data.
    pub fn changing<'a>(&'a self, source: &'a Source) -> Changing<'a> {
        self.changed(source);
        Changing { reused: self, source }
    }

    fn changed(&self, source: &Source) {
        let kept = &mut *self.0.lock();
        kept.changes += 1;
        kept.results.retain(|_, kept| kept.source != *source);
        kept.bytes = kept.results.values().map(|kept| kept.bytes).sum();
    }
}

/// A call that may change the data of a server.
pub struct Changing<'a> {
    reused: &'a ReusedResults,
    source: &'a Source,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.reused.changed(self.source);
    }
}

impl Kept {
    fn remove(&mut self, hash: &ArgumentsHash) {
        if let Some(gone) = self.results.remove(hash) {
            self.bytes -= gone.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use domain::tool::catalogue::{Catalogue, Offer};
    use domain::tool::testing::tool;

    const TIME: Duration = Duration::from_secs(60);

    fn entry(description: &str) -> Arc<CatalogueEntry> {
        let offer = Offer { tools: vec![Arc::new(tool("docs", "search", description))], ..Offer::default() };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        Arc::clone(&all.entries()[0])
    }

    fn hash(number: usize) -> ArgumentsHash {
        ArgumentsHash(number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_from_before_a_change_is_not_reused() {
        let (reused, entry, one) = (ReusedResults::default(), entry(""), hash(1));
        let keep = |text: &str, began| reused.keep(&entry, &one, &ToolResult::text(text), TIME, began);
        keep("old", reused.now());
        assert_eq!(reused.get(&entry, &one), Some(ToolResult::text("old")));
        let began = reused.now();
        drop(reused.changing(&entry.tool.source));
        assert_eq!(reused.get(&entry, &one), None);
        keep("read before the change", began);
        assert_eq!(reused.get(&entry, &one), None);
        keep("new", reused.now());
        assert_eq!(reused.get(&entry, &one), Some(ToolResult::text("new")));
        assert_eq!(reused.get(&self::entry("changed"), &one), None, "the tool changed");
        tokio::time::advance(TIME).await;
        assert_eq!(reused.get(&entry, &one), None, "its time is over");
    }

    #[tokio::test]
    async fn kept_results_are_bounded() {
        let (reused, entry) = (ReusedResults::default(), entry(""));
        for number in 0..RESULTS_MAX + 10 {
            reused.keep(&entry, &hash(number), &ToolResult::text("x"), TIME, reused.now());
        }
        assert_eq!(reused.0.lock().results.len(), RESULTS_MAX);
        for number in 0..50 {
            let long = ToolResult::text("x".repeat(RESULT_BYTES_MAX));
            reused.keep(&entry, &hash(number), &long, TIME, reused.now());
        }
        assert!(reused.0.lock().bytes <= BYTES_MAX);
        for (number, odd) in
            (9_000..).zip([ToolResult::failure("no"), ToolResult::text("x".repeat(RESULT_BYTES_MAX + 1))])
        {
            reused.keep(&entry, &hash(number), &odd, TIME, reused.now());
            assert_eq!(reused.get(&entry, &hash(number)), None);
        }
    }
}
