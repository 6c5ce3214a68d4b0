//! The request for the row that is asked.

use std::sync::Arc;

use super::{Dialogue, Stage};
use crate::domain::completion::{Item, Request};
use crate::domain::model::{Row, ToolMode};
use crate::domain::prompt::TOOL_MANNERS;
use crate::domain::tool::spoken;
use crate::domain::turn::ReplyContract;

/// What was asked, as far as it matters for the reading of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The row.
    pub row: String,
    /// How tools were offered.
    pub offered: Offered,
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
    /// The request for this row. `takes_tools`: its provider does not refuse them at present.
    #[must_use]
    pub fn request(&self, row: &Row, takes_tools: bool) -> (Request, Asked) {
        let native = row.tools == ToolMode::Native && takes_tools;
        let form = match &self.given {
            Some(given) => given.form.clone().map(Arc::new),
            None => self.schema.as_ref().map(|schema| schema.form()),
        };
        let brought = self.given.as_ref().filter(|given| !given.tools.is_empty());
        // What its asker put together stays together.
        let together = form.is_none() || row.schema_with_tools || brought.is_some();
        let tools = self
            .tools
            .as_ref()
            .filter(|tools| tools.is_open() && row.max_tools > 0 && matches!(self.stage, Stage::Asking))
            .filter(|tools| together || tools.worth_a_call());
        let specs = match row.tools {
            ToolMode::Off => Vec::new(),
            ToolMode::Native if !takes_tools => Vec::new(),
            ToolMode::Native | ToolMode::Prompt => match brought {
                Some(given) if matches!(self.stage, Stage::Asking) => given.tools.clone(),
                Some(_) => Vec::new(),
                None => tools.map(|tools| tools.specs(row.max_tools)).unwrap_or_default(),
            },
        };
        let (offered, mut messages) = if specs.is_empty() {
            (Offered::Nothing, self.transcript.items.clone())
        } else if together {
            (Offered::Beside { native }, self.transcript.items.clone())
        } else {
            let (brief, missed) = self.transcript.brief(row.tool_history);
            (Offered::Before { native, missed: missed || !self.rounds.is_empty() }, brief)
        };
        if (offered != Offered::Nothing && brought.is_none()) || !self.rounds.is_empty() {
            add_to_first(&mut messages, TOOL_MANNERS);
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
        (Request { messages, form, tools, choice, sampling }, Asked { row: row.key.clone(), offered })
    }
}

/// Adds to our instructions.
fn add_to_first(messages: &mut [Item], text: &str) {
    if let Some(first) = messages.first_mut() {
        first.content = format!("{}\n\n{text}", first.content);
    }
}
