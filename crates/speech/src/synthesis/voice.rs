//! The sources of audio: an endpoint with the OpenAI speech API, or a command of this machine.

use std::time::Duration;

use serde_json::json;

use super::Failure;
use super::clip::Recorder;
use super::format::Format;
use crate::clients::{Clients, Endpoint};
use crate::program;

/// One voice.
#[derive(Debug, Clone)]
pub struct Voice {
    /// The source of its audio.
    pub source: Source,
    /// The format of its audio.
    pub format: Format,
    /// The timeout of one sentence.
    pub timeout: Duration,
}

/// The source of audio.
#[derive(Debug, Clone)]
pub enum Source {
    /// An endpoint with the OpenAI speech API, and its name of the voice.
    OpenAi(Endpoint, String),
    /// A program with its arguments, started without a shell: it reads the text and writes audio.
    Command(Vec<String>),
}

impl Voice {
    /// Returns its name in logs: the model, or the program.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.source {
            Source::OpenAi(endpoint, _) => &endpoint.model,
            Source::Command(words) => words.first().map_or("", String::as_str),
        }
    }

    /// Returns its endpoint, if it is one.
    pub(super) const fn endpoint(&self) -> Option<&Endpoint> {
        match &self.source {
            Source::OpenAi(endpoint, _) => Some(endpoint),
            Source::Command(_) => None,
        }
    }

    /// Records a text.
    pub(super) async fn record(&self, clients: &Clients, text: &str, recorder: &Recorder) -> Result<(), Failure> {
        match &self.source {
            Source::OpenAi(endpoint, voice) => {
                let (model, format) = (&endpoint.model, self.format.name());
                let body = json!({"model": model, "voice": voice, "input": text, "response_format": format});
                let mut response = clients.post(endpoint, "application/json", body.to_string().into()).await?;
                while let Some(piece) = response.chunk().await.map_err(|failure| Failure::Refused(failure.cause))? {
                    recorder.push(self.format, &piece)?;
                }
            }
            Source::Command(words) => {
                program::run(words, text.as_bytes(), |more| recorder.push(self.format, more)).await?;
            }
        }
        recorder.complete()
    }
}
