//! Builds the request for a model row.

use std::sync::Arc;

use super::{Dialogue, Stage, by_function};
use crate::completion::{AnswerForm, Item, Request, Role, ToolChoice, ToolSpec};
use crate::fact::prompt::RECALL_TOOL;
use crate::given::Given;
use crate::hosted::HostedTool;
use crate::model::{Row, ToolMode};
use crate::prompt::TOOL_MANNERS;
use crate::tool::choice::LaneTools;
use crate::tool::spoken;
use crate::tool::turn_tools::TurnTools;
use crate::turn::ReplyContract;

/// The value of [`RequestFacts::tool_bytes`] that means the whole request.
pub const WHOLE: usize = usize::MAX;

/// The facts about a request that are needed to interpret its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFacts {
    /// The key of the row.
    pub row: String,
    /// The way in which tools were offered.
    pub offered: ToolOffer,
    /// The bytes that the bot's tools added to the request: definitions and instructions. [`WHOLE`] after a round of
    /// calls, because such a request repeats the first one only for the tools.
    pub tool_bytes: usize,
    /// The choice of tools to repeat in the next prompts of the lane; `None` if there was none to make.
    pub lane_tools: Option<Box<LaneTools>>,
}

/// The way in which tools were offered to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOffer {
    /// No tools: the response is the answer.
    Nothing,
    /// Together with the answer form: a response without a call is the answer.
    Beside {
        /// True if in the request's native list of tools.
        native: bool,
    },
    /// Together with a request for the answer, which needs no structured output: the call of a function in the request's
    /// native list of tools, or text. A response without the call of a tool is the answer.
    WithAnswer {
        /// True if in the request's native list of tools.
        native: bool,
    },
    /// Before the answer is requested.
    Before {
        /// True if in the request's native list of tools.
        native: bool,
        /// True if part of the conversation was omitted.
        missed: bool,
    },
}

impl ToolOffer {
    pub(super) const fn is_native(self) -> bool {
        match self {
            Self::Nothing => false,
            Self::WithAnswer { native } | Self::Beside { native } | Self::Before { native, .. } => native,
        }
    }
}

impl RequestFacts {
    /// True if the response may be the answer, so that it may be streamed. Text streamed unprocessed must not contain
    /// calls either.
    #[must_use]
    pub const fn may_answer(&self, contract: ReplyContract) -> bool {
        let sorted = !matches!(contract, ReplyContract::Verbatim);
        match self.offered {
            ToolOffer::Nothing | ToolOffer::WithAnswer { native: true } | ToolOffer::Beside { native: true } => true,
            ToolOffer::WithAnswer { native: false } | ToolOffer::Beside { native: false } => sorted,
            ToolOffer::Before { missed, .. } => !missed && sorted,
        }
    }
}

impl Dialogue {
    /// True if a request for this row offers the tool that searches the member's facts.
    #[must_use]
    pub fn offers_recall(&self, row: &Row, takes_tools: bool) -> bool {
        let specs = self.specs(row, takes_tools);
        specs.iter().any(|spec| spec.name == RECALL_TOOL)
    }

    /// Returns the form of the answer. `None`: plain text.
    fn form(&self) -> Option<Arc<AnswerForm>> {
        match &self.given {
            Some(given) => given.form.clone().map(Arc::new),
            None => self.schema.as_ref().map(|schema| schema.form()),
        }
    }

    /// Returns the caller's conversation if it brings its own tools.
    fn brought(&self) -> Option<&Given> {
        self.given.as_ref().filter(|given| !given.tools.is_empty())
    }

    /// True if one call offers tools and requests the answer. A caller's own tools and form stay together.
    fn takes_both(&self, row: &Row) -> bool {
        row.schema_with_tools || self.brought().is_some() || self.form().is_none()
    }

    /// True if one call offers tools and asks for the typed answer without structured output. The form that a caller
    /// requires is requested as it came.
    fn answers_by_function(&self, row: &Row, takes_tools: bool) -> bool {
        let takes_tools = takes_tools || row.tools == ToolMode::Prompt;
        self.schema.is_some() && self.given.is_none() && row.replies_by_function() && takes_tools
    }

    /// Returns the tools that a request for this row offers.
    fn specs(&self, row: &Row, takes_tools: bool) -> Vec<Arc<ToolSpec>> {
        let off = row.tools == ToolMode::Off || (row.tools == ToolMode::Native && !takes_tools);
        if off || !matches!(self.stage, Stage::Asking) {
            return Vec::new();
        }
        if let Some(given) = self.brought() {
            return given.tools.clone();
        }
        self.own_tools(row, takes_tools).map(|(tools, most)| tools.specs(most)).unwrap_or_default()
    }

    /// Returns the bot's tools, and the number of them that a request for this row may offer.
    fn own_tools(&self, row: &Row, takes_tools: bool) -> Option<(&TurnTools, usize)> {
        let by_function = self.answers_by_function(row, takes_tools);
        // The function for the answer is one of the tools of the request.
        let most = row.max_tools.saturating_sub(usize::from(by_function && row.tools == ToolMode::Native));
        let together = by_function || self.takes_both(row);
        let tools = self.tools.as_ref().filter(|tools| tools.is_open() && most > 0);
        tools.filter(|tools| together || tools.worth_a_call()).map(|tools| (tools, most))
    }

    /// Returns the tools that the row's provider may run itself. A program's own conversation gets none.
    fn hosted(&self, row: &Row, offered: bool, specs: &[Arc<ToolSpec>]) -> Vec<HostedTool> {
        let tools = self.tools.as_ref().filter(|_| offered && self.given.is_none());
        tools.map(|tools| tools.hosted(specs, row.native_web_search, row.native_mcp)).unwrap_or_default()
    }

    /// Returns the bytes of a request caused by tools whose definitions take `defined` bytes.
    pub(super) fn tool_bytes(&self, defined: usize) -> usize {
        if self.rounds.is_empty() { defined } else { WHOLE }
    }

    /// Builds the request for this row, with notes on the member before the question. `takes_tools`: the provider
    /// currently accepts tools.
    #[must_use]
    pub fn request(&self, row: &Row, takes_tools: bool, notes: Option<&str>) -> (Request, RequestFacts) {
        let native = row.tools == ToolMode::Native && takes_tools;
        let (form, brought) = (self.form(), self.brought());
        let (together, by_function) = (self.takes_both(row), self.answers_by_function(row, takes_tools));
        let specs = self.specs(row, takes_tools);
        let answer = self.schema.as_ref().filter(|_| by_function && native && !specs.is_empty());
        let answer = answer.map(|schema| schema.function());
        let (offered, mut messages) = if specs.is_empty() {
            (ToolOffer::Nothing, self.transcript.items.clone())
        } else if by_function {
            (ToolOffer::WithAnswer { native }, self.transcript.items.clone())
        } else if together {
            (ToolOffer::Beside { native }, self.transcript.items.clone())
        } else {
            let (brief, missed) = self.transcript.brief(row.tool_history);
            (ToolOffer::Before { native, missed: missed || !self.rounds.is_empty() }, brief)
        };
        if let Some(notes) = notes {
            // Providers cache equal prefixes, so variable parts come as late as possible.
            messages.insert(messages.len().saturating_sub(1), Item::new(Role::User, notes));
        }
        let mut defined = 0;
        if brought.is_none() {
            defined += specs.iter().map(|spec| spec.bytes()).sum::<usize>();
        }
        if (offered != ToolOffer::Nothing && brought.is_none()) || !self.rounds.is_empty() {
            add_to_first(&mut messages, TOOL_MANNERS);
            defined += TOOL_MANNERS.len();
        }
        if answer.is_some() {
            add_to_first(&mut messages, by_function::INSTRUCTION);
            defined += by_function::INSTRUCTION.len();
        }
        for round in &self.rounds {
            round.tell(row, native, &mut messages);
        }
        messages.extend(self.repair.iter().cloned());
        let (form, tools) = match offered {
            ToolOffer::Nothing => (form, Vec::new()),
            ToolOffer::Beside { native: true } => (form, specs),
            ToolOffer::WithAnswer { native: true } | ToolOffer::Before { native: true, .. } => (None, specs),
            // The answer form would forbid a call written as text, so the form is described in words only.
            ToolOffer::WithAnswer { .. } | ToolOffer::Beside { .. } | ToolOffer::Before { .. } => {
                add_to_first(&mut messages, &spoken::instructions(&specs));
                (None, Vec::new())
            }
        };
        let (choice, sampling) = match &self.given {
            Some(given) => (given.choice.clone(), given.sampling.clone()),
            None => (ToolChoice::default(), self.sampling.clone()),
        };
        let tool_bytes = self.tool_bytes(defined);
        let hosted = self.hosted(row, native && offered != ToolOffer::Nothing, &tools);
        let answer_function = answer.is_some();
        // First, because tools are added behind the others.
        let tools = answer.into_iter().chain(tools).collect();
        let own = self.own_tools(row, takes_tools).filter(|_| offered != ToolOffer::Nothing && brought.is_none());
        let lane_tools = own.and_then(|(tools, most)| tools.lane_tools(most)).map(Box::new);
        (
            Request { messages, form, tools, hosted, answer_function, choice, sampling },
            RequestFacts { row: row.key.clone(), offered, tool_bytes, lane_tools },
        )
    }
}

/// Appends to the program's instructions.
fn add_to_first(messages: &mut [Item], text: &str) {
    if let Some(first) = messages.first_mut() {
        first.content = format!("{}\n\n{text}", first.content);
    }
}
