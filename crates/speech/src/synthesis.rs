//! The synthesis of sentences: voices are rows of the settings, tried in order until one returns audio.
//!
//! Sentences are synthesized concurrently, within a number of permits that all sessions share. Audio is passed on while
//! it arrives. Each audio is bounded in size and time; completed ones are cached within a number of bytes.

mod cache;
mod clip;
mod format;
mod voice;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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
use ports::shares::Shares;
use ports::{Bill, Meter, PaidWork, WorkMetering, WorkPayer};
use telemetry::events::SPEECH_FAILED;

/// Maximum number of clips of all sessions that are synthesized or delivered at once. One person has at most half of them.
const PERMITS: usize = 16;

/// Maximum time for a permit; behind slow readers a sentence stays text.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The voices, with what all sessions share.
pub struct Synthesis {
    voices: Vec<Voice>,
    clients: Clients,
    permits: Shares,
    cache: Mutex<Cache>,
    meter: Meter,
}

impl Synthesis {
    /// Creates the synthesis with these voices. Blocks while it reads the certificates of the system.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(voices: Vec<Voice>) -> Result<Self, String> {
        let clients = Clients::of(voices.iter().map(|voice| &voice.source))?;
        let permits = Shares::new(Arc::new(Semaphore::new(PERMITS)));
        Ok(Self { voices, clients, permits, cache: Mutex::default(), meter: None })
    }

    /// Returns the same synthesis, whose costs are counted here.
    #[must_use]
    pub fn counted_by(self, meter: Arc<dyn WorkMetering>) -> Self {
        Self { meter: Some(meter), ..self }
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

    /// Begins to synthesize a text, which this person pays for; a cached one is free, but needs a permit as well, because
    /// its audio is held until it is read. Dropping the clip cancels it, and frees its permit. A session therefore starts
    /// the next clip only when the one before has [begun](Clip::has_begun).
    #[must_use]
    pub fn start(self: &Arc<Self>, text: &str, payer: impl Into<WorkPayer>) -> Clip {
        let key = Cache::key(text);
        let (this, text, payer) = (Arc::clone(self), text.to_owned(), payer.into());
        let permit = self.permits.take(Some(&payer.person));
        let cached = self.cache.lock().get(&key);
        let is_cached = cached.is_some();
        let permit = match (permit, cached) {
            (Some(permit), Some((format, bytes))) => return Clip::whole(format, bytes, permit),
            (permit, _) => permit,
        };
        let mut bill = Box::pin(this.bill(&text, &payer));
        // Without a server, the cost is reserved here, so sentences are reserved in their order.
        let reserved = (!is_cached).then(|| bill.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        Clip::recorded(permit, move |recorder| async move {
            if is_cached {
                if let Err(late) = this.begin(&recorder, &payer).await {
                    return recorder.end(Err(late));
                }
                let cached = this.cache.lock().get(&key);
                if let Some((format, bytes)) = cached {
                    return recorder.end(recorder.push(format, &bytes));
                }
            }
            let bill = match reserved {
                Some(Poll::Ready(bill)) => bill,
                Some(Poll::Pending) | None => bill.await,
            };
            let mut bill = match bill {
                Ok(bill) => bill,
                Err(failure) => return recorder.end(Err(failure)),
            };
            if let Err(late) = this.begin(&recorder, &payer).await {
                return recorder.end(Err(late));
            }
            let result = this.record(&text, &mut bill, &recorder).await;
            if let (Ok(format), Some(bytes)) = (&result, recorder.recorded()) {
                this.cache.lock().put(key, *format, bytes);
            }
            recorder.end(result.map(drop));
        })
    }

    /// Waits for the permit of a recording that has none.
    async fn begin(&self, recorder: &Recorder, payer: &WorkPayer) -> Result<(), Failure> {
        if !recorder.has_begun() {
            let permit = timeout(PERMIT_TIMEOUT, self.permits.wait(Some(&payer.person))).await;
            recorder.begin(permit.map_err(|_| Failure::Late)?);
        }
        Ok(())
    }

    /// Reserves the cost of a text: that of the most expensive voice.
    fn bill(&self, text: &str, payer: &WorkPayer) -> impl Future<Output = Result<Bill, Failure>> + Send + use<> {
        let most = self.voices.iter().map(|voice| voice.micros(text)).max().unwrap_or_default();
        let (meter, payer) = (self.meter.clone(), payer.clone());
        async move { Bill::reserve(&meter, &payer, PaidWork::Synthesis, most).await.map_err(Failure::over_limit) }
    }

    /// Records the text with the first voice that returns audio.
    async fn record(&self, text: &str, bill: &mut Bill, recorder: &Recorder) -> Result<Format, Failure> {
        let mut failed = Failure::Refused("no voice is configured".to_owned());
        for voice in &self.voices {
            bill.begin(voice.micros(text));
            let recorded = timeout(voice.timeout, voice.record(&self.clients, text, recorder)).await;
            let recorded = recorded.unwrap_or(Err(Failure::Late));
            let has_audio = recorder.has_audio();
            bill.end(has_audio || recorded == Err(Failure::Late));
            failed = match recorded {
                Ok(()) => return Ok(voice.format),
                Err(failure) => failure,
            };
            tracing::warn!(event = SPEECH_FAILED, voice = voice.source.name(), reason = %failed, "a sentence was not synthesized");
            // Audio of two voices cannot be joined.
            if has_audio {
                break;
            }
        }
        Err(failed)
    }
}

#[cfg(test)]
mod tests;
