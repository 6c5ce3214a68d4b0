//! The charge of an ended turn to the member who made the request.

use crate::effort::{Effort, Outcome};
use crate::ending::Ending;

/// The handling of a turn's reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// The reservation is settled with the actual use.
    Settle,
    /// The reservation is cancelled.
    Cancel,
    /// There is no reservation.
    Nothing,
}

/// Returns the charge of a turn with this outcome. An apology for an internal failure is free unless tokens were used
/// or part of an answer was visible; otherwise a member who can cause failures would pay nothing. A member whose
/// question queue is full pays for the message but for no tokens.
#[must_use]
pub fn charge(outcome: &Outcome, effort: &Effort) -> Charge {
    match outcome {
        Outcome::Replied | Outcome::Apologised(Ending::LaneFull) => Charge::Settle,
        Outcome::Hinted | Outcome::Refused(_) => Charge::Nothing,
        Outcome::Apologised(_) if total(effort) > 0 || effort.drafted => Charge::Settle,
        Outcome::Apologised(_) => Charge::Cancel,
    }
}

/// Returns the tokens that the member used, without those that tools added to prompts; none if a model was called and
/// its use is unknown.
#[must_use]
pub fn spent(effort: &Effort) -> Option<u64> {
    let asked = effort.model.is_some() || effort.drafted;
    (total(effort) > 0 || !asked).then(|| effort.of_member().total())
}

fn total(effort: &Effort) -> u64 {
    effort.usage.prompt.saturating_add(effort.usage.completion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::Usage;
    use crate::ending::OverLimit;

    fn effort(tokens: u64, model: Option<&str>, drafted: bool) -> Effort {
        let usage = Usage { prompt: tokens, completion: tokens, ..Usage::default() };
        Effort { model: model.map(str::to_owned), usage, drafted, ..Effort::default() }
    }

    #[test]
    fn answers_cost_what_they_took() {
        let of = |tokens, model, drafted| {
            let effort = effort(tokens, model, drafted);
            (charge(&Outcome::Replied, &effort), spent(&effort))
        };
        assert_eq!(of(35, Some("main"), false), (Charge::Settle, Some(70)));
        assert_eq!(of(0, Some("main"), false), (Charge::Settle, None));
    }

    #[test]
    fn what_tools_added_to_prompts_is_no_use_of_the_member() {
        let of = |tool_tokens| spent(&Effort { tool_tokens, ..effort(35, Some("main"), false) });
        assert_eq!((of(0), of(30), of(35), of(1_000)), (Some(70), Some(40), Some(35), Some(35)));
        let (earlier, whole) = (effort(35, Some("main"), true), effort(40, Some("main"), true));
        let (earlier, whole) = (Effort { tool_tokens: 30, ..earlier }, Effort { tool_tokens: 34, ..whole });
        assert_eq!(spent(&whole.since(&earlier)), Some(6));
    }

    #[test]
    fn what_a_later_part_took_is_what_was_not_taken_before() {
        let (earlier, whole) = (effort(35, Some("main"), true), effort(40, Some("main"), true));
        assert_eq!(spent(&whole.since(&earlier)), Some(10));
        let nothing = whole.since(&whole);
        assert_eq!(
            (spent(&nothing), charge(&Outcome::Apologised(Ending::Deadline), &nothing)),
            (Some(0), Charge::Cancel)
        );
    }

    #[test]
    fn our_faults_are_free_unless_something_was_spent_or_shown() {
        let of = |effort: Effort| charge(&Outcome::Apologised(Ending::Deadline), &effort);
        assert_eq!(of(effort(0, None, false)), Charge::Cancel);
        assert_eq!(of(effort(1, Some("main"), false)), Charge::Settle);
        assert_eq!(of(effort(0, None, true)), Charge::Settle);
        assert_eq!(spent(&effort(0, None, true)), None);
    }

    #[test]
    fn a_full_lane_costs_the_message_alone() {
        let (full, nothing) = (Outcome::Apologised(Ending::LaneFull), Effort::default());
        assert_eq!((charge(&full, &nothing), spent(&nothing)), (Charge::Settle, Some(0)));
    }

    #[test]
    fn what_was_never_reserved_is_left_alone() {
        for outcome in [Outcome::Hinted, Outcome::Refused(OverLimit::Messages)] {
            assert_eq!(charge(&outcome, &Effort::default()), Charge::Nothing);
        }
    }
}
