//! One turn's conversation with a model, as a state machine: told what happened, it says what to do next. It never waits.

use std::sync::Arc;

use super::completion::{Completion, Finish, Item, Request, Role};
use super::ending::{Ending, ModelErrorKind};
use super::reply::{Invalid, MAX_CONTENT_BYTES, Reply, Schema, salvage};
use super::turn::ReplyContract;

/// The longest piece of a bad answer that a repair call shows to the model again, in Unicode scalar values.
pub const MAX_REPAIR_CHARS: usize = 4_000;

/// How many repair calls a turn may make.
pub const MAX_REPAIRS: u32 = 1;

/// A turn's dialogue.
#[derive(Debug)]
pub struct Dialogue {
    messages: Vec<Item>,
    /// The form that the answer must have; none takes text as it comes.
    schema: Option<Arc<Schema>>,
    stage: Stage,
    /// Readable words of a bad answer, for the case that nothing better comes.
    fallback: Option<String>,
    repairs: u32,
}

/// Where a dialogue stands. Rounds of tools will be a stage of their own between these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was asked yet, or the model is answering.
    Asking,
    /// It ended.
    Over,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The turn begins, or the pending request shall be made again.
    Begin,
    /// The model answered.
    Completed(Completion),
    /// No model could answer, after all retries and fallbacks. A prompt that does not fit is shortened.
    Failed(Ending),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model and come back with [`Event::Completed`] or [`Event::Failed`].
    AskModel(Request),
    /// The turn has its reply.
    Finish(Finished),
    /// The turn gets an apology.
    GiveUp(Ending),
}

/// A reply, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The reply; never blank.
    pub reply: Reply,
    /// How many repair calls were made.
    pub repairs: u32,
}

impl Dialogue {
    /// A dialogue that opens with this transcript. The schema is used by the typed contract only.
    #[must_use]
    pub fn new(messages: Vec<Item>, contract: ReplyContract, schema: Arc<Schema>) -> Self {
        let schema = match contract {
            ReplyContract::Typed => Some(schema),
            ReplyContract::Plain => None,
        };
        Self { messages, schema, stage: Stage::Asking, fallback: None, repairs: 0 }
    }

    /// Takes in what happened and says what to do next. After [`Step::Finish`] and [`Step::GiveUp`] nothing may follow.
    pub fn next(&mut self, event: Event) -> Step {
        let step = match (self.stage, event) {
            (Stage::Over, _) => Step::GiveUp(Ending::AlreadyOver),
            (Stage::Asking, Event::Begin) => self.ask(),
            (Stage::Asking, Event::Completed(completion)) => self.completed(&completion),
            (Stage::Asking, Event::Failed(Ending::Model(ModelErrorKind::ContextOverflow))) if self.shorten() => {
                self.ask()
            }
            (Stage::Asking, Event::Failed(Ending::Model(ModelErrorKind::Filtered))) => self.fall_back(Ending::Filtered),
            (Stage::Asking, Event::Failed(why)) => self.fall_back(why),
        };
        if !matches!(step, Step::AskModel(_)) {
            self.stage = Stage::Over;
        }
        step
    }

    fn ask(&self) -> Step {
        Step::AskModel(Request {
            messages: self.messages.clone(),
            form: self.schema.as_ref().map(|schema| schema.form()),
            tools: Vec::new(),
        })
    }

    /// Leaves out the older half of what stands between our instructions and the question; false when there is nothing. What
    /// is remembered stays as it is.
    fn shorten(&mut self) -> bool {
        let question = self.messages.len().saturating_sub(1);
        let between = question.saturating_sub(1);
        if self.repairs > 0 || between == 0 {
            return false;
        }
        self.messages.drain(1..=between.div_ceil(2));
        true
    }

    fn completed(&mut self, completion: &Completion) -> Step {
        if let Some(refusal) = completion.refusal.as_deref().and_then(salvage::plain_text) {
            return self.finish(Reply::text(refusal));
        }
        let invalid = match self.read(&completion.content) {
            Ok(reply) => return self.finish(reply),
            Err(invalid) => invalid,
        };
        self.fallback = self.words_of(&completion.content).or(self.fallback.take());
        if completion.finish == Finish::Filtered {
            return self.fall_back(Ending::Filtered);
        }
        if self.repairs < MAX_REPAIRS {
            self.repairs += 1;
            self.add_repair(completion, &invalid);
            return self.ask();
        }
        self.fall_back(Ending::Unusable)
    }

    fn read(&self, content: &str) -> Result<Reply, Invalid> {
        match &self.schema {
            Some(schema) => schema.read(content),
            None if content.len() > MAX_CONTENT_BYTES => Err(Invalid::TooLong),
            None => salvage::spoken(content).map(Reply::text).ok_or(Invalid::Empty),
        }
    }

    /// What can be shown of an answer that is no reply.
    fn words_of(&self, content: &str) -> Option<String> {
        self.schema.as_ref().and_then(|_| salvage::plain_text(content))
    }

    /// Shows the model its bad answer and what is wrong with it.
    fn add_repair(&mut self, completion: &Completion, invalid: &Invalid) {
        let shown: String = completion.content.chars().take(MAX_REPAIR_CHARS).collect();
        // Its words alone: providers refuse an empty message, calls that have no results, and some of them the thoughts that they
        // sent along themselves.
        if !shown.trim().is_empty() {
            self.messages.push(Item::new(Role::Assistant, shown));
        }
        let cut = if completion.finish == Finish::Length { " It was cut off: be shorter." } else { "" };
        let form = if self.schema.is_some() {
            "Answer the last question again, with exactly one JSON object of the required form and nothing around it."
        } else {
            "Answer the last question again."
        };
        let text = format!("Your answer could not be used: {invalid}.{cut} {form}");
        self.messages.push(Item::new(Role::User, text));
    }

    /// Ends with the words of an earlier answer if there are any.
    fn fall_back(&mut self, why: Ending) -> Step {
        match self.fallback.take() {
            Some(words) => self.finish(Reply::text(words)),
            None => Step::GiveUp(why),
        }
    }

    fn finish(&self, reply: Reply) -> Step {
        Step::Finish(Finished { reply, repairs: self.repairs })
    }
}

#[cfg(test)]
mod tests;
