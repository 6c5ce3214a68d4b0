//! The dialogue of the settings: shows its pages as forms, and stores what members send.

use std::time::Duration;

use super::CommandParts;
use crate::desk::Desk;
use crate::messages::outbox::OutboxMsg;
use domain::command::{Caller, CommandKind};
use domain::happening::CommandOutcome;
use domain::ids::{Door, Place};
use domain::locale::Locale;
use domain::notice;
use domain::notice::commands as words;
use domain::outgoing::{Button, Piece};
use domain::preferences::Holder;
use domain::preferences::dialogue::{Choosable, Dialogue, DialogueStep, changes, page_name};
use ports::PostRequest;

/// The maximum time for showing a form. The platform gives up after three seconds.
const FORM_WITHIN: Duration = Duration::from_millis(2_500);

/// Serves a step, and returns its outcome.
pub(super) async fn serve(parts: &CommandParts, dialogue: &Dialogue) -> CommandOutcome {
    let Dialogue { callback, caller, place, guild, step, .. } = dialogue;
    let (desk, locale) = (Desk::new(&parts.ways, callback, place), caller.locale());
    let refusal = refusal(parts, place, guild.as_deref(), locale);
    let holder = holder(dialogue, caller);
    let (piece, problems, outcome) = match (refusal, step) {
        (Some(refusal), _) => (Piece::text(refusal), Vec::new(), CommandOutcome::Refused),
        (None, DialogueStep::Opened(page)) => match parts.settings.choosable(&holder).await {
            Ok(all) => {
                let fields = parts.ways.outboxes.fields(&callback.id.door).max(1);
                if let Some(settings) = all.chunks(fields).nth(*page) {
                    return open(parts, dialogue, *page, settings).await;
                }
                (Piece::text(words::dialogue_is_empty(locale)), Vec::new(), CommandOutcome::Refused)
            }
            Err(refused) => {
                (Piece::text(words::setting_refused(&refused, locale)), Vec::new(), CommandOutcome::Refused)
            }
        },
        (None, DialogueStep::Sent(sent)) => {
            // The claim comes before the change, because a platform delivers a step again.
            if !desk.claim().await {
                return CommandOutcome::Unclaimed;
            }
            let (text, problems) = store(parts, &holder, sent, locale).await;
            let answered = desk.correct(Piece::text(text), problems).await;
            return if answered { CommandOutcome::Done } else { CommandOutcome::Unanswered };
        }
    };
    if !desk.claim().await {
        return CommandOutcome::Unclaimed;
    }
    if desk.correct(piece, problems).await { outcome } else { CommandOutcome::Unanswered }
}

fn holder(dialogue: &Dialogue, caller: &Caller) -> Holder {
    Holder {
        person: caller.person.clone(),
        place: dialogue.place.clone(),
        parent: dialogue.parent.clone(),
        guild: dialogue.guild.clone(),
    }
}

/// Returns the reason why the dialogue is not served here.
fn refusal(parts: &CommandParts, place: &Place, guild: Option<&str>, locale: Locale) -> Option<&'static str> {
    let running = parts.basics.live.now();
    match running.rules(&place.door) {
        Some(rules) if rules.serves(guild) => {
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
    match outbox.call(|reply| OutboxMsg::Interact(request, reply), FORM_WITHIN).await {
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
