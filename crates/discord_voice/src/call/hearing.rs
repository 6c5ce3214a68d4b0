//! The hearing of a call: samples of members become utterances, and these become questions.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::Call;
use domain::ids::Person;
use speech::hearing::{Found, Listener, RATE, Words};
use telemetry::events::VOICE_CHANNEL_DROPPED;

/// The maximum number of utterances of one call that are being transcribed.
const UTTERANCES_MAX: usize = 8;
/// The time without packets after which a member counts as silent: clients send none for silence.
const QUIET_AFTER: Duration = Duration::from_millis(100);
/// The bytes of silence that are added at once: 100 milliseconds.
const QUIET_BYTES: usize = RATE as usize / 10 * 2;

/// The members who are heard.
#[derive(Default)]
pub(super) struct Hearers {
    all: HashMap<u64, Hearer>,
    utterances: FuturesUnordered<BoxFuture<'static, (u64, Words)>>,
}

struct Hearer {
    listener: Listener,
    /// True inside an utterance.
    speaks: bool,
    /// The time of the last packet.
    last: Instant,
}

impl Hearers {
    /// True while a member speaks.
    pub(super) fn has_speaker(&self) -> bool {
        self.all.values().any(|hearer| hearer.speaks)
    }

    /// Discards the open utterance of a member.
    pub(super) fn forget(&mut self, user: u64) {
        self.all.remove(&user);
    }

    /// Waits for the words of an utterance. Cancel safe.
    pub(super) async fn next(&mut self) -> (u64, Words) {
        match self.utterances.next().await {
            Some(words) => words,
            None => std::future::pending().await,
        }
    }
}

impl Call<'_> {
    /// Reads samples of a member who agreed.
    pub(super) fn hear(&mut self, user: u64, samples: &[i16]) {
        if self.calls.speech.hearing.name().is_none() {
            return;
        }
        let now = Instant::now();
        let hearer = self.hearers.all.entry(user).or_insert_with(|| Hearer {
            listener: Listener::new(true),
            speaks: false,
            last: now,
        });
        hearer.last = now;
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        // Audio that arrives faster than it is spoken is dropped.
        let found = hearer.listener.push(&bytes).unwrap_or_default();
        self.found(user, found);
    }

    /// Adds silence for members who stopped inside an utterance, until it ends.
    pub(super) fn quiet(&mut self) {
        let is_silent = |hearer: &Hearer| hearer.speaks && hearer.last.elapsed() >= QUIET_AFTER;
        let silent = self.hearers.all.iter_mut().filter(|(_, hearer)| is_silent(hearer));
        let found: Vec<_> =
            silent.map(|(user, hearer)| (*user, hearer.listener.push(&[0; QUIET_BYTES]).unwrap_or_default())).collect();
        for (user, found) in found {
            self.found(user, found);
        }
    }

    fn found(&mut self, user: u64, found: Vec<Found>) {
        for found in found {
            let speaks = matches!(found, Found::Begins);
            if let Some(hearer) = self.hearers.all.get_mut(&user) {
                hearer.speaks = speaks;
            }
            match found {
                Found::Begins => self.interrupt(),
                Found::Ends(samples) => self.transcribe(user, &samples),
            }
        }
    }

    fn transcribe(&mut self, user: u64, samples: &[u8]) {
        let payer = self.room.payer_of(self.person(user), Vec::new());
        let has_room = self.hearers.utterances.len() < UTTERANCES_MAX;
        let Some(mut transcription) = has_room.then(|| self.calls.speech.hearing.start(samples, payer)).flatten()
        else {
            tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason = "too much speech waits for its transcript");
            return;
        };
        self.hearers.utterances.push(Box::pin(async move {
            loop {
                match transcription.next().await {
                    Words::Partial(_) => {}
                    words => return (user, words),
                }
            }
        }));
    }

    /// Passes on the words of a member, unless they no longer agree.
    pub(super) fn said(&mut self, user: u64, words: Words) {
        match words {
            Words::Final(text) if !text.is_empty() && self.agrees(user) => self.host.heard(self.person(user), text),
            Words::Failed(failure) => {
                tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason = %failure, "speech was not transcribed");
            }
            Words::Final(_) | Words::Partial(_) => {}
        }
    }

    pub(super) fn person(&self, user: u64) -> Person {
        Person::new(self.room.channel.door.clone(), user.to_string())
    }
}
