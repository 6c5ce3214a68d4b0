//! The synthesis of sentences: voices are rows of the settings, tried in order until one returns audio.
//!
//! Sentences are synthesized concurrently, within a number of permits that all sessions share. Audio is passed on while
//! it arrives. Each audio is bounded in size and time; completed ones are cached within a number of bytes.

mod cache;
mod clip;
mod format;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::cache::Cache;
use self::clip::Recorder;
pub use self::clip::{AUDIO_MAX, Clip, Sound};
pub use self::format::Format;
pub use self::voice::Voice;
use crate::clients::Clients;
pub use crate::failure::Failure;
use domain::ids::Person;
use ports::shares::Shares;
use telemetry::events::SPEECH_FAILED;

/// Maximum number of audios of all sessions that are being synthesized or delivered. One person has at most half of them.
const PERMITS: usize = 16;

/// Maximum time for a permit; behind slow readers a sentence stays text.
const PERMIT_WITHIN: Duration = Duration::from_secs(30);

/// The voices, with what all sessions share.
pub struct Synthesis {
    voices: Vec<Voice>,
    clients: Clients,
    permits: Shares,
    cache: Mutex<Cache>,
}

impl Synthesis {
    /// Creates the synthesis with these voices. Blocks while it reads the certificates of the system.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(voices: Vec<Voice>) -> Result<Self, String> {
        let clients = Clients::of(voices.iter().map(|voice| &voice.source))?;
        let permits = Shares::new(Arc::new(Semaphore::new(PERMITS)));
        Ok(Self { voices, clients, permits, cache: Mutex::default() })
    }

    /// True if no voice is configured.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.voices.is_empty()
    }

    /// Returns the name of the first voice.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.voices.first().map(|voice| voice.source.name())
    }

    /// Begins to synthesize a text for this person. Dropping the clip cancels it, and frees its permit. A session
    /// therefore starts the next clip only when the one before has [begun](Clip::has_begun).
    #[must_use]
    pub fn start(self: &Arc<Self>, text: &str, holder: &Person) -> Clip {
        let key = Cache::key(text);
        if let Some((format, bytes)) = self.cache.lock().get(&key) {
            return Clip::whole(format, bytes);
        }
        let (this, text, holder) = (Arc::clone(self), text.to_owned(), holder.clone());
        let permit = self.permits.take(Some(&holder));
        Clip::recorded(permit, move |recorder| async move {
            if !recorder.has_begun() {
                let Ok(permit) = timeout(PERMIT_WITHIN, this.permits.wait(Some(&holder))).await else {
                    return recorder.end(Err(Failure::Late));
                };
                recorder.begin(permit);
            }
            let result = this.record(&text, &recorder).await;
            if let (Ok(format), Some(bytes)) = (&result, recorder.recorded()) {
                this.cache.lock().put(key, *format, bytes);
            }
            recorder.end(result.map(drop));
        })
    }

    /// Records the text with the first voice that returns audio.
    async fn record(&self, text: &str, recorder: &Recorder) -> Result<Format, Failure> {
        let mut failed = Failure::Refused("no voice is configured".to_owned());
        for voice in &self.voices {
            let recorded = timeout(voice.timeout, voice.record(&self.clients, text, recorder)).await;
            failed = match recorded.unwrap_or(Err(Failure::Late)) {
                Ok(()) => return Ok(voice.format),
                Err(failure) => failure,
            };
            tracing::warn!(event = SPEECH_FAILED, voice = voice.source.name(), reason = %failed, "a sentence was not synthesized");
            // Audio of two voices cannot be joined.
            if recorder.has_audio() {
                break;
            }
        }
        Err(failed)
    }
}

#[cfg(test)]
mod tests;
