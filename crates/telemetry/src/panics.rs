//! Routes panics to the log.

use std::panic::PanicHookInfo;

use crate::events::PANIC;
use domain::panic;

/// Logs a panic with its location and thread. Without `content`, quoted text in the message is omitted.
pub fn log(info: &PanicHookInfo<'_>, content: bool) {
    let payload = info.payload();
    let said = if content { panic::whole(payload).to_owned() } else { panic::text(payload) };
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(event = PANIC, location = place, thread = thread.name().unwrap_or("unnamed"), "{said}");
}
