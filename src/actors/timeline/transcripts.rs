//! What models were asked and what they answered, for the newest turns of the last minutes. It is kept where the operator allows texts
//! on pages, and nowhere else than in memory.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Timeline;
use crate::domain::completion::{Completion, Item, Request, ToolCall};
use crate::domain::ids::TurnId;
use crate::ports::ModelError;
use crate::ports::turn_detail::{ModelCall, PromptPart, Told};

/// The turns whose texts are kept, the newest.
const TURNS: usize = 40;
/// How long a text is kept. Another process on the same store that forgets a member does not reach this one.
const KEPT: Duration = Duration::from_secs(600);
/// The calls of one turn that are kept, the first.
const CALLS: usize = 6;
/// Bytes of one part of a prompt.
const PART_BYTES: usize = 2 * 1024;
/// Bytes of one prompt beside its first part: the last parts that fit in.
const PROMPT_BYTES: usize = 6 * 1024;
/// Bytes of one answer.
const ANSWER_BYTES: usize = 4 * 1024;

/// The beginning of a text without secrets, at most so many bytes of it.
pub type Excerpt = Box<dyn Fn(&str, usize) -> String + Send + Sync>;

/// What is known of the texts of one turn.
pub struct Texts {
    /// The turn.
    pub turn: TurnId,
    /// Whether texts are told.
    pub told: Told,
    /// Its calls of models.
    pub calls: Vec<ModelCall>,
}

/// The texts. All of them are lost with the process.
pub(super) struct Transcripts {
    excerpt: Excerpt,
    turns: Mutex<VecDeque<Kept>>,
}

struct Kept {
    turn: TurnId,
    since: Instant,
    calls: Vec<ModelCall>,
}

impl Timeline {
    /// A model is asked this. It is kept where texts are shown.
    pub fn prompted(&self, turn: &TurnId, row: &str, request: &Request) {
        let Some(transcripts) = &self.transcripts else { return };
        let call = transcripts.call(row, request);
        // Held until it is written down, so that nothing is kept of a turn from before a wish to be forgotten.
        let book = self.book.lock();
        if book.numbers.get(turn).is_some_and(|number| *number >= book.bare) {
            transcripts.asked(turn, call);
        }
    }

    /// A model answered this, or failed. It is kept where texts are shown.
    pub fn completed(&self, turn: &TurnId, row: &str, result: &Result<Completion, ModelError>) {
        if let Some(transcripts) = &self.transcripts {
            transcripts.answered(turn, row, result);
        }
    }

    /// A member wished to be forgotten: no text of a turn that was accepted by now is told any more, since the prompts of others
    /// may hold their words.
    pub fn forget_texts(&self) {
        let mut book = self.book.lock();
        book.bare = book.forgotten + book.turns.len() as u64;
        if let Some(transcripts) = &self.transcripts {
            transcripts.turns.lock().clear();
        }
    }

    /// Drops the texts that are too old.
    pub(in crate::actors) fn age_texts(&self) {
        if let Some(transcripts) = &self.transcripts {
            transcripts.turns.lock().retain(|kept| kept.since.elapsed() < KEPT);
        }
    }

    /// The texts of the turn of this number; none when it is not remembered.
    pub(in crate::actors) fn texts(&self, number: u64) -> Option<Texts> {
        let book = self.book.lock();
        let at = usize::try_from(number.checked_sub(book.forgotten + 1)?).ok()?;
        let turn = book.turns.get(at)?.id.clone();
        let told = match (&self.transcripts, number <= book.bare) {
            (None, _) => Told::Withheld,
            (Some(_), true) => Told::Forgotten,
            (Some(_), false) => Told::Shown,
        };
        drop(book);
        let calls = self.transcripts.as_ref().map(|transcripts| transcripts.of(&turn)).unwrap_or_default();
        Some(Texts { turn, told, calls })
    }
}

impl Transcripts {
    pub(super) fn new(excerpt: Excerpt) -> Self {
        Self { excerpt, turns: Mutex::default() }
    }

    fn call(&self, model: &str, request: &Request) -> ModelCall {
        ModelCall { model: model.to_owned(), prompt: self.prompt(&request.messages), ..ModelCall::default() }
    }

    fn asked(&self, turn: &TurnId, call: ModelCall) {
        let mut turns = self.turns.lock();
        if let Some(kept) = turns.iter_mut().rev().find(|kept| kept.turn == *turn) {
            if kept.calls.len() < CALLS {
                kept.calls.push(call);
            }
            return;
        }
        if turns.len() >= TURNS {
            turns.pop_front();
        }
        turns.push_back(Kept { turn: turn.clone(), since: Instant::now(), calls: vec![call] });
    }

    /// The last call to this model has ended.
    fn answered(&self, turn: &TurnId, model: &str, result: &Result<Completion, ModelError>) {
        let mut turns = self.turns.lock();
        let calls = turns.iter_mut().rev().find(|kept| kept.turn == *turn).map(|kept| &mut kept.calls);
        let open = |call: &&mut ModelCall| call.model == model && call.answer.is_none() && call.error.is_none();
        let Some(call) = calls.into_iter().flatten().rev().find(open) else { return };
        match result {
            Ok(completion) => {
                call.answer = Some((self.excerpt)(&completion.content, ANSWER_BYTES));
                let wish = |wish: &ToolCall| format!("{} {}", wish.name, (self.excerpt)(&wish.arguments, PART_BYTES));
                call.tools = completion.calls.iter().take(CALLS).map(wish).collect();
            }
            Err(error) => call.error = Some((self.excerpt)(&error.safe_message, PART_BYTES)),
        }
    }

    /// The calls of a turn, in their order.
    fn of(&self, turn: &TurnId) -> Vec<ModelCall> {
        let turns = self.turns.lock();
        turns.iter().rev().find(|kept| kept.turn == *turn).map(|kept| kept.calls.clone()).unwrap_or_default()
    }

    /// The first part, and of the others the last ones that fit in.
    fn prompt(&self, items: &[Item]) -> Vec<PromptPart> {
        let part = |item: &Item| {
            let mut text = (self.excerpt)(&item.content, PART_BYTES);
            if !item.pictures.is_empty() {
                text.push_str(&format!(" [{} pictures]", item.pictures.len()));
            }
            PromptPart { role: item.role.as_str().to_owned(), text }
        };
        let Some((first, others)) = items.split_first() else { return Vec::new() };
        let (mut parts, mut left) = (Vec::new(), PROMPT_BYTES);
        for item in others.iter().rev() {
            let next = part(item);
            if next.text.len() > left {
                break;
            }
            left -= next.text.len();
            parts.push(next);
        }
        let missing = others.len() - parts.len();
        if missing > 0 {
            parts.push(PromptPart { role: "…".to_owned(), text: format!("{missing} more, left out here") });
        }
        parts.push(part(first));
        parts.reverse();
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::completion::Role;
    use crate::domain::ids::{Door, MessageId};

    fn turn(id: &str) -> TurnId {
        TurnId::of(&MessageId::new(Door::new("test"), id))
    }

    fn excerpt() -> Excerpt {
        Box::new(|text, most| {
            text.replace("hunter2", "***")[..]
                .chars()
                .scan(0, |bytes, character| {
                    *bytes += character.len_utf8();
                    (*bytes <= most).then_some(character)
                })
                .collect()
        })
    }

    fn asked(transcripts: &Transcripts, turn: &TurnId, request: &Request) {
        transcripts.asked(turn, transcripts.call("fast", request));
    }

    #[tokio::test]
    async fn texts_are_bounded_and_the_newest_parts_of_a_prompt_stay() {
        let transcripts = Transcripts::new(excerpt());
        let long = |word: &str| Item::new(Role::User, word.repeat(4_000));
        let mut messages = vec![Item::new(Role::System, "be kind")];
        messages.extend((0..20).map(|_| long("ä")));
        messages.push(Item::new(Role::User, "the question"));
        let request = Request { messages, ..Request::default() };
        for number in 0..100 {
            for _ in 0..20 {
                asked(&transcripts, &turn(&number.to_string()), &request);
            }
        }
        assert!(transcripts.of(&turn("59")).is_empty(), "it is one of the old ones");
        let calls = transcripts.of(&turn("99"));
        assert_eq!(calls.len(), CALLS);
        let texts: Vec<_> = calls[0].prompt.iter().map(|part| part.text.as_str()).collect();
        assert_eq!((texts[0], *texts.last().unwrap()), ("be kind", "the question"));
        assert_eq!(texts[1], "18 more, left out here");
        assert!(texts.iter().map(|text| text.len()).sum::<usize>() < PROMPT_BYTES + PART_BYTES + 100);
    }

    #[tokio::test]
    async fn an_answer_goes_to_the_last_call_of_its_model() {
        let (transcripts, turn) = (Transcripts::new(excerpt()), turn("1"));
        let request = Request { messages: vec![Item::new(Role::User, "hello")], ..Request::default() };
        asked(&transcripts, &turn, &request);
        let failed = Err(ModelError::new(crate::ports::ModelErrorKind::Timeout, "too slow"));
        transcripts.answered(&turn, "fast", &failed);
        asked(&transcripts, &turn, &request);
        let errors: Vec<_> = transcripts.of(&turn).into_iter().map(|call| call.error).collect();
        assert_eq!(errors, [Some("too slow".to_owned()), None]);
    }
}
