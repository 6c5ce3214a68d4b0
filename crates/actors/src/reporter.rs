//! reporter: posts a usage report once in each interval, and notices about tools that fail for long; sums up the day
//! for the pages.
//!
//! Supervised by: staffai (permanent).
//! Receives: its own timers, and the results of its posts.
//! Sends: reports and notices to the outbox; today's totals to the time lines, which the pages read.
//! A restart loses: nothing. The time of the last report and the record of failing tools are in the store, and the
//! nonce of a post makes it idempotent if its record was not stored.
//!
//! Intervals begin at multiples of their length since 1970 in UTC, so a daily report comes at midnight and covers the
//! whole day, and several processes use the same nonce for the same report. A report that was due while no process ran
//! comes at the next start.

mod tool_failures;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::messages::outbox::OutboxMsg;
use crate::observation::board::Board;
use crate::observation::timeline::Timeline;
use crate::observation::tool_health::ToolHealth;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::ledger;
use crate::services::running::Live;
use domain::ids::{self, Door, Place, Timestamp};
use domain::keys;
use domain::ledger::{Overview, date, days};
use domain::notice;
use domain::outgoing::{Outgoing, Part};
use ports::vitals::Today;
use ports::{Clock, Store, StoreStatus, Stored, Unreadable, Write};
use telemetry::events::{REPORT_FAILED, REPORT_POSTED};

/// The maximum pause between two checks of the clock and the settings.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval: the nonce counts seconds.
const SHORTEST: Duration = Duration::from_secs(1);
/// The interval at which today's use is summed up.
const SUM_EVERY: Duration = Duration::from_secs(10);
/// The minimum pause after a summation, as a multiple of its duration, which bounds the load on a server with many
/// keys.
const SUM_REST: u32 = 50;
/// The minimum and the maximum pause between two looks at the tools; `report.failures_after` if it lies between them.
const WATCH_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// The maximum number of attempts to post a report.
const TRIES: u32 = 5;
/// The timeout of the outbox for one attempt.
const POST_TIMEOUT: Duration = Duration::from_secs(700);

/// The result of a report that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The report was posted.
    Posted,
    /// An earlier life or another process had posted the report.
    Known,
    /// There was no use to report.
    Empty,
}

/// Events from its timers and tasks.
pub enum ReporterEvent {
    /// The time to check if a report is due.
    Look,
    /// The time to look at the tools.
    Watch,
    /// The result of a look at the tools: true if a notice was posted.
    Watched(Result<bool, String>),
    /// The time to sum up today's use for the pages.
    Sum,
    /// The duration of the summation.
    Summed(Duration),
    /// The result of the report for the interval that ended at this time.
    Reported(Timestamp, Result<Fate, String>),
}

/// The behaviour and its arguments.
#[derive(Clone)]
pub struct Reporter {
    /// The running configuration.
    pub live: Live,
    /// The store with the ledger and the time of the last report.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The door of the channel.
    pub door: Door,
    /// The outbox that posts the report.
    pub outbox: Handle<OutboxMsg>,
    /// The time lines, which show today's totals.
    pub timeline: Arc<Timeline>,
    /// The states of tool servers.
    pub board: Arc<Board>,
    /// The health of built-in tools.
    pub tool_health: Arc<ToolHealth>,
}

/// The state of the reporter.
#[derive(Default)]
pub struct ReporterState {
    /// The end of the last processed interval.
    done: Timestamp,
    tries: u32,
}

/// One report that is due.
struct Due {
    channel: String,
    interval: Duration,
    top: usize,
    /// The end of its interval.
    end: Timestamp,
}

impl Actor for Reporter {
    type Msg = Infallible;
    type Event = ReporterEvent;
    type State = ReporterState;

    fn start(&self, ctx: &mut ActorContext<Reporter>) -> Result<ReporterState, Crash> {
        ctx.after(Duration::ZERO, ReporterEvent::Look);
        ctx.after(Duration::ZERO, ReporterEvent::Sum);
        ctx.after(self.watch_pause(), ReporterEvent::Watch);
        Ok(ReporterState::default())
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut ReporterState,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ReporterEvent,
        state: &mut ReporterState,
    ) -> Result<(), Crash> {
        match event {
            ReporterEvent::Look => self.look(ctx, state),
            ReporterEvent::Sum => {
                let reporter = self.clone();
                let failed = |_| ReporterEvent::Summed(Duration::ZERO);
                ctx.task(async move { ReporterEvent::Summed(reporter.sum().await) }, failed);
            }
            ReporterEvent::Watch => {
                let reporter = self.clone();
                let watched = async move { ReporterEvent::Watched(reporter.watch().await) };
                ctx.task(watched, |panic| ReporterEvent::Watched(Err(panic)));
            }
            ReporterEvent::Watched(result) => {
                let pause = if told(&result) { self.watch_pause() } else { LOOK_EVERY };
                ctx.after(pause, ReporterEvent::Watch);
            }
            ReporterEvent::Summed(took) => ctx.after(SUM_EVERY.max(took * SUM_REST), ReporterEvent::Sum),
            ReporterEvent::Reported(end, result) => ctx.after(reported(state, end, result), ReporterEvent::Look),
        }
        Ok(())
    }
}

impl Reporter {
    fn watch_pause(&self) -> Duration {
        self.live.now().settings.report.failures_after.clamp(WATCH_PAUSES.0, WATCH_PAUSES.1)
    }

    fn look(&self, ctx: &mut ActorContext<Reporter>, state: &mut ReporterState) {
        let report = &self.live.now().settings.report;
        let interval = report.interval.max(SHORTEST);
        let now = self.clock.now();
        let passed = now.0 % ids::millis(interval);
        let end = Timestamp(now.0 - passed);
        match report.channel.clone() {
            Some(channel) if end > state.done => {
                let due = Due { channel, interval, top: report.top_users, end };
                let reporter = self.clone();
                ctx.task(async move { ReporterEvent::Reported(end, reporter.report(due).await) }, move |panic| {
                    ReporterEvent::Reported(end, Err(panic))
                });
            }
            Some(_) | None => {
                let left = interval.saturating_sub(Duration::from_millis(passed));
                ctx.after(LOOK_EVERY.min(left), ReporterEvent::Look);
            }
        }
    }

    /// Reads the day's counters for the pages. Returns the duration of the read.
    async fn sum(&self) -> Duration {
        let begun = Instant::now();
        let day = date(self.clock.now());
        let Overview { total, members, .. } = ledger::overview(self.store.as_ref(), &[day], &self.door).await;
        self.timeline.summed(Today {
            day: day.to_string(),
            members: members.len() as u64,
            messages: total.messages,
            prompt_tokens: total.tokens_in,
            cached_tokens: total.cached,
            completion_tokens: total.tokens_out,
            unpriced_tokens: total.unpriced,
            dollars: (total.micros > 0).then(|| total.dollars()),
        });
        begun.elapsed()
    }

    async fn report(&self, due: Due) -> Result<Fate, String> {
        if let StoreStatus::Degraded(reason) = self.store.status() {
            return Err(format!("the store fails, so usage since the last report is unknown: {reason}"));
        }
        let last = match self.store.read(keys::REPORT_LAST).await {
            Stored::Unreadable(Unreadable::NoAnswer) => {
                return Err("the time of the last report cannot be read".to_owned());
            }
            stored => stored.value().and_then(|text| text.parse().ok()),
        };
        if last.is_some_and(|last: u64| last >= due.end.0) {
            return Ok(Fate::Known);
        }
        let begin = Timestamp(due.end.0.saturating_sub(ids::millis(due.interval)));
        let days = days(begin, Timestamp(due.end.0.saturating_sub(1)));
        let overview = ledger::overview(self.store.as_ref(), &days, &self.door).await;
        let fate = if overview.total.is_empty() {
            Fate::Empty
        } else {
            let place = Place::new(self.door.clone(), due.channel);
            let card = notice::report::card(&days, &overview, due.top, &self.door);
            let outgoing = Outgoing {
                place,
                reply_to: None,
                parts: vec![Part::Card(card)],
                apology: false,
                spent: None,
                private: false,
            };
            let name = format!("report-{}", due.end.0 / 1_000);
            let post = |reply| OutboxMsg::Post { name, outgoing, reply };
            let posted = self.outbox.call(post, POST_TIMEOUT).await.map_err(|error| error.to_string())?;
            posted.map_err(|reason| reason.to_string())?;
            Fate::Posted
        };
        let value = due.end.0.to_string();
        self.store.write(vec![Write::Put { key: keys::REPORT_LAST.to_owned(), value, ttl: None }]).await;
        Ok(fate)
    }
}

/// Logs the result of a look at the tools. Returns true if it did not fail.
fn told(result: &Result<bool, String>) -> bool {
    match result {
        Ok(true) => tracing::info!(event = REPORT_POSTED, "a notice about failing tools was posted"),
        Ok(false) => {}
        Err(reason) => {
            tracing::warn!(event = REPORT_FAILED, reason, "a notice about failing tools could not be posted");
        }
    }
    result.is_ok()
}

/// Records the result of a report. Returns the pause until the next check.
fn reported(state: &mut ReporterState, end: Timestamp, result: Result<Fate, String>) -> Duration {
    match result {
        Ok(fate) => {
            if fate == Fate::Posted {
                tracing::info!(event = REPORT_POSTED, "the usage report was posted");
            }
            *state = ReporterState { done: end, tries: 0 };
            Duration::ZERO
        }
        Err(reason) => {
            tracing::warn!(event = REPORT_FAILED, reason, "the usage report could not be posted");
            state.tries += 1;
            if state.tries >= TRIES {
                *state = ReporterState { done: end, tries: 0 };
            }
            LOOK_EVERY
        }
    }
}

#[cfg(test)]
mod tests;
