//! What is being talked about in a place where nobody asked us anything.

use std::time::Duration;

use super::{Thinking, scene};
use crate::actors::messages::outbox::OutboxMsg;
use crate::domain::completion::Item;
use crate::domain::ending::Ending;
use crate::domain::prompt;
use crate::ports::{HistoryRange, PostRequest, PostResult};

/// How long reading the place may take; after that the moment is over.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Messages read, so that enough of them are from people.
const READ: u8 = 50;

impl Thinking<'_> {
    /// What a model is shown to join in: the last messages of people, as they stand at this moment.
    ///
    /// # Errors
    /// Why there is nothing to join in.
    pub(super) async fn overheard(&self) -> Result<Vec<Item>, Ending> {
        let Self { parts, running, turn, .. } = *self;
        let request = PostRequest::History { place: turn.place.clone(), range: HistoryRange::Newest, limit: READ };
        let ask = |reply| OutboxMsg::Read(request, reply);
        let Ok(Ok(PostResult::Messages(messages))) = parts.outboxes.of(&turn.place.door).call(ask, READ_WITHIN).await
        else {
            return Err(Ending::PlaceUnreadable);
        };
        let now = parts.clock.now();
        let heard = prompt::heard(messages, now, running.settings.history.message_max_age);
        if heard.is_empty() {
            return Err(Ending::NothingHeard);
        }
        Ok(prompt::interjection(&running.prompts, turn.policy.reply, &scene(turn, now), &heard))
    }
}
