//! Hearing: finds utterances in a stream of samples ([`Listener`]); rows of the settings transcribe them.
//!
//! Rows are tried in order until one returns a transcript. Utterances are transcribed within a number of permits that all
//! sessions share.

mod ear;
mod listener;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;

pub use self::ear::Ear;
pub use self::listener::{Found, Listener, Misfit, RATE, UTTERANCE_MAX};
use crate::clients::Clients;
use crate::failure::Failure;
use ports::shares::Shares;
use ports::{Bill, Meter, PaidWork, WorkMetering, WorkPayer};
use telemetry::events::HEARING_FAILED;

/// Maximum number of utterances of all sessions that are being transcribed. One person has at most half of them.
const PERMITS: usize = 8;
/// Maximum number of utterances of all sessions that wait or are being transcribed. One person has at most half of them.
const WAITING: usize = 32;
/// Maximum time for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of transcripts that wait for a slow reader; further partial ones are dropped.
const WORDS: usize = 8;

/// The rows that hear, with what all sessions share.
pub struct Hearing {
    ears: Vec<Ear>,
    clients: Clients,
    permits: Shares,
    waiting: Shares,
    meter: Meter,
}

/// The words of an utterance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// The words so far.
    Partial(String),
    /// All words; empty if there were none.
    Final(String),
    /// No row returned a transcript.
    Failed(Failure),
}

/// An utterance that is being transcribed. Dropping it cancels it.
pub struct Transcription {
    words: mpsc::Receiver<Words>,
    task: AbortHandle,
}

impl Hearing {
    /// Creates the hearing with these rows. Blocks while it reads the certificates of the system.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(ears: Vec<Ear>) -> Result<Self, String> {
        let clients = Clients::of(ears.iter().map(|ear| &ear.source))?;
        let shares = |most| Shares::new(Arc::new(Semaphore::new(most)));
        Ok(Self { ears, clients, permits: shares(PERMITS), waiting: shares(WAITING), meter: None })
    }

    /// Returns the same hearing, whose costs are counted here.
    #[must_use]
    pub fn counted_by(self, meter: Arc<dyn WorkMetering>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// Returns the name of the first row; `None` if there is none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.ears.first().map(|ear| ear.source.name())
    }

    /// Begins to transcribe samples of this person, who pays: [`RATE`] per second, one channel, 16 bits, little-endian.
    /// `None` if too many utterances wait.
    #[must_use]
    pub fn start(self: &Arc<Self>, samples: &[u8], payer: impl Into<WorkPayer>) -> Option<Transcription> {
        let payer = payer.into();
        let place = self.waiting.take(Some(&payer.person))?;
        let (told, words) = mpsc::channel(WORDS);
        let (this, wave, minutes) = (Arc::clone(self), wave(samples), minutes(samples));
        let task = tokio::spawn(async move {
            let last = match timeout(PERMIT_TIMEOUT, this.permits.wait(Some(&payer.person))).await {
                Ok(_permit) => {
                    let words = this.transcribe((&wave, minutes), &payer, &told).await;
                    words.map_or_else(Words::Failed, Words::Final)
                }
                Err(_) => Words::Failed(Failure::Late),
            };
            // The words are short.
            drop((wave, place));
            // The reader may have gone.
            let _ = told.send(last).await;
        });
        Some(Transcription { words, task: task.abort_handle() })
    }

    async fn transcribe(
        &self,
        (wave, minutes): (&[u8], f64),
        payer: &WorkPayer,
        told: &mpsc::Sender<Words>,
    ) -> Result<String, Failure> {
        let mut failed = Failure::Refused("hearing is disabled".to_owned());
        let most = self.ears.iter().map(|ear| ear.micros(minutes)).max().unwrap_or_default();
        let mut bill = Bill::reserve(&self.meter, payer, PaidWork::Hearing, most).await.map_err(Failure::over_limit)?;
        for ear in &self.ears {
            bill.begin(ear.micros(minutes));
            let partial = |words: &str| {
                // A full channel has newer words soon.
                let _ = told.try_send(Words::Partial(words.to_owned()));
            };
            let heard = timeout(ear.timeout, ear.hear(&self.clients, wave, partial)).await;
            let heard = heard.unwrap_or(Err(Failure::Late));
            bill.end(matches!(heard, Ok(_) | Err(Failure::Late)));
            failed = match heard {
                Ok(words) => return Ok(words),
                Err(failure) => failure,
            };
            tracing::warn!(event = HEARING_FAILED, row = ear.source.name(), reason = %failed, "an utterance was not transcribed");
        }
        Err(failed)
    }
}

impl Transcription {
    /// Waits for the next words; the last ones are not [`Words::Partial`]. Cancel safe.
    pub async fn next(&mut self) -> Words {
        let gone = || Words::Failed(Failure::Refused("the transcription was cancelled".to_owned()));
        self.words.recv().await.unwrap_or_else(gone)
    }
}

impl Drop for Transcription {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the duration of samples in minutes.
#[expect(clippy::cast_precision_loss, reason = "utterances are short")]
fn minutes(samples: &[u8]) -> f64 {
    samples.len() as f64 / f64::from(RATE * 2) / 60.0
}

/// Returns samples as a WAV file.
fn wave(samples: &[u8]) -> Vec<u8> {
    let length = u32::try_from(samples.len()).unwrap_or(u32::MAX);
    let mut wave = Vec::with_capacity(samples.len() + 44);
    wave.extend_from_slice(b"RIFF");
    wave.extend_from_slice(&length.saturating_add(36).to_le_bytes());
    wave.extend_from_slice(b"WAVEfmt ");
    // The length of this part; samples without compression, one channel.
    wave.extend_from_slice(&[16, 0, 0, 0, 1, 0, 1, 0]);
    wave.extend_from_slice(&RATE.to_le_bytes());
    wave.extend_from_slice(&(RATE * 2).to_le_bytes());
    // The bytes and the bits of a sample.
    wave.extend_from_slice(&[2, 0, 16, 0]);
    wave.extend_from_slice(b"data");
    wave.extend_from_slice(&length.to_le_bytes());
    wave.extend_from_slice(samples);
    wave
}

#[cfg(test)]
mod tests;
