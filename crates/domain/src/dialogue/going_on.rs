//! Continues an answer that was interrupted after part of it was shown: a fallback row writes only the rest.

use super::{Dialogue, RequestFacts, Step, ToolOffer};
use crate::completion::{Completion, Finish, Item, Request, Role};
use crate::ending::Ending;
use crate::model::{Row, ToolMode};
use crate::reply::Reply;

/// The instruction to the fallback row, after the part that was shown. The demo model recognizes this text.
pub const GO_ON: &str = "Your answer broke off there, and the member has read that part. Write only what follows it, starting with the \
                         next word. Do not repeat any of it and do not mention the interruption. In the required form, the response \
                         holds only what follows.";

/// Maximum number of bytes compared at the seam, in case the row repeats the end of the shown part.
const OVERLAP_BYTES: usize = 200;
/// The shortest repetition in bytes; shorter ones may be coincidence.
const OVERLAP_LEAST: usize = 12;

/// The part of an answer that was shown, up to its last complete word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPart(String);

impl ShownPart {
    /// Returns the part that can be continued. `None` if it contains no complete word.
    #[must_use]
    pub fn of(shown: &str) -> Option<Self> {
        let (at, blank) = shown.char_indices().rfind(|(_, letter)| letter.is_whitespace())?;
        let text = &shown[..at + blank.len_utf8()];
        (!text.trim().is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the whole answer. Text that the rest repeats from the shown part is removed.
    #[must_use]
    pub fn with(&self, rest: &str) -> String {
        let rest = rest.trim_start_matches('…').trim_start_matches("...").trim_start();
        let shown = self.0.trim_end();
        let repeated = if rest.starts_with(shown) { shown.len() } else { overlap(shown, rest) };
        let rest = if repeated == 0 { rest } else { rest[repeated..].trim_start() };
        if rest.is_empty() { shown.to_owned() } else { format!("{}{rest}", self.0) }
    }

    /// Does the same for a rest that is still streaming. `None` while it is too short to detect a repetition.
    #[must_use]
    pub fn growing(&self, rest: &str) -> Option<String> {
        (rest.len() > OVERLAP_BYTES.max(OVERLAP_LEAST) && !self.0.starts_with(rest)).then(|| self.with(rest))
    }
}

/// Returns the length in bytes of the longest prefix of the rest that is also a suffix of the shown part.
fn overlap(shown: &str, rest: &str) -> usize {
    let most = OVERLAP_BYTES.min(shown.len()).min(rest.len());
    let fits = |bytes: &usize| rest.is_char_boundary(*bytes) && shown.ends_with(&rest[..*bytes]);
    (OVERLAP_LEAST..=most).rev().find(fits).unwrap_or(0)
}

impl Dialogue {
    /// True if an interrupted answer can be continued. The caller handles its own conversation, and a repair replaces
    /// the shown part at once.
    #[must_use]
    pub const fn may_go_on(&self) -> bool {
        self.schema.is_some() && self.given.is_none() && self.repairs == 0
    }

    /// Builds the request for the rest of an answer. It offers no tools, because the shown part is already an answer.
    #[must_use]
    pub fn rest(&self, row: &Row, begun: &ShownPart) -> (Request, RequestFacts) {
        let mut messages = self.transcript.items.clone();
        for round in &self.rounds {
            round.tell(row, row.tools == ToolMode::Native, &mut messages);
        }
        messages.push(Item::new(Role::Assistant, begun.0.trim_end()));
        messages.push(Item::new(Role::User, GO_ON));
        let form = self.schema.as_ref().map(|schema| schema.form());
        let asked = RequestFacts {
            row: row.key.clone(),
            offered: ToolOffer::Nothing,
            tool_bytes: self.tool_bytes(0),
            lane_tools: None,
        };
        (Request { messages, form, ..Request::default() }, asked)
    }

    /// Processes the rest of an answer.
    pub(super) fn went_on(&mut self, completion: &Completion, begun: &ShownPart) -> Step {
        if completion.refusal.is_some() || completion.finish == Finish::Filtered {
            return self.fall_back(Ending::Filtered);
        }
        let words = || self.words_of(&completion.content).map(Reply::text);
        match self.read(&completion.content).ok().or_else(words) {
            Some(reply) => self.finish(Reply { response: begun.with(&reply.response), ..reply }),
            None => self.fall_back(Ending::Unusable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_follows_on_the_last_whole_word() {
        for (shown, rest, whole) in [
            ("A wave took the pe", "pen and the ink.", "A wave took the pen and the ink."),
            ("A wave took the pen ", "and the ink.", "A wave took the pen and the ink."),
            ("One.\n\nTw", "Two.", "One.\n\nTwo."),
            ("A wave took ", "… the pen.", "A wave took the pen."),
            ("A wave took the pen and th", "A wave took the pen and the ink.", "A wave took the pen and the ink."),
            ("A wave took the pen and th", "took the pen and the ink.", "A wave took the pen and the ink."),
            ("It was the end. ", "", "It was the end."),
        ] {
            assert_eq!(ShownPart::of(shown).unwrap().with(rest), whole, "{shown:?} and {rest:?}");
        }
        assert_eq!((ShownPart::of(""), ShownPart::of("Half"), ShownPart::of("  Half")), (None, None, None));
    }

    #[test]
    fn a_rest_is_shown_once_it_is_clear_what_it_repeats() {
        let begun = ShownPart::of("A wave took the pen and th").unwrap();
        assert_eq!((begun.growing("the ink"), begun.growing("A wave took")), (None, None));
        let rest = "the ink and the table. ".repeat(20);
        let shown = begun.growing(&rest[..300]).unwrap();
        assert!(begun.with(&rest).starts_with(&shown), "it only grows");
    }
}
