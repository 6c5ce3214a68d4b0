//! The saved state of a shard: its session, the watermark of each community, and the places that are unread.

use futures_util::future::BoxFuture;

use super::{ShardActor, ShardState};
use domain::ids::Timestamp;
use domain::keys;
use ports::{GatewaySession, Write};

impl ShardActor {
    /// Saves the changes; returns `None` if there are none. All are in one batch, so a watermark never passes a place
    /// whose gap is not stored.
    pub(super) fn save(&self, state: &mut ShardState) -> Option<BoxFuture<'static, bool>> {
        if !state.unread.is_loaded() {
            return None;
        }
        let mut writes = Vec::new();
        let safe = state.safe_sequence();
        if let Some(session) = &state.session {
            let now = (session.id.clone(), safe);
            let record = GatewaySession { sequence: safe, ..session.clone() };
            if state.saved.as_ref() != Some(&now)
                && let Ok(value) = serde_json::to_string(&record)
            {
                writes.push(Write::Put { key: self.session_key(), value, ttl: Some(keys::SESSION_TTL) });
                state.saved = Some(now);
            }
        }
        writes.extend(state.activity.writes());
        let oldest = state.oldest_unsettled();
        let catching_up = &state.catching_up;
        writes.extend(state.unread.write(|| self.unread_key()));
        state.watermarks.save(|guild, at| {
            if catching_up.contains_key(guild) {
                return true;
            }
            // The watermark never passes a message without a durable owner; later messages are saved once that one is
            // settled.
            let held = oldest.get(guild).filter(|oldest| **oldest <= at);
            let safe = held.map_or(at, |oldest| Timestamp(oldest.0.saturating_sub(1)));
            let key = keys::watermark(&self.parts.door, guild);
            writes.push(Write::Put { key, value: safe.0.to_string(), ttl: Some(keys::WATERMARK_TTL) });
            held.is_some()
        });
        (!writes.is_empty()).then(|| self.parts.basics.store.write(writes))
    }
}
