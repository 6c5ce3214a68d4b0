//! Which tools of a catalogue the callers of one kind may see: made once for each kind and snapshot, so that a turn costs as much with
//! ten thousand tools as with ten.

use super::catalogue::Catalogue;
use super::rights::matches;
use super::{Source, ToolKind};

/// What callers see from whom the same patterns hide tools.
#[derive(Debug, Default)]
pub struct View {
    /// Places in the catalogue, in its order.
    shown: Vec<u32>,
    /// Characters of a prompt that all of them take.
    chars: usize,
    configured: bool,
}

impl View {
    /// What is left of a catalogue when tools whose names fit these patterns are hidden.
    #[must_use]
    pub fn of(catalogue: &Catalogue, hides: &[String]) -> Self {
        let mut view = Self::default();
        for (place, entry) in (0_u32..).zip(catalogue.entries()) {
            if !hides.iter().any(|pattern| matches(pattern, &entry.name)) {
                view.shown.push(place);
                view.chars = view.chars.saturating_add(entry.spec.chars());
                // What reaches data was configured to be used; the others of this program are there in any case.
                view.configured |= entry.tool.source != Source::BuiltIn || entry.tool.kind != ToolKind::Other;
            }
        }
        view
    }

    /// Nothing is seen.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Whether tools are worth a call of the model that does nothing but offer them: what was configured to be used is, and the
    /// others of this program only when `built_in_always` says so.
    #[must_use]
    pub const fn worth_a_call(&self, built_in_always: bool) -> bool {
        !self.is_empty() && (built_in_always || self.configured)
    }

    /// About how many characters of a prompt they take where no more than `most` of them are shown.
    #[must_use]
    pub fn chars(&self, most: usize) -> usize {
        match self.shown.len() {
            all if all <= most => self.chars,
            all => self.chars / all * most,
        }
    }

    /// Whether the tool at this place of the catalogue is seen.
    #[must_use]
    pub fn shows(&self, place: u32) -> bool {
        self.shown.binary_search(&place).is_ok()
    }

    /// The places of all that are seen, when they are no more than `most`.
    #[must_use]
    pub fn all(&self, most: usize) -> Option<&[u32]> {
        (self.shown.len() <= most).then_some(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::catalogue::Offer;
    use super::super::testing::tool;
    use super::*;
    use crate::cost;

    fn catalogue(names: impl Iterator<Item = String>) -> Catalogue {
        let tools = names.map(|name| Arc::new(tool("s", &name, ""))).collect();
        Catalogue::new(&[Offer { tools, ..Offer::default() }], &Catalogue::default(), |_| serde_json::json!({}))
    }

    #[test]
    fn what_is_hidden_is_not_there() {
        let all = catalogue(["one", "two", "three"].map(str::to_owned).into_iter());
        let view = View::of(&all, &["s__t*".to_owned()]);
        assert_eq!((view.all(1), view.all(0), view.shows(0), view.shows(1)), (Some(&[0][..]), None, true, false));
        assert!(view.worth_a_call(false) && !view.is_empty());
        assert!(View::of(&all, &["*".to_owned()]).is_empty());
    }

    #[test]
    fn a_prompt_has_as_much_of_it_as_is_shown() {
        let all = catalogue((0..10).map(|number| format!("tool_{number}")));
        let one = all.entries()[0].spec.chars();
        let view = View::of(&all, &["s__tool_9".to_owned()]);
        assert_eq!((view.chars(40), view.chars(9), view.chars(3), view.chars(0)), (9 * one, 9 * one, 3 * one, 0));
        assert_eq!(View::default().chars(40), 0);
    }

    #[test]
    fn a_view_costs_no_more_than_its_tools() {
        let hides: Vec<String> = (0..20).map(|number| format!("s__*{number}x*")).collect();
        let made = |many| (catalogue((0..many).map(|number| format!("tool_{number}"))), hides.clone());
        cost::grows_linearly(100, made, |(catalogue, hides)| drop(View::of(&catalogue, &hides)));
    }
}
