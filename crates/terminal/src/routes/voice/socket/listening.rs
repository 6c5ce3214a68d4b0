//! Speech of the client: samples become utterances, and these become texts of the session.

use std::collections::VecDeque;
use std::sync::Arc;

use super::VoiceSocket;
use crate::routes::voice::wire::Content;
use speech::hearing::{Found, Listener, Transcription, Words};
use web::client_socket::Disconnected;

/// Maximum number of utterances of one socket that are being transcribed.
const UTTERANCES_MAX: usize = 3;

/// The hearing of one socket.
#[derive(Default)]
pub(super) struct Hears {
    /// The open stream of samples.
    listener: Option<Listener>,
    /// The utterances that are being transcribed, in their order.
    utterances: VecDeque<Transcription>,
}

impl Hears {
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
        self.hears.listener = Some(Listener::new(hands_free));
        Ok(())
    }

    /// Ends the stream of samples.
    pub(super) async fn listen_end(&mut self) -> Result<(), Disconnected> {
        let Some(mut listener) = self.hears.listener.take() else { return Ok(()) };
        match listener.end() {
            Some(samples) => self.found(Found::Ends(samples)).await,
            None => Ok(()),
        }
    }

    /// Reads samples of the stream. A stream that cannot be read ends.
    pub(super) async fn sound(&mut self, samples: &[u8]) -> Result<(), Disconnected> {
        let Some(listener) = &mut self.hears.listener else {
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
                self.hears.listener = None;
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
        if self.hears.utterances.len() >= UTTERANCES_MAX {
            return self.refuse("too much speech waits for its transcript").await;
        }
        let hearing = Arc::clone(&self.parts.speech.hearing);
        self.hears.utterances.push_back(hearing.start(&samples, &self.person));
        Ok(())
    }

    /// Passes on words of the first utterance; all of them are a text of the session.
    pub(super) async fn heard(&mut self, words: Words) -> Result<(), Disconnected> {
        let text = match words {
            Words::Partial(text) => return self.send(String::new(), Content::Heard { text, last: false }).await,
            Words::Final(text) => text,
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
