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

/// The source of a voice, or of transcripts.
#[derive(Debug, Clone)]
pub enum SourceRow {
    /// An endpoint with the OpenAI audio API.
    OpenAi(EndpointRow),
    /// A program and its arguments.
    Command(Vec<String>),
}

/// An endpoint with the OpenAI audio API. Without a field, the usual value applies.
#[derive(Debug, Clone, Default)]
pub struct EndpointRow {
    /// The address of the API, up to `/v1`.
    pub url: Option<String>,
    /// The key.
    pub key: Option<SecretString>,
    /// The variable that holds the key.
    pub env_key: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// One `[[speech.voices]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "VoiceFields")]
pub struct Voice {
    /// The source of the audio.
    pub source: SourceRow,
    /// The provider's name of the voice.
    pub voice: Option<String>,
    /// The format of the audio.
    pub format: Option<String>,
    /// The timeout of one sentence.
    pub timeout: Duration,
    /// The price in dollars per million characters; without it, speech is not counted in dollars.
    pub price_per_million: Option<f64>,
}

/// One `[[speech.hearing]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "EarFields")]
pub struct Ear {
    /// The source of the transcripts.
    pub source: SourceRow,
    /// The language of the speaker as ISO 639-1.
    pub language: Option<String>,
    /// True if the endpoint returns partial transcripts.
    pub stream: bool,
    /// The timeout of one utterance.
    pub timeout: Duration,
    /// The price in dollars per minute; without it, hearing is not counted in dollars.
    pub price_per_minute: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VoiceFields {
    #[serde(deserialize_with = "read::some_text")]
    kind: String,
    #[serde(default, deserialize_with = "read::optional_web_address")]
    url: Option<String>,
    #[serde(default, deserialize_with = "read::secret")]
    key: Option<SecretString>,
    #[serde(default, deserialize_with = "read::text")]
    env_key: Option<String>,
    #[serde(default, deserialize_with = "read::text")]
    model: Option<String>,
    #[serde(default, deserialize_with = "read::text")]
    voice: Option<String>,
    #[serde(default, deserialize_with = "read::texts")]
    command: Vec<String>,
    #[serde(default, deserialize_with = "read::text")]
    format: Option<String>,
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    timeout: Duration,
    #[serde(default, deserialize_with = "read::price")]
    price_per_million: Option<f64>,
}

/// The fields of a row that hears.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EarFields {
    #[serde(deserialize_with = "read::some_text")]
    kind: String,
    #[serde(default, deserialize_with = "read::optional_web_address")]
    url: Option<String>,
    #[serde(default, deserialize_with = "read::secret")]
    key: Option<SecretString>,
    #[serde(default, deserialize_with = "read::text")]
    env_key: Option<String>,
    #[serde(default, deserialize_with = "read::text")]
    model: Option<String>,
    #[serde(default, deserialize_with = "read::text")]
    language: Option<String>,
    #[serde(default)]
    stream: bool,
    #[serde(default, deserialize_with = "read::texts")]
    command: Vec<String>,
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    timeout: Duration,
    #[serde(default, deserialize_with = "read::price")]
    price_per_minute: Option<f64>,
}

impl TryFrom<VoiceFields> for Voice {
    type Error = String;

    fn try_from(fields: VoiceFields) -> Result<Self, String> {
        let VoiceFields { kind, url, key, env_key, model, voice, command, format, timeout, price_per_million } = fields;
        let example = r#"["espeak-ng", "--stdin", "--stdout"]"#;
        let source = SourceRow::new(&kind, EndpointRow { url, key, env_key, model }, command, example)?;
        Ok(Self { source, voice, format, timeout, price_per_million })
    }
}

impl TryFrom<EarFields> for Ear {
    type Error = String;

    fn try_from(fields: EarFields) -> Result<Self, String> {
        let EarFields { kind, url, key, env_key, model, language, stream, command, timeout, price_per_minute } = fields;
        let example = r#"["pocketsphinx_continuous", "-infile", "/dev/stdin"]"#;
        let source = SourceRow::new(&kind, EndpointRow { url, key, env_key, model }, command, example)?;
        Ok(Self { source, language, stream, timeout, price_per_minute })
    }
}

impl SourceRow {
    fn new(kind: &str, endpoint: EndpointRow, command: Vec<String>, example: &str) -> Result<Self, String> {
        match kind {
            "openai" => Ok(Self::OpenAi(endpoint)),
            "command" if command.is_empty() => Err(format!("it has no command; set command = {example}")),
            "command" => Ok(Self::Command(command)),
            _ => Err("write openai or command".to_owned()),
        }
    }

    /// Returns the endpoint, if it is one.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&EndpointRow> {
        match self {
            Self::OpenAi(endpoint) => Some(endpoint),
            Self::Command(_) => None,
        }
    }
}

impl Voice {
    /// Returns the row of a command with the default values.
    #[must_use]
    pub const fn of_command(command: Vec<String>) -> Self {
        let source = SourceRow::Command(command);
        Self { source, voice: None, format: None, timeout: usual_timeout(), price_per_million: None }
    }
}

impl Ear {
    /// Returns the row of a command with the default values.
    #[must_use]
    pub const fn of_command(command: Vec<String>) -> Self {
        let source = SourceRow::Command(command);
        Self { source, language: None, stream: false, timeout: usual_timeout(), price_per_minute: None }
    }
}

const fn usual_timeout() -> Duration {
    Duration::from_secs(15)
}
