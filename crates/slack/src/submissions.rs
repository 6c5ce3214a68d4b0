//! The modals that members sent, and their answers. An answer is sent in the acknowledgement of its envelope; this
//! table connects the two, because actors have no envelopes.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use domain::ids::MessageId;

/// The most submissions remembered; the oldest is evicted first.
const MOST: usize = 256;

/// The last submissions. Slack delivers one again if its acknowledgement is lost: it gets the same answer.
#[derive(Default)]
pub(super) struct Submissions(Mutex<VecDeque<(MessageId, watch::Sender<Option<Value>>)>>);

impl Submissions {
    /// Returns the answer to a submission, once there is one.
    pub(super) fn begin(&self, id: &MessageId) -> watch::Receiver<Option<Value>> {
        let mut all = self.0.lock();
        if let Some((_, answer)) = all.iter().find(|(known, _)| known == id) {
            return answer.subscribe();
        }
        if all.len() >= MOST {
            all.pop_front();
        }
        let (answer, receiver) = watch::channel(None);
        all.push_back((id.clone(), answer));
        receiver
    }

    /// Answers a submission. Returns false if its envelope is acknowledged already, or none has this id.
    pub(super) fn answer(&self, id: &MessageId, answer: Value) -> bool {
        let all = self.0.lock();
        let Some((_, known)) = all.iter().find(|(known, _)| known == id) else { return false };
        let waits = known.receiver_count() > 0 && known.borrow().is_none();
        known.send_replace(Some(answer));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> MessageId {
        MessageId::new(super::super::DOOR, text)
    }

    #[test]
    fn a_second_delivery_gets_the_answer_of_the_first() {
        let all = Submissions::default();
        let first = all.begin(&id("1"));
        assert!(all.answer(&id("1"), "done".into()));
        assert_eq!(*first.borrow(), Some("done".into()));
        assert_eq!(*all.begin(&id("1")).borrow(), Some("done".into()));
    }

    #[test]
    fn an_answer_that_no_envelope_waits_for_goes_elsewhere() {
        let all = Submissions::default();
        assert!(!all.answer(&id("1"), "done".into()));
        drop(all.begin(&id("1")));
        assert!(!all.answer(&id("1"), "done".into()));
    }

    #[test]
    fn the_oldest_leave_first() {
        let all = Submissions::default();
        for number in 0..=MOST {
            drop(all.begin(&id(&number.to_string())));
        }
        assert_eq!(all.0.lock().len(), MOST);
        assert_eq!(all.0.lock()[0].0, id("1"));
    }
}
