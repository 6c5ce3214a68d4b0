//! The dialogue of the settings: shows its pages as forms, and stores what members send.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{CommandParts, Commands, CommandsEvent, CommandsState, TIMEOUT, admission};
use crate::desk::Desk;
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use domain::command::CommandKind;
use domain::happening::CommandOutcome;
use domain::ids::Door;
use domain::locale::Locale;
use domain::notice;
use domain::notice::commands as words;
use domain::outgoing::{Button, Piece};
use domain::preferences::Holder;
use domain::preferences::dialogue::{Choosable, Dialogue, DialogueStep, changes, page_name};
use ports::PostRequest;
use telemetry::events::GATEWAY_DROPPED;

/// The maximum time for showing a form. The platform gives up after three seconds.
const FORM_TIMEOUT: Duration = Duration::from_millis(2_500);

/// Begins a task that serves a step, unless the step came before. A step without room is refused with the reason.
pub(super) fn begin(
    parts: &Arc<CommandParts>,
    ctx: &mut ActorContext<Commands>,
    state: &mut CommandsState,
    step: Dialogue,
) {
    if !state.seen.insert(&step.callback.id) {
        tracing::debug!(event = GATEWAY_DROPPED, reason = "seen before", "dialogue dropped");
        return;
    }
    let (parts, begun) = (Arc::clone(parts), Instant::now());
    let of = (&step.caller.person, &step.place, step.guild.as_ref());
    let room = match admission::admit(&parts, state, of, step.caller.locale()) {
        Ok(room) => room,
        Err(sentence) => return admission::refuse(&parts, ctx, state, (step.callback, step.place), sentence),
    };
    let person = step.caller.person.clone();
    let ended = move |outcome| CommandsEvent::Ended {
        person: person.clone(),
        command: Some(CommandKind::Settings),
        outcome,
        took: begun.elapsed(),
    };
    let panicked = ended.clone();
    ctx.task(
        async move {
            let served = tokio::time::timeout(TIMEOUT, serve(&parts, &step)).await;
            drop(room);
            ended(served.unwrap_or(CommandOutcome::Unanswered))
        },
        move |_| panicked(CommandOutcome::Panicked),
    );
}

/// Serves a step, and returns its outcome.
async fn serve(parts: &CommandParts, dialogue: &Dialogue) -> CommandOutcome {
    let Dialogue { callback, caller, place, parent, guild, step } = dialogue;
    let (desk, locale) = (Desk::new(&parts.ways, callback, place), caller.locale());
    let (person, place) = (caller.person.clone(), place.clone());
    let holder = Holder { person, place, parent: parent.clone(), guild: guild.clone(), roles: caller.roles.clone() };
    let refusal = refusal(parts, &holder, locale);
    if let (None, DialogueStep::Sent(sent)) = (refusal, step) {
        // The claim comes before the change, because a platform delivers a step again.
        if !desk.claim().await {
            return CommandOutcome::Unclaimed;
        }
        let (text, problems) = store(parts, &holder, sent, locale).await;
        let answered = desk.correct(Piece::text(text), problems).await;
        return if answered { CommandOutcome::Done } else { CommandOutcome::Unanswered };
    }
    let text = match (refusal, step) {
        (None, DialogueStep::Opened(page)) => match page_of(parts, dialogue, &holder, *page).await {
            Ok(outcome) => return outcome,
            Err(text) => text,
        },
        (refusal, _) => refusal.unwrap_or_default().to_owned(),
    };
    if !desk.claim().await {
        return CommandOutcome::Unclaimed;
    }
    if desk.respond(Piece::text(text)).await { CommandOutcome::Refused } else { CommandOutcome::Unanswered }
}

/// Shows a page.
///
/// # Errors
/// The reason why there is none to show.
async fn page_of(
    parts: &CommandParts,
    dialogue: &Dialogue,
    holder: &Holder,
    page: usize,
) -> Result<CommandOutcome, String> {
    let locale = dialogue.caller.locale();
    let all = parts.settings.choosable(holder).await.map_err(|refused| words::setting_refused(&refused, locale))?;
    let fields = parts.ways.outboxes.fields(&dialogue.callback.id.door).max(1);
    match all.chunks(fields).nth(page) {
        Some(settings) => Ok(open(parts, dialogue, page, settings).await),
        None => Err(words::dialogue_is_empty(locale).to_owned()),
    }
}

/// Returns the reason why the dialogue is not served here.
fn refusal(parts: &CommandParts, holder: &Holder, locale: Locale) -> Option<&'static str> {
    let running = parts.basics.live.now();
    match running.rules(&holder.place.door) {
        Some(rules) if rules.serves(holder.guild.as_deref()) => {
            (!CommandKind::Settings.is_served(parts.served())).then(|| words::unknown(locale))
        }
        Some(_) => Some(notice::not_served(locale)),
        None => Some(words::unknown(locale)),
    }
}

async fn open(parts: &CommandParts, dialogue: &Dialogue, page: usize, settings: &[Choosable]) -> CommandOutcome {
    let (to, locale) = (dialogue.callback.clone(), dialogue.caller.locale());
    let outbox = parts.ways.outboxes.of(&to.id.door);
    let form = words::dialogue_form(settings, locale);
    let (name, title) = (page_name(page), words::dialogue_title(locale).to_owned());
    let request = PostRequest::OpenForm { to, name, title, form, locale };
    // The member opens it again.
    match outbox.call(|reply| OutboxMsg::Interact(request, reply), FORM_TIMEOUT).await {
        Ok(Ok(_)) => CommandOutcome::Done,
        Ok(Err(_)) | Err(_) => CommandOutcome::Unanswered,
    }
}

/// Stores sent values: all, or none. Returns the answer, and the fields to correct.
async fn store(
    parts: &CommandParts,
    holder: &Holder,
    sent: &serde_json::Map<String, serde_json::Value>,
    locale: Locale,
) -> (String, Vec<(String, String)>) {
    let all = match parts.settings.choosable(holder).await {
        Ok(all) => all,
        Err(refused) => return (words::setting_refused(&refused, locale), Vec::new()),
    };
    let (changed, mut refused) = changes(&all, sent);
    if refused.is_empty() {
        match parts.settings.change(holder, &changed).await {
            Ok(durable) => {
                let settings: Vec<_> = changed.iter().map(|change| change.setting).collect();
                return (words::dialogue_saved(&settings, durable, locale), Vec::new());
            }
            Err(why) => match why.setting() {
                Some(setting) => refused.push((setting, why)),
                None => return (words::setting_refused(&why, locale), Vec::new()),
            },
        }
    }
    let problems = words::dialogue_problems(&refused, locale);
    (problems.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("\n"), problems)
}

/// Returns the buttons that open the dialogue at this door.
pub(super) async fn buttons(parts: &CommandParts, door: &Door, holder: &Holder, locale: Locale) -> Vec<Button> {
    let fields = parts.ways.outboxes.fields(door);
    if fields == 0 {
        return Vec::new();
    }
    let all = parts.settings.choosable(holder).await.map_or(0, |all| all.len());
    words::dialogue_buttons(all.div_ceil(fields), locale)
}
