//! Speech of the client: samples become utterances, and these become texts of the session.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::{VoiceSocket, again};
use crate::routes::voice::wire::Content;
use speech::Failure;
use speech::hearing::{Found, Listener, Misfit, Transcription, Words};
use web::client_socket::Disconnected;

/// Maximum number of utterances of one socket that are being transcribed.
const UTTERANCES_MAX: usize = 3;
/// Minimum time between two equal refusals of samples to a client of Open-LLM-VTuber.
const REFUSAL_EVERY: Duration = Duration::from_secs(10);

/// The hearing of one socket.
#[derive(Default)]
pub(super) struct Hears {
    /// The listener of all streams of samples, one after the other.
    listener: Option<Listener>,
    /// True while a stream is open.
    is_open: bool,
    /// The last refusal of samples that the client was told, and its time.
    refused: Option<(Misfit, Instant)>,
    /// The utterances that are being transcribed, in their order.
    utterances: VecDeque<Transcription>,
}

impl Hears {
    fn open(&mut self) -> Option<&mut Listener> {
        self.listener.as_mut().filter(|_| self.is_open)
    }

    /// Waits for words of the first utterance. Cancel safe.
    pub async fn next(&mut self) -> Words {
        match self.utterances.front_mut() {
            Some(utterance) => utterance.next().await,
            None => std::future::pending().await,
        }
    }
}

impl VoiceSocket {
    /// Opens a stream of samples.
    pub(super) async fn listen(&mut self, hands_free: bool) -> Result<(), Disconnected> {
        if self.parts.speech.hearing.name().is_none() {
            return self.refuse("hearing is disabled; set speech.hearing, or send text").await;
        }
        if self.hears.is_open {
            return self.refuse("audio is open; send {\"event\": \"listen_end\"} first").await;
        }
        self.hears.listener.get_or_insert_with(|| Listener::new(hands_free)).restart(hands_free);
        self.hears.is_open = true;
        Ok(())
    }

    /// Ends the stream of samples.
    pub(super) async fn listen_end(&mut self) -> Result<(), Disconnected> {
        let Some(listener) = self.hears.open() else { return Ok(()) };
        let samples = listener.end();
        self.hears.is_open = false;
        match samples {
            Some(samples) => self.found(Found::Ends(samples)).await,
            None => Ok(()),
        }
    }

    /// Reads samples of the stream. A stream that cannot be read ends. A client of Open-LLM-VTuber begins the next one with
    /// its next samples, so it is told the same reason at most once in [`REFUSAL_EVERY`].
    pub(super) async fn sound(&mut self, samples: &[u8]) -> Result<(), Disconnected> {
        let Some(listener) = self.hears.open() else {
            return self.refuse("audio needs {\"event\": \"listen\"} first").await;
        };
        match listener.push(samples) {
            Ok(found) => {
                for found in found {
                    self.found(found).await?;
                }
                Ok(())
            }
            Err(misfit) => {
                self.hears.is_open = false;
                if let Some(vtuber) = &mut self.vtuber {
                    vtuber.stream_ended();
                    let told = |(known, at): (Misfit, Instant)| known == misfit && at.elapsed() < REFUSAL_EVERY;
                    if self.hears.refused.is_some_and(told) {
                        return Ok(());
                    }
                }
                self.hears.refused = Some((misfit, Instant::now()));
                self.refuse(&misfit.to_string()).await
            }
        }
    }

    async fn found(&mut self, found: Found) -> Result<(), Disconnected> {
        let samples = match found {
            Found::Begins => return self.send(String::new(), Content::Speech { on: true }).await,
            Found::Ends(samples) => samples,
        };
        self.send(String::new(), Content::Speech { on: false }).await?;
        let hearing = &self.parts.speech.hearing;
        let has_room = self.hears.utterances.len() < UTTERANCES_MAX;
        match has_room.then(|| hearing.start(&samples, self.payer())).flatten() {
            Some(transcription) => {
                self.hears.utterances.push_back(transcription);
                Ok(())
            }
            None => self.refuse("too much speech waits for its transcript").await,
        }
    }

    /// Passes on words of the first utterance; all of them are a text of the session.
    pub(super) async fn heard(&mut self, words: Words) -> Result<(), Disconnected> {
        let text = match words {
            Words::Partial(text) => return self.send(String::new(), Content::Heard { text, last: false }).await,
            Words::Final(text) => text,
            Words::Failed(Failure::OverLimit(wait)) => {
                self.hears.utterances.pop_front();
                return self.refuse(&format!("the limit of speech is reached; write instead{}", again(wait))).await;
            }
            Words::Failed(_) => {
                self.hears.utterances.pop_front();
                return self.refuse("what was said could not be transcribed; say it again, or write").await;
            }
        };
        self.hears.utterances.pop_front();
        self.send(String::new(), Content::Heard { text: text.clone(), last: true }).await?;
        if text.is_empty() { Ok(()) } else { self.submit(text, None).await }
    }
}
