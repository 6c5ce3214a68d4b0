//! What models were asked and what they answered, for the newest turns. It is kept where the operator allows texts on pages.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::domain::completion::{Completion, Item, Request};
use crate::domain::ids::TurnId;
use crate::ports::ModelError;
use crate::ports::turn_detail::{ModelCall, PromptPart};

/// The turns whose texts are kept, the newest.
const TURNS: usize = 40;
/// The calls of one turn that are kept, the first.
const CALLS: usize = 6;
/// Bytes of one part of a prompt.
const PART_BYTES: usize = 2 * 1024;
/// Bytes of one prompt beside its first part: the last parts that fit in.
const PROMPT_BYTES: usize = 6 * 1024;
/// Bytes of one answer.
const ANSWER_BYTES: usize = 4 * 1024;

/// The texts. All of them are lost with the process.
#[derive(Default)]
pub struct Transcripts {
    turns: Mutex<VecDeque<(TurnId, Vec<ModelCall>)>>,
}

impl Transcripts {
    /// A model is asked.
    pub(super) fn asked(&self, turn: &TurnId, model: &str, request: &Request) {
        let mut turns = self.turns.lock();
        if !turns.iter().any(|(id, _)| id == turn) {
            if turns.len() >= TURNS {
                turns.pop_front();
            }
            turns.push_back((turn.clone(), Vec::new()));
        }
        let Some((_, calls)) = turns.iter_mut().find(|(id, _)| id == turn) else { return };
        if calls.len() < CALLS {
            let prompt = prompt(&request.messages);
            calls.push(ModelCall { model: model.to_owned(), prompt, ..ModelCall::default() });
        }
    }

    /// The last call to this model has ended.
    pub(super) fn answered(&self, turn: &TurnId, model: &str, result: &Result<Completion, ModelError>) {
        let mut turns = self.turns.lock();
        let calls = turns.iter_mut().find(|(id, _)| id == turn).map(|(_, calls)| calls);
        let open = |call: &&mut ModelCall| call.model == model && call.answer.is_none() && call.error.is_none();
        let Some(call) = calls.into_iter().flatten().rev().find(open) else { return };
        match result {
            Ok(completion) => {
                call.answer = Some(cut(&completion.content, ANSWER_BYTES));
                let wish = |wish: &crate::domain::completion::ToolCall| {
                    cut(&format!("{} {}", wish.name, wish.arguments), PART_BYTES)
                };
                call.tools = completion.calls.iter().take(CALLS).map(wish).collect();
            }
            Err(error) => call.error = Some(cut(&error.safe_message, PART_BYTES)),
        }
    }

    /// The calls of a turn, in their order.
    pub(super) fn of(&self, turn: &TurnId) -> Vec<ModelCall> {
        self.turns.lock().iter().find(|(id, _)| id == turn).map(|(_, calls)| calls.clone()).unwrap_or_default()
    }
}

/// The first part, and of the others the last ones that fit in.
fn prompt(items: &[Item]) -> Vec<PromptPart> {
    let part = |item: &Item| PromptPart { role: item.role.as_str().to_owned(), text: cut(&item.content, PART_BYTES) };
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

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::completion::Role;
    use crate::domain::ids::{Door, MessageId};

    fn turn(id: &str) -> TurnId {
        TurnId::of(&MessageId::new(Door::new("test"), id))
    }

    #[test]
    fn texts_are_bounded_and_the_newest_parts_of_a_prompt_stay() {
        let transcripts = Transcripts::default();
        let long = |word: &str| Item::new(Role::User, word.repeat(4_000));
        let mut messages = vec![Item::new(Role::System, "be kind")];
        messages.extend((0..20).map(|_| long("ä")));
        messages.push(Item::new(Role::User, "the question"));
        let request = Request { messages, ..Request::default() };
        for number in 0..100 {
            for _ in 0..20 {
                transcripts.asked(&turn(&number.to_string()), "fast", &request);
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

    #[test]
    fn an_answer_goes_to_the_last_call_of_its_model() {
        let (transcripts, turn) = (Transcripts::default(), turn("1"));
        let request = Request { messages: vec![Item::new(Role::User, "hello")], ..Request::default() };
        transcripts.asked(&turn, "fast", &request);
        let failed = Err(ModelError::new(crate::ports::ModelErrorKind::Timeout, "too slow"));
        transcripts.answered(&turn, "fast", &failed);
        transcripts.asked(&turn, "fast", &request);
        let errors: Vec<_> = transcripts.of(&turn).into_iter().map(|call| call.error).collect();
        assert_eq!(errors, [Some("too slow".to_owned()), None]);
    }
}
