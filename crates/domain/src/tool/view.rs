//! The tools of a catalogue that one kind of caller may see. Built once per kind and catalogue snapshot, so that a turn
//! costs the same with ten thousand tools as with ten.

use super::catalogue::Catalogue;
use super::rights::Hidden;
use super::{Source, ToolKind};

/// The visible tools of all callers with the same hidden patterns.
#[derive(Debug, Default)]
pub struct View {
    /// Indices in the catalogue, in its order.
    shown: Vec<u32>,
    /// Indices of built-in tools.
    built_in: Vec<u32>,
    /// The size of all their definitions in a prompt, in bytes.
    bytes: usize,
    configured: bool,
}

impl View {
    /// Returns the view of a catalogue without these hidden tools.
    #[must_use]
    pub fn of(catalogue: &Catalogue, hides: &[Hidden]) -> Self {
        let mut view = Self::default();
        for (place, entry) in (0_u32..).zip(catalogue.entries()) {
            if !hides.iter().any(|hidden| hidden.fits(&entry.name, entry.effect, entry.audience)) {
                view.shown.push(place);
                view.bytes = view.bytes.saturating_add(entry.spec.bytes());
                if entry.tool.source == Source::BuiltIn {
                    view.built_in.push(place);
                }
                // A tool that accesses data was configured to be used; the other built-in tools are always present.
                view.configured |= entry.tool.source != Source::BuiltIn || entry.tool.kind != ToolKind::Other;
            }
        }
        view
    }

    /// True if no tool is visible.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// True if the tools justify a model call that only offers tools. Configured tools always do; the other built-in
    /// tools do only if `built_in_always` is set.
    #[must_use]
    pub const fn worth_a_call(&self, built_in_always: bool) -> bool {
        !self.is_empty() && (built_in_always || self.configured)
    }

    /// Returns the indices of the visible built-in tools.
    #[must_use]
    pub fn built_in(&self) -> &[u32] {
        &self.built_in
    }

    /// Returns the first visible indices, up to this number.
    #[must_use]
    pub fn first(&self, most: usize) -> &[u32] {
        self.shown.get(..most).unwrap_or(&self.shown)
    }

    /// True if the tool at this index of the catalogue is visible.
    #[must_use]
    pub fn shows(&self, place: u32) -> bool {
        self.shown.binary_search(&place).is_ok()
    }

    /// Returns the indices of all visible tools if there are at most `most` and their definitions fit in this number of
    /// bytes.
    #[must_use]
    pub fn all(&self, most: usize, bytes: usize) -> Option<&[u32]> {
        (self.shown.len() <= most && self.bytes <= bytes).then_some(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::catalogue::Offer;
    use super::super::testing::tool;
    use super::*;

    fn catalogue(names: impl Iterator<Item = String>) -> Catalogue {
        let tools = names.map(|name| Arc::new(tool("s", &name, ""))).collect();
        Catalogue::new(&[Offer { tools, ..Offer::default() }], &Catalogue::default(), |_| serde_json::json!({}))
    }

    #[test]
    fn what_is_hidden_is_not_there() {
        let all = catalogue(["one", "two", "three"].map(str::to_owned).into_iter());
        let view = View::of(&all, &[Hidden::of("s__t*")]);
        assert_eq!(
            (view.all(1, 999), view.all(0, 999), view.shows(0), view.shows(1)),
            (Some(&[0][..]), None, true, false)
        );
        assert!(view.worth_a_call(false) && !view.is_empty());
        assert!(View::of(&all, &[Hidden::of("*")]).is_empty());
    }

    #[test]
    fn all_are_shown_only_where_they_have_room() {
        let all = catalogue((0..10).map(|number| format!("tool_{number}")));
        let one = all.entries()[0].spec.bytes();
        let view = View::of(&all, &[Hidden::of("s__tool_9")]);
        let shown = |most, bytes| view.all(most, bytes).map(<[u32]>::len);
        assert_eq!((shown(9, 9 * one), shown(8, 9 * one), shown(9, 9 * one - 1)), (Some(9), None, None));
        assert_eq!((view.first(2), view.first(99).len()), (&[0, 1][..], 9));
    }

    #[test]
    fn a_view_costs_no_more_than_its_tools() {
        let hides: Vec<Hidden> = (0..20).map(|number| Hidden::of(&format!("s__*{number}x*"))).collect();
        let made = |many| (catalogue((0..many).map(|number| format!("tool_{number}"))), hides.clone());
        cost::grows_linearly(100, made, |(catalogue, hides)| drop(View::of(&catalogue, &hides)));
    }
}
