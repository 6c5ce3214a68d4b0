//! An answer as sentences.

use std::collections::VecDeque;

use serde::Serialize;

use crate::{Announcement, Part, Sentences};

/// Maximum bytes of an answer that become sentences: over an hour of speech. The rest is in the session only.
const TEXT_MAX: usize = 64 * 1024;
/// Maximum bytes of the sentences of one turn, whose answer may begin anew.
const DISPLAYED_MAX: usize = 2 * TEXT_MAX;

/// A part of an answer.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sentence {
    /// Its number in the turn, from 0.
    #[serde(rename = "sentence")]
    pub number: usize,
    /// The text to display; empty for an announcement of a tool. The texts of all sentences since the last `anew`, joined, are the answer.
    pub text: String,
    /// The text to speak; empty for a silent one.
    pub speech: String,
    /// The emotions that it names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub emotions: Vec<&'static str>,
    /// True if it is inside `<speak>`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub speaks: bool,
    /// True if the answer begins here: earlier sentences of the turn are not part of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    /// True if its audio, or an error about it, follows.
    #[serde(skip)]
    pub has_audio: bool,
}

/// The known part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextState {
    Grows,
    Whole,
}

/// The answer of one turn.
pub struct Answer {
    /// The message of the turn.
    pub turn: String,
    /// True once it was interrupted or ended: it has no further sentences.
    pub is_cut: bool,
    /// True if the turn becomes an exchange of the conversation: a command and an apology do not.
    pub is_exchange: bool,
    text_state: TextState,
    /// The last sentence with speech.
    last_spoken: Option<usize>,
    sentences: Sentences,
    /// The text since the answer last began anew.
    text: String,
    /// The displayed text, and the end of each sentence in it.
    displayed: String,
    ends: Vec<usize>,
    begins_anew: bool,
    /// The speech since the answer last began anew.
    said: VecDeque<String>,
    /// The speech before that, which is not repeated.
    said_before: VecDeque<String>,
    /// The announcements of tools, each spoken once.
    announced: Vec<Announcement>,
    /// The number of spoken sentences, announcements included.
    spoken: usize,
}

impl Answer {
    /// Begins the answer of a turn.
    #[must_use]
    pub fn new(turn: String, is_exchange: bool) -> Self {
        Self {
            turn,
            is_cut: false,
            is_exchange,
            text_state: TextState::Grows,
            last_spoken: None,
            sentences: Sentences::new(),
            text: String::new(),
            displayed: String::new(),
            ends: Vec::new(),
            begins_anew: false,
            said: VecDeque::new(),
            said_before: VecDeque::new(),
            announced: Vec::new(),
            spoken: 0,
        }
    }

    /// Appends to the draft, or begins it anew.
    pub fn draft(&mut self, more: &str, anew: bool) -> Vec<Sentence> {
        if anew && !self.text.is_empty() {
            self.begin();
        }
        self.grow(more)
    }

    /// Returns the rest of the draft before a tool call, which is not followed by more of the same text.
    pub fn pause(&mut self) -> Vec<Sentence> {
        let rest = self.sentences.flush();
        self.numbered(rest)
    }

    /// Returns a sentence without a display that announces a tool. `None` if it was announced before, or if a tool runs
    /// after the answer said something.
    pub fn announce(&mut self, announcement: Announcement, words: &str) -> Option<Sentence> {
        let is_told =
            self.announced.contains(&announcement) || (announcement == Announcement::Running && self.spoken > 0);
        if is_told || words.is_empty() {
            return None;
        }
        self.announced.push(announcement);
        self.spoken += 1;
        let number = self.ends.len();
        self.ends.push(self.displayed.len());
        self.last_spoken = Some(number);
        Some(Sentence { number, speech: words.to_owned(), ..Sentence::default() })
    }

    /// Completes the answer with its whole text.
    pub fn finish(&mut self, whole: &str) -> Vec<Sentence> {
        let whole = &whole[..whole.floor_char_boundary(TEXT_MAX)];
        self.text_state = TextState::Whole;
        let sent = self.text.len() - self.sentences.pending().len();
        let mut sentences = if let Some(rest) = whole.strip_prefix(self.text.as_str()) {
            self.grow(rest)
        } else if whole.starts_with(&self.text[..sent]) {
            self.sentences.take_back();
            self.text.truncate(sent);
            self.grow(&whole[sent..])
        } else {
            self.begin();
            self.grow(whole)
        };
        sentences.extend(self.pause());
        sentences
    }

    /// Ends the answer: only what was displayed is kept, for a late interruption.
    pub fn end(&mut self) {
        self.is_cut = true;
        self.sentences = Sentences::new();
        self.text = String::new();
        (self.said, self.said_before) = (VecDeque::new(), VecDeque::new());
        self.displayed.shrink_to_fit();
    }

    /// Returns the heard part of the answer: what was displayed up to the end of this sentence. `spoken_to` is the last
    /// sentence whose audio began to sound, for every listener; `None` if none did.
    #[must_use]
    pub fn heard(&self, spoken_to: Option<usize>) -> &str {
        let end = spoken_to.and_then(|sentence| self.ends.get(sentence).or(self.ends.last()));
        &self.displayed[..end.copied().unwrap_or_default()]
    }

    /// True if the answer is complete and its last speech began to sound: there is nothing to interrupt.
    #[must_use]
    pub fn is_heard(&self, spoken_to: Option<usize>) -> bool {
        self.text_state == TextState::Whole && spoken_to >= self.last_spoken
    }

    fn begin(&mut self) {
        self.sentences = Sentences::new();
        self.text.clear();
        self.begins_anew = !self.ends.is_empty();
        self.said_before = std::mem::take(&mut self.said);
    }

    fn grow(&mut self, more: &str) -> Vec<Sentence> {
        let room = TEXT_MAX.saturating_sub(self.text.len()).min(DISPLAYED_MAX.saturating_sub(self.displayed.len()));
        let more = &more[..more.floor_char_boundary(room)];
        self.text.push_str(more);
        let parts = self.sentences.push(more);
        self.numbered(parts)
    }

    fn numbered(&mut self, parts: Vec<Part>) -> Vec<Sentence> {
        parts.into_iter().map(|part| self.number(part)).collect()
    }

    fn number(&mut self, part: Part) -> Sentence {
        let Part { display, mut speech, emotions, speaks } = part;
        if !speech.is_empty() {
            self.spoken += 1;
            self.said.push_back(speech.clone());
            // A repeated beginning is displayed and not spoken again.
            if self.said_before.pop_front().is_some_and(|before| before == speech) {
                speech.clear();
            } else {
                self.said_before.clear();
            }
        }
        let number = self.ends.len();
        self.displayed.push_str(&display);
        self.ends.push(self.displayed.len());
        if !speech.is_empty() {
            self.last_spoken = Some(number);
        }
        let anew = std::mem::take(&mut self.begins_anew);
        Sentence { number, text: display, speech, emotions, speaks, anew, has_audio: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::tool::failure::ToolFailure;

    fn shown(sentences: &[Sentence]) -> Vec<(&str, &str, bool)> {
        sentences.iter().map(|one| (one.text.as_str(), one.speech.as_str(), one.anew)).collect()
    }

    #[test]
    fn the_whole_answer_continues_its_draft() {
        let mut answer = Answer::new("1".to_owned(), true);
        let mut all = answer.draft("Well, it is so. And th", true);
        all.extend(answer.finish("Well, it is so. And that is it."));
        assert_eq!(
            shown(&all),
            [
                ("Well,", "Well,", false),
                (" it is so.", "it is so.", false),
                (" And that is it.", "And that is it.", false)
            ]
        );
        assert_eq!((answer.heard(None), answer.heard(Some(1))), ("", "Well, it is so."));
        assert_eq!([None, Some(1), Some(2)].map(|to| answer.is_heard(to)), [false, false, true]);
        // Only the rest that was not sent differs.
        let mut answer = Answer::new("1".to_owned(), true);
        answer.draft("One. Tw", true);
        assert_eq!(shown(&answer.finish("One. Three.")), [(" Three.", "Three.", false)]);
    }

    #[test]
    fn a_beginning_that_is_repeated_is_not_spoken_again() {
        let mut answer = Answer::new("1".to_owned(), true);
        answer.draft("One. Two. Three. F", true);
        assert_eq!(
            shown(&answer.finish("One. Two! Three.")),
            [("One.", "", true), (" Two!", "Two!", false), (" Three.", "Three.", false)]
        );
    }

    #[test]
    fn text_before_a_tool_call_is_spoken_at_once() {
        let mut answer = Answer::new("1".to_owned(), true);
        assert_eq!(answer.draft("Let me look", true), []);
        assert!(!answer.is_heard(Some(9)), "more may follow");
        assert_eq!(shown(&answer.pause()), [("Let me look", "Let me look", false)]);
        assert_eq!(shown(&answer.draft("It is 4. A", true)), [("It is 4.", "It is 4.", true)]);
        assert_eq!(answer.heard(Some(9)), "Let me lookIt is 4.");
    }

    #[test]
    fn each_announcement_is_spoken_once_and_displayed_never() {
        let failed = Announcement::Failed(ToolFailure::Timeout);
        let mut answer = Answer::new("1".to_owned(), true);
        let mut said =
            |announcement| answer.announce(announcement, "Wait.").map(|one| (one.number, one.text, one.speech));
        let spoken = |number| Some((number, String::new(), "Wait.".to_owned()));
        assert_eq!((said(Announcement::Running), said(Announcement::Running)), (spoken(0), None));
        assert_eq!((said(failed), said(failed)), (spoken(1), None));
        assert_eq!(answer.announce(Announcement::Failed(ToolFailure::Other), ""), None);
        assert_eq!(shown(&answer.finish("It is 4.")), [("It is 4.", "It is 4.", false)]);
        assert_eq!(answer.heard(Some(2)), "It is 4.");
        let mut answer = Answer::new("1".to_owned(), true);
        answer.draft("Let me look. ", true);
        answer.pause();
        assert_eq!(answer.announce(Announcement::Running, "Wait."), None, "the model said it");
    }

    #[test]
    fn an_answer_that_begins_anew_again_and_again_has_a_bound_and_leaves_what_was_displayed() {
        let mut answer = Answer::new("1".to_owned(), true);
        for _ in 0..10 {
            answer.draft(&"Words and more words. ".repeat(TEXT_MAX / 20), true);
        }
        assert!(answer.displayed.len() <= DISPLAYED_MAX + TEXT_MAX, "{}", answer.displayed.len());
        assert!(answer.text.len() <= TEXT_MAX);
        answer.end();
        assert_eq!((answer.text.capacity(), answer.said.capacity()), (0, 0));
        assert!(answer.heard(Some(0)).starts_with("Words and more words."));
    }
}
