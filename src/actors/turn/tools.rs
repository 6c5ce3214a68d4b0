//! The calls of tools of a turn. Each goes through the same gates in the same order: how often, who may, and then it runs. Whatever
//! happens to a call becomes a result that the model reads; nothing of it ends the turn.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, timeout};

use super::parked::{Asking, TooLong};
use super::{Thinking, TurnParts};
use crate::actors::messages::journal::JournalMsg;
use crate::actors::running::Running;
use crate::actors::toolbox::Toolset;
use crate::domain::gate::allowance::Asked;
use crate::domain::gate::{Decision, Parked};
use crate::domain::ids;
use crate::domain::tool::access::Access;
use crate::domain::tool::called::{CallEnd, Finding, NotApproved};
use crate::domain::tool::limits::Limited;
use crate::domain::tool::rights::{Decided, Verdict};
use crate::domain::tool::round::{Allowance, Planned, Ready};
use crate::domain::tool::turn_tools::{Available, Told, TurnTools};
use crate::domain::tool::{CallError, CallErrorKind, Effect, ResultLimits, Source, ToolRequest, TraceParent};
use crate::domain::turn::{GatePolicy, Turn};
use crate::domain::turn_event::{ToolState, TurnUpdate};
use crate::telemetry;

/// The most reading calls of one turn at a time.
const READS_AT_ONCE: usize = 4;
/// How long the journal may take to record that a turn acts.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);
/// A call that would have less time than this does not begin.
const SHORTEST: Duration = Duration::from_millis(20);
/// How much longer than its deadline a call may take before its source is left alone.
const GRACE: Duration = Duration::from_millis(250);

/// The tools that a turn began with.
pub(super) struct Tools {
    set: Arc<Toolset>,
    access: Arc<Access>,
    pub(super) calls: AtomicUsize,
}

/// What came of a round.
pub(super) enum Round {
    /// What came of each call, in order.
    Ran(Vec<Told>),
    /// A call has to be approved first.
    Ask(Asking),
}

/// What lets a call through.
#[derive(Clone, Copy)]
enum Leave<'a> {
    /// The limits and the rules.
    Rules,
    /// Nothing: this is its end.
    Refused(&'a CallEnd),
    /// The decision that its turn waited for.
    Decision(&'a Parked),
}

impl Tools {
    pub fn of(parts: &TurnParts, running: &Running, turn: &Turn) -> Self {
        Self {
            set: parts.toolbox.now(),
            access: Arc::new(Access::of(turn, Arc::clone(&running.tool_rules), running.knows_ids(&turn.place.door))),
            calls: AtomicUsize::new(0),
        }
    }
}

/// How long a call waited, and where.
struct Times {
    planned: Instant,
    /// Its place in the round came.
    began: Instant,
    /// It was let to its source.
    ran: Option<Instant>,
}

impl Thinking<'_> {
    /// The tools that the model may be offered; none for what nobody asked for.
    pub(super) fn offered_tools(&self) -> Option<TurnTools> {
        let Self { running, turn, .. } = self;
        let settings = &running.settings.tools;
        let allowance = Allowance::new(settings.max_rounds, settings.max_calls);
        turn.trigger.is_asked().then(|| TurnTools::new(self.available(), allowance, &turn.text)).flatten()
    }

    /// The tools that there are, and what the caller may do.
    pub(super) fn available(&self) -> Available {
        let Self { parts, running, tools, .. } = self;
        Available {
            catalogue: Arc::clone(&tools.set.catalogue),
            index: Arc::clone(&tools.set.index),
            access: Arc::clone(&tools.access),
            used: parts.tool_use.used(),
            built_in_always: running.settings.tools.built_in_always,
        }
    }

    /// Runs the calls of a round that are left: what only reads side by side, each of the others alone. Results come in the order of
    /// the calls, behind those that are `done`. A call that a person has to approve ends it.
    pub(super) async fn run_tools(&self, planned: Vec<Planned>, mut done: Vec<Told>) -> Round {
        let began = Instant::now();
        let mut left: VecDeque<Planned> = planned.into();
        while !left.is_empty() {
            if let Some(decided) = left.front().and_then(|planned| self.asks(planned)) {
                if let Err(limited) = self.admit(left.front()) {
                    let refused = left.pop_front().map(|planned| (planned, CallEnd::Limited(limited)));
                    let Some((planned, end)) = refused else { break };
                    done.push(self.run_one(planned, began, Leave::Refused(&end)).await);
                    continue;
                }
                let approvers = self.tools.access.approvers(decided).to_vec();
                self.tally.waited(began.elapsed());
                return Round::Ask(Asking { done, left: left.into(), approvers });
            }
            let reads = |planned: &Planned| effect(planned) == Effect::Reads;
            let beside = left.iter().take_while(|planned| reads(planned) && self.asks(planned).is_none()).count();
            let group: Vec<Planned> = left.drain(..beside.max(1)).collect();
            let group = stream::iter(group.into_iter().map(|planned| self.run_one(planned, began, Leave::Rules)));
            done.extend(group.buffered(READS_AT_ONCE).collect::<Vec<Told>>().await);
        }
        self.tally.waited(began.elapsed());
        Round::Ran(done)
    }

    /// Counts a call, or says why it has to wait.
    fn admit(&self, planned: Option<&Planned>) -> Result<(), Limited> {
        let Self { parts, running, turn, .. } = *self;
        match planned {
            Some(Planned::Run(ready)) => {
                parts.tool_use.admit(&running.tool_limits, &turn.person, &ready.entry, parts.clock.now())
            }
            Some(Planned::Answer(..) | Planned::Told(..)) | None => Ok(()),
        }
    }

    /// Whether a person can be asked about this call, and has to be.
    fn asks(&self, planned: &Planned) -> Option<Decided> {
        let Self { turn, tools, .. } = self;
        let Planned::Run(ready) = planned else { return None };
        let decided = tools.access.decide(&ready.entry, &ready.arguments);
        let approvers = tools.access.approvers(decided);
        // Roles in rules are those of doors that know them: elsewhere nobody could decide.
        let someone = approvers.is_empty() || tools.access.knows_ids();
        let asks = decided.verdict == Verdict::Ask
            && turn.policy.gates == GatePolicy::Ask
            && someone
            && !self.is_allowed(ready, approvers);
        asks.then_some(decided)
    }

    /// An approver let the same call run for a while.
    fn is_allowed(&self, ready: &Ready, approvers: &[String]) -> bool {
        let Self { parts, turn, .. } = *self;
        let asked = Asked { hash: &ready.hash, person: &turn.person, place: &turn.place, approvers };
        parts.allowances.let_run(&asked, parts.clock.now())
    }

    /// Runs the call that the turn waited for, if it may.
    pub(super) async fn run_decided(&self, left: &mut Vec<Planned>, parked: &Parked) -> Option<Told> {
        if left.is_empty() {
            return None;
        }
        let began = Instant::now();
        let told = match left.remove(0) {
            planned @ Planned::Run(_) => self.run_one(planned, began, Leave::Decision(parked)).await,
            // It cannot be called any more: the tool is gone, hidden, or takes other arguments.
            planned => {
                let why = match &parked.case.decision {
                    Some(Decision::Approved { .. }) | None => NotApproved::Changed,
                    Some(decision) => NotApproved::from(decision),
                };
                tracing::info!(
                    event = "tool.called", turn = %self.turn.id, tool = known_name(&self.tools.set, &planned.call().name),
                    role = self.role(), outcome = why.as_str(), duration_ms = 0, "a call of a tool did not run"
                );
                CallEnd::NotApproved(why).told(Effect::Changes)
            }
        };
        self.tally.waited(began.elapsed());
        Some(told)
    }

    /// Refuses the call that nobody can be asked about.
    pub(super) async fn refuse(&self, TooLong(asking): TooLong) -> (Vec<Told>, Vec<Planned>) {
        let Asking { mut done, mut left, .. } = asking;
        if !left.is_empty() {
            let end = CallEnd::NotApproved(NotApproved::TooLong);
            done.push(self.run_one(left.remove(0), Instant::now(), Leave::Refused(&end)).await);
        }
        (done, left)
    }

    async fn run_one(&self, planned: Planned, since: Instant, leave: Leave<'_>) -> Told {
        let ready = match planned {
            Planned::Run(ready) => ready,
            Planned::Answer(call, problem) => {
                tracing::info!(
                    event = "tool.called", turn = %self.turn.id, tool = known_name(&self.tools.set, &call.name),
                    role = self.role(), outcome = "invalid", duration_ms = 0, "a call of a tool was no valid one"
                );
                return Told { text: problem.to_string(), whole: None };
            }
            Planned::Told(_, text) => return Told { text, whole: None },
        };
        let number = self.tools.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let Self { parts, turn, .. } = *self;
        let name = &ready.entry.name;
        let publish = |state| {
            let update = || TurnUpdate::Tool { call: number.to_string(), name: name.to_string(), state };
            parts.events.publish(&turn.place, &turn.id, update);
        };
        publish(ToolState::Running);
        parts.timeline.asked(&turn.id, "tool", name);
        let mut times = Times { planned: since, began: Instant::now(), ran: None };
        let (end, rule) = self.call(&ready, number, &mut times, leave).await;
        publish(if end.succeeded() { ToolState::Succeeded } else { ToolState::Failed });
        parts.timeline.returned(&turn.id, name, (!end.succeeded()).then(|| end.as_str()));
        self.audit(&ready, (number, rule), &times, &end);
        end.told(ready.entry.effect)
    }

    /// How often, who may, and then it runs. Gives the rule that decided besides.
    async fn call(
        &self,
        ready: &Ready,
        number: usize,
        times: &mut Times,
        leave: Leave<'_>,
    ) -> (CallEnd, Option<usize>) {
        let Self { parts, running, turn, deadline, .. } = *self;
        let entry = &ready.entry;
        // What was asked about was counted then.
        if let Leave::Rules = leave
            && let Err(limited) = parts.tool_use.admit(&running.tool_limits, &turn.person, entry, parts.clock.now())
        {
            return (CallEnd::Limited(limited), None);
        }
        let decided = self.tools.access.decide(entry, &ready.arguments);
        if let Err(end) = self.may_run(ready, decided, leave) {
            return (end, decided.rule);
        }
        // Half of the time that is left is kept for what follows.
        let patience = deadline.saturating_duration_since(Instant::now()) / 2;
        let end = match timeout(patience, parts.tool_use.permits().acquire()).await {
            Ok(Ok(_permit)) if self.may_act(entry.effect, leave).await => {
                times.ran = Some(Instant::now());
                self.run(ready, number).await
            }
            Ok(Ok(_)) => CallEnd::NotRecorded,
            Ok(Err(_)) | Err(_) => CallEnd::Failed(CallError::new(CallErrorKind::Unavailable, "no call is free")),
        };
        (end, decided.rule)
    }

    /// The rules have the last word: what they deny now does not run, whatever was approved, and what they ask for runs with the
    /// approval of just this call.
    fn may_run(&self, ready: &Ready, decided: Decided, leave: Leave<'_>) -> Result<(), CallEnd> {
        let approvers = self.tools.access.approvers(decided);
        match (decided.verdict, leave) {
            (Verdict::Deny, _) => Err(CallEnd::Denied),
            (_, Leave::Refused(end)) => Err(end.clone()),
            (_, Leave::Decision(parked)) if parked.case.lets_run(&ready.hash, approvers) => Ok(()),
            (_, Leave::Decision(parked)) => {
                Err(CallEnd::NotApproved(parked.case.decision.as_ref().map_or(NotApproved::NotAsked, Into::into)))
            }
            (Verdict::Auto, Leave::Rules) => Ok(()),
            (Verdict::Ask, Leave::Rules) if self.is_allowed(ready, approvers) => Ok(()),
            (Verdict::Ask, Leave::Rules) => Err(CallEnd::NotApproved(NotApproved::NoWay)),
        }
    }

    /// A turn that is taken up again after a crash must not do a second time what it did: before the first call that changes
    /// something, and before each that was approved, it is on record that the turn acts.
    async fn may_act(&self, effect: Effect, leave: Leave<'_>) -> bool {
        let approved = matches!(leave, Leave::Decision(_));
        if (effect == Effect::Reads && !approved) || self.tally.has_acted() {
            return true;
        }
        let ask = |reply| JournalMsg::Acts(self.turn.id.clone(), reply);
        let recorded = matches!(self.parts.journal.call(ask, RECORDED_WITHIN).await, Ok(true));
        if recorded {
            self.tally.acts();
        }
        recorded
    }

    async fn run(&self, ready: &Ready, number: usize) -> CallEnd {
        let settings = &self.running.settings;
        // Half of the time that is left is kept for the answer.
        let left = self.deadline.saturating_duration_since(Instant::now()) / 2;
        let usual = settings.tools.timeout;
        let within = self.tools.set.timeout(&ready.entry).unwrap_or(usual).min(left);
        let late = || CallEnd::Failed(CallError::new(CallErrorKind::Timeout, "no result in time"));
        if within < SHORTEST {
            return late();
        }
        let trace = settings.telemetry.endpoint.as_ref();
        let trace = trace.and_then(|_| telemetry::trace_parent(&self.turn.id.to_string(), number));
        let request = ToolRequest {
            name: Arc::clone(&ready.entry.tool.name),
            arguments: ready.arguments.clone(),
            effect: ready.entry.effect,
            deadline: within,
            limits: ResultLimits { shown: settings.tools.result_bytes, ..ResultLimits::default() },
            trace: trace.map(TraceParent),
        };
        let calling = AssertUnwindSafe(self.tools.set.call(&ready.entry, &request, None)).catch_unwind();
        match timeout(within + GRACE, calling).await {
            Ok(Ok(Ok(result))) => CallEnd::Result(Finding::of(result, request.limits)),
            Ok(Ok(Err(error))) => CallEnd::Failed(error),
            Ok(Err(_)) => CallEnd::Failed(CallError::new(CallErrorKind::Failed, "it broke")),
            Err(_) => late(),
        }
    }

    /// One line for each call, and its place in the metrics.
    fn audit(&self, ready: &Ready, (number, rule): (usize, Option<usize>), times: &Times, end: &CallEnd) {
        let entry = &ready.entry;
        let server = match &entry.tool.source {
            Source::BuiltIn => None,
            Source::Server(name) => Some(name.as_str()),
        };
        let now = Instant::now();
        let ran = times.ran.map(|ran| now.saturating_duration_since(ran));
        let waited = times.ran.unwrap_or(now).saturating_duration_since(times.began);
        tracing::info!(
            event = "tool.called",
            turn = %self.turn.id,
            call = number,
            tool = &*entry.name,
            server,
            kind = entry.tool.kind.as_str(),
            effect = entry.effect.as_str(),
            role = self.role(),
            args_sha256 = ready.hash.0,
            rule,
            outcome = end.as_str(),
            // The words of a server may hold what a member wrote.
            text = end.reason(),
            queue_ms = ids::millis(times.began.saturating_duration_since(times.planned)),
            wait_ms = ids::millis(waited),
            run_ms = ran.map(ids::millis),
            duration_ms = ids::millis(now.saturating_duration_since(times.began)),
            "tool called"
        );
        let mut labels = vec![("gen_ai_tool_name", entry.name.to_string())];
        labels.extend((!end.succeeded()).then(|| ("error_type", end.as_str().to_owned())));
        metrics::histogram!("gen_ai_execute_tool_duration_seconds", &labels).record(ran.unwrap_or_default());
    }

    /// What the caller is to the bot: `super` or `member`.
    fn role(&self) -> &'static str {
        let exempt = &self.running.limits.exempt;
        if self.turn.roles.iter().any(|role| exempt.contains(role)) { "super" } else { "member" }
    }
}

/// A call that does not reach its source changes nothing.
fn effect(planned: &Planned) -> Effect {
    match planned {
        Planned::Run(ready) => ready.entry.effect,
        Planned::Answer(..) | Planned::Told(..) => Effect::Reads,
    }
}

/// The name of a tool, as far as it is one: what a model makes up is not written into the log.
fn known_name<'a>(set: &'a Toolset, name: &str) -> Option<&'a str> {
    set.catalogue.get(name).map(|entry| &*entry.name)
}
