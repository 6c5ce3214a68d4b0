//! The choice of tools for a prompt that cannot show all of them. Each prompt of a lane begins with the same tools, and
//! further ones follow in the order in which they were added, because the caches of providers reuse equal beginnings.

use std::sync::Arc;

use super::selection::MATCHES_MAX;

/// The choice that the prompts of a lane have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneTools {
    /// The number of calls of each tool, by name, at the time of the choice.
    pub used: Arc<[(Arc<str>, u32)]>,
    /// The names of the tools that the last prompt showed after the first ones, in their order.
    pub added: Arc<[Arc<str>]>,
}

/// A tool that a prompt shows after the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddedTool {
    /// The tool at this index of the catalogue.
    Listed(usize),
    /// The tool that pages through long results.
    ReadResult,
}

/// The tools that a prompt may show after the first ones.
#[derive(Debug, Default)]
pub(super) struct AddedTools {
    /// Those of the last prompt of the lane, in their order.
    pub earlier: Vec<usize>,
    /// Those that this turn added, in order.
    pub found: Vec<AddedTool>,
    /// The results of the last search, best first.
    pub newest: Vec<usize>,
}

impl AddedTools {
    /// Adds the results of a search, best first.
    pub fn find(&mut self, places: Vec<usize>) {
        for place in &places {
            self.add(AddedTool::Listed(*place));
        }
        self.newest = places;
    }

    /// Adds a tool, unless it was added before.
    pub fn add(&mut self, tool: AddedTool) {
        if !self.found.contains(&tool) {
            self.found.push(tool);
        }
    }

    /// Returns the tools to show after these first ones, as far as there is room, in the order in which they were added.
    /// The priority is: results of the last search, of earlier ones in this turn, tools that the question names (best
    /// first), and the latest of the others. The best result of the last search is shown even if its definition does
    /// not fit.
    pub fn shown(
        &self,
        first: &[usize],
        named: &[usize],
        mut chosen: Chosen,
        bytes: impl Fn(usize) -> usize,
    ) -> Vec<AddedTool> {
        if let Some(newest) = self.newest.first() {
            chosen.left = chosen.left.max(bytes(*newest));
        }
        let most = chosen.most;
        let new = |place: &usize| !first.contains(place);
        let found = || self.found.iter().filter_map(|tool| tool.place());
        chosen.add(self.newest.iter().copied().filter(new), most, &bytes);
        chosen.add(found().rev().filter(new), most, &bytes);
        // Half of the room stays for searches.
        chosen.add(named.iter().copied().filter(new), most / 2, &bytes);
        chosen.add(self.earlier.iter().rev().copied().filter(new), most, &bytes);
        let listed = self.earlier.iter().chain(named).map(|place| AddedTool::Listed(*place));
        let mut shown = Vec::new();
        for tool in listed.chain(self.found.iter().copied()) {
            if tool.place().is_none_or(|place| chosen.places.contains(&place)) && !shown.contains(&tool) {
                shown.push(tool);
            }
        }
        shown
    }
}

impl AddedTool {
    pub const fn place(self) -> Option<usize> {
        match self {
            Self::Listed(place) => Some(place),
            Self::ReadResult => None,
        }
    }
}

/// Returns the number of tools that may be added in a prompt of this number of tools.
pub(super) fn room(most: usize) -> usize {
    (most / 4).clamp(1, MATCHES_MAX)
}

/// The indices of the selected tools, with the remaining room.
pub(super) struct Chosen {
    pub places: Vec<usize>,
    most: usize,
    pub left: usize,
}

impl Chosen {
    /// Starts with room for `most` tools with `left` bytes.
    pub const fn new(most: usize, left: usize) -> Self {
        Self { places: Vec::new(), most, left }
    }

    /// Adds those of these tools that fit, up to a maximum number.
    pub fn add(&mut self, places: impl IntoIterator<Item = usize>, most: usize, bytes: impl Fn(usize) -> usize) {
        let until = self.most.min(self.places.len().saturating_add(most));
        for place in places {
            if self.places.len() >= until {
                break;
            }
            if let Some(left) = self.left.checked_sub(bytes(place)).filter(|_| !self.places.contains(&place)) {
                self.left = left;
                self.places.push(place);
            }
        }
    }
}
