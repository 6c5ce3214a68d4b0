//! The answers of a place's turns, from the events of these turns. Every listener reads them here.

use std::collections::VecDeque;

use crate::answer::{Answer, Sentence};
use crate::{Announcement, Phrases};
use domain::turn_event::{ToolState, TurnUpdate};

/// Maximum number of answers that are read or can be interrupted: the last ones.
const ANSWERS_MAX: usize = 8;

/// The last answers of a place, oldest first.
pub struct Answers {
    all: VecDeque<Answer>,
    /// True if answers without a beginning are read: those of commands.
    has_commands: bool,
}

impl Answers {
    /// Creates the answers of a listener who also hears the output of commands.
    #[must_use]
    pub const fn with_commands() -> Self {
        Self { all: VecDeque::new(), has_commands: true }
    }

    /// Creates the answers of a listener who hears turns only: the output of commands is private.
    #[must_use]
    pub const fn of_turns() -> Self {
        Self { all: VecDeque::new(), has_commands: false }
    }

    /// Returns the sentences of an update. `text` is the whole text of an answer or an apology; announcements of tools are
    /// in the language of the tag.
    pub fn read(
        &mut self,
        turn: &str,
        update: &TurnUpdate,
        text: &str,
        (phrases, tag): (&Phrases, Option<&str>),
    ) -> Vec<Sentence> {
        let is_whole = matches!(update, TurnUpdate::Final { .. } | TurnUpdate::Apology { .. });
        if matches!(update, TurnUpdate::Accepted) || (self.has_commands && is_whole && self.of(turn).is_none()) {
            self.all.retain(|answer| answer.turn != turn);
            self.all.push_back(Answer::new(turn.to_owned(), !is_whole));
            while self.all.len() > ANSWERS_MAX {
                self.all.pop_front();
            }
        }
        let Some(answer) = self.of(turn).filter(|answer| !answer.is_cut) else { return Vec::new() };
        match update {
            TurnUpdate::Accepted | TurnUpdate::Queued { .. } => Vec::new(),
            TurnUpdate::Draft { text, anew } => answer.draft(text, *anew),
            TurnUpdate::Tool { state, failure, .. } => {
                let announcement = match state {
                    ToolState::Running => Some(Announcement::Running),
                    ToolState::Succeeded | ToolState::Failed | ToolState::Denied => failure.map(Announcement::Failed),
                };
                let mut sentences = answer.pause();
                sentences.extend(announcement.and_then(|one| answer.announce(one, phrases.say(tag, one))));
                sentences
            }
            TurnUpdate::Gate { .. } | TurnUpdate::Task { .. } => answer.pause(),
            TurnUpdate::Final { .. } => answer.finish(text),
            TurnUpdate::Apology { .. } => {
                answer.is_exchange = false;
                answer.finish(text)
            }
            TurnUpdate::Done { .. } => {
                let rest = answer.pause();
                answer.end();
                rest
            }
        }
    }

    /// True if this turn began and was neither cut nor ended: further updates of it may have sentences.
    #[must_use]
    pub fn is_open(&self, turn: &str) -> bool {
        self.all.iter().any(|answer| answer.turn == turn && !answer.is_cut)
    }

    /// Returns the answer of a turn.
    pub fn of(&mut self, turn: &str) -> Option<&mut Answer> {
        self.all.iter_mut().find(|answer| answer.turn == turn)
    }

    /// Returns the newest answer.
    pub fn newest(&mut self) -> Option<&mut Answer> {
        self.all.back_mut()
    }

    /// Returns the turn of the newest answer that was neither cut nor ended.
    #[must_use]
    pub fn newest_open(&self) -> Option<&str> {
        self.all.iter().rfind(|answer| !answer.is_cut).map(|answer| answer.turn.as_str())
    }

    /// Forgets all answers, after events were missed: their whole answers follow.
    pub fn clear(&mut self) {
        self.all.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::tool::failure::ToolFailure;

    fn speeches(answers: &mut Answers, turn: &str, update: &TurnUpdate, text: &str) -> Vec<String> {
        let phrases = Phrases::default();
        answers.read(turn, update, text, (&phrases, None)).into_iter().map(|sentence| sentence.speech).collect()
    }

    fn draft(text: &str) -> TurnUpdate {
        TurnUpdate::Draft { text: text.to_owned(), anew: false }
    }

    fn apology() -> TurnUpdate {
        let why = domain::turn_event::NoAnswer::Ended(domain::ending::Ending::Interrupted);
        TurnUpdate::Apology { parts: [].into(), why, again: None }
    }

    fn tool(state: ToolState, failure: Option<ToolFailure>) -> TurnUpdate {
        TurnUpdate::Tool { call: "c".to_owned(), name: "look".to_owned(), state, failure, text: None }
    }

    #[test]
    fn each_update_of_a_turn_has_its_sentences_in_order() {
        let mut answers = Answers::of_turns();
        assert!(speeches(&mut answers, "1", &draft("Unknown. Turn. "), "").is_empty(), "it has no beginning");
        assert!(speeches(&mut answers, "1", &TurnUpdate::Accepted, "").is_empty());
        let running = speeches(&mut answers, "1", &tool(ToolState::Running, None), "");
        assert_eq!(running, ["One moment, I am using my tools for this."]);
        for (failure, phrase) in [
            (ToolFailure::Access, "I'm having trouble accessing that service."),
            (ToolFailure::Timeout, "That's taking a bit longer than expected."),
            (ToolFailure::NotFound, "I couldn't find what you're looking for."),
            (ToolFailure::Other, "I ran into a small issue there."),
        ] {
            assert_eq!(speeches(&mut answers, "1", &tool(ToolState::Failed, Some(failure)), ""), [phrase]);
        }
        assert_eq!(speeches(&mut answers, "1", &draft("It is so. And"), ""), ["It is so."]);
        assert!(answers.is_open("1") && !answers.is_open("2"));
        assert_eq!(answers.newest_open(), Some("1"));
        assert_eq!(speeches(&mut answers, "1", &apology(), "It is so. And no more."), ["And no more."]);
        assert!(!answers.of("1").unwrap().is_exchange);
        assert!(speeches(&mut answers, "1", &TurnUpdate::Done { unanswered: None }, "").is_empty());
        assert_eq!(answers.newest_open(), None);
        assert!(!answers.is_open("1") && speeches(&mut answers, "1", &draft("Late. Too"), "").is_empty());
    }

    #[test]
    fn answers_of_commands_are_for_their_own_listeners_and_the_last_answers_are_kept() {
        assert!(speeches(&mut Answers::of_turns(), "1", &apology(), "Private.").is_empty());
        let mut answers = Answers::with_commands();
        assert_eq!(speeches(&mut answers, "1", &apology(), "Private."), ["Private."]);
        for turn in 0..20 {
            speeches(&mut answers, &format!("t{turn}"), &TurnUpdate::Accepted, "");
        }
        assert!(answers.all.len() == ANSWERS_MAX && answers.of("1").is_none());
        assert_eq!(answers.newest().unwrap().turn, "t19");
    }
}
