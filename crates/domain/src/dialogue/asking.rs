//! The request for the row that is asked.

use std::sync::Arc;

use super::{Dialogue, Stage};
use crate::completion::{AnswerForm, Item, Request, Role, ToolSpec};
use crate::fact::prompt::RECALL_TOOL;
use crate::given::Given;
use crate::model::{Row, ToolMode};
use crate::prompt::TOOL_MANNERS;
use crate::tool::spoken;
use crate::turn::ReplyContract;

/// All bytes of a request.
pub const WHOLE: usize = usize::MAX;

/// What was asked, as far as it matters for the reading of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The row.
    pub row: String,
    /// How tools were offered.
    pub offered: Offered,
    /// The bytes that tools of the bot added to the request: their definitions and how to use them. [`WHOLE`] after a round of
    /// calls: such a request repeats what the first one had, because of tools alone.
    pub tool_bytes: usize,
}

/// How tools were offered to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// Not at all: what comes is the answer.
    Nothing,
    /// With everything that the answer needs: what comes without a call is the answer.
    Beside {
        /// In the request's own list of tools.
        native: bool,
    },
    /// Before the answer is asked for.
    Before {
        /// In the request's own list of tools.
        native: bool,
        /// Some of the conversation was left out.
        missed: bool,
    },
}

impl Offered {
    pub(super) const fn is_native(self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Beside { native } | Self::Before { native, .. } => native,
        }
    }
}

impl Asked {
    /// What is written may be the answer, so people may read along. Text that is shown as it comes must not hold calls either.
    #[must_use]
    pub const fn may_answer(&self, contract: ReplyContract) -> bool {
        let sorted = !matches!(contract, ReplyContract::Verbatim);
        match self.offered {
            Offered::Nothing | Offered::Beside { native: true } => true,
            Offered::Beside { native: false } => sorted,
            Offered::Before { missed, .. } => !missed && sorted,
        }
    }
}

impl Dialogue {
    /// True if a request for this row offers the tool that finds facts of the member.
    #[must_use]
    pub fn offers_recall(&self, row: &Row, takes_tools: bool) -> bool {
        let specs = self.specs(row, takes_tools, self.takes_both(row));
        specs.iter().any(|spec| spec.name == RECALL_TOOL)
    }

    /// The form of the answer; none for plain text.
    fn form(&self) -> Option<Arc<AnswerForm>> {
        match &self.given {
            Some(given) => given.form.clone().map(Arc::new),
            None => self.schema.as_ref().map(|schema| schema.form()),
        }
    }

    /// The tools that the asker brought and runs itself.
    fn brought(&self) -> Option<&Given> {
        self.given.as_ref().filter(|given| !given.tools.is_empty())
    }

    /// True if one call offers tools and asks for the answer. What its asker put together stays together.
    fn takes_both(&self, row: &Row) -> bool {
        row.schema_with_tools || self.brought().is_some() || self.form().is_none()
    }

    /// The tools that a request for this row offers.
    fn specs(&self, row: &Row, takes_tools: bool, together: bool) -> Vec<Arc<ToolSpec>> {
        let off = row.tools == ToolMode::Off || (row.tools == ToolMode::Native && !takes_tools);
        if off || !matches!(self.stage, Stage::Asking) {
            return Vec::new();
        }
        if let Some(given) = self.brought() {
            return given.tools.clone();
        }
        let tools = self.tools.as_ref().filter(|tools| tools.is_open() && row.max_tools > 0);
        let tools = tools.filter(|tools| together || tools.worth_a_call());
        tools.map(|tools| tools.specs(row.max_tools)).unwrap_or_default()
    }

    /// The bytes of a request that are due to tools, where their definitions take `defined`.
    pub(super) fn tool_bytes(&self, defined: usize) -> usize {
        if self.rounds.is_empty() { defined } else { WHOLE }
    }

    /// The request for this row, with the member's facts before the question. `takes_tools`: its provider does not refuse them at
    /// present.
    #[must_use]
    pub fn request(&self, row: &Row, takes_tools: bool, facts: Option<&str>) -> (Request, Asked) {
        let native = row.tools == ToolMode::Native && takes_tools;
        let (form, brought, together) = (self.form(), self.brought(), self.takes_both(row));
        let specs = self.specs(row, takes_tools, together);
        let (offered, mut messages) = if specs.is_empty() {
            (Offered::Nothing, self.transcript.items.clone())
        } else if together {
            (Offered::Beside { native }, self.transcript.items.clone())
        } else {
            let (brief, missed) = self.transcript.brief(row.tool_history);
            (Offered::Before { native, missed: missed || !self.rounds.is_empty() }, brief)
        };
        if let Some(facts) = facts {
            // Providers cache what begins alike, so what may change stands as late as it can.
            messages.insert(messages.len().saturating_sub(1), Item::new(Role::User, facts));
        }
        let mut defined = 0;
        if brought.is_none() {
            defined += specs.iter().map(|spec| spec.bytes()).sum::<usize>();
        }
        if (offered != Offered::Nothing && brought.is_none()) || !self.rounds.is_empty() {
            add_to_first(&mut messages, TOOL_MANNERS);
            defined += TOOL_MANNERS.len();
        }
        for round in &self.rounds {
            round.tell(row, native, &mut messages);
        }
        messages.extend(self.repair.iter().cloned());
        let (form, tools) = match offered {
            Offered::Nothing => (form, Vec::new()),
            Offered::Beside { native: true } => (form, specs),
            Offered::Before { native: true, .. } => (None, specs),
            // The form would forbid a call that is written as text; it is told in words as well.
            Offered::Beside { native: false } | Offered::Before { native: false, .. } => {
                add_to_first(&mut messages, &spoken::instructions(&specs));
                (None, Vec::new())
            }
        };
        let (choice, sampling) =
            self.given.as_ref().map(|given| (given.choice.clone(), given.sampling.clone())).unwrap_or_default();
        let tool_bytes = self.tool_bytes(defined);
        (Request { messages, form, tools, choice, sampling }, Asked { row: row.key.clone(), offered, tool_bytes })
    }
}

/// Adds to our instructions.
fn add_to_first(messages: &mut [Item], text: &str) {
    if let Some(first) = messages.first_mut() {
        first.content = format!("{}\n\n{text}", first.content);
    }
}
