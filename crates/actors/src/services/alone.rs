//! The answers that are posted without being a reply. Such a message is found in a channel only by its text, which two
//! answers can share.

use std::collections::VecDeque;

use domain::ids::{MessageId, TurnId};

/// The maximum number of messages; the oldest is evicted first.
const ALONE_MAX: usize = 1_000;

/// The last of these messages, each with the turn that it answers.
#[derive(Default)]
pub(crate) struct Alone(VecDeque<(TurnId, MessageId)>);

impl Alone {
    /// Records the messages that answer this turn.
    pub fn note(&mut self, turn: &TurnId, messages: &[MessageId]) {
        self.0.extend(messages.iter().map(|message| (turn.clone(), message.clone())));
        let more = self.0.len().saturating_sub(ALONE_MAX);
        self.0.drain(..more);
    }

    /// Returns the messages that answer other turns.
    pub fn of_others(&self, turn: &TurnId) -> impl Iterator<Item = MessageId> {
        self.0.iter().filter(move |(answered, _)| answered != turn).map(|(_, message)| message.clone())
    }
}
