//! The calls of recent turns that change something. An interruption lets such a call finish, and the history of the
//! interrupted answer tells of it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use domain::history::Act;
use domain::ids::TurnId;

/// The maximum number of turns that are remembered: the last ones.
const TURNS_MAX: usize = 256;
/// The maximum number of calls of one turn that are remembered: the first ones.
const ACTS_MAX: usize = 16;

/// The calls of recent turns that change something. It lives outside the actors, so it survives their restarts.
#[derive(Default)]
pub struct Acts(Mutex<VecDeque<TurnActs>>);

struct TurnActs {
    turn: TurnId,
    acts: Vec<Act>,
    /// The number of calls under way.
    running: watch::Sender<usize>,
    is_interrupted: bool,
}

/// A call under way that changes something. Without [an end](Self::ended), it may have run.
pub(crate) struct ActingCall {
    acts: Arc<Acts>,
    turn: TurnId,
    /// Its position among the calls of the turn; `None` if it is not remembered.
    at: Option<usize>,
}

impl Acts {
    /// Records that a tool begins to change something.
    pub(crate) fn begins(self: &Arc<Self>, turn: &TurnId, tool: &str) -> ActingCall {
        let at = self.change(turn, |of| {
            of.running.send_modify(|running| *running += 1);
            let has_room = of.acts.len() < ACTS_MAX;
            has_room.then(|| of.acts.push(Act { tool: tool.to_owned(), result: None })).map(|()| of.acts.len() - 1)
        });
        ActingCall { acts: Arc::clone(self), turn: turn.clone(), at }
    }

    /// Records that the answer of a turn is interrupted, or that it is not.
    pub(crate) fn interrupt(&self, turn: &TurnId, is_interrupted: bool) {
        self.change(turn, |of| of.is_interrupted = is_interrupted);
    }

    /// True if the answer of this turn was interrupted, and none of its calls that change something is under way.
    pub(crate) fn is_over(&self, turn: &TurnId) -> bool {
        self.read(turn, |of| of.is_interrupted && *of.running.borrow() == 0).unwrap_or_default()
    }

    /// Returns the calls of a turn in their order.
    pub(crate) fn of(&self, turn: &TurnId) -> Vec<Act> {
        self.read(turn, |of| of.acts.clone()).unwrap_or_default()
    }

    /// Waits until no call of an interrupted turn that changes something is under way. Returns at once for other turns.
    pub(crate) async fn finish(&self, turn: &TurnId) {
        let running = self.read(turn, |of| of.is_interrupted.then(|| of.running.subscribe())).flatten();
        if let Some(mut running) = running {
            // A turn that is no longer remembered is not waited for.
            let _ = running.wait_for(|running| *running == 0).await;
        }
    }

    fn read<T>(&self, turn: &TurnId, read: impl FnOnce(&TurnActs) -> T) -> Option<T> {
        self.0.lock().iter().rfind(|of| of.turn == *turn).map(read)
    }

    fn change<T>(&self, turn: &TurnId, change: impl FnOnce(&mut TurnActs) -> T) -> T {
        let mut all = self.0.lock();
        let at = all.iter().rposition(|of| of.turn == *turn).unwrap_or_else(|| {
            if all.len() >= TURNS_MAX {
                all.pop_front();
            }
            let running = watch::Sender::new(0);
            all.push_back(TurnActs { turn: turn.clone(), acts: Vec::new(), running, is_interrupted: false });
            all.len() - 1
        });
        change(&mut all[at])
    }
}

impl ActingCall {
    /// Records the result of the call, as the model reads it.
    pub(crate) fn ended(&self, result: &str) {
        let Some(at) = self.at else { return };
        let mut all = self.acts.0.lock();
        let of = all.iter_mut().rfind(|of| of.turn == self.turn);
        if let Some(act) = of.and_then(|of| of.acts.get_mut(at)) {
            act.result = Some(Act::shortened(result));
        }
    }
}

impl Drop for ActingCall {
    fn drop(&mut self) {
        let all = self.acts.0.lock();
        if let Some(of) = all.iter().rfind(|of| of.turn == self.turn) {
            of.running.send_modify(|running| *running = running.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{Door, MessageId};

    fn turn(id: &str) -> TurnId {
        TurnId::of(&MessageId::new(Door::new("terminal"), id.to_owned()))
    }

    #[tokio::test]
    async fn an_interrupted_turn_is_over_once_its_change_has_ended() {
        let (acts, turn) = (Arc::<Acts>::default(), turn("1"));
        acts.finish(&turn).await;
        let call = acts.begins(&turn, "clear");
        acts.finish(&turn).await;
        acts.interrupt(&turn, true);
        assert!(!acts.is_over(&turn));
        assert_eq!(acts.of(&turn), [Act { tool: "clear".to_owned(), result: None }]);
        let waiting = tokio::spawn({
            let (acts, turn) = (Arc::clone(&acts), turn.clone());
            async move { acts.finish(&turn).await }
        });
        call.ended("All notes\nare [gone].");
        drop(call);
        waiting.await.unwrap();
        assert!(acts.is_over(&turn));
        assert_eq!(acts.of(&turn)[0].result.as_deref(), Some("All notes are (gone)."));
    }

    #[test]
    fn the_last_turns_are_remembered_with_their_first_calls() {
        let acts = Arc::<Acts>::default();
        for number in 0..=TURNS_MAX {
            drop(acts.begins(&turn(&number.to_string()), "clear"));
        }
        assert!(acts.of(&turn("0")).is_empty() && acts.of(&turn("1")).len() == 1);
        for _ in 0..ACTS_MAX * 2 {
            acts.begins(&turn("1"), "clear").ended("done");
        }
        assert_eq!(acts.of(&turn("1")).len(), ACTS_MAX);
    }
}
