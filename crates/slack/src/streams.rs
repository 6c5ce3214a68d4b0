//! Messages that are written by Slack's streaming calls: the text that each shows so far, and the limits of the calls.
//!
//! Slack closes a stream about five minutes after its start, also an active one. Sources:
//! `docs.slack.dev/reference/methods/chat.startStream` and the pages of the other two calls; the closing is in
//! `node-slack-sdk#2702`.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::ids::{MessageId, Place};

/// The window of the tiers.
const WINDOW: Duration = Duration::from_secs(60);
/// The most streams that begin in a window. Slack accepts about twenty starts, and as many ends (tier 2).
const STARTS: usize = 15;
/// The time for which a workspace that refused a stream is not asked again.
const REFUSED: Duration = Duration::from_secs(3_600);
/// The most open streams that are remembered; Slack closes each within minutes.
const OPEN: usize = 1_000;
/// The most authors of messages that are remembered.
const AUTHORS: usize = 4_000;
/// The invisible character that separates a sign from its name.
const JOINER: char = '\u{2060}';

/// The streams of this process.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Known>);

#[derive(Default)]
struct Known {
    open: HashMap<MessageId, Stream>,
    /// The messages of open streams, oldest first.
    order: VecDeque<MessageId>,
    /// The times of the last starts.
    starts: VecDeque<Instant>,
    /// The time until which no stream is begun, and no open one gets drafts.
    paused: Option<Instant>,
    /// The authors of the last messages: a stream in a channel names its recipient.
    authors: HashMap<MessageId, String>,
    asked: VecDeque<MessageId>,
}

/// An open stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Its thread.
    pub(crate) thread: Place,
    /// The text that it shows.
    pub(crate) text: String,
    /// True if a call had no conclusive answer, so that the text is not known.
    pub(crate) unsure: bool,
}

impl Streams {
    /// Remembers the author of a message.
    pub(crate) fn note_author(&self, message: &MessageId, user: &str) {
        let mut known = self.0.lock();
        if known.authors.insert(message.clone(), user.to_owned()).is_none() {
            known.asked.push_back(message.clone());
        }
        while known.asked.len() > AUTHORS {
            let Some(oldest) = known.asked.pop_front() else { break };
            known.authors.remove(&oldest);
        }
    }

    /// Returns the author of a message.
    pub(crate) fn author(&self, message: &MessageId) -> Option<String> {
        self.0.lock().authors.get(message).cloned()
    }

    /// True if a stream may begin now; counts it.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let mut known = self.0.lock();
        while known.starts.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
            known.starts.pop_front();
        }
        if known.paused.is_some_and(|until| until > now) || known.starts.len() >= STARTS {
            return false;
        }
        known.starts.push_back(now);
        true
    }

    /// Begins no stream for a long time, because the workspace has none.
    pub(crate) fn refuse(&self, now: Instant) {
        self.pause(now + REFUSED);
    }

    /// Begins no stream until this time.
    pub(crate) fn pause(&self, until: Instant) {
        let mut known = self.0.lock();
        known.paused = known.paused.max(Some(until));
    }

    /// Adds an open stream.
    pub(crate) fn open(&self, message: MessageId, thread: Place, text: String) {
        let mut known = self.0.lock();
        known.open.insert(message.clone(), Stream { thread, text, unsure: false });
        known.order.push_back(message);
        while known.order.len() > OPEN {
            let Some(oldest) = known.order.pop_front() else { break };
            known.open.remove(&oldest);
        }
    }

    /// Returns an open stream.
    pub(crate) fn get(&self, message: &MessageId) -> Option<Stream> {
        self.0.lock().open.get(message).cloned()
    }

    /// True if this message is an open stream.
    pub(crate) fn is_open(&self, message: &MessageId) -> bool {
        self.0.lock().open.contains_key(message)
    }

    /// True if a stream is open in this thread.
    pub(crate) fn is_open_in(&self, thread: &Place) -> bool {
        self.0.lock().open.values().any(|stream| stream.thread == *thread && !stream.unsure)
    }

    /// Adds text that was certainly appended.
    pub(crate) fn appended(&self, message: &MessageId, text: &str) {
        if let Some(stream) = self.0.lock().open.get_mut(message) {
            stream.text.push_str(text);
            stream.unsure = false;
        }
    }

    /// The last call on a stream certainly had no effect.
    pub(crate) fn sure(&self, message: &MessageId) {
        if let Some(stream) = self.0.lock().open.get_mut(message) {
            stream.unsure = false;
        }
    }

    /// The text of a stream is not known any more.
    pub(crate) fn unsure(&self, message: &MessageId) {
        if let Some(stream) = self.0.lock().open.get_mut(message) {
            stream.unsure = true;
        }
    }

    /// Removes a stream that ended.
    pub(crate) fn ended(&self, message: &MessageId) {
        let mut known = self.0.lock();
        if known.open.remove(message).is_some() {
            known.order.retain(|open| open != message);
        }
    }
}

/// Returns the part of a draft that stays as it is while the draft grows: without the end that closes its code block.
pub(crate) fn lasting(draft: &str) -> &str {
    draft.strip_suffix("\n```").unwrap_or(draft)
}

/// Returns the text of a streaming call, in which nothing notifies: control sequences and the names of many members are
/// broken by an invisible character.
pub(crate) fn neutral(text: &str) -> String {
    let mut neutral = String::with_capacity(text.len());
    for (index, c) in text.char_indices() {
        neutral.push(c);
        let rest = &text[index + c.len_utf8()..];
        let calls = |name: &&str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if (c == '<' && rest.starts_with(['@', '!', '#']))
            || (c == '@' && ["channel", "here", "everyone"].iter().any(calls))
        {
            neutral.push(JOINER);
        }
    }
    neutral
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids;

    #[test]
    fn nothing_in_a_streamed_text_notifies() {
        let text = "<!channel> <@U1> <#C1> @here a < b, <https://a.example> @Everyone";
        let neutral = neutral(text);
        for call in ["<!", "<@", "<#", "@here", "@Everyone"] {
            assert!(!neutral.contains(call), "{neutral}");
        }
        assert!(neutral.contains("<https://a.example>") && neutral.replace(JOINER, "") == text);
    }

    #[test]
    fn the_end_that_closes_code_is_held_back() {
        assert_eq!(lasting("see\n```py\nx = 1\n```"), "see\n```py\nx = 1");
        assert_eq!(lasting("see `x`"), "see `x`");
    }

    #[test]
    fn streams_begin_within_their_tier_and_not_where_they_are_refused() {
        let (streams, now) = (Streams::default(), Instant::now());
        assert_eq!((0..30).filter(|_| streams.admits(now)).count(), STARTS);
        let later = now + WINDOW;
        assert!(streams.admits(later));
        streams.refuse(later);
        assert!(!streams.admits(later + REFUSED / 2) && streams.admits(later + REFUSED));
    }

    #[test]
    fn the_oldest_streams_and_authors_are_forgotten() {
        let streams = Streams::default();
        let message = |number: usize| ids::message("C1", &format!("{number}.1"));
        for number in 0..=AUTHORS {
            streams.note_author(&message(number), "U1");
        }
        assert!(streams.author(&message(0)).is_none() && streams.author(&message(1)).is_some());
        for number in 0..=OPEN {
            streams.open(message(number), ids::channel("C1"), String::new());
        }
        assert!(!streams.is_open(&message(0)) && streams.is_open(&message(1)));
        streams.ended(&message(1));
        assert!(!streams.is_open(&message(1)));
    }
}
