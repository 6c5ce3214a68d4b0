//! Results of tool calls that the operator allows to be reused. In memory, outside the actors: a restart loses them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::messages::reusable_server::{Began, ReusableServer};
use domain::arguments_hash::ArgumentsHash;
use domain::tool::catalogue::{CatalogueEntry, Pin};
use domain::tool::{Part, ToolResult};

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
}

struct KeptResult {
    server: Arc<ReusableServer>,
    pin: Pin,
    result: ToolResult,
    bytes: usize,
    until: Instant,
}

/// A call whose result may be reused.
#[derive(Clone, Copy)]
pub struct ReusableCall<'a> {
    /// Its server.
    pub server: &'a Arc<ReusableServer>,
    /// Its tool.
    pub entry: &'a CatalogueEntry,
    /// The hash of its tool and arguments.
    pub hash: &'a ArgumentsHash,
}

impl ReusedResults {
    /// Returns the kept result of a call, unless the tool or its server changed.
    #[must_use]
    pub fn get(&self, call: ReusableCall<'_>) -> Option<ToolResult> {
        let kept = self.0.lock();
        let found =
            kept.results.get(call.hash).filter(|found| found.until > Instant::now() && found.pin == call.entry.pin)?;
        Arc::ptr_eq(&found.server, call.server).then(|| found.result.clone())
    }

    /// Keeps a result for this time, if it succeeded, is complete and is short. A result whose call began before a
    /// change is not kept.
    pub fn keep(&self, call: ReusableCall<'_>, result: &ToolResult, time: Duration, began: Began) {
        let ReusableCall { server, entry, hash } = call;
        let is_text =
            |part: &Part| matches!(part, Part::Text(_) | Part::Structured(_) | Part::Link(_) | Part::Resource { .. });
        if result.is_error || result.cut.is_some() || !result.parts.iter().all(is_text) {
            return;
        }
        let bytes = result.to_text().len();
        let kept = &mut *self.0.lock();
        if bytes > RESULT_BYTES_MAX || server.now() != began {
            return;
        }
        let now = Instant::now();
        let (server, pin, result) = (Arc::clone(server), entry.pin.clone(), result.clone());
        kept.remove(hash);
        kept.bytes += bytes;
        kept.results.insert(hash.clone(), KeptResult { server, pin, result, bytes, until: now + time });
        while kept.results.len() > RESULTS_MAX || kept.bytes > BYTES_MAX {
            let first = kept.results.iter().min_by_key(|(_, kept)| kept.until).map(|(hash, _)| hash.clone());
            let Some(first) = first else { break };
            kept.remove(&first);
        }
    }

    /// Drops the results of a server before and after a call that may change its data.
    pub fn changing<'a>(&'a self, server: &'a Arc<ReusableServer>) -> Changing<'a> {
        self.changed(server);
        Changing { reused: self, server }
    }

    fn changed(&self, server: &Arc<ReusableServer>) {
        let kept = &mut *self.0.lock();
        server.changed();
        kept.results.retain(|_, kept| !Arc::ptr_eq(&kept.server, server));
        kept.bytes = kept.results.values().map(|kept| kept.bytes).sum();
    }
}

/// A call that may change the data of a server.
pub struct Changing<'a> {
    reused: &'a ReusedResults,
    server: &'a Arc<ReusableServer>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.reused.changed(self.server);
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

    fn call<'a>(
        server: &'a Arc<ReusableServer>,
        entry: &'a CatalogueEntry,
        hash: &'a ArgumentsHash,
    ) -> ReusableCall<'a> {
        ReusableCall { server, entry, hash }
    }

    fn hash(number: usize) -> ArgumentsHash {
        ArgumentsHash(number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_from_before_a_change_is_not_reused() {
        let (reused, entry, one) = (ReusedResults::default(), entry(""), hash(1));
        let (server, other) = (Arc::<ReusableServer>::default(), Arc::<ReusableServer>::default());
        let keep = |text: &str, began| reused.keep(call(&server, &entry, &one), &ToolResult::text(text), TIME, began);
        let get = || reused.get(call(&server, &entry, &one));
        keep("old", server.now());
        assert_eq!(get(), Some(ToolResult::text("old")));
        drop(reused.changing(&other));
        assert_eq!(get(), Some(ToolResult::text("old")), "another server changed");
        let began = server.now();
        drop(reused.changing(&server));
        assert_eq!(get(), None);
        keep("read before the change", began);
        assert_eq!(get(), None);
        keep("new", server.now());
        assert_eq!(get(), Some(ToolResult::text("new")));
        assert_eq!(reused.get(call(&server, &self::entry("changed"), &one)), None, "the tool changed");
        assert_eq!(reused.get(call(&other, &entry, &one)), None, "the server has another entry");
        tokio::time::advance(TIME).await;
        assert_eq!(get(), None, "its time is over");
    }

    #[tokio::test]
    async fn kept_results_are_bounded() {
        let (reused, entry, server) = (ReusedResults::default(), entry(""), Arc::<ReusableServer>::default());
        for number in 0..RESULTS_MAX + 10 {
            reused.keep(call(&server, &entry, &hash(number)), &ToolResult::text("x"), TIME, server.now());
        }
        assert_eq!(reused.0.lock().results.len(), RESULTS_MAX);
        for number in 0..50 {
            let long = ToolResult::text("x".repeat(RESULT_BYTES_MAX));
            reused.keep(call(&server, &entry, &hash(number)), &long, TIME, server.now());
        }
        assert!(reused.0.lock().bytes <= BYTES_MAX);
        for (number, odd) in
            (9_000..).zip([ToolResult::failure("no"), ToolResult::text("x".repeat(RESULT_BYTES_MAX + 1))])
        {
            reused.keep(call(&server, &entry, &hash(number)), &odd, TIME, server.now());
            assert_eq!(reused.get(call(&server, &entry, &hash(number))), None);
        }
    }
}
