//! Which calls a person has to approve, and what lets a call through.

use tokio::time::Instant;

use super::Thinking;
use super::parked::{Asking, GoingOn, Roles, TooLong};
use super::tools::known_name;
use domain::gate::Decision;
use domain::gate::allowance::Asked;
use domain::happening::NotCalled;
use domain::tool::Effect;
use domain::tool::called::{CallEnd, NotApproved};
use domain::tool::limits::Limited;
use domain::tool::rights::{Decided, Verdict};
use domain::tool::round::{Planned, Ready};
use domain::tool::turn_tools::Told;
use domain::turn::GatePolicy;

/// What came of a round.
pub(super) enum Round {
    /// What came of each call, in order.
    Ran(Vec<Told>),
    /// A call has to be approved first.
    Ask(Asking),
}

/// What lets a call through.
#[derive(Clone, Copy)]
pub(super) enum Leave<'a> {
    /// The limits and the rules.
    Rules,
    /// Nothing: this is its end.
    Refused(&'a CallEnd),
    /// The decision that its turn waited for.
    Decision(&'a GoingOn),
}

impl Thinking<'_> {
    /// Counts a call, or says why it has to wait.
    pub(super) fn admit(&self, planned: Option<&Planned>) -> Result<(), Limited> {
        let Self { parts, running, turn, .. } = *self;
        match planned {
            Some(Planned::Run(ready)) => {
                parts.tool_use.admit(&running.tool_limits, &turn.person, &ready.entry, parts.clock.now())
            }
            Some(Planned::Answer(..) | Planned::Told(..)) | None => Ok(()),
        }
    }

    /// Whether a person can be asked about this call, and has to be.
    pub(super) fn asks(&self, planned: &Planned) -> Option<Decided> {
        let Self { turn, tools, .. } = self;
        let Planned::Run(ready) = planned else { return None };
        let decided = tools.access.decide(&ready.entry, &ready.arguments);
        let approvers = tools.access.approvers(decided);
        // Roles in rules are those of doors that know them: elsewhere nobody could decide.
        // The requester decides where no roles are named, and a turn without a message has none.
        let someone = if approvers.is_empty() { turn.trigger.has_message() } else { tools.access.knows_ids() };
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
    pub(super) async fn run_decided(&self, left: &mut Vec<Planned>, going_on: &GoingOn) -> Option<Told> {
        if left.is_empty() {
            return None;
        }
        let began = Instant::now();
        let _waits = self.tally.waits_for_tools();
        let told = match left.remove(0) {
            planned @ Planned::Run(_) => {
                let ran = self.run_one(planned, began, Leave::Decision(going_on)).await;
                self.with_pictures(ran)
            }
            // It cannot be called any more: the tool is gone, hidden, or takes other arguments.
            planned => {
                let end = match &going_on.parked.case.decision {
                    Some(Decision::Approved { .. }) | None => self.impossible(&planned.call().name),
                    Some(decision) => CallEnd::NotApproved(decision.into()),
                };
                self.not_called(known_name(&self.tools.set, &planned.call().name), NotCalled::Impossible(&end));
                end.told(Effect::Changes)
            }
        };
        Some(told)
    }

    /// Why a call that was approved cannot be made any more.
    fn impossible(&self, tool: &str) -> CallEnd {
        match self.tools.set.catalogue.get(tool) {
            None => CallEnd::NotApproved(NotApproved::Gone),
            Some(entry) if !self.tools.access.sees(entry) => CallEnd::Denied,
            Some(_) => CallEnd::NotApproved(NotApproved::Changed),
        }
    }

    /// Refuses the call that nobody can be asked about.
    pub(super) async fn refuse(&self, TooLong(asking): TooLong) -> (Vec<Told>, Vec<Planned>) {
        let Asking { mut done, mut left, .. } = asking;
        if !left.is_empty() {
            let end = CallEnd::NotApproved(NotApproved::TooLong);
            done.push(self.run_one(left.remove(0), Instant::now(), Leave::Refused(&end)).await.told);
        }
        (done, left)
    }

    /// The rules have the last word: what they deny now does not run, whatever was approved, and what they ask for runs with the
    /// approval of just this call.
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
            (Verdict::Auto, Leave::Rules) => Ok(()),
            (Verdict::Ask, Leave::Rules) if self.is_allowed(ready, approvers) => Ok(()),
            (Verdict::Ask, Leave::Rules) => Err(CallEnd::NotApproved(NotApproved::NoWay)),
        }
    }
}
