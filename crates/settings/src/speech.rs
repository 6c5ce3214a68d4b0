//! `[speech]`: the voices that speak answers, and the rows that hear.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::read;

/// `[speech]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speech {
    /// The voices, in order.
    #[serde(deserialize_with = "read::rows")]
    pub voices: Vec<Voice>,
    /// The rows that transcribe speech, in order.
    #[serde(deserialize_with = "read::rows")]
    pub hearing: Vec<Ear>,
    /// The phrases that announce tools, by language.
    #[serde(deserialize_with = "read::rows")]
    pub phrases: Vec<PhraseRow>,
}

/// One `[[speech.phrases]]`. A phrase that is not set is that of the program; an empty one is not spoken.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhraseRow {
    /// The language as ISO 639-1.
    #[serde(deserialize_with = "read::some_text")]
    pub language: String,
    /// Spoken when the first tool of an answer runs and nothing was said before it.
    #[serde(default)]
    pub running: Option<String>,
    /// Spoken when a source cannot be reached or does not admit the caller.
    #[serde(default)]
    pub access: Option<String>,
    /// Spoken when a source did not respond in time.
    #[serde(default)]
    pub timeout: Option<String>,
    /// Spoken when a tool or object does not exist.
    #[serde(default)]
    pub not_found: Option<String>,
    /// Spoken for any other failure.
    #[serde(default)]
    pub other: Option<String>,
}

/// One `[[speech.voices]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Voice {
    /// The kind of source: `openai` or `command`.
    #[serde(deserialize_with = "read::some_text")]
    pub kind: String,
    /// The address of the API, up to `/v1`.
    #[serde(default, deserialize_with = "read::optional_web_address")]
    pub url: Option<String>,
    /// The key.
    #[serde(default, deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// The variable that holds the key.
    #[serde(default, deserialize_with = "read::text")]
    pub env_key: Option<String>,
    /// The model.
    #[serde(default, deserialize_with = "read::text")]
    pub model: Option<String>,
    /// The provider's name of the voice.
    #[serde(default, deserialize_with = "read::text")]
    pub voice: Option<String>,
    /// The program and its arguments.
    #[serde(default, deserialize_with = "read::texts")]
    pub command: Vec<String>,
    /// The format of the audio.
    #[serde(default, deserialize_with = "read::text")]
    pub format: Option<String>,
    /// The timeout of one sentence.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
    /// The price in dollars per million characters; without it, speech is not counted in dollars.
    #[serde(default, deserialize_with = "read::price")]
    pub price_per_million: Option<f64>,
}

/// One `[[speech.hearing]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ear {
    /// The kind of source: `openai` or `command`.
    #[serde(deserialize_with = "read::some_text")]
    pub kind: String,
    /// The address of the API, up to `/v1`.
    #[serde(default, deserialize_with = "read::optional_web_address")]
    pub url: Option<String>,
    /// The key.
    #[serde(default, deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// The variable that holds the key.
    #[serde(default, deserialize_with = "read::text")]
    pub env_key: Option<String>,
    /// The model.
    #[serde(default, deserialize_with = "read::text")]
    pub model: Option<String>,
    /// The language of the speaker as ISO 639-1.
    #[serde(default, deserialize_with = "read::text")]
    pub language: Option<String>,
    /// True if the endpoint returns partial transcripts.
    #[serde(default)]
    pub stream: bool,
    /// The program and its arguments.
    #[serde(default, deserialize_with = "read::texts")]
    pub command: Vec<String>,
    /// The timeout of one utterance.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
    /// The price in dollars per minute; without it, hearing is not counted in dollars.
    #[serde(default, deserialize_with = "read::price")]
    pub price_per_minute: Option<f64>,
}

impl Voice {
    /// Returns the row of a command with the default values.
    #[must_use]
    pub fn of_command(command: Vec<String>) -> Self {
        Self {
            kind: "command".to_owned(),
            url: None,
            key: None,
            env_key: None,
            model: None,
            voice: None,
            command,
            format: None,
            timeout: usual_timeout(),
            price_per_million: None,
        }
    }
}

const fn usual_timeout() -> Duration {
    Duration::from_secs(15)
}
