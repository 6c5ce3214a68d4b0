//! The tool calls of a turn. Each call passes the same checks in the same order: quota, authorization, execution. Any
//! outcome of a call becomes a result that the model reads; no outcome ends the turn.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::TurnTask;
use super::approval::{Leave, Round};
use super::begun::TasksUnderWay;
use super::editable::HeldPictures;
use super::parked::Asking;
use super::parts::TurnParts;
use super::pictures::{HeldPicture, ShownPictures};
use crate::messages::journal::JournalMsg;
use crate::services::acts::ActingCall;
use crate::services::long_results::TurnResults;
use crate::services::reused_results::ReusableCall;
use crate::services::running::Running;
use crate::services::toolbox::Toolset;
use domain::attachment::MAX_READ_BYTES;
use domain::completion::{Picture, ToolCall, ToolSpec};
use domain::happening::{Happening, NotCalled, ToolCalled};
use domain::tool::access::Access;
use domain::tool::begun::{Progress, Step};
use domain::tool::called::{CallEnd, Finding};
use domain::tool::catalogue::CatalogueEntry;
use domain::tool::choice::LaneTools;
use domain::tool::round::{CallAllowance, Planned, Problem, Ready};
use domain::tool::turn_tools::{Available, ShownResult, TurnTools};
use domain::tool::utility::Utility;
use domain::tool::{
    CallError, CallErrorKind, Effect, OnBehalf, PaidCost, ResultLimits, Source, ToolRequest, TraceParent,
};
use domain::turn::Turn;
use settings::Settings;
use telemetry;

/// The maximum number of concurrent read-only calls of one turn.
const READS_AT_ONCE: usize = 4;
/// The timeout for the journal to record that a turn acts.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);
/// The minimum remaining time for a call to start.
const SHORTEST: Duration = Duration::from_millis(20);
/// The extra time beyond its deadline before a call is abandoned.
const GRACE: Duration = Duration::from_millis(250);

/// The tools available to a turn at its start.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) set: Arc<Toolset>,
    pub(super) access: Arc<Access>,
    pub(super) calls: Arc<AtomicUsize>,
    pub(super) pictures: Arc<Mutex<ShownPictures>>,
    /// The pictures of the question, as far as its model sees them.
    pub(super) asked: Arc<OnceLock<Arc<[Picture]>>>,
    /// The bot's own pictures, read when a call edits one.
    pub(super) own: Arc<OnceCell<HeldPictures>>,
    pub(super) results: TurnResults,
    pub(super) tasks: TasksUnderWay,
}

impl Tools {
    pub async fn of(parts: &TurnParts, running: &Running, turn: &Turn, tasks: TasksUnderWay) -> Self {
        let set = if turn.wants_tools() { parts.tools.toolbox.listed().await } else { parts.tools.toolbox.now() };
        Self {
            set,
            access: Arc::new(
                Access::of(turn, Arc::clone(&running.tool_rules), running.operators(&turn.place.door))
                    .without(&turn.policy.preferences.left_out()),
            ),
            calls: Arc::default(),
            pictures: Arc::default(),
            asked: Arc::default(),
            own: Arc::default(),
            results: parts.tools.long_results.of_turn(&turn.person),
            tasks,
        }
    }

    /// Returns the number of started calls, including those of clean calls.
    pub fn called(&self) -> u32 {
        u32::try_from(self.calls.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }
}

/// The result of a call, for the model and for the answer.
pub(super) struct Ran {
    pub told: ShownResult,
    pub(super) call: ToolCall,
    pub(super) tool: Arc<str>,
    pub(super) pictures: Vec<HeldPicture>,
}

impl Ran {
    /// Returns a result that adds nothing to the answer.
    fn told(call: ToolCall, told: ShownResult) -> Outcome {
        Outcome::Ran(Self { told, call, tool: "".into(), pictures: Vec::new() })
    }
}

/// The outcome of a started call.
pub(super) enum Outcome {
    /// It has a result.
    Ran(Ran),
    /// Its server has begun it, and it needs a person or time.
    Waits(Box<Ready>),
}

impl Outcome {
    /// Returns the result for the model; `None` if there is none yet.
    pub(super) fn told(self) -> Option<ShownResult> {
        match self {
            Self::Ran(ran) => Some(ran.told),
            Self::Waits(_) => None,
        }
    }
}

/// A call in flight. If the turn is interrupted, the drop of this value still records the call.
struct Underway<'a> {
    task: &'a TurnTask<'a>,
    ready: &'a Ready,
    number: usize,
    times: Times,
    paid: PaidCost,
    over: bool,
}

impl Underway<'_> {
    fn ended(mut self, rule: Option<usize>, end: &CallEnd) {
        self.over = true;
        if let Some(acting) = self.times.acting.as_ref().filter(|_| !matches!(end, CallEnd::Begun(_))) {
            acting.ended(&end.clone().told(self.ready.entry.effect).text);
        }
        self.tell(rule, Some(end));
    }

    /// Records the call. `end` is `None` for an interrupted call.
    fn tell(&self, rule: Option<usize>, end: Option<&CallEnd>) {
        let (task, times, now) = (self.task, &self.times, Instant::now());
        let paid_micros = self.paid.micros();
        task.tally.paid(paid_micros);
        task.parts.readers.observers.tell(&Happening::ToolCalled(ToolCalled {
            origin: task.turn.into(),
            number: self.number,
            call: self.ready,
            role: task.role(),
            rule: rule.map(|index| index + 1),
            end,
            queued: times.began.saturating_duration_since(times.planned),
            waited: times.ran.unwrap_or(now).saturating_duration_since(times.began),
            ran: times.ran.map(|ran| now.saturating_duration_since(ran)),
            took: now.saturating_duration_since(times.began),
            paid_micros,
        }));
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.tell(None, None);
        }
    }
}

/// The times at which a call advanced.
struct Times {
    planned: Instant,
    /// The time at which its position in the round was reached.
    began: Instant,
    /// The time at which it was passed to its source.
    ran: Option<Instant>,
    /// The record of a call that changes something, from that time on.
    acting: Option<ActingCall>,
}

impl TurnTask<'_> {
    /// Returns the tools to offer to the model; `None` for interjections.
    pub(super) async fn offered_tools(&self) -> Option<TurnTools> {
        let Self { running, turn, .. } = self;
        if !turn.wants_tools() {
            return None;
        }
        let settings = &running.settings.tools;
        let allowance = CallAllowance::new(settings.max_rounds, settings.max_calls);
        TurnTools::new(self.available().await, allowance, &turn.text)
    }

    /// Returns the existing tools and the caller's access to them.
    pub(super) async fn available(&self) -> Available {
        let Self { parts, running, turn, tools, .. } = self;
        let kept = parts.tools.lane_tools.of(turn);
        Available {
            catalogue: Arc::clone(&tools.set.catalogue),
            index: Arc::clone(&tools.set.index),
            access: Arc::clone(&tools.access),
            view: tools.set.view(&tools.access).await,
            outlined: self.outlined().await,
            lane: kept.unwrap_or_else(|| LaneTools { used: parts.tools.tool_use.used(), ..LaneTools::default() }),
            built_in_always: running.settings.tools.built_in_always,
            prompt_bytes: running.settings.tools.prompt_bytes,
        }
    }

    /// Returns the tools whose schemas list the targets available to this caller. Computed for each use; the source
    /// caches it.
    pub(super) async fn outlined(&self) -> Arc<[Arc<ToolSpec>]> {
        self.tools.set.outlined(&self.tools.access).await
    }

    /// Runs the remaining calls of a round: read-only calls concurrently, each of the others alone. Results are in the
    /// order of the calls, after those in `done`. A call that requires approval ends the round.
    pub(super) async fn run_tools(&self, planned: Vec<Planned>, mut done: Vec<ShownResult>) -> Round {
        let began = Instant::now();
        let _waits = self.tally.waits_for_tools();
        let mut left: VecDeque<Planned> = planned.into();
        let at_once = if self.depth == 0 { READS_AT_ONCE } else { 1 };
        while !left.is_empty() {
            if left.front().is_some_and(is_begun) {
                return Round::Ask(Asking { done, left: left.into(), approvers: Vec::new() });
            }
            if let Some(decided) = left.front().and_then(|planned| self.asks(planned)) {
                if let Err(limited) = self.admit(left.front()).await {
                    let refused = left.pop_front().map(|planned| (planned, CallEnd::Limited(limited)));
                    let Some((planned, end)) = refused else { break };
                    done.extend(self.run_one(planned, began, Leave::Refused(&end)).await.told());
                    continue;
                }
                let approvers = self.tools.access.approvers(decided).to_vec();
                return Round::Ask(Asking { done, left: left.into(), approvers });
            }
            let reads = |planned: &Planned| effect(planned) == Effect::Reads && !is_begun(planned);
            let beside = left.iter().take_while(|planned| reads(planned) && self.asks(planned).is_none()).count();
            let group: Vec<Planned> = left.drain(..beside.max(1)).collect();
            let group = stream::iter(group.into_iter().map(|planned| self.run_one(planned, began, Leave::Rules)));
            let group: Vec<Outcome> = group.buffered(at_once).collect().await;
            // The calls that wait come first among the remaining ones; results after them are kept.
            let mut kept = VecDeque::new();
            for outcome in group {
                match outcome {
                    Outcome::Ran(ran) if kept.is_empty() => done.push(self.with_pictures(ran)),
                    Outcome::Ran(ran) => {
                        let call = ran.call.clone();
                        kept.push_back(Planned::Ran(call, self.with_pictures(ran)));
                    }
                    Outcome::Waits(ready) => kept.push_back(Planned::Run(ready)),
                }
            }
            kept.append(&mut left);
            left = kept;
        }
        Round::Ran(done)
    }

    pub(super) async fn run_one(&self, planned: Planned, since: Instant, leave: Leave<'_>) -> Outcome {
        let ready = match planned {
            Planned::Run(ready) => ready,
            Planned::Answer(call, problem) => {
                self.not_called(known_name(&self.tools.set, &call.name), NotCalled::Invalid);
                return Ran::told(call, ShownResult::text(problem.to_string()));
            }
            Planned::Told(call, text) => {
                self.not_called(Some(&call.name), NotCalled::Answered);
                return Ran::told(call, ShownResult::text(text));
            }
            Planned::Ran(call, told) => return Ran::told(call, told),
        };
        if ready.begun.is_none() && self.tools.called() >= self.running.settings.tools.max_calls {
            self.not_called(Some(&ready.entry.name), NotCalled::Spent);
            return Ran::told(ready.call.clone(), ShownResult::text(Problem::Spent.to_string()));
        }
        let end = self.make(&ready, since, leave).await;
        if let CallEnd::Begun(begun) = end {
            return Outcome::Waits(Box::new(Ready { begun: Some(begun), ..*ready }));
        }
        let end = self.with_blobs_read(end, limits_of(&ready.entry, &self.running.settings)).await;
        let (pictures, told) = (self.held_pictures(end.images()), self.within_memory(end.told(ready.entry.effect)));
        Outcome::Ran(Ran { told, call: ready.call.clone(), tool: Arc::clone(&ready.entry.name), pictures })
    }

    /// Drops the full text of a long result if no memory is free for it.
    fn within_memory(&self, told: ShownResult) -> ShownResult {
        let fits = told.whole.as_ref().is_none_or(|whole| self.tools.results.hold(whole.len()));
        if fits { told } else { ShownResult { whole: None, ..told } }
    }

    /// Makes one call: counted, checked, run and recorded.
    pub(super) async fn make(&self, ready: &Ready, since: Instant, leave: Leave<'_>) -> CallEnd {
        // The steps of a begun call are one call.
        let begun = ready.begun.as_ref().and_then(|begun| begun.number());
        let number = begun.unwrap_or_else(|| self.tools.calls.fetch_add(1, Ordering::Relaxed) + 1);
        let Self { parts, turn, .. } = *self;
        let name = &ready.entry.name;
        let (arguments, is_refused) = (&ready.arguments, self.is_refused(ready, leave));
        parts.readers.observers.tell(&Happening::ToolBegan { turn, number, tool: name, arguments, is_refused });
        let times = Times { planned: since, began: Instant::now(), ran: None, acting: None };
        let mut underway = Underway { task: self, ready, number, times, paid: PaidCost::default(), over: false };
        let tasks = &self.tools.tasks;
        if let Some(step) = ready.begun.as_ref().and_then(|begun| begun.cancel()) {
            tasks.works(number, &ready.entry, step);
        }
        let paid = underway.paid.clone();
        let (end, rule) = self.call(ready, (number, paid), &mut underway.times, leave).await;
        match end {
            CallEnd::Result(_) | CallEnd::Begun(_) => tasks.ended(number),
            _ => tasks.cancel(Some(number), &self.tools.set),
        }
        underway.ended(rule, &end);
        if parts.shared.acts.is_over(&turn.id) {
            // The turn ends here: nothing else may begin.
            std::future::pending::<()>().await;
        }
        match end {
            CallEnd::Begun(begun) => CallEnd::Begun(Box::new(begun.numbered(number))),
            end => end,
        }
    }

    /// Applies quota and authorization, then runs the call. Also returns the rule that decided.
    async fn call(
        &self,
        ready: &Ready,
        (number, paid): (usize, PaidCost),
        times: &mut Times,
        leave: Leave<'_>,
    ) -> (CallEnd, Option<usize>) {
        let Self { parts, deadline, .. } = *self;
        let entry = &ready.entry;
        // A call with a decision was counted when it was presented for approval.
        if let Leave::Rules = leave
            && let Err(limited) = self.admit_call(entry).await
        {
            return (CallEnd::Limited(limited), None);
        }
        let decided = self.tools.access.decide(entry, &ready.arguments);
        if let Err(end) = self.may_run(ready, decided, leave) {
            return (end, decided.rule);
        }
        // Half of the remaining time is reserved for the later steps.
        let patience = deadline.left() / 2;
        let permit = async {
            // A call inside a clean call uses the permit of the enclosing call.
            if self.depth > 0 { None } else { Some(parts.tools.tool_use.permits().wait(Some(&self.turn.person)).await) }
        };
        let end = match timeout(patience, permit).await {
            Ok(_permit) if self.may_act(ready, leave).await => {
                times.ran = Some(Instant::now());
                times.acting = entry.acts().then(|| parts.shared.acts.begins(&self.turn.id, &entry.name));
                self.run_or_reuse(ready, (number, paid), leave).await
            }
            Ok(_) => CallEnd::NotRecorded,
            Err(_) => CallEnd::Failed(CallError::new(CallErrorKind::Unavailable, "no call is free")),
        };
        (end, decided.rule)
    }

    /// Records that the turn acts, before the first call with side effects and before each approved call. A turn that
    /// is offered again after a crash therefore does not repeat them.
    async fn may_act(&self, ready: &Ready, leave: Leave<'_>) -> bool {
        let approved = matches!(leave, Leave::Decision(_));
        // A step that may be repeated needs no record: after a crash, the turn makes it again.
        if ready.begun.as_ref().is_some_and(|begun| begun.step().repeatable()) {
            return true;
        }
        if (!ready.entry.acts() && !approved) || self.tally.has_acted() {
            return true;
        }
        let ask = |reply| JournalMsg::Acts(self.turn.id.clone(), reply);
        let recorded = matches!(self.parts.neighbors.journal.call(ask, RECORD_TIMEOUT).await, Ok(true));
        if recorded {
            self.tally.acts();
        }
        recorded
    }

    /// Runs a call, or returns the result of an equal one that the operator allows to be reused.
    async fn run_or_reuse(&self, ready: &Ready, call: (usize, PaidCost), leave: Leave<'_>) -> CallEnd {
        let (entry, reused) = (&ready.entry, &self.parts.tools.reused);
        if let Some((reusable, _)) = self.may_reuse(ready)
            && let Some(result) = reused.get(reusable)
        {
            return CallEnd::Result(Finding::of(result, limits_of(entry, &self.running.settings)));
        }
        // Also after the call: a result that was read during it may be older than the change.
        let changed = self.tools.set.reuse(entry).filter(|_| entry.effect != Effect::Reads);
        let _changed = changed.map(|server| reused.changing(server));
        self.run(ready, call, leave).await
    }

    /// Returns the call if its result may be reused, and the time: never one that may change something.
    pub(super) fn may_reuse<'a>(&'a self, ready: &'a Ready) -> Option<(ReusableCall<'a>, Duration)> {
        let Ready { entry, begun, hash, .. } = ready;
        let server = self.tools.set.reuse(entry).filter(|_| begun.is_none() && entry.effect == Effect::Reads)?;
        server.times.of(&entry.tool.name).map(|time| (ReusableCall { server, entry, hash }, time))
    }

    async fn run(&self, ready: &Ready, (number, paid): (usize, PaidCost), leave: Leave<'_>) -> CallEnd {
        let settings = &self.running.settings;
        let pictures = self.pictures_for(&ready.entry).await;
        // Half of the remaining time is reserved for the answer.
        let left = self.deadline.left() / 2;
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
            step: Step::First,
            effect: ready.entry.effect,
            deadline: within,
            limits: limits_of(&ready.entry, settings),
            trace: trace.map(TraceParent),
            pictures,
            paid,
            on_behalf: Some(OnBehalf {
                tokens: self.tally.effort().usage.total(),
                call: number,
                ..OnBehalf::of(self.turn, self.running.operators(&self.turn.place.door))
            }),
        };
        let progress = self.progress(ready, number);
        let limits = request.limits;
        let calling = self.steps(ready, number, request, progress.clone(), leave);
        // A built-in tool is served even without any model, so that it receives that answer.
        let asks = ready.entry.tool.source == Source::BuiltIn;
        let calling =
            async { if asks { self.serving(number, within, progress.clone(), calling).await } else { calling.await } };
        let calling = AssertUnwindSafe(calling).catch_unwind();
        match timeout(within + GRACE, calling).await {
            Ok(Ok(Ok(Progress::Done(result)))) => CallEnd::Result(Finding::of(result, limits)),
            Ok(Ok(Ok(Progress::Waits(begun)))) => CallEnd::Begun(begun),
            Ok(Ok(Err(error))) => CallEnd::Failed(error),
            Ok(Err(_)) => CallEnd::Failed(CallError::new(CallErrorKind::Failed, "it broke")),
            Err(_) => late(),
        }
    }

    /// Records that a requested call is not made.
    pub(super) fn not_called(&self, tool: Option<&str>, why: NotCalled<'_>) {
        self.parts.readers.observers.tell(&Happening::ToolNotCalled {
            turn: &self.turn.id,
            tool,
            role: self.role(),
            why,
        });
    }

    /// Returns the caller's role: `super` or `member`.
    pub(super) fn role(&self) -> &'static str {
        self.running.role(&self.turn.roles)
    }
}

/// Returns the bounds of a result. The binary contents of a resource are kept if files are read.
fn limits_of(entry: &CatalogueEntry, settings: &Settings) -> ResultLimits {
    let reads = entry.tool.utility == Some(Utility::ReadResource) && settings.attachments.characters > 0;
    let blob_bytes = if reads { usize::try_from(MAX_READ_BYTES).unwrap_or(usize::MAX) } else { 0 };
    ResultLimits { shown: settings.tools.result_bytes, blob_bytes, ..ResultLimits::default() }
}

/// True for a call that its server has begun.
fn is_begun(planned: &Planned) -> bool {
    matches!(planned, Planned::Run(ready) if ready.begun.is_some())
}

/// Returns the effect of a call. A call that does not reach its source has no side effects.
fn effect(planned: &Planned) -> Effect {
    match planned {
        Planned::Run(ready) => ready.entry.effect,
        Planned::Answer(..) | Planned::Told(..) | Planned::Ran(..) => Effect::Reads,
    }
}

/// Returns the name if it is a known tool: names invented by a model are not logged.
pub(super) fn known_name<'a>(set: &'a Toolset, name: &str) -> Option<&'a str> {
    set.catalogue.get(name).map(|entry| &*entry.name)
}
