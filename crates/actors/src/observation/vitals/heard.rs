//! The time of the last event of each connection, in the rows of its actors.

use std::collections::HashMap;

use crate::observation::board::{PartKind, PartState};
use domain::ids::{self, Timestamp};
use ports::vitals::TreeNode;

/// Adds the times of the last events to the rows of the actors that keep connections.
pub(super) fn note(tree: &mut TreeNode, parts: &[(PartKind, String, PartState)], now: Timestamp) {
    let row = |(kind, name, state): &(PartKind, String, PartState)| {
        let ago = ids::millis(state.heard?.elapsed());
        let row = match (kind, name.rsplit_once(':')) {
            (PartKind::Socket, Some((door, number))) => format!("{door}_socket:{number}"),
            (PartKind::Door, _) => format!("source:{name}"),
            _ => return None,
        };
        Some((row, Timestamp(now.0.saturating_sub(ago))))
    };
    let heard: HashMap<String, Timestamp> = parts.iter().filter_map(row).collect();
    if !heard.is_empty() {
        add(tree, &heard);
    }
}

fn add(node: &mut TreeNode, heard: &HashMap<String, Timestamp>) {
    node.last_event = heard.get(&node.name).copied();
    node.children.iter_mut().for_each(|child| add(child, heard));
}
