//! The tool audit, stored for a configurable retention period. It is an observer of events and lives
//! outside the actors, so a crash of an actor loses no line.

mod lines;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::runtime::blocking::blocking;
use crate::services::forgotten::Forgotten;
use crate::services::running::Live;
use domain::audit::{AuditFilter, AuditLine, LINES_MAX};
use domain::counter::Counter;
use domain::ids::Timestamp;
use domain::keys;
use ports::{AuditLog, Clock, Store, Write};
use telemetry::events::AUDIT_FULL;

/// The maximum number of lines of one read: more than the default retention period holds.
const READ_MAX: usize = 200_000;

/// Writes and reads the audit.
pub struct Audit {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    live: Live,
    forgotten: Arc<Forgotten>,
    today: Mutex<Today>,
}

/// The number of lines of the current day that this process has seen.
#[derive(Default)]
struct Today {
    day: u64,
    lines: u64,
    /// True if the log already reports that the day is full.
    said: bool,
}

impl Audit {
    /// The audit in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, live: Live, forgotten: Arc<Forgotten>) -> Self {
        Self { store, clock, live, forgotten, today: Mutex::default() }
    }

    /// Reads the number of lines that earlier processes and other processes wrote today.
    pub(crate) async fn load(&self) {
        let day = day(self.clock.now());
        let stored = self.store.get(&keys::audit_count(day)).await;
        let lines = stored.and_then(|stored| stored.parse().ok()).unwrap_or(0);
        let mut today = self.today.lock();
        if today.day != day {
            *today = Today { day, lines, said: false };
        } else if today.lines < lines {
            today.lines = lines;
        }
    }

    /// Stores a line. `asked` is the time of the request; the line is dropped if the member was forgotten after it.
    fn note(&self, mut line: AuditLine, asked: Timestamp) {
        let settings = &self.live.now().settings;
        let ttl = settings.tools.audit;
        if ttl.is_zero() || !self.has_room(&line) {
            return;
        }
        if !settings.log.content {
            line.arguments = None;
        }
        let saving = self.forgotten.saving();
        if saving.covers_person(&line.person, asked) {
            return;
        }
        // Plain data with string keys always serializes.
        let value = serde_json::to_string(&line).unwrap_or_default();
        let key = keys::audit(&line.person, line.at, &line.suffix());
        let count =
            Write::Add { key: keys::audit_count(day(line.at)), by: Counter::from(1), ttl: Some(keys::AUDIT_COUNT_TTL) };
        drop(self.store.write(vec![Write::Put { key, value, ttl: Some(ttl) }, count]));
    }

    /// Counts a line. Returns false if the quota of its day is used up.
    fn has_room(&self, line: &AuditLine) -> bool {
        let mut today = self.today.lock();
        let day = day(line.at);
        if today.day < day {
            *today = Today { day, lines: 0, said: false };
        }
        if today.lines < line.day_max() {
            today.lines += 1;
            return true;
        }
        if !std::mem::replace(&mut today.said, true) {
            tracing::warn!(event = AUDIT_FULL, lines = today.lines, most = LINES_MAX, "the audit of this day is full");
        }
        false
    }
}

#[async_trait]
impl AuditLog for Audit {
    async fn lines(&self, wanted: &AuditFilter) -> Vec<String> {
        lines(&*self.store, wanted).await
    }
}

/// Returns the lines that match the filter, oldest first, each as one JSON object.
pub async fn lines(store: &dyn Store, wanted: &AuditFilter) -> Vec<String> {
    let (stored, wanted) = (store.scan(keys::AUDIT_PREFIX, READ_MAX).await.part(), wanted.clone());
    blocking(move || {
        let mut found: Vec<((Timestamp, u8), String)> = Vec::new();
        for (_, text) in stored {
            let line = serde_json::from_str::<AuditLine>(&text).ok().filter(|line| wanted.fits(line));
            found.extend(line.map(|line| ((line.at, line.rank()), text)));
        }
        found.sort_by_key(|(order, _)| *order);
        found.into_iter().map(|(_, text)| text).collect()
    })
    .await
}

/// Returns the lines that match the filter, in any order, mapped by `of`.
pub(crate) async fn read<T: Send + 'static>(
    store: &dyn Store,
    wanted: &AuditFilter,
    of: impl FnOnce(Vec<AuditLine>) -> T + Send + 'static,
) -> T {
    let (stored, wanted) = (store.scan(keys::AUDIT_PREFIX, READ_MAX).await.part(), wanted.clone());
    blocking(move || {
        let lines = stored.iter().filter_map(|(_, text)| serde_json::from_str::<AuditLine>(text).ok());
        of(lines.filter(|line| wanted.fits(line)).collect())
    })
    .await
}

/// The day of a timestamp, counted from 1970.
const fn day(at: Timestamp) -> u64 {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    at.0 / DAY_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BEGINNING, live, person, place, turn_id};
    use domain::arguments_hash::ArgumentsHash;
    use domain::audit::{AuditEvent, CALLS_MAX};
    use ports::testing::{ManualClock, MemoryStore, ScriptedModels};

    fn audit(variables: &[(&str, &str)]) -> (Arc<MemoryStore>, Audit) {
        let store = Arc::new(MemoryStore::new());
        let live = live(variables, Arc::new(ScriptedModels::new(&["main"])));
        (Arc::clone(&store), Audit::new(store, Arc::new(ManualClock::new()), live, Arc::default()))
    }

    fn called(who: &str, call: usize, after_ms: u64) -> AuditLine {
        AuditLine {
            at: Timestamp(BEGINNING.0 + after_ms),
            event: AuditEvent::Called { call, outcome: "ok".to_owned(), server: None, rule: None, duration_ms: 1 },
            person: person(who),
            place: place("42"),
            tool: "roll_dice".to_owned(),
            args_sha256: ArgumentsHash("ab".to_owned()),
            arguments: Some("{}".to_owned()),
            turn: Some(turn_id("10")),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_read_in_the_order_of_time_and_hold_no_content_unless_that_is_allowed() {
        let (_, kept) = audit(&[]);
        for (who, call, after) in [("8", 1, 20), ("7", 1, 10), ("7", 2, 30)] {
            kept.note(called(who, call, after), BEGINNING);
        }
        let told = kept.lines(&AuditFilter::default()).await;
        let people: Vec<_> =
            told.iter().map(|line| serde_json::from_str::<AuditLine>(line).unwrap().person.id).collect();
        assert_eq!(people, ["7", "8", "7"]);
        assert!(told.iter().all(|line| !line.contains("arguments")), "{told:?}");
        let own = AuditFilter { member: Some("8".to_owned()), ..AuditFilter::default() };
        assert_eq!(kept.lines(&own).await.len(), 1);
        let (_, open) = audit(&[("LOG_CONTENT", "true")]);
        open.note(called("7", 1, 0), BEGINNING);
        assert!(open.lines(&AuditFilter::default()).await[0].contains("arguments"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_day_has_so_many_lines_also_over_a_restart() {
        let (store, kept) = audit(&[]);
        store.put(keys::audit_count(day(BEGINNING)), (CALLS_MAX - 1).to_string());
        kept.load().await;
        kept.note(called("7", 1, 0), BEGINNING);
        kept.note(called("7", 2, 0), BEGINNING);
        let decided = AuditEvent::Withdrawn { allowance: "ab".to_owned() };
        kept.note(AuditLine { event: decided, ..called("7", 3, 0) }, BEGINNING);
        assert_eq!(kept.lines(&AuditFilter::default()).await.len(), 2, "what was decided still finds room");
        let tomorrow = 24 * 60 * 60 * 1_000;
        kept.note(called("7", 4, tomorrow), BEGINNING);
        assert_eq!(kept.lines(&AuditFilter::default()).await.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn who_wished_to_be_forgotten_leaves_no_line_and_nobody_does_where_it_is_off() {
        let (_, kept) = audit(&[]);
        kept.forgotten.wish(&person("7"), None, BEGINNING);
        kept.note(called("7", 1, 0), BEGINNING);
        assert_eq!(kept.lines(&AuditFilter::default()).await, [""; 0]);
        kept.note(called("7", 2, 5), Timestamp(BEGINNING.0 + 5));
        assert_eq!(kept.lines(&AuditFilter::default()).await.len(), 1, "what is asked afterwards is kept again");
        let (_, off) = audit(&[("STAFFAI_TOOLS__AUDIT", "0s")]);
        off.note(called("7", 1, 0), BEGINNING);
        assert_eq!(off.lines(&AuditFilter::default()).await, [""; 0]);
    }
}
