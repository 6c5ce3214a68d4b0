//! Model servers that run on this machine beside the playground: looked for on loopback alone, at the ports where their makers
//! put them, and asked for nothing but their list of models. The page offers them; only somebody who chooses one has the bot ask it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::bot_process::{BotOrder, BotProcess, Choice, Refused};

/// Where they listen unless told otherwise.
const USUAL: [(&str, u16); 3] = [("Ollama", 11434), ("LM Studio", 1234), ("LiteLLM", 4000)];

/// What usually listens at this port.
#[must_use]
pub fn name_of(port: u16) -> &'static str {
    USUAL.iter().find(|(_, usual)| *usual == port).map_or("A model server", |(name, _)| name)
}

/// The longest that one may take to tell its models.
const TELLS_WITHIN: Duration = Duration::from_millis(1_500);
/// The longest that the configured model may take to answer at all.
const CONNECTS_WITHIN: Duration = Duration::from_secs(4);
/// The longest list that is read, in bytes, and how many models of it are offered.
const LIST_BYTES: usize = 512 * 1024;
const MODELS: usize = 100;
/// The longest name of a model that is offered, in characters.
const NAME: usize = 200;
/// How long what was found counts.
const FRESH: Duration = Duration::from_secs(4);
/// Parts of names of models that do not talk.
const SILENT: [&str; 4] = ["embed", "rerank", "whisper", "tts"];

/// A model server that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// What usually listens there.
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
    /// The address as it may be shown, without a login.
    pub shown: String,
}

/// Why a choice was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It is none of those that are offered.
    #[error("no such model answers on this machine any more")]
    Gone,
    /// The bot cannot be told.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Looks for model servers, and has the bot ask one.
pub struct Neighbours {
    http: Option<reqwest::Client>,
    places: Vec<(&'static str, u16)>,
    found: tokio::sync::Mutex<Option<(Instant, Vec<Offer>)>>,
    chosen: Mutex<Option<Choice>>,
    bot: Arc<dyn BotProcess>,
    told: AtomicBool,
    configured: Option<Configured>,
    /// Why the configured model cannot be reached, as it was found last.
    away: tokio::sync::Mutex<Option<(Instant, Option<String>)>>,
}

impl Neighbours {
    /// Looks at these ports. Without any, nothing is ever offered.
    #[must_use]
    pub fn at(places: Vec<(&'static str, u16)>, configured: Option<Configured>, bot: Arc<dyn BotProcess>) -> Arc<Self> {
        // What listens there answers itself: it sends nobody elsewhere, and no proxy stands between.
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().ok();
        let (found, chosen, away) = Default::default();
        Arc::new(Self { http, places, found, chosen, bot, told: AtomicBool::new(false), configured, away })
    }

    /// Why the model of the settings cannot be reached now, as a sentence with the fix; none when it answers, whatever it says.
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

    /// Those that answer now.
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
                event = "playground.model_found",
                name,
                url,
                models,
                "the page offers a model of this machine"
            );
        }
        *found = Some((Instant::now(), offers.clone()));
        offers
    }

    /// What the bot asks; the demo model when it is none of these.
    #[must_use]
    pub fn chosen(&self) -> Option<Choice> {
        self.chosen.lock().clone()
    }

    /// Has the bot ask this model from now on, or the demo model again.
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
        tracing::info!(event = "playground.model_chosen", url, model, "answers come from another model from now on");
        *self.chosen.lock() = choice;
        Ok(())
    }

    /// The models of what listens at this port, if it is a model server that has some.
    async fn ask(&self, name: &'static str, port: u16) -> Option<Offer> {
        let url = format!("http://127.0.0.1:{port}");
        let read = async {
            // All three speak the first one; of Ollama earlier releases know the second alone.
            match self.list(format!("{url}/v1/models")).await {
                Some(list) => Some(list),
                None => self.list(format!("{url}/api/tags")).await,
            }
        };
        let models = models(&timeout(TELLS_WITHIN, read).await.ok()??);
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

/// Connects to the API at this address; any answer will do.
async fn connects(url: &str) -> Result<(), String> {
    let Ok(client) = reqwest::Client::builder().timeout(CONNECTS_WITHIN).build() else { return Ok(()) };
    let Err(error) = client.get(format!("{}/models", url.trim_end_matches('/'))).send().await else { return Ok(()) };
    if error.is_timeout() {
        return Err(format!("no answer within {} s", CONNECTS_WITHIN.as_secs()));
    }
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_connect() { Err(cause.to_string()) } else { Ok(()) }
}

/// The models of a list as OpenAI or Ollama write it, in its order.
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
