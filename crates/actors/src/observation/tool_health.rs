//! The health of built-in tools, derived from their calls. An observer of events; the reporter reads it.
//!
//! A built-in tool fails if all its calls since some time failed: at least [`CALLS_MIN`], and of at least two persons
//! unless the tool itself reported a failure, because the requests of one person may be invalid.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::happening::{Happening, ToolCalled};
use domain::ids;
use domain::ids::{Person, Timestamp};
use domain::tool::called::CallEnd;
use domain::tool::outage::{PartHealth, ToolPart};
use domain::tool::{CallErrorKind, Source};
use ports::Observer;

/// The minimum number of failed calls, without a success between them, that count as a failure of the tool.
const CALLS_MIN: u32 = 3;

/// The health of the built-in tools that were called, by name. Their number is bounded: names come from the catalogue.
#[derive(Default)]
pub struct ToolHealth(Mutex<BTreeMap<String, Health>>);

/// The calls of one tool since its last success.
#[derive(Default)]
struct Health {
    failures: Option<Failures>,
}

struct Failures {
    since: Instant,
    last: Instant,
    calls: u32,
    /// The person of the first failed call.
    person: Person,
    /// True if a call of another person failed, or the tool reported a failure of its own.
    is_certain: bool,
    reason: String,
}

/// The evidence of one call.
#[derive(Clone, Copy)]
enum Evidence<'a> {
    Works,
    /// The tool did not accept the call, for a reason that may lie in its arguments.
    Rejected,
    /// The tool reports a failure of its own.
    Fails(&'a str),
}

impl Observer for ToolHealth {
    fn observe(&self, happening: &Happening<'_>) {
        let (Happening::ToolCalled(called) | Happening::CommandCalled(called)) = happening else { return };
        let tool = &called.call.entry.tool;
        if tool.source != Source::BuiltIn {
            return;
        }
        let Some(evidence) = evidence(called) else { return };
        self.record(&tool.name, called.origin.person, evidence);
    }
}

impl ToolHealth {
    fn record(&self, tool: &str, person: &Person, evidence: Evidence<'_>) {
        let mut tools = self.0.lock();
        if !tools.contains_key(tool) {
            tools.insert(tool.to_owned(), Health::default());
        }
        let Some(health) = tools.get_mut(tool) else { return };
        let (is_own, reason) = match evidence {
            Evidence::Works => {
                health.failures = None;
                return;
            }
            Evidence::Rejected => (false, "all its calls are rejected"),
            Evidence::Fails(reason) => (true, reason),
        };
        let now = Instant::now();
        let first = || Failures {
            since: now,
            last: now,
            calls: 0,
            person: person.clone(),
            is_certain: false,
            reason: String::new(),
        };
        let failures = health.failures.get_or_insert_with(first);
        failures.last = now;
        failures.calls = failures.calls.saturating_add(1);
        failures.is_certain |= is_own || failures.person != *person;
        if failures.reason.is_empty() || is_own {
            reason.clone_into(&mut failures.reason);
        }
    }

    /// Returns the health of each tool that was called. `now` is the current wall-clock time.
    #[must_use]
    pub fn parts(&self, now: Timestamp) -> Vec<(ToolPart, PartHealth)> {
        let ago = |at: Instant| Timestamp(now.0.saturating_sub(ids::millis(at.elapsed())));
        let tools = self.0.lock();
        let part = |(name, health): (&String, &Health)| {
            let health = match &health.failures {
                None => PartHealth::Works,
                Some(failures) if failures.calls < CALLS_MIN || !failures.is_certain => PartHealth::Unknown,
                Some(Failures { since, last, reason, .. }) => {
                    PartHealth::Fails { since: ago(*since), seen: ago(*last), reason: reason.clone() }
                }
            };
            (ToolPart::BuiltIn(name.clone()), health)
        };
        tools.iter().map(part).collect()
    }
}

/// Returns the evidence of a call about its tool; `None` if there is none, because the call did not reach it or the
/// failure concerns only this call.
fn evidence<'a>(called: &ToolCalled<'a>) -> Option<Evidence<'a>> {
    match called.end? {
        end if end.succeeded() => Some(Evidence::Works),
        CallEnd::Result(_) => Some(Evidence::Rejected),
        CallEnd::Failed(error) => match error.kind {
            CallErrorKind::NotFound | CallErrorKind::InvalidArguments | CallErrorKind::TooLarge => None,
            CallErrorKind::Unavailable
            | CallErrorKind::Lost
            | CallErrorKind::Timeout
            | CallErrorKind::Unauthorized
            | CallErrorKind::Forbidden
            | CallErrorKind::RateLimited
            | CallErrorKind::Failed
            | CallErrorKind::Malformed => Some(Evidence::Fails(&error.message)),
        },
        CallEnd::Begun(_) => Some(Evidence::Works),
        CallEnd::Denied | CallEnd::NotApproved(_) | CallEnd::Limited(_) | CallEnd::NotRecorded => None,
    }
}
