//! A socket's cache of its last response: the next request continues from it without the store, even if responses are
//! not stored.

use crate::model_api::failure::Failure;
use crate::model_api::kept::gone_on;
use domain::given::Message;

/// Maximum size of a cached conversation, in bytes. Longer ones are read from the store.
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
    /// Replaces the cache by all messages up to a response.
    pub fn keep(&mut self, id: &str, said: Vec<Message>) {
        let bytes = said.iter().map(Message::bytes).sum();
        self.0 = (bytes <= NEAR_BYTES).then(|| Last { id: id.to_owned(), said, bytes });
    }

    /// Returns all messages up to this response, and their size in bytes; `None` on a cache miss.
    ///
    /// # Errors
    /// There are too many messages to continue.
    pub fn said(&self, id: &str) -> Result<Option<(Vec<Message>, usize)>, Failure> {
        let Some(last) = self.0.as_ref().filter(|last| last.id == id) else { return Ok(None) };
        gone_on(last.said.len())?;
        Ok(Some((last.said.clone(), last.bytes)))
    }

    /// Evicts this response: a request that continued from it failed.
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
