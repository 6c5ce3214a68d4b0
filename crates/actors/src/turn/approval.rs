//! The calls that require approval, and the authorization of a call.

use tokio::time::Instant;

use super::TurnTask;
use super::parked::{Asking, GoingOn, Roles, TooLong};
use super::tools::{Outcome, known_name};
use crate::services::tool_use::Call;
use domain::gate::ApprovalDecision;
use domain::gate::allowance::GatedCall;
use domain::happening::NotCalled;
use domain::planted::Defect;
use domain::tool::called::{CallEnd, NotApproved};
use domain::tool::catalogue::CatalogueEntry;
use domain::tool::limits::Limited;
use domain::tool::rights::{Decided, Verdict};
use domain::tool::round::{Planned, Ready};
use domain::tool::turn_tools::ShownResult;
use domain::tool::{CallError, CallErrorKind, Effect};
use domain::turn::GatePolicy;

/// The result of a round.
pub(super) enum Round {
    /// The results of the calls, in order.
    Ran(Vec<ShownResult>),
    /// A call requires approval first.
    Ask(Asking),
}

/// The authorization of a call.
#[derive(Clone, Copy)]
pub(super) enum Leave<'a> {
    /// The quotas and the rules decide.
    Rules,
    /// The call is refused with this end.
    Refused(&'a CallEnd),
    /// The decision for which its turn was parked.
    Decision(&'a GoingOn),
    /// Its server has begun it.
    Continues(&'a GoingOn),
}

impl TurnTask<'_> {
    /// Counts a call against the quotas. The error states when the call may be made.
    pub(super) async fn admit(&self, planned: Option<&Planned>) -> Result<(), Limited> {
        match planned {
            Some(Planned::Run(ready)) => self.admit_call(&ready.entry).await,
            Some(Planned::Answer(..) | Planned::Told(..) | Planned::Ran(..)) | None => Ok(()),
        }
    }

    /// Counts a call of this tool against the quotas. The error states when the call may be made.
    pub(super) async fn admit_call(&self, entry: &CatalogueEntry) -> Result<(), Limited> {
        let Self { parts, running, turn, .. } = *self;
        let budgets = running.call_shares(turn.into(), &entry.name);
        let call = Call { person: &turn.person, entry, turn: &turn.id, now: parts.basics.clock.now() };
        parts.tools.tool_use.admit(&running.tool_limits, budgets, &call).await
    }

    /// Returns the rule's decision if the call requires approval and an approver is available.
    pub(super) fn asks(&self, planned: &Planned) -> Option<Decided> {
        let Self { turn, tools, .. } = self;
        let Planned::Run(ready) = planned else { return None };
        let decided = tools.access.decide(&ready.entry, &ready.arguments);
        let approvers = tools.access.approvers(decided);
        // Roles in rules belong to doors that know them: at other doors no member could decide. If the rule names no
        // roles, the requester decides, and a turn without a message has no requester.
        let someone = if approvers.is_empty() { turn.trigger.has_message() } else { tools.access.knows_ids() };
        let asks = decided.verdict == Verdict::Ask
            && turn.policy.gates == GatePolicy::Ask
            && someone
            && !self.is_allowed(ready, approvers);
        asks.then_some(decided)
    }

    /// True if an approver has allowed this call for a limited time.
    fn is_allowed(&self, ready: &Ready, approvers: &[String]) -> bool {
        let Self { parts, turn, .. } = *self;
        let asked = GatedCall { hash: &ready.hash, person: &turn.person, place: &turn.place, approvers };
        Defect::NoGate.is_planted() || parts.tools.allowances.let_run(&asked, parts.basics.clock.now())
    }

    /// Runs the call for which the turn was parked, if it is still permitted.
    pub(super) async fn run_decided(&self, left: &mut Vec<Planned>, going_on: &GoingOn) -> Option<ShownResult> {
        if left.is_empty() {
            return None;
        }
        if going_on.parked.case.continues() {
            return self.continue_call(left, going_on).await;
        }
        let began = Instant::now();
        let _waits = self.tally.waits_for_tools();
        let told = match left.remove(0) {
            planned @ Planned::Run(_) => match self.run_one(planned, began, Leave::Decision(going_on)).await {
                Outcome::Ran(ran) => self.with_pictures(ran),
                Outcome::Waits(ready) => {
                    left.insert(0, Planned::Run(ready));
                    return None;
                }
            },
            // The call is no longer possible: the tool is gone, hidden, or takes other arguments.
            planned => {
                let end = match &going_on.parked.case.decision {
                    Some(ApprovalDecision::Approved { .. }) | None => self.impossible(&planned.call().name),
                    Some(decision) => CallEnd::NotApproved(decision.into()),
                };
                self.not_called(known_name(&self.tools.set, &planned.call().name), NotCalled::Impossible(&end));
                end.told(Effect::Changes)
            }
        };
        Some(told)
    }

    /// Returns the reason why an approved call is no longer possible.
    fn impossible(&self, tool: &str) -> CallEnd {
        match self.tools.set.catalogue.get(tool) {
            None => CallEnd::NotApproved(NotApproved::Gone),
            Some(entry) if !self.tools.access.sees(entry) => CallEnd::Denied,
            Some(_) => CallEnd::NotApproved(NotApproved::Changed),
        }
    }

    /// Refuses the call that cannot be presented for approval.
    pub(super) async fn refuse(&self, TooLong(asking): TooLong) -> (Vec<ShownResult>, Vec<Planned>) {
        let Asking { mut done, mut left, .. } = asking;
        if !left.is_empty() {
            let end = CallEnd::NotApproved(NotApproved::TooLong);
            done.extend(self.run_one(left.remove(0), Instant::now(), Leave::Refused(&end)).await.told());
        }
        (done, left)
    }

    /// True if the call was refused before it begins: by a person, or because no person could be asked.
    pub(super) fn is_refused(&self, ready: &Ready, leave: Leave<'_>) -> bool {
        let decided = self.tools.access.decide(&ready.entry, &ready.arguments);
        matches!(leave, Leave::Refused(_) | Leave::Decision(_)) && self.may_run(ready, decided, leave).is_err()
    }

    /// Applies the current rules, which override the approval: a call that they deny now does not run, and a call that
    /// requires approval runs with the approval of exactly this call.
    pub(super) fn may_run(&self, ready: &Ready, decided: Decided, leave: Leave<'_>) -> Result<(), CallEnd> {
        let approvers = self.tools.access.approvers(decided);
        match (decided.verdict, leave) {
            (Verdict::Deny, _) => Err(CallEnd::Denied),
            (_, Leave::Refused(end)) => Err(end.clone()),
            (_, Leave::Decision(GoingOn { parked, roles })) if parked.case.lets_run(&ready.hash, approvers) => {
                match roles {
                    Roles::Known => Ok(()),
                    Roles::Unknown => Err(CallEnd::NotApproved(NotApproved::RolesUnknown)),
                }
            }
            (_, Leave::Decision(GoingOn { parked, .. })) => {
                Err(CallEnd::NotApproved(parked.case.decision.as_ref().map_or(NotApproved::NotAsked, Into::into)))
            }
            (_, Leave::Continues(GoingOn { parked, roles })) => {
                let gate = &parked.case.gate;
                match roles {
                    _ if gate.subject.identity(&ready.hash) != gate.hash => {
                        let changed = "the tool changed while it was working";
                        Err(CallEnd::Failed(CallError::new(CallErrorKind::Lost, changed)))
                    }
                    Roles::Known => Ok(()),
                    Roles::Unknown => Err(CallEnd::NotApproved(NotApproved::RolesUnknown)),
                }
            }
            (Verdict::Auto, Leave::Rules) => Ok(()),
            (Verdict::Ask, Leave::Rules) if self.is_allowed(ready, approvers) => Ok(()),
            (Verdict::Ask, Leave::Rules) => Err(CallEnd::NotApproved(NotApproved::NoWay)),
        }
    }
}
