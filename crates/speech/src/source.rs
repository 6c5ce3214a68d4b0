//! The sources of audio and of transcripts.

use http::Uri;
use secrecy::SecretString;

/// The source of audio or of transcripts.
#[derive(Debug, Clone)]
pub enum Source {
    /// An endpoint with the OpenAI audio API.
    OpenAi(Endpoint),
    /// A program with its arguments, started without a shell.
    Command(Vec<String>),
}

/// An endpoint with the OpenAI audio API.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address of `/audio/speech` or `/audio/transcriptions`.
    pub url: Uri,
    /// True if it is on this machine: proxies do not apply.
    pub here: bool,
    /// The key.
    pub key: Option<SecretString>,
    /// The model.
    pub model: String,
}

impl Source {
    /// Returns its name in logs: the model, or the program.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::OpenAi(endpoint) => &endpoint.model,
            Self::Command(words) => words.first().map_or("", String::as_str),
        }
    }

    /// Returns its endpoint, if it is one.
    pub(crate) const fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::OpenAi(endpoint) => Some(endpoint),
            Self::Command(_) => None,
        }
    }
}
