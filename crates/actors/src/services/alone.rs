//! Which messages are answers that reply to nothing. In a channel such a message is found by its words alone, which two of them may share.

use std::collections::VecDeque;

use domain::ids::{MessageId, TurnId};

/// The most messages that are remembered; the oldest is forgotten first.
const ALONE_MAX: usize = 1_000;

/// The last of these messages, each with the turn that it answers.
#[derive(Default)]
pub(crate) struct Alone(VecDeque<(TurnId, MessageId)>);

impl Alone {
    /// These messages answer this turn.
    pub fn note(&mut self, turn: &TurnId, messages: &[MessageId]) {
        self.0.extend(messages.iter().map(|message| (turn.clone(), message.clone())));
        let more = self.0.len().saturating_sub(ALONE_MAX);
        self.0.drain(..more);
    }

    /// Those that answer other turns than this one.
    pub fn of_others(&self, turn: &TurnId) -> impl Iterator<Item = MessageId> {
        self.0.iter().filter(move |(answered, _)| answered != turn).map(|(_, message)| message.clone())
    }
}
