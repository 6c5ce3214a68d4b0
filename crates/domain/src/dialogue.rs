//! One turn's conversation with a model, as a state machine: told what happened, it says what to do next. It never waits.
//!
//! Which messages and tools a model is sent depends on the row that is asked, and a fallback may be asked in the place of another
//! row. So a step says no more than that a model is to be asked; [`Dialogue::request`] writes the request for a row.
//!
//! There are three paths. A row that can take tools and the form of the answer together gets both, with the whole conversation. Any
//! other row is first offered tools with the bare question; when it used some, or left them alone and may have missed something, one
//! more call without tools asks for the answer. Where no tools may be offered that call is the only one.

mod asking;

mod going_on;

mod rounds;

mod saved;

use std::sync::Arc;

pub use self::asking::{Asked, Offered};
pub use self::going_on::Begun;
pub use self::going_on::GO_ON;
use self::rounds::Round;
pub use self::saved::{Resumed, Saved};
use super::completion::{Completion, Finish, Item, Role, ToolCall};
use super::ending::{Ending, ModelErrorKind};
use super::given::Given;
use super::prompt::Transcript;
use super::reply::{Invalid, MAX_CONTENT_BYTES, Reply, Schema, salvage};
use super::tool::round::Planned;
use super::tool::spoken;
use super::tool::turn_tools::{Told, TurnTools};
use super::turn::ReplyContract;

/// The longest piece of a bad answer that a repair call shows to the model again, in Unicode scalar values.
pub const MAX_REPAIR_CHARS: usize = 4_000;

/// How many repair calls a turn may make.
pub const MAX_REPAIRS: u32 = 1;

/// A turn's dialogue.
#[derive(Debug)]
pub struct Dialogue {
    transcript: Transcript,
    /// The form that the answer must have; none takes text as it comes.
    schema: Option<Arc<Schema>>,
    /// What the model wrote is the answer, and no more is done about it.
    verbatim: bool,
    /// What the asker wants of the answer, and the tools that it runs itself.
    given: Option<Given>,
    /// The tools that may be offered; none when there are none for this turn, or no more.
    tools: Option<TurnTools>,
    /// What was called so far, and what came of it.
    rounds: Vec<Round>,
    /// A bad answer, and what is wrong with it.
    repair: Vec<Item>,
    stage: Stage,
    /// Readable words of a bad answer, for the case that nothing better comes.
    fallback: Option<String>,
    repairs: u32,
}

/// Where a dialogue stands.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of a turn")]
enum Stage {
    /// Nothing was asked yet, or the model is answering. Tools may be offered.
    Asking,
    /// The same, and nothing but the answer is wanted any more.
    Closing,
    /// Tools run.
    Running(Round),
    /// It ended.
    Over,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The turn begins, or the pending request shall be made again.
    Begin,
    /// The model answered.
    Completed(Completion, Asked),
    /// A fallback row wrote the rest of an answer that broke off behind this.
    WentOn(Completion, Begun),
    /// The tools ran: what came of each call, in the order of [`Step::RunTools`].
    Ran(Vec<Told>),
    /// No model could answer, after all retries and fallbacks, or no tool may run. A prompt that does not fit is shortened.
    Failed(Ending),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask a model ([`Dialogue::request`]) and come back with [`Event::Completed`] or [`Event::Failed`].
    AskModel,
    /// Run what may run of these calls and come back with [`Event::Ran`] or [`Event::Failed`].
    RunTools(Vec<Planned>),
    /// The turn has its reply.
    Finish(Finished),
    /// The turn gets an apology.
    GiveUp(Ending),
}

/// A reply, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The reply; never blank unless there are calls, or the model left its asker's own conversation unanswered.
    pub reply: Reply,
    /// Calls of tools that the asker runs itself.
    pub calls: Vec<ToolCall>,
    /// How many repair calls were made.
    pub repairs: u32,
}

impl Dialogue {
    /// A dialogue that opens with this transcript. The schema is used by the typed contract only.
    #[must_use]
    pub fn new(transcript: Transcript, contract: ReplyContract, schema: Arc<Schema>, tools: Option<TurnTools>) -> Self {
        let schema = match contract {
            ReplyContract::Typed => Some(schema),
            ReplyContract::Plain | ReplyContract::Verbatim => None,
        };
        Self {
            transcript,
            schema,
            verbatim: contract == ReplyContract::Verbatim,
            given: None,
            tools,
            rounds: Vec::new(),
            repair: Vec::new(),
            stage: Stage::Asking,
            fallback: None,
            repairs: 0,
        }
    }

    /// The same about a conversation that its asker gave.
    #[must_use]
    pub fn about(self, given: Option<Given>) -> Self {
        Self { given, ..self }
    }

    /// Takes in what happened and says what to do next. After [`Step::Finish`] and [`Step::GiveUp`] nothing may follow.
    pub fn next(&mut self, event: Event) -> Step {
        match (std::mem::replace(&mut self.stage, Stage::Over), event) {
            (stage @ (Stage::Asking | Stage::Closing), Event::Begin) => self.ask(stage),
            (Stage::Asking, Event::Completed(completion, asked)) => self.completed(&completion, &asked),
            (Stage::Closing, Event::Completed(completion, _)) => self.answered(&completion),
            (Stage::Asking | Stage::Closing, Event::WentOn(completion, begun)) => self.went_on(&completion, &begun),
            (Stage::Running(round), Event::Ran(told)) => self.ran(round, told),
            (
                stage @ (Stage::Asking | Stage::Closing),
                Event::Failed(Ending::Model(ModelErrorKind::ContextOverflow)),
            ) if self.shorten() => self.ask(stage),
            (Stage::Asking | Stage::Closing, Event::Failed(Ending::Model(ModelErrorKind::Filtered))) => {
                self.fall_back(Ending::Filtered)
            }
            (Stage::Asking | Stage::Closing | Stage::Running(_), Event::Failed(why)) => self.fall_back(why),
            (Stage::Over | Stage::Running(_), _) | (Stage::Asking | Stage::Closing, Event::Ran(_)) => {
                Step::GiveUp(Ending::AlreadyOver)
            }
        }
    }

    /// What is written next stands behind calls that ran: it is no better version of what was written before them.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        !self.rounds.is_empty() && self.repairs == 0
    }

    fn ask(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::AskModel
    }

    /// Leaves out the older half of what stands between our instructions and the question, and when there is nothing of that
    /// any more, the later half of long results; false when there is nothing at all. What is remembered stays as it is.
    fn shorten(&mut self) -> bool {
        // What its asker gave is theirs to shorten.
        if self.repairs > 0 || self.given.is_some() {
            return false;
        }
        self.transcript.shorten()
            || self.rounds.iter_mut().filter_map(|round| round.shorten().then_some(())).count() > 0
    }

    /// Takes in an answer of a model that may have been offered tools.
    fn completed(&mut self, completion: &Completion, asked: &Asked) -> Step {
        let over = completion.refusal.is_some() || completion.finish == Finish::Filtered;
        let handed_back = if over { Vec::new() } else { self.handed_back(completion, asked) };
        if !handed_back.is_empty() {
            return self.hand_back(completion, handed_back);
        }
        if over || asked.offered == Offered::Nothing || self.tools.is_none() {
            return self.answered(completion);
        }
        let read = self.read(&completion.content);
        let calls = self.calls(completion, asked, read.is_ok());
        if !calls.is_empty()
            && let Some(tools) = &mut self.tools
        {
            let planned = tools.plan(calls);
            let calls = planned.iter().map(|planned| planned.call().clone()).collect();
            self.stage = Stage::Running(Round::new(completion, calls, asked));
            return Step::RunTools(planned);
        }
        match (&asked.offered, read) {
            (Offered::Nothing | Offered::Beside { .. }, _) => self.answered(completion),
            (Offered::Before { missed: false, .. }, Ok(reply)) if self.rounds.is_empty() && !self.verbatim => {
                self.finish(reply)
            }
            // Whatever it said is no answer in the form that is wanted, or it did not know all that was said.
            (Offered::Before { .. }, read) => {
                let words = read.ok().map(|reply| reply.response).or_else(|| self.words_of(&completion.content));
                self.fallback = words.or(self.fallback.take());
                self.ask(Stage::Closing)
            }
        }
    }

    /// The calls in an answer: those of the wire, or those that the model wrote into its text. A text that is a reply is no call.
    fn calls(&self, completion: &Completion, asked: &Asked, is_reply: bool) -> Vec<ToolCall> {
        let Some(tools) = self.tools.as_ref().filter(|tools| tools.is_open()) else { return Vec::new() };
        if !completion.calls.is_empty() && asked.offered.is_native() {
            return completion.calls.clone();
        }
        if is_reply && self.schema.is_some() {
            return Vec::new();
        }
        let written = spoken::calls(&completion.content, |name| tools.knows(name));
        // Whoever was told to write calls hears what is wrong with them; of others it is not sure that they are any.
        let meant = !asked.offered.is_native() || written.iter().all(|call| tools.fits(call));
        if meant { written } else { Vec::new() }
    }

    /// The calls in an answer that the asker runs itself, to whose tools no others are added.
    fn handed_back(&self, completion: &Completion, asked: &Asked) -> Vec<ToolCall> {
        let Some(given) = self.given.as_ref().filter(|given| !given.tools.is_empty()) else { return Vec::new() };
        match asked.offered {
            Offered::Nothing => Vec::new(),
            offered if offered.is_native() => completion.calls.clone(),
            _ => spoken::calls(&completion.content, |name| given.runs(name)),
        }
    }

    fn hand_back(&self, completion: &Completion, calls: Vec<ToolCall>) -> Step {
        // Calls that were written into the text are no text.
        let said = if completion.calls.is_empty() { "" } else { completion.content.as_str() };
        let reply = Reply::text(salvage::without_leading_thoughts(said).trim_end());
        Step::Finish(Finished { reply, calls, repairs: self.repairs })
    }

    /// The calls of a round ended.
    fn ran(&mut self, mut round: Round, told: Vec<Told>) -> Step {
        if let Some(tools) = &mut self.tools {
            round.results = round.calls.iter().zip(told).map(|(call, told)| tools.result(call, told)).collect();
        }
        self.rounds.push(round);
        self.ask(Stage::Asking)
    }

    /// Takes in an answer that is to be the reply.
    fn answered(&mut self, completion: &Completion) -> Step {
        if let Some(refusal) = completion.refusal.as_deref().and_then(salvage::plain_text) {
            return self.finish(Reply::text(refusal));
        }
        let invalid = match self.read(&completion.content) {
            Ok(reply) => return self.finish(reply),
            Err(invalid) => invalid,
        };
        if self.verbatim && self.given.is_some() {
            // No words of ours belong in the asker's own conversation: an empty answer is theirs to judge.
            let words = self.fallback.take().unwrap_or_default();
            return self.finish(Reply::text(words));
        }
        self.fallback = self.words_of(&completion.content).or(self.fallback.take());
        if completion.finish == Finish::Filtered {
            return self.fall_back(Ending::Filtered);
        }
        if self.repairs < MAX_REPAIRS {
            self.repairs += 1;
            self.add_repair(completion, &invalid);
            return self.ask(Stage::Closing);
        }
        self.fall_back(Ending::Unusable)
    }

    fn read(&self, content: &str) -> Result<Reply, Invalid> {
        match &self.schema {
            Some(schema) => schema.read(content),
            None if self.verbatim => {
                let words = salvage::without_leading_thoughts(content).trim_end();
                if words.is_empty() { Err(Invalid::Empty) } else { Ok(Reply::text(words)) }
            }
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
            self.repair.push(Item::new(Role::Assistant, shown));
        }
        let cut = if completion.finish == Finish::Length { " It was cut off: be shorter." } else { "" };
        let form = if self.schema.is_some() {
            "Answer the last question again, with exactly one JSON object of the required form and nothing around it."
        } else {
            "Answer the last question again."
        };
        let text = format!("Your answer could not be used: {invalid}.{cut} {form}");
        self.repair.push(Item::new(Role::User, text));
    }

    /// Ends with the words of an earlier answer if there are any.
    fn fall_back(&mut self, why: Ending) -> Step {
        match self.fallback.take() {
            Some(words) => self.finish(Reply::text(words)),
            None => Step::GiveUp(why),
        }
    }

    fn finish(&self, reply: Reply) -> Step {
        Step::Finish(Finished { reply, calls: Vec::new(), repairs: self.repairs })
    }
}

#[cfg(test)]
mod tests;
