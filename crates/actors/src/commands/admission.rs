//! Room for the commands of members.

use std::sync::Arc;

use super::{CommandParts, Commands, CommandsState, OWN_MAX};
use crate::desk::Desk;
use crate::runtime::supervisor::ActorContext;
use domain::caller::Callback;
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::{Person, Place};
use domain::locale::Locale;
use domain::notice::commands as words;
use domain::outgoing::Piece;
use domain::shed::Shed;
use ports::shares::Share;

/// Takes a permit for a command, and counts it until [`CommandsState::ended`].
///
/// # Errors
/// The sentence for the person: their own commands, or those of their community, run already.
pub(super) fn admit(
    parts: &CommandParts,
    state: &mut CommandsState,
    (person, place, guild): (&Person, &Place, Option<&String>),
    locale: Locale,
) -> Result<Share<String>, &'static str> {
    let own = state.running.get(person).is_some_and(|many| *many >= OWN_MAX);
    let holder = guild.cloned().unwrap_or_else(|| person.to_string());
    let room = if own { None } else { state.room.take(Some(&holder)) };
    let Some(room) = room else {
        let shed = WorkShed::beside(Shed::Commands, Bound::Number, Some((place, person)));
        parts.ways.observers.tell(&Happening::WorkShed(shed));
        return Err(if own { words::still_running(locale) } else { words::busy(locale) });
    };
    *state.running.entry(person.clone()).or_default() += 1;
    Ok(room)
}

/// Reports the reason for refusing a command, if there is room for a response.
pub(super) fn refuse(
    parts: &Arc<CommandParts>,
    ctx: &mut ActorContext<Commands>,
    state: &CommandsState,
    (callback, place): (Callback, Place),
    sentence: &'static str,
) {
    let Ok(room) = Arc::clone(&state.aside).try_acquire_owned() else { return };
    let parts = Arc::clone(parts);
    ctx.background(async move {
        let desk = Desk::new(&parts.ways, &callback, &place);
        if desk.claim().await {
            desk.respond(Piece::text(sentence)).await;
        }
        drop(room);
    });
}
