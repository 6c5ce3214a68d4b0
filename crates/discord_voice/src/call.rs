//! One call: the answers of a channel's turns become speech, and the speech of members who agreed becomes questions.

mod hearing;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_client::HttpClient;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use self::hearing::Hearers;
use super::driver::{self, Driver, Happening};
use super::pcm::{Samples, Unreadable};
use super::settings;
use domain::ids::{Person, Place};
use domain::layout::as_text;
use domain::notice::template;
use domain::outgoing::Part;
use domain::turn_event::{TurnEvent, TurnUpdate};
use ports::voice_calls::{
    CallEnd, CallHost, Consents, VoiceAccess, VoiceCalls, VoiceRoom, VoiceSignals, VoiceStanding,
};
use ports::{Clock, PostError, Reading, TurnEventLog, TurnEventReader};
use speech::Speech;
use speech::answer::Sentence;
use speech::answers::Answers;
use speech::queue::{Output, Queue, SentenceId};
use speech::synthesis::Sound;
use telemetry::events::{VOICE_CHANNEL_DROPPED, VOICE_CHANNEL_JOINED};

/// The timeout from the request to join until the platform names the voice server.
const ADMIT_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum number of sentences whose beginning is remembered, for an interruption.
const MARKS_MAX: usize = 256;
/// The interval at which silence of members is noted.
const SILENCE_EVERY: Duration = Duration::from_millis(100);
/// The longest text of an answer, in characters; more is not spoken anyway.
const TEXT_LIMIT: usize = 64 * 1024;

/// The voice channels of Discord.
pub struct Calls {
    signals: Arc<dyn VoiceSignals>,
    speech: Speech,
    events: Arc<dyn TurnEventLog>,
    clock: Arc<dyn Clock>,
    client: HttpClient,
}

impl Calls {
    /// Creates the calls of a bot. Blocks while it reads the certificates of the system.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(
        signals: Arc<dyn VoiceSignals>,
        speech: Speech,
        events: Arc<dyn TurnEventLog>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        Ok(Self { signals, speech, events, clock, client: HttpClient::new(settings())? })
    }
}

impl Calls {
    /// Returns the text of an answer. A long one is laid out on another thread.
    async fn text(&self, parts: &Arc<[Part]>) -> String {
        let (parts, now) = (Arc::clone(parts), self.clock.now());
        let laid_out = move || {
            // Files are in the text chat.
            let parts: Vec<Part> = parts.iter().filter(|part| !matches!(part, Part::File(_))).cloned().collect();
            template::spelled_out(&as_text(&parts, TEXT_LIMIT), now)
        };
        ports::blocking(laid_out).await.unwrap_or_default()
    }
}

/// Leaves the channel when the call ends.
struct Leaving<'a> {
    calls: &'a Calls,
    room: &'a VoiceRoom,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.calls.signals.request(&self.room.guild, None);
        self.calls.events.close(&self.room.channel);
    }
}

#[async_trait]
impl VoiceCalls for Calls {
    fn can_hear(&self) -> bool {
        self.speech.hearing.name().is_some()
    }

    async fn channel_of(&self, guild: &str, member: &Person) -> Result<Option<Place>, PostError> {
        self.signals.channel_of(guild, member).await
    }

    async fn run(&self, room: VoiceRoom, consents: Consents, host: Arc<dyn CallHost>) -> CallEnd {
        let mut standing = self.signals.standing(&room.guild);
        self.events.open(&room.channel);
        let _leaving = Leaving { calls: self, room: &room };
        self.signals.request(&room.guild, Some(&room.channel.id));
        let mut access = match timeout(ADMIT_TIMEOUT, admitted(&mut standing, &room)).await {
            Ok(Some(access)) => access,
            Ok(None) => return CallEnd::Lost("the connection to Discord ended".to_owned()),
            Err(_) => {
                let why = "Discord did not admit the bot: it may lack the permission to view or to enter the channel";
                return CallEnd::Lost(why.to_owned());
            }
        };
        let agreed = driver::Consents::default();
        loop {
            let driver = Driver::connect(self.client.clone(), access, Arc::clone(&agreed)).await;
            let driver = match driver {
                Ok(driver) => driver,
                Err(end) => return end,
            };
            tracing::info!(event = VOICE_CHANNEL_JOINED, guild = %room.guild, "the bot is in a voice channel");
            let Some(mut call) = Call::new(self, &room, driver, Arc::clone(&agreed), Arc::clone(&host)) else {
                return CallEnd::Lost("the events of the channel cannot be read".to_owned());
            };
            host.joined();
            match call.serve(&mut standing, consents.clone()).await {
                Ok(next) => access = next,
                Err(end) => return end,
            }
        }
    }
}

/// Waits until the platform names the voice server of the channel. `None` if it never will.
async fn admitted(standing: &mut watch::Receiver<VoiceStanding>, room: &VoiceRoom) -> Option<VoiceAccess> {
    loop {
        let access = standing.borrow_and_update().access.clone();
        if let Some(access) = access.filter(|access| room.channel.id == access.channel.as_str()) {
            return Some(access);
        }
        standing.changed().await.ok()?;
    }
}

/// A call on one connection.
struct Call<'a> {
    calls: &'a Calls,
    room: &'a VoiceRoom,
    host: Arc<dyn CallHost>,
    driver: Driver,
    agreed: driver::Consents,
    reader: TurnEventReader,
    last: u64,
    answers: Answers,
    queue: Queue<()>,
    /// The sentence whose audio arrives; without samples if it is unreadable.
    samples: Option<(SentenceId, Option<Samples>)>,
    /// The sentences of the last marks, oldest first.
    marks: VecDeque<(u64, SentenceId)>,
    mark: u64,
    /// The turn whose speech a limit ended.
    text_only: Option<String>,
    hearers: Hearers,
    silence: Interval,
}

impl<'a> Call<'a> {
    fn new(
        calls: &'a Calls,
        room: &'a VoiceRoom,
        driver: Driver,
        agreed: driver::Consents,
        host: Arc<dyn CallHost>,
    ) -> Option<Self> {
        let last = *calls.events.read(&room.channel, 0)?.newest.borrow();
        let reader = TurnEventReader::new(Arc::clone(&calls.events), room.channel.clone(), last)?;
        let mut silence = interval(SILENCE_EVERY);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self {
            calls,
            room,
            host,
            driver,
            agreed,
            reader,
            last,
            answers: Answers::of_turns(),
            queue: Queue::default(),
            samples: None,
            marks: VecDeque::new(),
            mark: 0,
            text_only: None,
            hearers: Hearers::default(),
            silence,
        })
    }

    /// Serves the call until it ends, or until it moves to another voice server.
    async fn serve(
        &mut self,
        standing: &mut watch::Receiver<VoiceStanding>,
        mut consents: Consents,
    ) -> Result<VoiceAccess, CallEnd> {
        let gone = || CallEnd::Lost("the bot stops".to_owned());
        self.agree(&consents.borrow_and_update().clone());
        loop {
            self.queue.start(&self.calls.speech.synthesis, self.room.payer());
            // The bot listens while a member who agreed speaks.
            let speaks = self.driver.has_room() && !self.hearers.has_speaker();
            tokio::select! {
                biased;
                changed = consents.changed() => {
                    changed.map_err(|_| gone())?;
                    self.agree(&consents.borrow_and_update().clone());
                }
                happening = self.driver.next() => self.happened(happening)?,
                changed = standing.changed() => {
                    changed.map_err(|_| gone())?;
                    if let Some(access) = self.moved(&standing.borrow_and_update())? {
                        return Ok(access);
                    }
                }
                output = self.queue.next(), if speaks => self.give(output),
                (user, words) = self.hearers.next() => self.said(user, words),
                reading = self.reader.next(), if self.queue.has_room() => match reading {
                    Some(Reading::Event(event)) => self.tell(event).await,
                    Some(Reading::Missed(number)) => {
                        self.last = number;
                        self.answers.clear();
                    }
                    None => self.read_on()?,
                },
                _ = self.silence.tick() => self.quiet(),
            }
        }
    }

    /// Returns the access to another voice server of the same channel.
    fn moved(&self, standing: &VoiceStanding) -> Result<Option<VoiceAccess>, CallEnd> {
        let here = |channel: &String| self.room.channel.id == channel.as_str();
        if !standing.channel.as_ref().is_some_and(here) {
            return Err(CallEnd::Dismissed("the bot was moved or disconnected".to_owned()));
        }
        let access = standing.access.as_ref();
        Ok(access.filter(|access| !self.driver.is_at(&access.endpoint)).cloned())
    }

    /// Starts the reader again after it was cut off.
    fn read_on(&mut self) -> Result<(), CallEnd> {
        let reader = TurnEventReader::new(Arc::clone(&self.calls.events), self.room.channel.clone(), self.last);
        self.reader = reader.ok_or_else(|| CallEnd::Lost("the events of the channel ended".to_owned()))?;
        Ok(())
    }

    fn happened(&mut self, happening: Happening) -> Result<(), CallEnd> {
        match happening {
            Happening::Heard(user, samples) => self.hear(user, &samples),
            Happening::Left(user) => {
                self.hearers.forget(user);
                self.host.left(self.person(user));
            }
            Happening::Ended(end) => return Err(end),
        }
        Ok(())
    }

    /// Takes over the members who agree to be heard. Speech of others is discarded, also if it is being transcribed.
    fn agree(&mut self, people: &Arc<HashSet<Person>>) {
        let users: HashSet<u64> = people.iter().filter_map(|person| person.id.parse().ok()).collect();
        let before = std::mem::replace(&mut *self.agreed.write(), users.clone());
        for user in before.difference(&users) {
            self.driver.forget(*user);
            self.hearers.forget(*user);
        }
    }

    /// Reads an event of the channel.
    async fn tell(&mut self, event: Arc<TurnEvent>) {
        self.last = event.number;
        let turn = event.turn.id.to_string();
        let text = match &event.update {
            TurnUpdate::Final { parts, .. } | TurnUpdate::Apology { parts, .. } if self.answers.is_open(&turn) => {
                self.calls.text(parts).await
            }
            _ => String::new(),
        };
        let said_in = (&*self.calls.speech.phrases, self.room.language.as_deref());
        let sentences = self.answers.read(&turn, &event.update, &text, said_in);
        self.speak(event.number, &turn, sentences);
    }

    fn speak(&mut self, number: u64, turn: &str, sentences: Vec<Sentence>) {
        let is_voiced = !self.calls.speech.synthesis.is_silent() && self.text_only.as_deref() != Some(turn);
        for Sentence { number: sentence, speech, .. } in sentences {
            let of = SentenceId { number, turn: turn.to_owned(), sentence };
            if is_voiced && !speech.is_empty() && !self.queue.speak(of, speech) {
                tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason = "too much text waits to be spoken");
            }
        }
    }

    /// Passes audio to the connection.
    fn give(&mut self, output: Output<()>) {
        let Output::Sound(of, sound) = output else { return };
        match sound {
            Sound::Piece(format, bytes) => {
                if self.samples.as_ref().is_none_or(|(known, _)| *known != of) {
                    self.mark += 1;
                    self.marks.push_back((self.mark, of.clone()));
                    if self.marks.len() > MARKS_MAX {
                        self.marks.pop_front();
                    }
                    self.samples = Some((of, Some(Samples::new(format))));
                }
                let Some((_, arriving)) = &mut self.samples else { return };
                match arriving.as_mut().map(|samples| samples.push(&bytes)) {
                    Some(Ok(frames)) => frames.into_iter().for_each(|frame| self.driver.speak(self.mark, frame)),
                    Some(Err(Unreadable)) => {
                        *arriving = None;
                        let reason = "the audio of a voice is unreadable";
                        tracing::warn!(event = VOICE_CHANNEL_DROPPED, reason, "a sentence was not spoken");
                    }
                    None => {}
                }
            }
            Sound::End | Sound::Failed(_) => {
                if let Sound::Failed(speech::Failure::OverLimit(_)) = sound {
                    self.queue.silence(Some(&of.turn));
                    self.text_only = Some(of.turn.clone());
                }
                let last = self.samples.take().filter(|(known, _)| *known == of);
                if let Some(frame) = last.and_then(|(_, samples)| samples?.end()) {
                    self.driver.speak(self.mark, frame);
                }
            }
        }
    }

    /// Stops the answer that is being spoken, because a member who agreed to be heard speaks. If none is, the newest open
    /// answer ends: its model thinks, a tool runs, or an approval waits.
    fn interrupt(&mut self) {
        let sentence = |mark: Option<u64>| self.marks.iter().find(|(known, _)| Some(*known) == mark).map(|(_, of)| of);
        let sounds = sentence(self.driver.sounds()).map(|of| of.turn.as_str()).or_else(|| self.queue.turn());
        let Some(turn) = sounds.or_else(|| self.answers.newest_open()).map(str::to_owned) else { return };
        // Between two sentences, the last one that was spoken.
        let heard = sentence(self.driver.spoken()).filter(|of| of.turn == turn).map(|of| of.sentence);
        self.driver.hush();
        self.samples = None;
        self.queue.silence(Some(&turn));
        let Some(answer) = self.answers.of(&turn) else { return };
        answer.is_cut = true;
        if answer.is_exchange && !answer.is_heard(heard) {
            let heard = answer.heard(heard).to_owned();
            self.host.interrupted(turn, heard);
        }
    }

    /// True if a member agrees to be heard.
    fn agrees(&self, user: u64) -> bool {
        self.agreed.read().contains(&user)
    }
}
