//! Joins parts of histories, written while the stored ones could not be read, with the stored ones.

use std::pin::pin;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::terms::Grouped;
use crate::{Backend, BackendError, Batch};
use domain::history::History;
use domain::keys;
use domain::ownership::{Range, Term};
use ports::Write;
use telemetry::events::STORE_CORRUPT;

const READ_AT_ONCE: usize = 16;

/// The bytes of joined histories that are written together. Histories without a TTL can be any number.
pub(super) const BYTES_AT_ONCE: usize = 1024 * 1024;

/// Takes each [`Write::Join`] out of the writes, joins it with the stored history, and writes the result. Joining again
/// after a failure changes nothing. Returns the ranges whose writes were refused.
///
/// # Errors
/// A stored history could not be read or written now; see [`BackendError`].
pub async fn join<B: Backend>(backend: &B, writes: &mut Grouped, terms: &[Term]) -> Result<Vec<Range>, BackendError> {
    let mut parts = Vec::new();
    take_parts(None, &mut writes.plain, &mut parts);
    for (range, group) in &mut writes.owned {
        take_parts(Some(range), group, &mut parts);
    }
    let whole = parts.into_iter().map(async |(owner, part)| Ok((owner, whole(backend, part).await?)));
    let mut whole = pin!(stream::iter(whole).buffered(READ_AT_ONCE));
    let (mut slice, mut bytes, mut fenced) = (Grouped::default(), 0, Vec::new());
    while let Some((owner, writes)) = whole.try_next().await? {
        for write in writes {
            if let Write::Put { value, .. } = &write {
                bytes += value.len();
            }
            slice.push(owner.as_ref(), write);
        }
        if bytes >= BYTES_AT_ONCE {
            bytes = 0;
            fenced.extend(apply(backend, std::mem::take(&mut slice), terms).await?);
        }
    }
    fenced.extend(apply(backend, slice, terms).await?);
    Ok(fenced)
}

fn take_parts(owner: Option<&Range>, group: &mut Vec<Write>, parts: &mut Vec<(Option<Range>, Write)>) {
    if group.iter().any(|write| matches!(write, Write::Join { .. })) {
        let taken = group.extract_if(.., |write| matches!(write, Write::Join { .. }));
        parts.extend(taken.map(|part| (owner.cloned(), part)));
    }
}

async fn apply<B: Backend>(backend: &B, slice: Grouped, terms: &[Term]) -> Result<Vec<Range>, BackendError> {
    let batch = Batch { writes: slice.plain, owned: Grouped::under(slice.owned, terms), ticket: None };
    if batch.is_empty() { Ok(Vec::new()) } else { backend.apply(batch).await }
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
            Ok(vec![Write::quarantine(&key, stored), Write::Put { key, value, ttl }])
        }
    }
}
