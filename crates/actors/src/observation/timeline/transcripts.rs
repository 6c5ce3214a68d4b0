//! The prompts and answers of models, for the newest turns of the last minutes. They are kept only if the operator
//! allows texts on pages, and only in memory.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Timeline;
use domain::completion::{Completion, Item, Request, ToolCall};
use domain::ids::{Person, TurnId};
use ports::ModelError;
use ports::turn_detail::{ModelCall, PromptPart, TextAccess};

/// The maximum number of turns with texts, newest first.
const TURNS: usize = 40;
/// The TTL of a text. A forget request handled by another process on the same store does not reach this process.
pub(crate) const KEPT: Duration = Duration::from_secs(600);
/// The maximum number of calls of one turn with texts; later calls are dropped.
const CALLS: usize = 6;
/// Bytes of one part of a prompt.
const PART_BYTES: usize = 2 * 1024;
/// Bytes of the name of a tool, which a model wrote.
const NAME_BYTES: usize = 256;
/// Bytes of one prompt in addition to its first part: the last parts that fit.
const PROMPT_BYTES: usize = 6 * 1024;
/// Bytes of one answer.
const ANSWER_BYTES: usize = 4 * 1024;

/// Returns the beginning of a text with secrets removed, at most the given number of bytes.
pub type Excerpt = Box<dyn Fn(&str, usize) -> String + Send + Sync>;

/// The texts of one turn.
pub struct Texts {
    /// The turn.
    pub turn: TurnId,
    /// States if the texts may be shown.
    pub access: TextAccess,
    /// The model calls of the turn.
    pub calls: Vec<ModelCall>,
}

/// The number of a call with stored texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallNumber(u64);

/// The texts. All of them are lost with the process.
pub(super) struct Transcripts {
    excerpt: Excerpt,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    /// The number of calls stored so far.
    calls: u64,
    newest: VecDeque<(TurnId, Vec<Kept>)>,
}

struct Kept {
    number: CallNumber,
    since: Instant,
    call: ModelCall,
}

impl Timeline {
    /// Stores the prompt of a model call, if texts may be shown. Returns the number to pass with the answer.
    pub fn prompted(&self, turn: &TurnId, row: &str, request: &Request) -> Option<CallNumber> {
        let transcripts = self.transcripts.as_ref()?;
        let call = transcripts.call(row, request);
        // The lock is held until the text is stored, so that no text of a turn from before a forget request is stored.
        let book = self.book.lock();
        let number = book.numbers.get(turn)?;
        if *number >= book.texts_forgotten_through { transcripts.asked(turn, call) } else { None }
    }

    /// Records that a model answered this call, or that the call failed.
    pub fn completed(&self, turn: &TurnId, call: Option<CallNumber>, result: &Result<Completion, ModelError>) {
        if let (Some(transcripts), Some(call)) = (&self.transcripts, call) {
            transcripts.answered(turn, call, result);
        }
    }

    /// Hides the ids of this member's turns, because the member asked to be forgotten, and all texts of turns accepted
    /// so far: prompts of other members can contain that member's words.
    pub fn forget(&self, member: &Person) {
        let book = &mut *self.book.lock();
        book.texts_forgotten_through = book.forgotten + book.turns.len() as u64;
        for line in book.turns.iter_mut().filter(|line| line.person == *member) {
            line.forgotten = true;
        }
        if let Some(transcripts) = &self.transcripts {
            transcripts.turns.lock().newest.clear();
        }
    }

    /// Drops the texts whose TTL has passed.
    pub(crate) fn age_texts(&self) {
        if let Some(transcripts) = &self.transcripts {
            transcripts.turns.lock().newest.retain_mut(|(_, calls)| {
                calls.retain(|kept| kept.since.elapsed() < KEPT);
                !calls.is_empty()
            });
        }
    }

    /// Returns the texts of the turn of this number; `None` if the turn is not in the record.
    pub(crate) fn texts(&self, number: u64) -> Option<Texts> {
        let book = self.book.lock();
        let at = usize::try_from(number.checked_sub(book.forgotten + 1)?).ok()?;
        let turn = book.turns.get(at)?.id.clone();
        let access = match (&self.transcripts, number <= book.texts_forgotten_through) {
            (None, _) => TextAccess::Withheld,
            (Some(_), true) => TextAccess::Forgotten,
            (Some(_), false) => TextAccess::Visible,
        };
        drop(book);
        let calls = self.transcripts.as_ref().map(|transcripts| transcripts.of(&turn)).unwrap_or_default();
        Some(Texts { turn, access, calls })
    }
}

impl Transcripts {
    pub(super) fn new(excerpt: Excerpt) -> Self {
        Self { excerpt, turns: Mutex::default() }
    }

    fn call(&self, model: &str, request: &Request) -> ModelCall {
        ModelCall { model: model.to_owned(), prompt: self.prompt(&request.messages), ..ModelCall::default() }
    }

    fn asked(&self, turn: &TurnId, call: ModelCall) -> Option<CallNumber> {
        let Turns { calls, newest } = &mut *self.turns.lock();
        if !newest.iter().any(|(id, _)| id == turn) {
            if newest.len() >= TURNS {
                newest.pop_front();
            }
            newest.push_back((turn.clone(), Vec::new()));
        }
        let (_, kept) = newest.iter_mut().rev().find(|(id, _)| id == turn)?;
        if kept.len() >= CALLS {
            return None;
        }
        *calls += 1;
        let number = CallNumber(*calls);
        kept.push(Kept { number, since: Instant::now(), call });
        Some(number)
    }

    fn answered(&self, turn: &TurnId, number: CallNumber, result: &Result<Completion, ModelError>) {
        let newest = &mut self.turns.lock().newest;
        let calls = newest.iter_mut().rev().find(|(id, _)| id == turn).map(|(_, calls)| calls);
        let Some(Kept { call, .. }) = calls.into_iter().flatten().find(|kept| kept.number == number) else { return };
        match result {
            Ok(completion) => {
                call.answer = Some((self.excerpt)(&completion.content, ANSWER_BYTES));
                let cut = |text: &str, most: usize| (self.excerpt)(text, most);
                let wish =
                    |wish: &ToolCall| format!("{} {}", cut(&wish.name, NAME_BYTES), cut(&wish.arguments, PART_BYTES));
                call.tools = completion.calls.iter().take(CALLS).map(wish).collect();
            }
            Err(error) => call.error = Some((self.excerpt)(&error.safe_message, PART_BYTES)),
        }
    }

    /// The calls of a turn, in order.
    fn of(&self, turn: &TurnId) -> Vec<ModelCall> {
        let turns = self.turns.lock();
        let calls = turns.newest.iter().rev().find(|(id, _)| id == turn).map(|(_, calls)| calls);
        calls.into_iter().flatten().map(|kept| kept.call.clone()).collect()
    }

    /// The first part, and as many of the last parts as fit.
    fn prompt(&self, items: &[Item]) -> Vec<PromptPart> {
        let part = |item: &Item| {
            let text = (self.excerpt)(&item.content, PART_BYTES);
            let text = match item.pictures.len() {
                0 => text,
                pictures => format!("{text} [{pictures} pictures]"),
            };
            let text = match item.files.len() {
                0 => text,
                files => format!("{text} [{files} files]"),
            };
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
    use domain::completion::{Finish, Role, Usage};
    use domain::ids::{Door, MessageId};

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

    fn asked(transcripts: &Transcripts, turn: &TurnId, request: &Request) -> Option<CallNumber> {
        transcripts.asked(turn, transcripts.call("fast", request))
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
    async fn an_answer_goes_to_its_own_call_also_where_several_run_at_once() {
        let (transcripts, turn) = (Transcripts::new(excerpt()), turn("1"));
        let request = Request { messages: vec![Item::new(Role::User, "hello")], ..Request::default() };
        let numbers: Vec<_> = (0..3).map(|_| asked(&transcripts, &turn, &request).unwrap()).collect();
        let failed = |why: &str| Err(ModelError::new(ports::ModelErrorKind::Timeout, why));
        transcripts.answered(&turn, numbers[0], &failed("too slow"));
        transcripts.answered(&turn, numbers[2], &failed("too late"));
        let errors: Vec<_> = transcripts.of(&turn).into_iter().map(|call| call.error).collect();
        assert_eq!(errors, [Some("too slow".to_owned()), None, Some("too late".to_owned())]);
    }

    #[tokio::test]
    async fn the_name_of_a_tool_is_a_text_of_the_model_and_bounded_and_masked() {
        let (transcripts, turn) = (Transcripts::new(excerpt()), turn("1"));
        let number = asked(&transcripts, &turn, &Request { messages: Vec::new(), ..Request::default() }).unwrap();
        let call = ToolCall {
            id: "1".to_owned(),
            name: format!("hunter2{}", "x".repeat(1 << 20)),
            arguments: "{}".to_owned(),
        };
        let completion = Completion {
            content: String::new(),
            refusal: None,
            calls: vec![call],
            hosted: domain::hosted::HostedUse::default(),
            finish: Finish::Stop,
            usage: Usage::default(),
            raw: serde_json::Value::Null.into(),
        };
        transcripts.answered(&turn, number, &Ok(completion));
        let tools = &transcripts.of(&turn)[0].tools;
        assert!(tools[0].starts_with("***xxx") && tools[0].len() <= NAME_BYTES + 3, "{}", tools[0].len());
    }
}
