//! Tasks of tool servers, for which turns wait: polls through the actor of the server, the message with the status, and
//! the cancellation at the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use tokio::time::Instant;

use super::{Approvals, ApprovalsEvent, ApprovalsState, AskState, Open};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use crate::services::toolbox::Toolbox;
use domain::gate::{ApprovalDecision, Gate, GateId, TaskWait};
use domain::happening::Happening;
use domain::ids;
use domain::layout::lay_out;
use domain::notice::gate as words;
use domain::outgoing::Capabilities;
use domain::restart::Backoff;
use domain::tool::begun::{CallReply, InputRequired, POLL, Step};
use domain::tool::{CallError, CallErrorKind, Effect, ToolRequest};

/// The most concurrent polls of one server: calls of members need its other permits.
const POLLS_MAX: usize = 4;
/// The timeout of one poll or cancellation.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which a poll waits for a server that is connecting, as after a restart, and the pause between attempts.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);
const AWAY_PAUSE: Duration = Duration::from_millis(100);
/// The time after which a task is announced by a message; shorter ones are only answered.
const SHOWN_AFTER: Duration = Duration::from_secs(3);
/// The least time between two changes of that message.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// The backoff of polls without an answer.
const AGAIN: Backoff = Backoff { base: Duration::from_secs(1), cap: POLL.1 };
/// The longest message with a status, in Unicode scalar values.
const STATUS_CHARS: usize = 1_900;

/// The polls of one task.
pub(super) struct Watch {
    /// The time of the next poll.
    due: Instant,
    /// True while a poll is under way.
    polling: bool,
    /// The number of consecutive polls without an answer.
    failures: u32,
    /// The last status that was shown, with the time.
    shown: Option<(String, Instant)>,
}

impl Watch {
    /// Returns the polls of a task, of which the first is due after this pause.
    pub(super) fn new(pause: Duration) -> Self {
        Self { due: Instant::now() + pause, polling: false, failures: 0, shown: None }
    }

    /// Makes the next poll due now.
    pub(super) fn hurry(&mut self) {
        self.due = Instant::now();
    }
}

/// The result of a poll.
pub enum Polled {
    /// The server works on it: the status, and the requested pause.
    Working(Option<String>, Option<Duration>),
    /// It has a result, a question, or a lasting failure.
    News,
    /// There is no answer now.
    Unanswered,
}

impl Approvals {
    /// Polls the due tasks, as far as their servers have room.
    pub(super) fn poll_due(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState) {
        let now = Instant::now();
        let (mut under_way, mut due): (HashMap<String, usize>, Vec<_>) = (HashMap::new(), Vec::new());
        for open in state.open.values_mut() {
            let (Some(task), Some(watch)) = (open.case.gate.subject.task(), &mut open.watch) else { continue };
            if watch.polling {
                *under_way.entry(task.server.clone()).or_default() += 1;
            } else if watch.due <= now && !open.recording {
                due.push((&open.case.gate, task, watch));
            }
        }
        // The one that waits longest is first: tasks of a slow server are polled in turn.
        due.sort_unstable_by_key(|(_, _, watch)| watch.due);
        for (gate, task, watch) in due {
            let busy = under_way.entry(task.server.clone()).or_default();
            if *busy >= POLLS_MAX || self.is_fenced(&gate.place.door) {
                continue;
            }
            watch.polling = true;
            *busy += 1;
            let task = task.clone();
            let (there, back) = (gate.id.clone(), gate.id.clone());
            let (toolbox, tool) = (Arc::clone(&self.toolbox), gate.tool.clone());
            ctx.task(async move { ApprovalsEvent::Polled(there, poll(&toolbox, &tool, task).await) }, move |_| {
                ApprovalsEvent::Polled(back, Polled::Unanswered)
            });
        }
    }

    /// Handles the result of a poll.
    pub(super) fn polled(
        &self,
        ctx: &mut ActorContext<Approvals>,
        state: &mut ApprovalsState,
        id: &GateId,
        polled: Polled,
    ) {
        if let Some(open) = state.open.get_mut(id) {
            self.advance(ctx, open, polled);
        }
        self.poll_due(ctx, state);
    }

    fn advance(&self, ctx: &mut ActorContext<Approvals>, open: &mut Open, polled: Polled) {
        let (Some(task), Some(watch)) = (open.case.gate.subject.task(), &mut open.watch) else { return };
        watch.polling = false;
        let pause = match &polled {
            Polled::Working(_, pause) => {
                watch.failures = 0;
                pause.unwrap_or_else(|| task.pause()).clamp(POLL.0, POLL.1)
            }
            Polled::News => Duration::ZERO,
            Polled::Unanswered => {
                watch.failures = watch.failures.saturating_add(1);
                task.pause().max(AGAIN.delay(watch.failures, self.ways.dice.roll()))
            }
        };
        watch.due = Instant::now() + pause;
        match polled {
            Polled::News if open.case.decision.is_none() && !open.recording => {
                let decision = open.case.decision.insert(ApprovalDecision::Finished).clone();
                self.record(ctx, open, decision, None);
            }
            Polled::Working(Some(status), _) => self.show(open, status),
            Polled::News | Polled::Working(None, _) | Polled::Unanswered => {}
        }
    }

    /// Shows a new status: to readers of events, and in the message of the task.
    fn show(&self, open: &mut Open, status: String) {
        let Some(watch) = &mut open.watch else { return };
        // The message of a task follows after a moment, with the status of the next poll.
        if !matches!(open.asking, AskState::Asked(_)) {
            return;
        }
        let known = watch.shown.as_ref();
        if known.is_some_and(|(shown, at)| *shown == status || at.elapsed() < STATUS_EVERY) {
            return;
        }
        let gate = &open.case.gate;
        self.ways.observers.tell(&Happening::TaskReported { gate, status: &status });
        if let AskState::Asked(Some(message)) = &open.asking {
            let shows = Capabilities { buttons: 1, ..Capabilities::text_only(STATUS_CHARS) };
            let piece = lay_out(&words::at_work(gate, &status), &shows).into_iter().next().unwrap_or_default();
            let (place, message) = (gate.place.clone(), message.clone());
            self.ways.outboxes.of(&gate.place.door).tell(OutboxMsg::Status { place, message, piece });
        }
        watch.shown = Some((status, Instant::now()));
    }

    /// True if the question of this gate is posted now; a short task is never announced.
    pub(super) fn is_shown_now(&self, gate: &Gate) -> bool {
        let shown_at = gate.asked_at.0.saturating_add(ids::millis(SHOWN_AFTER));
        gate.subject.task().is_none() || self.clock.now().0 >= shown_at
    }

    /// Cancels the task of a turn that ended.
    pub(super) fn cancel_task(&self, ctx: &mut ActorContext<Approvals>, gate: &Gate) {
        let task = gate.subject.task_under_way().filter(|_| !self.is_fenced(&gate.place.door));
        let Some(step) = task.map(|task| Step::Cancel(task.to_owned())) else { return };
        let (toolbox, tool) = (Arc::clone(&self.toolbox), gate.tool.clone());
        ctx.background(async move {
            // A server that does not receive this keeps the task for a limited time.
            drop(request(&toolbox, &tool, step).await);
        });
    }
}

/// Polls a task. It lists its questions until it has processed the answers, so only an unknown question is news.
async fn poll(toolbox: &Toolbox, tool: &str, task: TaskWait) -> Polled {
    let TaskWait { id, answered, .. } = task;
    let is_new = |input: &InputRequired| input.keys().any(|key| !answered.contains(key));
    let until = Instant::now() + RETURN_TIMEOUT;
    let reply = loop {
        match request(toolbox, tool, Step::Poll(id.clone())).await {
            Err(error) if error.kind == CallErrorKind::Unavailable && Instant::now() + AWAY_PAUSE < until => {
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            reply => break reply,
        }
    };
    match reply {
        Ok(CallReply::Task(report)) if !report.input.as_ref().is_some_and(is_new) => {
            Polled::Working(report.status, report.poll_after)
        }
        Err(error) if error.kind.is_transient() => Polled::Unanswered,
        Ok(_) | Err(_) => Polled::News,
    }
}

/// Makes one request about a task to the server of this tool. A tool that is unknown now may return.
async fn request(toolbox: &Toolbox, tool: &str, step: Step) -> Result<CallReply, CallError> {
    let tools = toolbox.now();
    let away = || CallError::new(CallErrorKind::Unavailable, format!("{tool} is not there now"));
    let entry = tools.catalogue.get(tool).ok_or_else(away)?;
    let request = ToolRequest::new(&entry.tool.name, Map::new(), Effect::Reads, POLL_TIMEOUT);
    tools.call(entry, &ToolRequest { step, ..request }, None).await
}
