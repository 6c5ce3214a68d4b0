//! The audio of a listener, in the order of its sentences.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::synthesis::{Clip, Sound, Synthesis};
use ports::WorkPayer;
use ports::shares::Share;

/// Maximum number of sentences of one listener that are synthesized concurrently.
const AHEAD: usize = 3;
/// Maximum bytes of text that waits for its audio. Further sentences are text only.
const WAITING_MAX: usize = 64 * 1024;
/// Maximum number of sentences and events that wait. Further events are not read meanwhile.
const ITEMS_MAX: usize = 1_024;

/// The sentences to speak, and the ends of turns behind them.
pub struct Queue<E> {
    items: VecDeque<Item<E>>,
    /// The bytes of texts in it.
    bytes: usize,
    /// The permit of the audio whose last piece was given out: it may be in transit until the next call.
    in_transit: Option<Share>,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { items: VecDeque::new(), bytes: 0, in_transit: None }
    }
}

enum Item<E> {
    Speak {
        of: SentenceId,
        text: String,
        clip: Option<Clip>,
    },
    /// An event of a turn.
    Then(String, E),
}

/// A sentence of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentenceId {
    /// The number of the event that it comes from.
    pub number: u64,
    /// The message of the turn.
    pub turn: String,
    /// The number of the sentence in the turn.
    pub sentence: usize,
}

/// The next output of the queue.
pub enum Output<E> {
    /// Audio of a sentence.
    Sound(SentenceId, Sound),
    /// An event behind the audio before it.
    Event(E),
}

impl<E> Queue<E> {
    /// Adds a sentence. Returns false if too much text is waiting.
    pub fn speak(&mut self, of: SentenceId, text: String) -> bool {
        if self.bytes + text.len() > WAITING_MAX {
            return false;
        }
        self.bytes += text.len();
        self.items.push_back(Item::Speak { of, text, clip: None });
        true
    }

    /// True if further events may be read.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.items.len() < ITEMS_MAX
    }

    /// Adds an event of a turn that follows the audio before it.
    pub fn then(&mut self, turn: String, event: E) {
        self.items.push_back(Item::Then(turn, event));
    }

    /// Starts the synthesis of the next sentences. Each starts after the one before has begun, so that the first one
    /// never waits for a later one.
    pub fn start(&mut self, synthesis: &Arc<Synthesis>, payer: impl Into<WorkPayer>) {
        self.in_transit = None;
        let payer = payer.into();
        let speaks = self.items.iter_mut().filter_map(|item| match item {
            Item::Speak { text, clip, .. } => Some((text, clip)),
            Item::Then(..) => None,
        });
        for (text, clip) in speaks.take(AHEAD) {
            if !clip.get_or_insert_with(|| synthesis.start(text, payer.clone())).has_begun() {
                break;
            }
        }
    }

    /// Waits for the next output. The caller has sent the one before. Cancel safe.
    pub async fn next(&mut self) -> Output<E> {
        self.in_transit = None;
        match self.items.front_mut() {
            Some(Item::Speak { of, text, clip: Some(clip) }) => {
                let (of, sound) = (of.clone(), clip.next().await);
                if !matches!(sound, Sound::Piece(..)) {
                    self.bytes -= text.len();
                    if let Some(Item::Speak { clip: Some(clip), .. }) = self.items.pop_front() {
                        self.in_transit = clip.into_permit();
                    }
                }
                Output::Sound(of, sound)
            }
            Some(Item::Then(..)) => match self.items.pop_front() {
                Some(Item::Then(_, event)) => Output::Event(event),
                Some(Item::Speak { .. }) | None => std::future::pending().await,
            },
            Some(Item::Speak { clip: None, .. }) | None => std::future::pending().await,
        }
    }

    /// Returns the turn that is being spoken.
    #[must_use]
    pub fn turn(&self) -> Option<&str> {
        match self.items.front()? {
            Item::Speak { of, .. } => Some(&of.turn),
            Item::Then(turn, _) => Some(turn),
        }
    }

    /// Drops the sentences of one turn, or of all.
    pub fn silence(&mut self, turn: Option<&str>) {
        self.items.retain(|item| match item {
            Item::Speak { of, .. } => turn.is_some_and(|turn| of.turn != turn),
            Item::Then(..) => true,
        });
        let texts = self.items.iter().map(|item| match item {
            Item::Speak { text, .. } => text.len(),
            Item::Then(..) => 0,
        });
        self.bytes = texts.sum();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Source;
    use crate::synthesis::{Format, Voice};
    use domain::ids::{Door, Person};

    /// Takes longer for some sentences and fails for others.
    const SCRIPT: &str = "read n; case $n in *7) exit 1;; *5|*0) sleep 0.02;; esac; printf 'RIFF....WAVE%s' $n";

    fn id(sentence: usize) -> SentenceId {
        SentenceId { number: 1, turn: "1".to_owned(), sentence }
    }

    #[tokio::test]
    async fn audio_is_in_order_although_its_voice_is_slow_or_fails() {
        const MANY: usize = 200;
        let source = Source::Command(["sh", "-c", SCRIPT].map(str::to_owned).into());
        let voice =
            Voice { source, voice: String::new(), format: Format::Wav, timeout: Duration::from_secs(20), price: None };
        let (synthesis, person) =
            (Arc::new(Synthesis::new(vec![voice]).unwrap()), Person::new(Door::new("terminal"), "1"));
        let mut queue = Queue::<()>::default();
        for sentence in 0..MANY {
            assert!(queue.speak(id(sentence), format!("{sentence}\n")));
        }
        queue.then("1".to_owned(), ());
        let (mut order, mut spoken) = (Vec::new(), String::new());
        loop {
            queue.start(&synthesis, &person);
            match queue.next().await {
                Output::Sound(of, Sound::Piece(_, bytes)) => {
                    assert_eq!(of.sentence, order.len());
                    spoken.push_str(std::str::from_utf8(&bytes).unwrap());
                }
                Output::Sound(of, end) => {
                    let expected = format!("RIFF....WAVE{}", of.sentence);
                    let failed = of.sentence % 10 == 7;
                    assert_eq!((end != Sound::End, spoken == expected), (failed, !failed), "{}", of.sentence);
                    order.push(of.sentence);
                    spoken.clear();
                }
                Output::Event(()) => break,
            }
        }
        assert_eq!(order, (0..MANY).collect::<Vec<_>>());
        assert_eq!(queue.bytes, 0);
    }

    #[tokio::test]
    async fn audio_keeps_its_permit_until_the_caller_has_sent_it() {
        let source = Source::Command(["sh", "-c", "printf RIFF....WAVE"].map(str::to_owned).into());
        let voice =
            Voice { source, voice: String::new(), format: Format::Wav, timeout: Duration::from_secs(20), price: None };
        let synthesis = Arc::new(Synthesis::new(vec![voice]).unwrap());
        let mut queue = Queue::<()>::default();
        assert!(queue.speak(id(0), "one".to_owned()));
        queue.then("1".to_owned(), ());
        queue.start(&synthesis, &Person::new(Door::new("terminal"), "1"));
        while !matches!(queue.next().await, Output::Sound(_, Sound::End)) {}
        assert!(queue.in_transit.is_some());
        assert!(matches!(queue.next().await, Output::Event(())) && queue.in_transit.is_none());
    }

    #[tokio::test]
    async fn too_much_waiting_text_is_refused_until_it_is_silenced() {
        let mut queue = Queue::<()>::default();
        let long = "x".repeat(WAITING_MAX / 2);
        assert!(queue.speak(id(0), long.clone()) && queue.speak(id(1), long.clone()));
        assert!(!queue.speak(id(2), long.clone()));
        queue.silence(Some("2"));
        assert_eq!(queue.turn(), Some("1"));
        queue.silence(Some("1"));
        assert!(queue.turn().is_none() && queue.speak(id(2), long));
    }
}
