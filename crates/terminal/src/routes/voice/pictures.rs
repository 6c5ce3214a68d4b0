//! The pictures of an answer, which a client shows beside its sentences.

use std::sync::Arc;

use domain::outgoing::{FILE_BYTES_MAX, File, Part};
use domain::turn_event::{TurnEvent, TurnUpdate};

/// The media types of pictures. Other files are text.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns the pictures of an answer.
pub(super) fn of(update: &TurnUpdate) -> impl Iterator<Item = &File> {
    let parts = match update {
        TurnUpdate::Final { parts, .. } => &**parts,
        _ => &[],
    };
    parts.iter().filter_map(|part| match part {
        Part::File(file) if is_picture(file) => Some(file),
        _ => None,
    })
}

fn is_picture(file: &File) -> bool {
    PICTURES.contains(&file.mime.as_str()) && file.bytes.len() <= FILE_BYTES_MAX
}

/// Returns the event without the pictures of an answer, which are events of their own.
pub(super) fn without(event: &Arc<TurnEvent>) -> Arc<TurnEvent> {
    let TurnUpdate::Final { parts, .. } = &event.update else { return Arc::clone(event) };
    let is_shown = |part: &Part| matches!(part, Part::File(file) if is_picture(file));
    if !parts.iter().any(is_shown) {
        return Arc::clone(event);
    }
    let mut event = TurnEvent::clone(event);
    if let TurnUpdate::Final { parts, .. } = &mut event.update {
        *parts = parts.iter().filter(|part| !is_shown(part)).cloned().collect();
    }
    Arc::new(event)
}
