//! A reply may come without the message that it is about, and then nobody can tell whether it is a reply to us. That message is
//! read once, and the reply waits for it.

use std::time::Duration;

use super::unsettled::Pending;
use super::{ShardActor, ShardEvent};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use domain::ids::{MessageId, Place};
use domain::incoming::{Incoming, Posted, Quoted, Seen};
use ports::{PostRequest, PostResult};

/// How long a reply waits. Then it goes on as it came, as a reply to somebody else.
pub(super) const WITHIN: Duration = Duration::from_secs(5);

impl Pending {
    /// Where the message is that has to be seen first; none when it was seen, when it cannot matter, or was looked up before.
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

    /// The message was looked up; none when it could not be read.
    pub(super) fn saw(&mut self, told: Option<Seen>) {
        self.looked_up = true;
        if let Incoming::Posted(Posted { reply_to: Some(Quoted { seen, .. }), .. }) = &mut self.incoming {
            *seen = told;
        }
    }
}

impl ShardActor {
    /// Reads the message that an event is about, and says what it is.
    pub(super) fn look_up(
        &self,
        ctx: &mut ActorContext<ShardActor>,
        ticket: u64,
        (place, message): (Place, MessageId),
    ) {
        let outbox = self.parts.outbox.clone();
        ctx.task(
            async move {
                let request = PostRequest::Fetch { place, message };
                let seen = match outbox.call(|reply| OutboxMsg::Read(request, reply), WITHIN).await {
                    Ok(Ok(PostResult::Messages(messages))) => messages.into_iter().next().map(Seen::from),
                    Ok(_) | Err(_) => None,
                };
                ShardEvent::LookedUp(ticket, seen.map(Box::new))
            },
            move |_| ShardEvent::LookedUp(ticket, None),
        );
    }
}
