//! The sources of transcripts: an endpoint with the OpenAI transcription API, or a command of this machine.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http_client::{Events, Form, Response};
use serde_json::Value;

use crate::clients::Clients;
use crate::failure::Failure;
use crate::program;
use crate::source::Source;
use domain::json_values;
use ports::micros;

/// Maximum size of a transcript, in bytes: more than the longest utterance can contain.
const TEXT_MAX: usize = 8 * 1024;
/// Maximum size of a response, in bytes.
const RESPONSE_MAX: usize = 256 * 1024;
/// Maximum number of JSON values of a response or an event: a value takes many times the memory of its text. A transcript
/// with a time for each word has a few thousand.
const VALUES_MAX: usize = 16_384;

/// One row.
#[derive(Debug, Clone)]
pub struct Ear {
    /// The source of its transcripts. A program reads a WAV file and prints the words; each line that it prints early is a
    /// partial transcript.
    pub source: Source,
    /// The language of the speaker at an endpoint as ISO 639-1, if it is fixed.
    pub language: Option<String>,
    /// True if an endpoint returns partial transcripts.
    pub streams: bool,
    /// The timeout of one utterance.
    pub timeout: Duration,
    /// The price in dollars per minute. `None` costs nothing.
    pub price: Option<f64>,
}

impl Ear {
    /// Returns the cost of this many minutes in millionths of a dollar.
    pub(super) fn micros(&self, minutes: f64) -> u64 {
        micros(self.price, minutes * 1e6)
    }

    /// Returns the words of a WAV file.
    pub(super) async fn hear(
        &self,
        clients: &Clients,
        wave: &[u8],
        mut partial: impl FnMut(&str),
    ) -> Result<String, Failure> {
        let text = match &self.source {
            Source::OpenAi(endpoint) => {
                let body =
                    form(&endpoint.model, self.language.as_deref(), self.streams, wave).map_err(Failure::Refused)?;
                let response = clients.post(endpoint, &body.0, body.1).await?;
                read(response, partial).await?
            }
            Source::Command(words) => {
                let mut printed = Vec::new();
                program::run(words, wave, |more| {
                    printed.extend_from_slice(more);
                    if printed.len() > TEXT_MAX {
                        return Err(too_long());
                    }
                    let lines = printed.iter().rposition(|byte| *byte == b'\n').map(|end| &printed[..end]);
                    lines
                        .map(String::from_utf8_lossy)
                        .map(|lines| joined(&lines))
                        .iter()
                        .for_each(|text| partial(text));
                    Ok(())
                })
                .await?;
                String::from_utf8_lossy(&printed).into_owned()
            }
        };
        if text.len() > TEXT_MAX { Err(too_long()) } else { Ok(joined(&text)) }
    }
}

fn too_long() -> Failure {
    Failure::Refused("the transcript is too long".to_owned())
}

/// Returns the words with single spaces.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn form(model: &str, language: Option<&str>, streams: bool, wave: &[u8]) -> Result<(String, Vec<u8>), String> {
    let mut form = Form::without_parts();
    form.part("file", Some("speech.wav"), "audio/wav", wave)?;
    let fields = [("model", Some(model)), ("response_format", Some("json")), ("language", language)];
    let streamed = streams.then_some(("stream", Some("true")));
    for (name, value) in fields.into_iter().chain(streamed) {
        if let Some(value) = value {
            form.part(name, None, "text/plain", value.as_bytes())?;
        }
    }
    let (content_type, bytes) = form.finish();
    Ok((content_type.to_str().map_err(|error| error.to_string())?.to_owned(), bytes.into()))
}

/// Reads a response: one JSON object, or a stream of events.
async fn read(mut response: Response, mut partial: impl FnMut(&str)) -> Result<String, Failure> {
    let kind = response.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_stream = kind.starts_with("text/event-stream");
    let no_transcript = || Failure::Refused("the response has no transcript".to_owned());
    let (mut whole, mut events, mut text, mut size) = (Vec::new(), Events::default(), String::new(), 0);
    while let Some(piece) = response.chunk().await.map_err(|failure| Failure::Refused(failure.cause))? {
        size += piece.len();
        if size > RESPONSE_MAX {
            return Err(too_long());
        }
        if !is_stream {
            whole.extend_from_slice(&piece);
            continue;
        }
        for data in events.feed(&piece).map_err(|_| too_long())? {
            // The end of a stream may be a word that is no JSON.
            let Some(event) = parsed(&data) else { continue };
            match (event["type"].as_str(), event["delta"].as_str(), event["text"].as_str()) {
                (Some("transcript.text.delta"), Some(more), _) => {
                    text.push_str(more);
                    partial(text.trim());
                }
                (Some("transcript.text.done"), _, Some(all)) => return Ok(all.to_owned()),
                _ => {}
            }
        }
    }
    let answer = parsed(&whole).ok_or_else(no_transcript)?;
    answer["text"].as_str().map(str::to_owned).ok_or_else(no_transcript)
}

/// Parses JSON; `None` if it is not valid, or has too many values.
fn parsed(json: &[u8]) -> Option<Value> {
    if json_values::count(json) > VALUES_MAX { None } else { serde_json::from_slice(json).ok() }
}
