//! Calls that their server has begun and not finished. The turn is parked while such a call needs a person or time, and
//! continues with the next step. Where it cannot be parked, questions are declined and tasks are awaited until the
//! deadline of the call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Map;
use tokio::time::{Instant, sleep};

use super::TurnTask;
use super::approval::Leave;
use super::parked::{BACK_TIMEOUT, GoingOn};
use super::tools::{Outcome, known_name};
use crate::services::toolbox::Toolset;
use domain::gate::{ApprovalDecision, TASK_LONGEST_MAX};
use domain::happening::NotCalled;
use domain::planted::Defect;
use domain::question::Ask;
use domain::tool::begun::{Begun, CallReply, Need, Progress, Step};
use domain::tool::called::{CallEnd, NotApproved};
use domain::tool::catalogue::CatalogueEntry;
use domain::tool::round::{Planned, Ready};
use domain::tool::turn_tools::ShownResult;
use domain::tool::{CallError, CallErrorKind, Effect, ToolRequest};
use domain::turn::GatePolicy;
use ports::ProgressSink;

/// The pause before a continued call is retried at a server that has received nothing.
const AWAY_PAUSE: Duration = Duration::from_millis(500);
/// The further polls of a task with news before its turn waits again, and the pause before each.
const NEWS_TRIES: u32 = 3;
const NEWS_PAUSE: Duration = Duration::from_secs(2);
/// The timeout of the cancellation of a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The unfinished tasks of servers that calls of one turn have begun, by the number of the call. They are cancelled if the
/// call or the turn ends without their result. Clones share the record.
#[derive(Clone, Default)]
pub(super) struct TasksUnderWay(Arc<Mutex<BTreeMap<usize, Cancellation>>>);

/// The tool of a task, and the step that cancels the task.
type Cancellation = (Arc<CatalogueEntry>, Step);

impl TasksUnderWay {
    /// Records the task of a call, with the step that cancels it.
    pub(super) fn works(&self, number: usize, entry: &Arc<CatalogueEntry>, step: Step) {
        self.0.lock().insert(number, (Arc::clone(entry), step));
    }

    /// Removes the task of a call that has a result, or that waits with its turn.
    pub(super) fn ended(&self, number: usize) {
        self.0.lock().remove(&number);
    }

    /// Cancels the task of this call, or all, in the background. A cancellation that fails is not repeated: the server
    /// keeps a task for a limited time.
    pub(super) fn cancel(&self, number: Option<usize>, set: &Arc<Toolset>) {
        let tasks: Vec<_> = match number {
            Some(number) => self.0.lock().remove(&number).into_iter().collect(),
            None => std::mem::take(&mut *self.0.lock()).into_values().collect(),
        };
        for (entry, step) in tasks {
            let set = Arc::clone(set);
            tokio::spawn(async move {
                let request = ToolRequest::new(&entry.tool.name, Map::new(), Effect::Idempotent, CANCEL_TIMEOUT);
                drop(set.call(&entry, &ToolRequest { step, ..request }, None).await);
            });
        }
    }
}

impl TurnTask<'_> {
    /// Makes the steps of a call until it is finished, or needs what its turn can wait for.
    pub(super) async fn steps(
        &self,
        ready: &Ready,
        number: usize,
        mut request: ToolRequest,
        progress: Option<ProgressSink>,
        leave: Leave<'_>,
    ) -> Result<Progress, CallError> {
        let until = Instant::now() + request.deadline;
        let reuse = self.may_reuse(ready).map(|(call, time)| (call, time, call.server.now()));
        let mut begun = ready.begun.as_deref().cloned();
        // The approvals saw news of the task, and the first poll reads it.
        let mut news = matches!(leave, Leave::Continues(_)).then_some(NEWS_TRIES);
        loop {
            request.step = begun.as_ref().map_or(Step::First, Begun::step);
            let tries = news.take().filter(|_| matches!(request.step, Step::Poll(_)));
            request.deadline = until.saturating_duration_since(Instant::now());
            let reply = match (self.step(ready, &request, progress.clone(), leave).await, begun.take()) {
                (Ok(reply), before) => {
                    let longest = self.running.settings.tools.task_longest.min(TASK_LONGEST_MAX);
                    Begun::after(before, reply, self.parts.basics.clock.now(), longest)?
                }
                // The task goes on at its server, and the turn waits for it.
                (Err(error), Some(before)) if error.kind.is_transient() && self.can_wait(&before) => match tries {
                    Some(tries) if tries == 0 || Instant::now() + NEWS_PAUSE >= until => {
                        return Ok(Progress::Waits(Box::new(before.without_news()?)));
                    }
                    Some(tries) => {
                        // A server that limits its polls has just answered one.
                        sleep(NEWS_PAUSE).await;
                        (news, begun) = (Some(tries - 1), Some(before));
                        continue;
                    }
                    None if matches!(request.step, Step::Poll(_)) => return Ok(Progress::Waits(Box::new(before))),
                    // The answer is sent again when the task asks again.
                    None => return Ok(Progress::Waits(Box::new(before.without_news()?))),
                },
                (Err(error), _) => return Err(error),
            };
            let mut next = match reply {
                Progress::Waits(next) => *next,
                Progress::Done(result) => {
                    // A question that no person could answer may have led to another result.
                    if let (Some((call, time, began)), Step::First) = (reuse, &request.step) {
                        self.parts.tools.reused.keep(call, &result, time, began);
                    }
                    return Ok(Progress::Done(result));
                }
            };
            if let Some(step) = next.cancel() {
                self.tools.tasks.works(number, &ready.entry, step);
            }
            if tries.is_some() && matches!(next.need(), Need::Time(_)) && !next.is_answered() {
                next = next.without_news()?;
            }
            if self.can_wait(&next) && !next.is_answered() {
                return Ok(Progress::Waits(Box::new(next)));
            }
            next.decline();
            if let (Need::Time(task), false) = (next.need(), next.is_answered()) {
                let pause = Duration::from_millis(task.poll_ms);
                if Instant::now() + pause >= until {
                    return Err(CallError::new(CallErrorKind::Timeout, "the task did not finish in time"));
                }
                sleep(pause).await;
            }
            begun = Some(next);
        }
    }

    /// Makes one step. After a restart the server of a continued call may still be connecting.
    async fn step(
        &self,
        ready: &Ready,
        request: &ToolRequest,
        progress: Option<ProgressSink>,
        leave: Leave<'_>,
    ) -> Result<CallReply, CallError> {
        let patient = Instant::now() + request.deadline.min(BACK_TIMEOUT);
        loop {
            if Defect::TwiceApproved.is_planted() && matches!(leave, Leave::Decision(_)) {
                drop(self.tools.set.call(&ready.entry, request, progress.clone()).await);
            }
            let result = self.tools.set.call(&ready.entry, request, progress.clone()).await;
            let away = matches!(&result, Err(error) if error.kind == CallErrorKind::Unavailable);
            let continues = matches!(leave, Leave::Decision(_) | Leave::Continues(_));
            if !(away && continues) || Instant::now() + AWAY_PAUSE >= patient {
                return result;
            }
            sleep(AWAY_PAUSE).await;
        }
    }

    /// True if the turn can be parked for the need of this call. A question needs a member who can answer it here.
    fn can_wait(&self, begun: &Begun) -> bool {
        let Self { turn, parts, .. } = *self;
        let parks = turn.policy.gates == GatePolicy::Ask && self.depth == 0;
        let answers = |ask: &Ask| match ask {
            Ask::Form(_) => parts.neighbors.outboxes.shows_forms(&turn.place.door),
            Ask::Link(_) => true,
        };
        parks
            && match begun.need() {
                Need::Answer(question) => turn.trigger.has_message() && answers(&question.ask),
                Need::Time(_) => true,
                Need::Nothing => false,
            }
    }

    /// Continues the call for which the turn was parked. Returns its result; `None` if it needs a person or time again,
    /// and is again the first of the remaining calls.
    pub(super) async fn continue_call(&self, left: &mut Vec<Planned>, going_on: &GoingOn) -> Option<ShownResult> {
        let _waits = self.tally.waits_for_tools();
        let case = &going_on.parked.case;
        let planned = left.remove(0);
        let name = planned.call().name.clone();
        let (Planned::Run(mut ready), began) = (planned, Instant::now()) else { return Some(self.lost(&name)) };
        let Some(mut begun) = ready.begun.take() else { return Some(self.lost(&name)) };
        let end = match &case.decision {
            _ if case.gate.subject.task().is_none() => None,
            Some(ApprovalDecision::Finished) => None,
            Some(ApprovalDecision::Expired) => {
                Some(CallEnd::Failed(CallError::new(CallErrorKind::Timeout, "the task did not finish in time")))
            }
            Some(ApprovalDecision::NotAsked) => {
                Some(CallEnd::Failed(CallError::new(CallErrorKind::RateLimited, "too many tasks are under way")))
            }
            _ => Some(CallEnd::NotApproved(NotApproved::Stopped)),
        };
        if case.gate.subject.task().is_none() {
            begun.decide(case.decision.as_ref());
        }
        let waits = matches!(begun.need(), Need::Answer(_)) && self.can_wait(&begun);
        if !waits {
            // The next question cannot be asked here.
            begun.decline();
        }
        ready.begun = Some(begun);
        if let Some(end) = end {
            return self.run_one(Planned::Run(ready), began, Leave::Refused(&end)).await.told();
        }
        if waits {
            left.insert(0, Planned::Run(ready));
            return None;
        }
        match self.run_one(Planned::Run(ready), began, Leave::Continues(going_on)).await {
            Outcome::Ran(ran) => Some(self.with_pictures(ran)),
            Outcome::Waits(ready) => {
                left.insert(0, Planned::Run(ready));
                None
            }
        }
    }

    /// Returns the result of a begun call whose tool is gone, hidden or takes other arguments.
    fn lost(&self, tool: &str) -> ShownResult {
        let end = CallEnd::Failed(CallError::new(CallErrorKind::Lost, "the tool changed while it was working"));
        self.not_called(known_name(&self.tools.set, tool), NotCalled::Impossible(&end));
        end.told(Effect::Changes)
    }
}
