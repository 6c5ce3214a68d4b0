//! Application commands over the request API: registration and responses. Responses count against no rate limit of
//! Discord.

use std::collections::BTreeMap;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::message::{self, AllowedMentions, Body};
use super::{Rest, foreign, number};
use domain::command::Callback;
use domain::locale::{InEach, Locale};
use domain::menu::{CHOICES_MAX, Choice, OptionKind, Spec};
use domain::outgoing::Piece;
use ports::{PostError, PostReply, PostResult};

/// The flag of a response that only the caller of the command sees.
const EPHEMERAL: u32 = 1 << 6;
/// The longest name or value of a choice, in characters.
const CHOICE_MAX: usize = 100;
/// Discord's permission number of administrators, as text.
const ADMINISTRATOR: &str = "8";
/// Discord's error code for an interaction that was already acknowledged.
const ACKNOWLEDGED: u32 = 40_060;

/// A command as Discord stores it, limited to the used fields.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WireCommand {
    name: String,
    #[serde(default)]
    description: String,
    /// The descriptions in other languages, keyed by Discord's language tags.
    #[serde(default)]
    description_localizations: BTreeMap<String, String>,
    #[serde(default = "chat_input", rename = "type")]
    kind: u8,
    #[serde(default)]
    options: Vec<WireOption>,
    #[serde(default)]
    default_member_permissions: Option<String>,
    /// The contexts of the command: 0 for guilds, 1 for direct messages to the bot.
    #[serde(default)]
    contexts: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WireOption {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    description_localizations: BTreeMap<String, String>,
    #[serde(rename = "type")]
    kind: u8,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    autocomplete: bool,
}

const fn chat_input() -> u8 {
    1
}

impl From<&Spec> for WireCommand {
    fn from(spec: &Spec) -> Self {
        let option = spec.option.map(|option| WireOption {
            name: option.name.to_owned(),
            description: everywhere(&option.descriptions),
            description_localizations: translated(&option.descriptions),
            kind: match option.kind {
                OptionKind::Suggested | OptionKind::Text => 3,
                OptionKind::Member => 6,
            },
            required: false,
            autocomplete: option.kind == OptionKind::Suggested,
        });
        Self {
            name: spec.name.to_owned(),
            description: everywhere(&spec.descriptions),
            description_localizations: translated(&spec.descriptions),
            kind: chat_input(),
            options: option.into_iter().collect(),
            default_member_permissions: spec.administrators.then(|| ADMINISTRATOR.to_owned()),
            contexts: Some(if spec.direct { vec![0, 1] } else { vec![0] }),
        }
    }
}

/// Returns the text for clients in other languages.
fn everywhere(descriptions: &InEach) -> String {
    descriptions[0].1.to_owned()
}

/// Returns the translated texts by language.
fn translated(descriptions: &InEach) -> BTreeMap<String, String> {
    let tags = |locale: Locale| -> &[&str] {
        match locale {
            Locale::English => &[],
            Locale::Spanish => &["es-ES", "es-419"],
            Locale::German => &["de"],
        }
    };
    let text = |(locale, text): &(Locale, &str)| {
        tags(*locale).iter().map(|tag| ((*tag).to_owned(), (*text).to_owned())).collect::<Vec<_>>()
    };
    descriptions.iter().flat_map(text).collect()
}

/// Sorts commands, because Discord lists them in an order of its own.
fn sorted(mut commands: Vec<WireCommand>) -> Vec<WireCommand> {
    commands.sort_by(|one, other| one.name.cmp(&other.name));
    commands
}

impl Rest {
    /// Replaces all commands, unless Discord already has exactly these.
    pub(super) async fn register(&self, specs: &[Spec]) -> Result<PostReply, PostError> {
        let path = format!("/applications/{}/commands", self.application().await?);
        let wanted = sorted(specs.iter().map(WireCommand::from).collect());
        let whole = format!("{path}?with_localizations=true");
        let listed = self.send(Method::GET, &whole, None).await?;
        // An unreadable list is replaced.
        if listed.json().is_ok_and(|offered| sorted(offered) == wanted) {
            return Ok(listed.reply(PostResult::Already));
        }
        let body = serde_json::to_vec(&wanted).map_err(|error| PostError::Transient(error.to_string()))?;
        Ok(self.send(Method::PUT, &path, Some(Body::json(body))).await?.reply(PostResult::Done))
    }

    /// Returns the application's id, requested once. It may differ from the account's id.
    async fn application(&self) -> Result<String, PostError> {
        #[derive(Deserialize)]
        struct Application {
            id: String,
        }
        if let Some(application) = self.application.get() {
            return Ok(application.clone());
        }
        let told: Application = self.send(Method::GET, "/applications/@me", None).await?.json()?;
        let id = number(&told.id).ok_or_else(|| foreign("the application"))?;
        Ok(self.application.get_or_init(|| id.to_string()).clone())
    }

    pub(super) async fn defer(&self, callback: &Callback) -> Result<PostReply, PostError> {
        self.call_back(callback, &json!({"type": 5, "data": {"flags": EPHEMERAL}})).await
    }

    pub(super) async fn suggest(&self, to: &Callback, choices: &[Choice]) -> Result<PostReply, PostError> {
        let short = |text: &str| text.chars().take(CHOICE_MAX).collect::<String>();
        let choice = |choice: &Choice| json!({"name": short(&choice.name), "value": short(&choice.value)});
        let choices: Vec<Value> = choices.iter().take(CHOICES_MAX).map(choice).collect();
        self.call_back(to, &json!({"type": 8, "data": {"choices": choices}})).await
    }

    /// Answers a press with a form.
    pub(super) async fn open_form(&self, to: &Callback, modal: &Value) -> Result<PostReply, PostError> {
        self.call_back(to, &json!({"type": 9, "data": modal})).await
    }

    /// Sends the first response to an interaction.
    async fn call_back(&self, callback: &Callback, body: &Value) -> Result<PostReply, PostError> {
        let id = number(&callback.id.id).ok_or_else(|| foreign("the command"))?;
        let path = format!("/interactions/{id}/{}/callback", token(callback)?);
        match self.send(Method::POST, &path, Some(Body::json(body.to_string().into_bytes()))).await {
            Ok(answer) => Ok(answer.reply(PostResult::Done)),
            Err(error) if error.code() == Some(ACKNOWLEDGED) => {
                Ok(PostReply { result: PostResult::Already, bucket: None })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the first response. Only its caller sees it, so it notifies no account.
    pub(super) async fn respond(&self, to: &Callback, piece: &Piece) -> Result<PostReply, PostError> {
        let application = number(&to.application).ok_or_else(|| foreign("the application"))?;
        let path = format!("/webhooks/{application}/{}/messages/@original", token(to)?);
        let body = message::edit(piece, AllowedMentions::default())?;
        Ok(self.send(Method::PATCH, &path, Some(body)).await?.reply(PostResult::Done))
    }
}

/// Validates the characters of a token before it becomes part of a path.
fn token(callback: &Callback) -> Result<&str, PostError> {
    let token = callback.token.expose();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=');
    let whole = !token.is_empty() && token.chars().all(fits) && !token.contains("..");
    if whole { Ok(token) } else { Err(foreign("the token")) }
}

#[cfg(test)]
mod tests;
