//! The audio of a socket, in the order of its sentences.

use std::collections::VecDeque;
use std::sync::Arc;

use super::wire::Event;
use ports::SpeechPayer;
use speech::synthesis::{Clip, Sound, Synthesis};

/// Maximum number of sentences of one socket that are synthesized concurrently.
const AHEAD: usize = 3;
/// Maximum bytes of text that waits for its audio. Further sentences are text only.
const WAITING_MAX: usize = 64 * 1024;
/// Maximum number of sentences and events that wait. Further events of the session are not read meanwhile.
const ITEMS_MAX: usize = 1_024;

/// The sentences to speak, and the ends of turns behind them.
#[derive(Default)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    /// The bytes of texts in it.
    bytes: usize,
}

enum Item {
    Speak { of: SentenceId, text: String, clip: Option<Clip> },
    Then(Event),
}

/// A sentence of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentenceId {
    /// The number of the event that it comes from.
    pub number: u64,
    pub turn: String,
    pub sentence: usize,
}

/// The next output of the queue.
pub(super) enum Output {
    Sound(SentenceId, Sound),
    Event(Event),
}

impl Queue {
    /// Adds a sentence. Returns false if too much text is waiting.
    pub fn speak(&mut self, of: SentenceId, text: String) -> bool {
        if self.bytes + text.len() > WAITING_MAX {
            return false;
        }
        self.bytes += text.len();
        self.items.push_back(Item::Speak { of, text, clip: None });
        true
    }

    /// True if further events of the session may be read.
    pub fn has_room(&self) -> bool {
        self.items.len() < ITEMS_MAX
    }

    /// Adds an event that follows the audio before it.
    pub fn then(&mut self, event: Event) {
        self.items.push_back(Item::Then(event));
    }

    /// Starts the synthesis of the next sentences. Each starts after the one before has begun, so that the first one
    /// never waits for a later one.
    pub fn start(&mut self, synthesis: &Arc<Synthesis>, payer: impl Into<SpeechPayer>) {
        let payer = payer.into();
        let speaks = self.items.iter_mut().filter_map(|item| match item {
            Item::Speak { text, clip, .. } => Some((text, clip)),
            Item::Then(_) => None,
        });
        for (text, clip) in speaks.take(AHEAD) {
            if !clip.get_or_insert_with(|| synthesis.start(text, payer.clone())).has_begun() {
                break;
            }
        }
    }

    /// Waits for the next output. Cancel safe.
    pub async fn next(&mut self) -> Output {
        match self.items.front_mut() {
            Some(Item::Speak { of, text, clip: Some(clip) }) => {
                let (of, sound) = (of.clone(), clip.next().await);
                if !matches!(sound, Sound::Piece(..)) {
                    self.bytes -= text.len();
                    self.items.pop_front();
                }
                Output::Sound(of, sound)
            }
            Some(Item::Then(_)) => match self.items.pop_front() {
                Some(Item::Then(event)) => Output::Event(event),
                Some(Item::Speak { .. }) | None => std::future::pending().await,
            },
            Some(Item::Speak { clip: None, .. }) | None => std::future::pending().await,
        }
    }

    /// Returns the turn that is being spoken.
    pub fn turn(&self) -> Option<&str> {
        match self.items.front()? {
            Item::Speak { of, .. } => Some(&of.turn),
            Item::Then(event) => Some(&event.turn),
        }
    }

    /// Drops the sentences of one turn, or of all.
    pub fn silence(&mut self, turn: Option<&str>) {
        self.items.retain(|item| match item {
            Item::Speak { of, .. } => turn.is_some_and(|turn| of.turn != turn),
            Item::Then(_) => true,
        });
        let texts = self.items.iter().map(|item| match item {
            Item::Speak { text, .. } => text.len(),
            Item::Then(_) => 0,
        });
        self.bytes = texts.sum();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::DOOR;
    use crate::routes::voice::wire::Content;
    use domain::ids::Person;
    use speech::Source;
    use speech::synthesis::{Format, Voice};

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
        let (synthesis, person) = (Arc::new(Synthesis::new(vec![voice]).unwrap()), Person::new(DOOR, "1"));
        let mut queue = Queue::default();
        for sentence in 0..MANY {
            assert!(queue.speak(id(sentence), format!("{sentence}\n")));
        }
        queue.then(Event { number: 2, turn: "1".to_owned(), content: Content::Pong });
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
                Output::Event(_) => break,
            }
        }
        assert_eq!(order, (0..MANY).collect::<Vec<_>>());
        assert_eq!(queue.bytes, 0);
    }

    #[tokio::test]
    async fn too_much_waiting_text_is_refused_until_it_is_silenced() {
        let mut queue = Queue::default();
        let long = "x".repeat(WAITING_MAX / 2);
        assert!(queue.speak(id(0), long.clone()) && queue.speak(id(1), long.clone()));
        assert!(!queue.speak(id(2), long.clone()));
        queue.silence(Some("2"));
        assert_eq!(queue.turn(), Some("1"));
        queue.silence(Some("1"));
        assert!(queue.turn().is_none() && queue.speak(id(2), long));
    }
}
