//! The sources of audio: an endpoint with the OpenAI speech API, or a command of this machine.

use std::time::Duration;

use serde_json::json;

use super::Failure;
use super::clip::Recorder;
use super::format::Format;
use crate::clients::Clients;
use crate::program;
use crate::source::Source;
use ports::micros;

/// One voice.
#[derive(Debug, Clone)]
pub struct Voice {
    /// The source of its audio. A program reads the text and writes audio.
    pub source: Source,
    /// The name of the voice at an endpoint.
    pub voice: String,
    /// The format of its audio.
    pub format: Format,
    /// The timeout of one sentence.
    pub timeout: Duration,
    /// The price in dollars per million characters. `None` costs nothing.
    pub price: Option<f64>,
}

impl Voice {
    /// Returns the cost of a text in millionths of a dollar.
    #[expect(clippy::cast_precision_loss, reason = "texts are short")]
    pub(super) fn micros(&self, text: &str) -> u64 {
        micros(self.price, text.chars().count() as f64)
    }

    /// Records a text.
    pub(super) async fn record(&self, clients: &Clients, text: &str, recorder: &Recorder) -> Result<(), Failure> {
        match &self.source {
            Source::OpenAi(endpoint) => {
                let (model, voice, format) = (&endpoint.model, &self.voice, self.format.name());
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
