//! Joins parts of histories, written while the stored ones could not be read, with the stored ones.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::terms::Grouped;
use crate::{Backend, BackendError};
use domain::history::History;
use domain::keys;
use ports::Write;
use telemetry::events::STORE_CORRUPT;

/// The number of stored histories read at once.
const READ_AT_ONCE: usize = 64;

/// Replaces each [`Write::Join`] by a write of the whole history.
///
/// # Errors
/// A stored history could not be read now; see [`BackendError`].
pub async fn joined<B: Backend>(backend: &B, writes: Grouped) -> Result<Grouped, BackendError> {
    let Grouped { mut plain, mut owned } = writes;
    for group in std::iter::once(&mut plain).chain(owned.values_mut()) {
        if group.iter().any(|write| matches!(write, Write::Join { .. })) {
            let whole = stream::iter(std::mem::take(group)).map(|write| whole(backend, write)).buffered(READ_AT_ONCE);
            *group = whole.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        }
    }
    Ok(Grouped { plain, owned })
}

/// Returns the writes in place of this one.
async fn whole<B: Backend>(backend: &B, write: Write) -> Result<Vec<Write>, BackendError> {
    let Write::Join { key, value, ttl } = write else { return Ok(vec![write]) };
    let stored = match backend.get(&key).await {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(vec![Write::Put { key, value, ttl }]),
        Err(BackendError::NotText(reason)) => {
            let aside = keys::quarantine(&key);
            if let Ok(true) = backend.set_aside(&key, &aside, keys::QUARANTINE_TTL).await {
                tracing::error!(
                    event = STORE_CORRUPT,
                    key,
                    aside,
                    reason,
                    "the history cannot be read; it is set aside"
                );
                return Ok(vec![Write::Put { key, value, ttl }]);
            }
            let what = "the history cannot be read or set aside; new messages are not stored, and /new deletes it";
            tracing::error!(event = STORE_CORRUPT, key, reason, "{what}");
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    match History::joined(&stored, &value) {
        Ok(value) => Ok(vec![Write::Put { key, value, ttl }]),
        Err(error) => {
            let aside = keys::quarantine(&key);
            tracing::error!(event = STORE_CORRUPT, key, aside, %error, "the history cannot be read; it is set aside");
            let aside = Write::Put { key: aside, value: stored, ttl: Some(keys::QUARANTINE_TTL) };
            Ok(vec![aside, Write::Put { key, value, ttl }])
        }
    }
}
