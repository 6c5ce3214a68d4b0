//! What a socket keeps of its last response, so that the next request goes on from it without the store, also where nothing is kept there.

use crate::model_api::failure::Failure;
use crate::model_api::kept::gone_on;
use domain::given::Message;

/// The longest conversation that a socket keeps, in bytes. A longer one is read from the store, where it is kept.
const NEAR_BYTES: usize = 1024 * 1024;

/// The last response of a socket.
#[derive(Debug, Default)]
pub(super) struct Near(Option<Last>);

#[derive(Debug)]
struct Last {
    id: String,
    said: Vec<Message>,
    bytes: usize,
}

impl Near {
    /// Keeps all that was said up to a response, in the place of the one before.
    pub fn keep(&mut self, id: &str, said: Vec<Message>) {
        let bytes = said.iter().map(Message::bytes).sum();
        self.0 = (bytes <= NEAR_BYTES).then(|| Last { id: id.to_owned(), said, bytes });
    }

    /// All that was said up to this response, and its bytes. None if it is not the last one.
    ///
    /// # Errors
    /// It has too many messages to be gone on from.
    pub fn said(&self, id: &str) -> Result<Option<(Vec<Message>, usize)>, Failure> {
        let Some(last) = self.0.as_ref().filter(|last| last.id == id) else { return Ok(None) };
        gone_on(last.said.len())?;
        Ok(Some((last.said.clone(), last.bytes)))
    }

    /// Forgets this response: a request that went on from it failed.
    pub fn forget(&mut self, id: Option<&str>) {
        if id.is_some_and(|id| self.0.as_ref().is_some_and(|last| last.id == id)) {
            self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_api::openai::reading::MESSAGES_MAX;
    use domain::completion::Role;

    #[test]
    fn the_last_response_alone_is_kept_within_its_bound_and_until_a_request_fails() {
        let (mut near, text) = (Near::default(), |text: &str| vec![Message::new(Role::User, text)]);
        near.keep("r1", text("one"));
        near.keep("r2", text("two"));
        assert_eq!(near.said("r1"), Ok(None));
        let bytes = text("two")[0].bytes();
        assert_eq!(near.said("r2"), Ok(Some((text("two"), bytes))));
        near.forget(Some("r1"));
        near.forget(None);
        assert_ne!(near.said("r2"), Ok(None));
        near.forget(Some("r2"));
        assert_eq!(near.said("r2"), Ok(None));
        near.keep("r3", text(&"x".repeat(NEAR_BYTES + 1)));
        assert_eq!(near.said("r3"), Ok(None));
    }

    #[test]
    fn empty_messages_and_the_names_of_calls_are_bounded_too() {
        let mut near = Near::default();
        near.keep("r1", vec![Message::new(Role::User, ""); MESSAGES_MAX + 1]);
        assert!(matches!(near.said("r1"), Err(Failure::Bad { .. })));
        let result = Message { result_of: Some("x".repeat(NEAR_BYTES)), ..Message::new(Role::Tool, "") };
        near.keep("r2", vec![result]);
        assert_eq!(near.said("r2"), Ok(None));
    }
}
