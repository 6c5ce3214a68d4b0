//! Finds model servers on this machine: on loopback only, at their makers' default ports, and by their list of models
//! alone. The page offers them; the bot uses one only if a member chooses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::bot_process::{BotOrder, BotProcess, Choice, OrderRefusal};
use telemetry::events::{PLAYGROUND_MODEL_CHOSEN, PLAYGROUND_MODEL_FOUND};

/// The default ports.
const USUAL: [(&str, u16); 3] = [("Ollama", 11434), ("LM Studio", 1234), ("LiteLLM", 4000)];

/// Returns the usual server at this port.
#[must_use]
pub fn name_of(port: u16) -> &'static str {
    USUAL.iter().find(|(_, usual)| *usual == port).map_or("A model server", |(name, _)| name)
}

/// Timeout of listing a server's models.
const REPORT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Timeout of any response of the configured model's server.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum size of a list in bytes, and maximum number of models offered.
const LIST_BYTES: usize = 512 * 1024;
const MODELS: usize = 100;
/// Maximum length of a model's name, in characters.
const NAME: usize = 200;
/// TTL of the results.
const FRESH: Duration = Duration::from_secs(4);
/// Parts of the names of models that do not chat.
const SILENT: [&str; 4] = ["embed", "rerank", "whisper", "tts"];

/// A model server that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The usual server at its port.
    pub name: &'static str,
    /// Its address.
    pub url: String,
    /// Its models.
    pub models: Vec<String>,
}

/// The model that the settings name in place of the demo model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// Its name.
    pub model: String,
    /// The address of its API.
    pub url: String,
    /// The address without credentials, for display.
    pub shown: String,
}

/// The reason why a choice was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It is not offered.
    #[error("this model is no longer available on this machine")]
    Gone,
    /// The bot did not accept it.
    #[error(transparent)]
    Refused(#[from] OrderRefusal),
}

/// Finds model servers, and lets the bot use one.
pub struct Neighbours {
    http: Option<reqwest::Client>,
    places: Vec<(&'static str, u16)>,
    found: tokio::sync::Mutex<Option<(Instant, Vec<Offer>)>>,
    chosen: Mutex<Option<Choice>>,
    bot: Arc<dyn BotProcess>,
    told: AtomicBool,
    configured: Option<Configured>,
    /// The last check of the configured model: the reason why it is unreachable, if so.
    away: tokio::sync::Mutex<Option<(Instant, Option<String>)>>,
}

impl Neighbours {
    /// Creates the search of these ports. Without any, nothing is offered.
    #[must_use]
    pub fn at(places: Vec<(&'static str, u16)>, configured: Option<Configured>, bot: Arc<dyn BotProcess>) -> Arc<Self> {
        // Local servers are addressed directly: no redirects, no proxy.
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().ok();
        let (found, chosen, away) = Default::default();
        Arc::new(Self { http, places, found, chosen, bot, told: AtomicBool::new(false), configured, away })
    }

    /// Returns the reason why the configured model is unreachable, with the remedy; `None` after any response.
    pub async fn unreachable(&self) -> Option<String> {
        let Configured { model, url, shown } = self.configured.as_ref()?;
        let mut away = self.away.lock().await;
        if let Some((_, why)) = away.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return why.clone();
        }
        let cause = connects(url).await.err();
        let why = cause
            .map(|cause| format!("The model {model} at {shown} cannot be reached: {cause}. Check LITELLM_API_URL."));
        *away = Some((Instant::now(), why.clone()));
        why
    }

    /// Returns the servers that answer now.
    pub async fn offers(&self) -> Vec<Offer> {
        let mut found = self.found.lock().await;
        if let Some((_, offers)) = found.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return offers.clone();
        }
        let asked = self.places.iter().map(|(name, port)| self.ask(name, *port));
        let offers: Vec<Offer> = futures_util::future::join_all(asked).await.into_iter().flatten().collect();
        if let Some(Offer { name, url, models }) = offers.first()
            && !self.told.swap(true, Ordering::Relaxed)
        {
            let models = models.len();
            tracing::info!(
                event = PLAYGROUND_MODEL_FOUND,
                name,
                url,
                models,
                "the page offers models of a server on this machine"
            );
        }
        *found = Some((Instant::now(), offers.clone()));
        offers
    }

    /// Returns the model in use; `None` for the demo model.
    #[must_use]
    pub fn chosen(&self) -> Option<Choice> {
        self.chosen.lock().clone()
    }

    /// Makes the bot use this model, or the demo model.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub async fn choose(&self, choice: Option<Choice>) -> Result<(), NotTaken> {
        if let Some(Choice { url, model }) = &choice {
            let offers = self.offers().await;
            let known = offers.iter().any(|offer| offer.url == *url && offer.models.contains(model));
            if !known {
                return Err(NotTaken::Gone);
            }
        }
        self.bot.order(BotOrder::AskModel(choice.clone())).await?;
        let (url, model) = choice.as_ref().map(|choice| (&choice.url, &choice.model)).unzip();
        tracing::info!(event = PLAYGROUND_MODEL_CHOSEN, url, model, "another model is in use");
        *self.chosen.lock() = choice;
        Ok(())
    }

    /// Returns the models of a server at this port, if it has any.
    async fn ask(&self, name: &'static str, port: u16) -> Option<Offer> {
        let url = format!("http://127.0.0.1:{port}");
        let read = async {
            // All three have the first path; earlier releases of Ollama only the second.
            match self.list(format!("{url}/v1/models")).await {
                Some(list) => Some(list),
                None => self.list(format!("{url}/api/tags")).await,
            }
        };
        let models = models(&timeout(REPORT_TIMEOUT, read).await.ok()??);
        (!models.is_empty()).then_some(Offer { name, url, models })
    }

    async fn list(&self, url: String) -> Option<Value> {
        let mut answer = self.http.as_ref()?.get(url).send().await.ok()?.error_for_status().ok()?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.ok()? {
            if body.len() + chunk.len() > LIST_BYTES {
                return None;
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).ok()
    }
}

/// Connects to the API at this address; any response counts.
async fn connects(url: &str) -> Result<(), String> {
    let Ok(client) = reqwest::Client::builder().timeout(CONNECTION_TIMEOUT).build() else { return Ok(()) };
    let Err(error) = client.get(format!("{}/models", url.trim_end_matches('/'))).send().await else { return Ok(()) };
    if error.is_timeout() {
        return Err(format!("no answer within {} s", CONNECTION_TIMEOUT.as_secs()));
    }
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_connect() { Err(cause.to_string()) } else { Ok(()) }
}

/// Returns the models of a list in the format of OpenAI or Ollama, in order.
fn models(list: &Value) -> Vec<String> {
    let of = |list: &Value, name: &str| -> Vec<String> {
        let entries = list.as_array().map(Vec::as_slice).unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry[name].as_str());
        let talks = |model: &&str| {
            let fits = !model.is_empty() && model.chars().count() <= NAME && !model.chars().any(char::is_control);
            fits && !SILENT.iter().any(|part| model.to_lowercase().contains(part))
        };
        names.filter(talks).take(MODELS).map(str::to_owned).collect()
    };
    let models = of(&list["data"], "id");
    if models.is_empty() { of(&list["models"], "name") } else { models }
}

#[cfg(test)]
mod tests;
