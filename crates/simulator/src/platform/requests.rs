//! Requests to the platform.

use std::time::Duration;

use super::{Message, Platform, State, US, message_id, number, place_id, place_number};
use crate::history::Seen;
use crate::outside::Outside;
use domain::ids::{MessageId, Place};
use domain::outgoing::Piece;
use domain::rejection::Rejection;
use ports::{Clock as _, HistoryRange, PostError, PostRequest, PostResult};

/// The time for which the platform remembers a nonce.
const NONCE_KEPT: Duration = Duration::from_secs(180);

impl Platform {
    /// Performs a request.
    ///
    /// # Errors
    /// The message does not exist.
    pub fn perform(&self, outside: &Outside, request: &PostRequest) -> Result<PostResult, PostError> {
        let mut state = self.0.lock();
        Ok(match request {
            PostRequest::Create { place, piece, reply_to, nonce } => {
                PostResult::Message(message_id(state.create(outside, place, piece, reply_to.as_ref(), nonce)?))
            }
            PostRequest::Edit { message, piece, .. } => {
                let shown = state.live(message).map(|message| {
                    message.shows(piece);
                    message.seen(piece)
                });
                outside.record(shown.ok_or_else(gone)?);
                PostResult::Message(message.clone())
            }
            PostRequest::Delete { message, .. } => {
                state.live(message).ok_or_else(gone)?.deleted = true;
                outside.record(Seen::Hidden { message: number(&message.id) });
                PostResult::Done
            }
            PostRequest::React { message, .. } => {
                state.live(message).ok_or_else(gone)?;
                outside.record(Seen::Reacted { message: number(&message.id) });
                PostResult::Done
            }
            PostRequest::Respond { to, piece, .. } => {
                let (callback, text) = (number(to.token.expose()), piece.text.clone());
                outside.record(Seen::Responded { callback, text });
                PostResult::Done
            }
            PostRequest::Roles(_) => PostResult::Roles(Vec::new()),
            PostRequest::History { place, range, limit } => PostResult::Messages(
                state.history(place, range, usize::from(*limit)).iter().map(Message::posted).collect(),
            ),
            PostRequest::Fetch { message, .. } => {
                let message = state.live(message).map(|message| message.posted());
                PostResult::Messages(vec![message.ok_or_else(gone)?])
            }
            PostRequest::Typing { .. }
            | PostRequest::AddRole(_)
            | PostRequest::RemoveRole(_)
            | PostRequest::RegisterCommands(_)
            | PostRequest::Defer(_)
            | PostRequest::OpenForm { .. }
            | PostRequest::Suggest { .. }
            | PostRequest::FetchGuild { .. } => PostResult::Done,
        })
    }
}

fn not_replied() -> PostError {
    PostError::Rejected { reason: Rejection::Reply, message: "Unknown message".to_owned(), counted: false }
}

fn gone() -> PostError {
    PostError::Rejected { reason: Rejection::MessageGone, message: "Unknown Message".to_owned(), counted: false }
}

impl State {
    fn create(
        &mut self,
        outside: &Outside,
        place: &Place,
        piece: &Piece,
        reply_to: Option<&MessageId>,
        nonce: &str,
    ) -> Result<u64, PostError> {
        let now = outside.now();
        if let Some((id, at)) = self.nonces.get(nonce)
            && now.since(*at) < NONCE_KEPT
        {
            return Ok(*id);
        }
        let reply_to = match reply_to {
            Some(id) => Some(self.live(id).ok_or_else(not_replied)?.id),
            None => None,
        };
        let place = place_number(place);
        let id = self.post(place, US, String::new(), now, reply_to);
        self.nonces.insert(nonce.to_owned(), (id, now));
        if let Some(message) = self.messages.last_mut() {
            message.shows(piece);
            outside.record(message.seen(piece));
        }
        Ok(id)
    }

    fn live(&mut self, id: &MessageId) -> Option<&mut Message> {
        let id = number(&id.id);
        self.messages.iter_mut().find(|message| message.id == id && !message.deleted)
    }

    fn history(&self, place: &Place, range: &HistoryRange, limit: usize) -> Vec<Message> {
        let within = |message: &&Message| {
            place_id(message.place) == *place
                && !message.deleted
                && match range {
                    HistoryRange::Newest => true,
                    HistoryRange::After(id) => message.id > number(&id.id),
                    HistoryRange::Before(id) => message.id < number(&id.id),
                }
        };
        let mut there: Vec<Message> = self.messages.iter().filter(within).cloned().collect();
        match range {
            HistoryRange::After(_) => there.truncate(limit),
            HistoryRange::Newest | HistoryRange::Before(_) => drop(there.drain(..there.len().saturating_sub(limit))),
        }
        there
    }
}

impl Message {
    fn shows(&mut self, piece: &Piece) {
        let cards = piece.cards.iter().flat_map(|card| {
            card.fields
                .iter()
                .flat_map(|field| [&field.name, &field.value])
                .chain(card.title.iter())
                .chain([&card.text])
        });
        self.text = [&piece.text].into_iter().chain(cards).cloned().collect::<Vec<_>>().join("\n");
        self.buttons.clone_from(&piece.buttons);
    }

    fn seen(&self, piece: &Piece) -> Seen {
        Seen::Shown {
            message: self.id,
            place: self.place,
            reply_to: self.reply_to,
            text: self.text.clone(),
            apology: piece.apology,
        }
    }
}
