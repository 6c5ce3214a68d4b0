//! The channel of a thread in which a timer or a webhook posts: no message names it.

use std::sync::Arc;
use std::time::Duration;

use super::parts::TurnParts;
use crate::messages::outbox::OutboxMsg;
use crate::services::running::Running;
use domain::turn::Turn;
use ports::PlaceKind;

/// The timeout of one look-up.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of look-ups: after a start, the door learns its places within seconds.
const LOOKS: u32 = 10;
/// The pause between two look-ups.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Adds the channel of its thread to a turn without a message. If the place may be a thread of an unknown channel, no
/// rule of that channel can match, so the turn uses no tools if any rule names channels.
pub(super) async fn complete(parts: &TurnParts, running: &Running, turn: &mut Arc<Turn>) {
    if turn.trigger.has_person() || turn.parent.is_some() {
        return;
    }
    let matters = running.tool_rules.iter().any(|rule| !rule.channels.is_empty());
    for _ in 0..LOOKS {
        let outbox = parts.neighbors.outboxes.of(&turn.place.door);
        match outbox.call(|reply| OutboxMsg::Kind(turn.place.clone(), reply), LOOKUP_TIMEOUT).await {
            Ok(PlaceKind::Channel) => return,
            Ok(PlaceKind::Thread(channel)) => return Arc::make_mut(turn).parent = Some(channel),
            Ok(PlaceKind::Unknown) | Err(_) if !matters => return,
            Ok(PlaceKind::Unknown) | Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
    Arc::make_mut(turn).policy.tools = false;
}
