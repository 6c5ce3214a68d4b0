//! One turn's conversation with a model, as a state machine: it receives events and returns the next step. It never
//! blocks.
//!
//! The messages and tools of a request depend on the model row, and a fallback row may replace the first one. A step
//! therefore only requests a model call; [`Dialogue::request`] builds the request for a given row.
//!
//! There are four paths:
//!
//! - A row that accepts tools together with an answer form gets both, with the whole conversation.
//! - A row that accepts tools alone gets a further function whose arguments are the answer, with the whole
//!   conversation. Plain text instead of the call is an answer too. A row that gets its tools in the prompt answers with
//!   text: in the form that its instructions describe, or plain.
//! - A row that must use structured output, but not beside tools, first gets the tools with the question alone. If it
//!   used tools, or could not see the whole conversation, a second call without tools requests the answer.
//! - If no tools are offered, one call requests the answer.

mod asking;

pub mod by_function;

mod going_on;

mod rounds;

mod saved;

use std::sync::Arc;

pub use self::asking::{RequestFacts, ToolOffer};
pub use self::going_on::GO_ON;
pub use self::going_on::ShownPart;
use self::rounds::Round;
pub use self::rounds::USE_RESULTS;
pub use self::saved::{Resumed, Saved};
use super::completion::{ANSWER_FUNCTION, Completion, Finish, Item, Role, Sampling, ToolCall};
use super::ending::{Ending, ModelErrorKind};
use super::given::Given;
use super::hosted::HostedUse;
use super::prompt::Transcript;
use super::reply::{Invalid, MAX_CONTENT_BYTES, Reply, Schema, salvage};
use super::tool::round::Planned;
use super::tool::spoken;
use super::tool::turn_tools::{ShownResult, TurnTools};
use super::turn::ReplyContract;

/// The longest part of an invalid answer that a repair call repeats, in Unicode scalar values.
pub const MAX_REPAIR_CHARS: usize = 4_000;

/// Maximum number of repair calls per turn.
pub const MAX_REPAIRS: u32 = 1;

/// The most bytes of answers with tool calls that a turn keeps, because each further request repeats them. A window of
/// a million tokens is as long.
pub const ROUNDS_BYTES: usize = 4 * 1024 * 1024;

/// The dialogue of one turn.
#[derive(Debug)]
pub struct Dialogue {
    transcript: Transcript,
    /// The form that the answer must have. `None`: any text.
    schema: Option<Arc<Schema>>,
    /// True if the model's text is the answer, without further processing.
    verbatim: bool,
    /// The caller's requirements for the answer, and the tools that the caller runs itself.
    given: Option<Given>,
    /// Sampling parameters of the member's settings.
    sampling: Sampling,
    /// The tools that may be offered. `None`: no tools in this turn, or no more.
    tools: Option<TurnTools>,
    /// The completed rounds of tool calls, with results.
    rounds: Vec<Round>,
    /// An invalid answer, and its error.
    repair: Vec<Item>,
    stage: Stage,
    /// Readable text of an invalid answer, used if no better answer arrives.
    fallback: Option<String>,
    repairs: u32,
    /// The use of the provider's own tools so far.
    hosted: HostedUse,
}

/// The state of a dialogue.
#[derive(Debug)]
enum Stage {
    /// Before the first call, or the model is answering. Tools may be offered.
    Asking,
    /// The same, but only the final answer is requested.
    Closing,
    /// Tools are running.
    Running(Box<Round>),
    /// The dialogue ended.
    Over,
}

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The turn begins, or the pending request must be repeated.
    Begin,
    /// The model answered.
    Completed(Completion, RequestFacts),
    /// A fallback row completed an answer that was interrupted after this part.
    WentOn(Completion, ShownPart),
    /// The tools ran: the result of each call, in the order of [`Step::RunTools`].
    Ran(Vec<ShownResult>),
    /// Every model failed after all retries and fallbacks, or no tool may run. A prompt that is too long is
    /// shortened.
    Failed(Ending),
}

/// The next step of the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Call a model ([`Dialogue::request`]), then send [`Event::Completed`] or [`Event::Failed`].
    AskModel,
    /// Run the permitted calls among these, then send [`Event::Ran`] or [`Event::Failed`].
    RunTools(Vec<Planned>),
    /// The turn has a reply.
    Finish(Finished),
    /// The turn gets an apology.
    GiveUp(Ending),
}

/// A reply, with the steps that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The reply. Blank only if there are calls, or if the model left the caller's own conversation unanswered.
    pub reply: Reply,
    /// Tool calls that the caller runs itself.
    pub calls: Vec<ToolCall>,
    /// The number of repair calls.
    pub repairs: u32,
}

impl Dialogue {
    /// Creates a dialogue that begins with this transcript. Only the typed contract uses the schema.
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
            sampling: Sampling::default(),
            tools,
            rounds: Vec::new(),
            repair: Vec::new(),
            stage: Stage::Asking,
            fallback: None,
            repairs: 0,
            hosted: HostedUse::default(),
        }
    }

    /// Uses a conversation that the caller supplied.
    #[must_use]
    pub fn about(self, given: Option<Given>) -> Self {
        Self { given, ..self }
    }

    /// Uses these sampling parameters, unless a supplied conversation has its own.
    #[must_use]
    pub fn sampled(self, sampling: Sampling) -> Self {
        Self { sampling, ..self }
    }

    /// Processes an event and returns the next step. After [`Step::Finish`] or [`Step::GiveUp`], no event may follow.
    pub fn next(&mut self, event: Event) -> Step {
        if let Event::Completed(completion, _) | Event::WentOn(completion, _) = &event {
            self.hosted.add(&completion.hosted);
        }
        match (std::mem::replace(&mut self.stage, Stage::Over), event) {
            (stage @ (Stage::Asking | Stage::Closing), Event::Begin) => self.ask(stage),
            (Stage::Asking, Event::Completed(completion, asked)) => self.completed(&completion, &asked),
            (Stage::Closing, Event::Completed(completion, _)) => self.answered(&completion),
            (Stage::Asking | Stage::Closing, Event::WentOn(completion, begun)) => self.went_on(&completion, &begun),
            (Stage::Running(round), Event::Ran(told)) => self.ran(*round, told),
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

    /// True if the next text follows completed tool calls; it does not replace the text before them.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        !self.rounds.is_empty() && self.repairs == 0
    }

    fn ask(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::AskModel
    }

    /// Removes the older half of the items between the instructions and the question or, if there are none, the later
    /// half of long results. Returns false if nothing can be removed. The stored history is unchanged.
    fn shorten(&mut self) -> bool {
        // A caller shortens its own conversation.
        if self.repairs > 0 || self.given.is_some() {
            return false;
        }
        self.transcript.shorten()
            || self.rounds.iter_mut().filter_map(|round| round.shorten().then_some(())).count() > 0
    }

    /// Processes an answer of a model that may have been offered tools.
    fn completed(&mut self, completion: &Completion, asked: &RequestFacts) -> Step {
        let over = completion.refusal.is_some() || completion.finish == Finish::Filtered;
        let handed_back = if over { Vec::new() } else { self.handed_back(completion, asked) };
        if !handed_back.is_empty() {
            return self.hand_back(completion, handed_back);
        }
        if over || asked.offered == ToolOffer::Nothing || self.tools.is_none() {
            return self.answered(completion);
        }
        let read = self.read(&completion.content);
        if let ToolOffer::WithAnswer { .. } = asked.offered
            && let Some(content) = by_function::arguments(completion)
        {
            return self.answered(&Completion { content, ..completion.clone() });
        }
        let calls = self.calls(completion, asked, read.is_ok());
        let kept = self.rounds.iter().map(Round::bytes).sum::<usize>();
        if !calls.is_empty() && kept + completion.bytes() > ROUNDS_BYTES {
            return self.fall_back(Ending::Model(ModelErrorKind::TooLarge));
        }
        if !calls.is_empty()
            && let Some(tools) = &mut self.tools
        {
            let planned = tools.plan(calls);
            let calls = planned.iter().map(|planned| planned.call().clone()).collect();
            self.stage = Stage::Running(Box::new(Round::new(completion, calls, asked)));
            return Step::RunTools(planned);
        }
        match (&asked.offered, read) {
            (ToolOffer::WithAnswer { .. }, Err(invalid)) => match by_function::prose(completion, &invalid) {
                Some(prose) => self.finish(Reply::text(prose)),
                None => self.answered(completion),
            },
            (ToolOffer::Nothing | ToolOffer::WithAnswer { .. } | ToolOffer::Beside { .. }, _) => {
                self.answered(completion)
            }
            (ToolOffer::Before { missed: false, .. }, Ok(reply)) if self.rounds.is_empty() && !self.verbatim => {
                self.finish(reply)
            }
            // The text is not an answer in the required form, or the model could not see the whole conversation.
            (ToolOffer::Before { .. }, read) => {
                let words = read.ok().map(|reply| reply.response).or_else(|| self.words_of(&completion.content));
                self.fallback = words.or(self.fallback.take());
                self.ask(Stage::Closing)
            }
        }
    }

    /// Returns the tool calls of an answer, native or written in its text. Text that is a valid reply contains no
    /// calls.
    fn calls(&self, completion: &Completion, asked: &RequestFacts, is_reply: bool) -> Vec<ToolCall> {
        let Some(tools) = self.tools.as_ref().filter(|tools| tools.is_open()) else { return Vec::new() };
        if completion.calls.iter().any(|call| call.name != ANSWER_FUNCTION) && asked.offered.is_native() {
            return completion.calls.clone();
        }
        if is_reply && self.schema.is_some() {
            return Vec::new();
        }
        let written = spoken::calls(&completion.content, |name| tools.knows(name));
        // A model that was told to write calls gets their errors. Other models' text may only resemble a call.
        let meant = !asked.offered.is_native() || written.iter().all(|call| tools.fits(call));
        if meant { written } else { Vec::new() }
    }

    /// Returns the calls that the caller runs itself. The bot adds no tools of its own to the caller's.
    fn handed_back(&self, completion: &Completion, asked: &RequestFacts) -> Vec<ToolCall> {
        let Some(given) = self.given.as_ref().filter(|given| !given.tools.is_empty()) else { return Vec::new() };
        match asked.offered {
            ToolOffer::Nothing => Vec::new(),
            offered if offered.is_native() => completion.calls.clone(),
            _ => spoken::calls(&completion.content, |name| given.runs(name)),
        }
    }

    fn hand_back(&self, completion: &Completion, calls: Vec<ToolCall>) -> Step {
        // Text that was parsed as calls is not repeated as text.
        let said = if completion.calls.is_empty() { "" } else { completion.content.as_str() };
        let reply = Reply::text(salvage::without_leading_thoughts(said).trim_end());
        Step::Finish(Finished { reply, calls, repairs: self.repairs })
    }

    fn ran(&mut self, mut round: Round, told: Vec<ShownResult>) -> Step {
        if let Some(tools) = &mut self.tools {
            round.results = round.calls.iter().zip(told).map(|(call, told)| tools.result(call, told)).collect();
        }
        self.rounds.push(round);
        self.ask(Stage::Asking)
    }

    /// Processes an answer that should become the reply.
    fn answered(&mut self, completion: &Completion) -> Step {
        if let Some(refusal) = completion.refusal.as_deref().and_then(salvage::plain_text) {
            return self.finish(Reply::text(refusal));
        }
        let invalid = match self.read(&completion.content) {
            Ok(reply) => return self.finish(reply),
            Err(invalid) => invalid,
        };
        if self.verbatim && self.given.is_some() {
            // The bot adds no text of its own to the caller's conversation; the caller judges an empty answer.
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

    /// Returns the readable text of an answer that is not a valid reply.
    fn words_of(&self, content: &str) -> Option<String> {
        self.schema.as_ref().and_then(|_| salvage::plain_text(content))
    }

    /// Adds the invalid answer and its error to the next request.
    fn add_repair(&mut self, completion: &Completion, invalid: &Invalid) {
        let shown: String = completion.content.chars().take(MAX_REPAIR_CHARS).collect();
        // Only the text: providers refuse empty messages and calls without results, and some refuse the reasoning
        // that they sent themselves.
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

    /// Ends with the text of an earlier answer, if there is one.
    fn fall_back(&mut self, why: Ending) -> Step {
        match self.fallback.take() {
            Some(words) => self.finish(Reply::text(words)),
            None => Step::GiveUp(why),
        }
    }

    fn finish(&self, mut reply: Reply) -> Step {
        // The text of a program's own conversation stays as the model wrote it.
        if let Some(footer) = self.hosted.footer().filter(|_| self.given.is_none()) {
            let text = format!("{}\n\n{footer}", reply.response);
            reply.response = String::from(text.trim_start());
        }
        Step::Finish(Finished { reply, calls: Vec::new(), repairs: self.repairs })
    }
}

#[cfg(test)]
mod tests;
