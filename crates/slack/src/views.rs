//! Forms as modals: what a member opens, fills in and sends.
//!
//! A trigger lives for three seconds, so a modal without fields is opened before any other request, and replaced once
//! its content is known. The token of a callback then names the modal and the place in which it was opened.
//!
//! Sources: `docs.slack.dev/surfaces/modals`, `docs.slack.dev/reference/block-kit/blocks/input-block`,
//! `docs.slack.dev/reference/interaction-payloads/view-interactions-payload`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::bounded::parsed;
use super::ids;
use super::mrkdwn::sections;
use super::unreadable::Unreadable;
use super::web_api::{Arguments, Call, CallError};
use super::{Account, Slack};
use domain::command::CallbackToken;
use domain::ids::Place;
use domain::locale::Locale;
use domain::notice::commands::form_buttons;
use domain::notice::gate::yes_and_no;
use domain::question::{Field, FieldKind, FieldOption, Form};

/// The most fields of a modal. Slack shows 100 blocks.
pub(super) const FIELDS_MAX: usize = 25;
/// The longest title and label of a button, and the longest title of an option, in characters.
const TITLE_MAX: usize = 24;
const OPTION_MAX: usize = 75;
/// The longest text of a field, in characters.
const TEXT_MAX: usize = 3_000;
/// The length from which a field has several lines, in characters.
const LINE_MAX: usize = 100;
/// The most bytes read of a name and of an answer.
const NAME_BYTES: usize = 255;
const ANSWER_BYTES: usize = 16 * 1024;
/// The name of a modal without fields.
const BARE: &str = "bare";
/// The name of the value in each field.
const VALUE: &str = "value";
/// The beginning of the token of a modal.
const TOKEN: &str = "view:";

/// A modal that a member sent.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) user: String,
    pub(super) view: String,
    /// Distinguishes this submission from others of the same modal.
    pub(super) attempt: String,
    /// The name of the form.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) answers: Map<String, Value>,
}

/// Reads a modal that a member sent; `None` for those without fields and those of others.
pub(super) fn submitted(payload: &str) -> Result<Option<Submission>, Unreadable> {
    #[derive(Deserialize)]
    struct Wire {
        user: Id,
        view: View,
        #[serde(default)]
        trigger_id: String,
    }
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    #[derive(Deserialize)]
    struct View {
        id: String,
        #[serde(default)]
        hash: String,
        #[serde(default)]
        callback_id: String,
        #[serde(default)]
        private_metadata: String,
        #[serde(default)]
        state: Option<Box<RawValue>>,
    }
    let Wire { user, view, trigger_id } = serde_json::from_str(payload)?;
    if view.callback_id == BARE || view.private_metadata.is_empty() {
        return Ok(None);
    }
    let attempt = if trigger_id.is_empty() { view.hash } else { trigger_id };
    if [&view.callback_id, &view.private_metadata, &attempt].into_iter().any(|text| text.len() > NAME_BYTES) {
        return Err(Unreadable::length());
    }
    let place = Place::new(super::DOOR, view.private_metadata);
    if !ids::is_id(&view.id) || !ids::is_id(&user.id) || ids::at(&place).is_err() {
        return Err(Unreadable::id());
    }
    let answers = answers(&parsed(view.state.as_deref())?["values"]);
    Ok(Some(Submission { user: user.id, view: view.id, attempt, name: view.callback_id, place, answers }))
}

/// Reads the values of a modal by the names of their fields. An empty field has an empty text.
fn answers(values: &Value) -> Map<String, Value> {
    let fields = values.as_object().into_iter().flatten().take(FIELDS_MAX);
    let answer = |(name, field): (&String, &Value)| {
        let told = &field[VALUE];
        let text = told["value"].as_str().or_else(|| told["selected_option"]["value"].as_str()).unwrap_or_default();
        let fits = name.len() <= NAME_BYTES && text.len() <= ANSWER_BYTES;
        fits.then(|| (name.clone(), Value::from(text)))
    };
    fields.filter_map(answer).collect()
}

/// Returns the token of a modal that was opened in a place.
pub(super) fn token(view: &str, place: &Place) -> CallbackToken {
    CallbackToken::new(format!("{TOKEN}{view}:{}", place.id))
}

/// Reads a token: the modal and its place. `None` for the address of an answer.
pub(super) fn of_token(token: &CallbackToken) -> Option<(&str, &str)> {
    token.expose().strip_prefix(TOKEN)?.split_once(':')
}

fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn plain(text: &str, most: usize) -> Value {
    json!({"type": "plain_text", "text": short(text, most), "emoji": false})
}

/// Returns a modal with the fields of a form.
pub(super) fn modal(name: &str, title: &str, form: &Form, place: &str, locale: Locale) -> Value {
    let [submit, close] = form_buttons(locale);
    let blocks: Vec<Value> = form.fields.iter().take(FIELDS_MAX).map(|field| block(field, locale)).collect();
    json!({
        "type": "modal", "callback_id": name, "private_metadata": place, "title": plain(title, TITLE_MAX),
        "submit": plain(submit, TITLE_MAX), "close": plain(close, TITLE_MAX), "blocks": blocks,
    })
}

/// Returns a modal with a text alone.
pub(super) fn bare(us: &Account, text: &str, place: &str) -> Value {
    let section = |text: String| json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}});
    let blocks: Vec<Value> = sections(text).into_iter().map(section).collect();
    json!({
        "type": "modal", "callback_id": BARE, "private_metadata": place, "title": plain(&us.name, TITLE_MAX),
        "blocks": blocks,
    })
}

/// Returns a modal whose content is not known yet.
fn waiting(us: &Account, place: &str) -> Value {
    bare(us, "⏳", place)
}

/// Returns the answer to a submission that replaces its modal by a text.
pub(super) fn told(us: &Account, text: &str, place: &str) -> Value {
    json!({"response_action": "update", "view": bare(us, text, place)})
}

/// Returns the answer to a submission whose outcome is not known yet.
pub(super) fn told_later(us: &Account, place: &str) -> Value {
    json!({"response_action": "update", "view": waiting(us, place)})
}

/// Returns the answer to a submission with fields to correct.
pub(super) fn to_correct(problems: &[(String, String)]) -> Value {
    let errors: Map<String, Value> = problems.iter().map(|(field, why)| (field.clone(), why.as_str().into())).collect();
    json!({"response_action": "errors", "errors": errors})
}

fn block(field: &Field, locale: Locale) -> Value {
    let mut block = json!({
        "type": "input", "block_id": field.name, "optional": !field.required, "label": plain(&field.label, TEXT_MAX),
        "element": element(field, locale),
    });
    if let Some(hint) = &field.hint {
        block["hint"] = plain(hint, TEXT_MAX);
    }
    block
}

fn element(field: &Field, locale: Locale) -> Value {
    let mut element = json!({"action_id": VALUE});
    let default = field.default.as_deref();
    match &field.kind {
        FieldKind::Text { least, most, .. } => {
            element["type"] = "plain_text_input".into();
            element["multiline"] = (*most > LINE_MAX).into();
            element["max_length"] = (*most).min(TEXT_MAX).into();
            if *least > 0 {
                element["min_length"] = (*least).into();
            }
            if let Some(default) = default {
                element["initial_value"] = short(default, (*most).min(TEXT_MAX)).into();
            }
        }
        FieldKind::Number { whole, least, most } => {
            element["type"] = "number_input".into();
            element["is_decimal_allowed"] = (!whole).into();
            for (bound, value) in [("min_value", least), ("max_value", most)] {
                if let Some(value) = value {
                    element[bound] = value.to_string().into();
                }
            }
            if let Some(default) = default {
                element["initial_value"] = default.into();
            }
        }
        FieldKind::Flag => {
            let words = ["true", "false"].into_iter().zip(yes_and_no(locale));
            let options: Vec<FieldOption> =
                words.map(|(value, title)| FieldOption { value: value.to_owned(), title: title.to_owned() }).collect();
            select(&mut element, &options, default);
        }
        FieldKind::Choice { options } => select(&mut element, options, default),
    }
    element
}

fn select(element: &mut Value, options: &[FieldOption], default: Option<&str>) {
    let option = |option: &FieldOption| json!({"text": plain(&option.title, OPTION_MAX), "value": option.value});
    element["type"] = "static_select".into();
    element["options"] = options.iter().map(option).collect();
    if let Some(chosen) = options.iter().find(|option| default == Some(option.value.as_str())) {
        element["initial_option"] = option(chosen);
    }
}

#[derive(Deserialize)]
struct Nothing {}

impl Slack {
    /// Opens a modal without content, and returns its token. Slack accepts the trigger for three seconds only.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn open_modal(
        &self,
        us: &Account,
        trigger: &str,
        place: &Place,
    ) -> Result<CallbackToken, CallError> {
        #[derive(Deserialize)]
        struct Told {
            view: Id,
        }
        #[derive(Deserialize)]
        struct Id {
            id: String,
        }
        let view = waiting(us, &place.id).to_string();
        let call = Call::changes("views.open");
        let Told { view: Id { id } } =
            self.api.call(call, vec![("trigger_id", trigger.into()), ("view", view.into())]).await?;
        if ids::is_id(&id) {
            return Ok(token(&id, place));
        }
        Err(CallError::lost(call, "the answer of slack names no view".to_owned()))
    }

    /// Replaces the content of a modal. A member who closed it sees nothing.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn replace_modal(&self, view: &str, content: &Value) -> Result<(), CallError> {
        let arguments: Arguments<'_> = vec![("view_id", view.into()), ("view", content.to_string().into())];
        // A repeated replacement has the same effect.
        match self.api.call::<Nothing>(Call::reads("views.update"), arguments).await {
            Err(error) if error.name() == Some("not_found") => Ok(()),
            done => done.map(|Nothing {}| ()),
        }
    }

    /// Shows the button of the settings on the bot's page in the app home, at most once a minute: Slack keeps the page. A
    /// failure is silent: the command remains.
    pub(super) async fn publish_home(&self, user: &str) {
        use domain::notice::commands::{dialogue_buttons, home};
        let page = ids::channel(user);
        if !self.homes.is_due(&page, Instant::now()) {
            return;
        }
        let locale = Locale::of(self.member(user).await.locale.as_deref());
        let button = |button: domain::outgoing::Button| {
            let text = plain(&button.label, OPTION_MAX);
            json!({"type": "button", "text": text, "value": button.name, "action_id": button.name})
        };
        let buttons: Vec<Value> = dialogue_buttons(1, locale).into_iter().map(button).collect();
        let view = json!({"type": "home", "blocks": [
            {"type": "section", "text": plain(home(locale), TEXT_MAX)}, {"type": "actions", "elements": buttons},
        ]});
        let arguments: Arguments<'_> = vec![("user_id", user.into()), ("view", view.to_string().into())];
        if self.api.call::<Nothing>(Call::reads("views.publish"), arguments).await.is_err() {
            self.homes.reset(&page);
        }
    }
}

#[cfg(test)]
mod tests;
