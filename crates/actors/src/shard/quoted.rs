//! A reply may arrive without its parent message, and then it is unknown if the reply is to the bot. The parent is read
//! once, and the reply is held until then.

use std::time::Duration;

use super::unsettled::Pending;
use super::{ShardActor, ShardEvent};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use domain::ids::{MessageId, Place};
use domain::incoming::{Incoming, Posted, Quoted, Seen};
use ports::{PostRequest, PostResult};

/// The timeout of the lookup. After it the reply continues unchanged, as a reply to another member.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

impl Pending {
    /// Returns the location of the parent to read first; `None` if it is known, irrelevant, or was looked up before.
    pub(super) fn unseen(&self) -> Option<(Place, MessageId)> {
        match &self.incoming {
            Incoming::Posted(Posted {
                mentions_us: false,
                may_answer: true,
                place,
                reply_to: Some(Quoted { id, seen: None }),
                ..
            }) if !self.looked_up => Some((place.clone(), id.clone())),
            _ => None,
        }
    }

    /// Records the result of the lookup; `None` if the message could not be read.
    pub(super) fn saw(&mut self, told: Option<Seen>) {
        self.looked_up = true;
        if let Incoming::Posted(Posted { reply_to: Some(Quoted { seen, .. }), .. }) = &mut self.incoming {
            *seen = told;
        }
    }
}

impl ShardActor {
    /// Reads the parent message of an event and reports it.
    pub(super) fn look_up(&self, ctx: &mut ActorContext<ShardActor>, ticket: u64, place: Place, message: MessageId) {
        let outbox = self.parts.outbox.clone();
        ctx.task(
            async move {
                let request = PostRequest::Fetch { place, message };
                let seen = match outbox.call(|reply| OutboxMsg::Read(request, reply), TIMEOUT).await {
                    Ok(Ok(PostResult::Messages(messages))) => messages.into_iter().next().map(Seen::from),
                    Ok(_) | Err(_) => None,
                };
                ShardEvent::LookedUp(ticket, seen.map(Box::new))
            },
            move |_| ShardEvent::LookedUp(ticket, None),
        );
    }
}
