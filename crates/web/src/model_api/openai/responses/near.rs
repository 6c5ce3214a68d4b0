//! What a socket keeps of its last response, so that the next request goes on from it without the store, also where nothing is kept there.

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

    /// All that was said up to this response, and its bytes.
    pub fn said(&self, id: &str) -> Option<(Vec<Message>, usize)> {
        let last = self.0.as_ref().filter(|last| last.id == id)?;
        Some((last.said.clone(), last.bytes))
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
    use domain::completion::Role;

    #[test]
    fn the_last_response_alone_is_kept_within_its_bound_and_until_a_request_fails() {
        let (mut near, text) = (Near::default(), |text: &str| vec![Message::new(Role::User, text)]);
        near.keep("r1", text("one"));
        near.keep("r2", text("two"));
        assert_eq!(near.said("r1"), None);
        assert_eq!(near.said("r2"), Some((text("two"), 3)));
        near.forget(Some("r1"));
        near.forget(None);
        assert!(near.said("r2").is_some());
        near.forget(Some("r2"));
        assert!(near.said("r2").is_none());
        near.keep("r3", text(&"x".repeat(NEAR_BYTES + 1)));
        assert!(near.said("r3").is_none());
    }
}
