//! The loop of one socket.

mod listening;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use self::listening::Hears;
use super::pictures;
use super::vtuber::{Step, Vtuber};
use super::wire::{Content, Event, Request};
use crate::DOOR;
use crate::routes::{Parts, decided, submit};
use crate::sessions::{Sessions, owner_of};
use crate::wire::{self, Update};
use domain::api_key::Caller;
use domain::history::{Exchange, interrupted};
use domain::ids::{MessageId, Person, Place};
use domain::incoming::{Incoming, Interruption};
use domain::turn_event::{TurnEvent, TurnUpdate};
use ports::{Reading, TurnEventReader, WorkPayer};
use speech::answer::Sentence;
use speech::answers::Answers;
use speech::queue::{Output, Queue, SentenceId};
use speech::synthesis::Sound;
use speech::{Failure, Speech};
use web::client_socket::{ClientSocket, CloseCode, Disconnected, Error, Message as Frame};

/// Maximum size of a message of the client, in bytes.
pub(super) const MESSAGE_MAX: usize = 64 * 1024;

pub(super) struct VoiceSocket {
    socket: ClientSocket,
    parts: Parts,
    caller: Caller,
    place: Place,
    person: Person,
    reader: TurnEventReader,
    answers: Answers,
    queue: Queue<Event>,
    hears: Hears,
    muted: bool,
    /// The turn whose speech a limit ended last: the rest of it is text.
    text_only: Option<String>,
    /// The language of the speaker, for announcements of tools.
    language: Option<String>,
    /// The message names of Open-LLM-VTuber's front end, for a client that has them.
    vtuber: Option<Vtuber>,
    /// The number of the last event that was read.
    last: u64,
    /// The position at which a client resumes, until it is reached.
    resumes: Option<Resumed>,
}

/// Returns when speech is available again.
fn again(wait: Option<Duration>) -> String {
    wait.map_or_else(String::new, |wait| format!(". Speech is available again in {} seconds", wait.as_secs() + 1))
}

/// The wishes of a client that opens a socket.
#[derive(Default)]
pub(super) struct Opening {
    /// The last event that the client has, and the last sentence whose audio it has; `None` for a new client.
    pub position: Option<(u64, Option<usize>)>,
    /// The language of the speaker.
    pub language: Option<String>,
    /// The message names of Open-LLM-VTuber's front end.
    pub vtuber: Option<Vtuber>,
}

/// The position at which a client resumes.
struct Resumed {
    after: u64,
    sentence: Option<usize>,
    /// The sentences of the last turn before it.
    before: Vec<(u64, String, Sentence)>,
    /// The approvals that a new client is told: those that still wait. `None` for a client that knows them.
    waiting: Option<Vec<Event>>,
}

/// Returns the event of an update, which follows its sentences.
fn content(update: Update) -> Option<Content> {
    match update {
        Update::Accepted => Some(Content::Accepted),
        Update::Tool { call, name, state, failure, .. } => Some(Content::ToolStatus { call, name, state, failure }),
        Update::Gate { id, question, expires_at, form, link, decision } => {
            Some(Content::Approval { id, question, expires_at, form, link, decision })
        }
        Update::Done { unanswered } => Some(Content::Done { unanswered }),
        Update::Draft { .. }
        | Update::Final { .. }
        | Update::Apology { .. }
        | Update::Queued { .. }
        | Update::Missed => None,
    }
}

/// Keeps the approvals that wait for a decision.
fn keep_waiting(waiting: &mut Vec<Event>, number: u64, turn: &str, content: Option<Content>) {
    match content {
        Some(Content::Approval { ref id, ref decision, .. }) => {
            let is_same = |event: &Event| matches!(&event.content, Content::Approval { id: known, .. } if known == id);
            waiting.retain(|event| !is_same(event));
            if decision.is_none() {
                waiting.extend(content.map(|content| Event { number, turn: turn.to_owned(), content }));
            }
        }
        Some(Content::Done { .. }) => waiting.retain(|event| event.turn != turn),
        _ => {}
    }
}

impl VoiceSocket {
    /// Creates the loop. A new client is told the approvals that wait, and reads from now on; one that resumes reads after
    /// its last event. `None` if the session has no events.
    pub fn new(socket: ClientSocket, parts: Parts, (caller, place): (Caller, Place), opening: Opening) -> Option<Self> {
        let Opening { position, language, vtuber } = opening;
        let newest = *parts.events.read(&place, 0)?.newest.borrow();
        // The answer in progress is rebuilt from its beginning.
        let reader = TurnEventReader::new(Arc::clone(&parts.events), place.clone(), 0)?;
        let (after, sentence, waiting) = match position {
            // A number above the newest one is unknown here.
            Some((after, sentence)) => (after.min(newest), sentence, None),
            None => (newest, None, Some(Vec::new())),
        };
        let resumes = Some(Resumed { after, sentence, before: Vec::new(), waiting });
        let person = caller.person().unwrap_or_else(|| owner_of(&place));
        Some(Self {
            socket,
            parts,
            caller,
            place,
            person,
            reader,
            answers: Answers::with_commands(),
            queue: Queue::default(),
            hears: Hears::default(),
            muted: false,
            text_only: None,
            language,
            vtuber,
            last: 0,
            resumes,
        })
    }

    /// Serves the socket until either side closes it.
    pub async fn serve(mut self, ended: CancellationToken) {
        let Speech { synthesis, hearing, .. } = &self.parts.speech;
        let [voice, hears] = [synthesis.name(), hearing.name()].map(|name| name.map(str::to_owned));
        if self.send(String::new(), Content::Ready { voice, hears }).await.is_err() {
            return;
        }
        while self.step(&ended).await.is_ok() {}
    }

    /// The payer of speech: the accounts of its session, as for its turns.
    fn payer(&self) -> WorkPayer {
        WorkPayer { place: self.place.clone(), ..WorkPayer::from(&self.person) }
    }

    async fn step(&mut self, ended: &CancellationToken) -> Result<(), Disconnected> {
        if !self.muted {
            let payer = self.payer();
            self.queue.start(&self.parts.speech.synthesis, payer);
        }
        let (due, ends) = (self.socket.ping_due(), self.socket.ends());
        tokio::select! {
            frame = self.socket.receive() => self.received(frame).await,
            output = self.queue.next() => self.give(output).await,
            words = self.hears.next() => self.heard(words).await,
            reading = self.reader.next(), if self.queue.has_room() => match reading {
                Some(Reading::Event(event)) => self.tell(event).await,
                Some(Reading::Missed(number)) => self.missed(number).await,
                None => self.read_on().await,
            },
            () = sleep_until(due) => self.socket.ping().await,
            () = sleep_until(ends) => self.close(CloseCode::Away, "the socket was open for long enough").await,
            () = ended.cancelled() => self.close(CloseCode::Away, "the program stops").await,
        }
    }

    /// Starts the reader again after it was cut off.
    async fn read_on(&mut self) -> Result<(), Disconnected> {
        match TurnEventReader::new(Arc::clone(&self.parts.events), self.place.clone(), self.last) {
            Some(reader) => {
                self.reader = reader;
                Ok(())
            }
            None => self.close(CloseCode::Normal, "the session was deleted").await,
        }
    }

    async fn missed(&mut self, number: u64) -> Result<(), Disconnected> {
        self.last = number;
        self.answers.clear();
        self.send(String::new(), Content::Missed).await
    }

    /// Passes on an event of the session.
    async fn tell(&mut self, event: Arc<TurnEvent>) -> Result<(), Disconnected> {
        let number = event.number;
        if let Some(resumed) = self.resumes.as_ref().filter(|_| self.last == 0)
            && resumed.after < number.saturating_sub(1)
        {
            let after = number - 1;
            self.resumes = None;
            self.missed(after).await?;
        }
        self.last = number;
        let quiet = self.resumes.as_ref().is_some_and(|resumed| number <= resumed.after);
        let now = self.parts.sessions.now();
        let shows = !quiet && self.vtuber.is_none();
        let (wire::Event { turn, update, .. }, shown) = match &event.update {
            TurnUpdate::Final { .. } | TurnUpdate::Apology { .. } => {
                let event = Arc::clone(&event);
                let laid_out = move || {
                    let shown =
                        if shows { pictures::of(&event.update).map(Content::picture).collect() } else { Vec::new() };
                    (wire::Event::of(&pictures::without(&event), now), shown)
                };
                tokio::task::spawn_blocking(laid_out).await.map_err(|_| Disconnected)?
            }
            _ => (wire::Event::of(&event, now), Vec::new()),
        };
        let text = match &update {
            Update::Final { text } | Update::Apology { text } => text,
            _ => "",
        };
        let said_in = (&*self.parts.speech.phrases, self.language.as_deref());
        let sentences = self.answers.read(&turn, &event.update, text, said_in);
        let content = content(update);
        if quiet {
            self.before(number, &turn, sentences, content);
        } else {
            self.resume().await?;
            self.pass_on(number, &turn, sentences, content).await?;
            for content in shown {
                self.put(&Event { number, turn: turn.clone(), content }).await?;
            }
        }
        if self.resumes.as_ref().is_some_and(|resumed| number >= resumed.after) {
            self.resume().await?;
        }
        Ok(())
    }

    /// Keeps what a client may have to be sent again: the sentences of the last turn, or the approvals that wait.
    fn before(&mut self, number: u64, turn: &str, sentences: Vec<Sentence>, content: Option<Content>) {
        let Some(Resumed { before, waiting, .. }) = &mut self.resumes else { return };
        if let Some(waiting) = waiting {
            return keep_waiting(waiting, number, turn, content);
        }
        if matches!(content, Some(Content::Accepted)) {
            before.clear();
        }
        before.extend(sentences.into_iter().map(|sentence| (number, turn.to_owned(), sentence)));
    }

    /// Sends again what a resuming client has not heard.
    async fn resume(&mut self) -> Result<(), Disconnected> {
        let Some(Resumed { sentence, before, waiting, .. }) = self.resumes.take() else { return Ok(()) };
        for approval in waiting.unwrap_or_default() {
            self.put(&approval).await?;
        }
        let Some(heard) = sentence else { return Ok(()) };
        for (number, turn, sentence) in before.into_iter().filter(|(.., sentence)| sentence.number > heard) {
            self.pass_on(number, &turn, vec![sentence], None).await?;
        }
        Ok(())
    }

    /// True if further sentences of a turn are spoken.
    fn is_voiced(&self, turn: &str) -> bool {
        !self.muted && !self.parts.speech.synthesis.is_silent() && self.text_only.as_deref() != Some(turn)
    }

    async fn pass_on(
        &mut self,
        number: u64,
        turn: &str,
        sentences: Vec<Sentence>,
        content: Option<Content>,
    ) -> Result<(), Disconnected> {
        for mut sentence in sentences {
            let speech = sentence.speech.clone();
            let of = SentenceId { number, turn: turn.to_owned(), sentence: sentence.number };
            sentence.has_audio = self.is_voiced(turn) && !speech.is_empty();
            let has_audio = sentence.has_audio;
            self.put(&Event { number, turn: turn.to_owned(), content: Content::Sentence(sentence) }).await?;
            if has_audio && !self.queue.speak(of.clone(), speech) {
                self.fail(of, "too much text waits for its audio").await?;
            }
        }
        let Some(content) = content else { return Ok(()) };
        let event = Event { number, turn: turn.to_owned(), content };
        if matches!(event.content, Content::Done { .. }) {
            self.queue.then(turn.to_owned(), event);
            return Ok(());
        }
        self.put(&event).await
    }

    /// Sends audio, or an event behind it.
    async fn give(&mut self, output: Output<Event>) -> Result<(), Disconnected> {
        let (of, sound) = match output {
            Output::Event(event) => return self.put(&event).await,
            Output::Sound(of, sound) => (of, sound),
        };
        let audio = |format, data, end| Content::Audio { sentence: of.sentence, format, data, end };
        let of_turn = |content| Event { number: of.number, turn: of.turn.clone(), content };
        match sound {
            Sound::Piece(format, bytes) => {
                self.put(&of_turn(audio(format.media_type(), STANDARD.encode(bytes), false))).await
            }
            Sound::End => self.put(&of_turn(audio("", String::new(), true))).await,
            Sound::Failed(Failure::OverLimit(wait)) => self.go_on_as_text(of, wait).await,
            Sound::Failed(_) => self.fail(of, "no voice spoke this sentence").await,
        }
    }

    /// Ends the speech of an answer over a limit; its text continues.
    async fn go_on_as_text(&mut self, of: SentenceId, wait: Option<Duration>) -> Result<(), Disconnected> {
        self.queue.silence(Some(&of.turn));
        self.text_only = Some(of.turn.clone());
        let why = format!("the limit of speech is reached; the answer continues as text{}", again(wait));
        self.put(&Event { number: of.number, turn: of.turn, content: Content::TextOnly { why } }).await
    }

    async fn fail(&mut self, of: SentenceId, why: &str) -> Result<(), Disconnected> {
        let content = Content::Error { sentence: Some(of.sentence), why: why.to_owned() };
        self.put(&Event { number: of.number, turn: of.turn, content }).await
    }

    /// Processes a frame of the client.
    async fn received(&mut self, frame: Option<Result<Frame, Error>>) -> Result<(), Disconnected> {
        let text = match frame {
            Some(Ok(Frame::Text(text))) => text,
            Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => return Ok(()),
            Some(Ok(Frame::Binary(samples))) => return self.sound(&samples).await,
            Some(Ok(Frame::Close(_)) | Err(_)) | None => return Err(Disconnected),
        };
        let Some(vtuber) = &mut self.vtuber else {
            return match serde_json::from_str(&text) {
                Ok(request) => self.requested(request).await,
                Err(error) => self.refuse(&format!("not understood: {error}")).await,
            };
        };
        match vtuber.read(&text) {
            Ok(steps) => {
                for step in steps {
                    match step {
                        Step::Request(request) => self.requested(request).await?,
                        Step::Samples(samples) => self.sound(&samples).await?,
                        Step::Reply(value) => self.socket.send(Frame::text(value.to_string())).await?,
                    }
                }
                Ok(())
            }
            Err(why) => self.refuse(&why).await,
        }
    }

    async fn requested(&mut self, request: Request) -> Result<(), Disconnected> {
        match request {
            Request::Text { text, id } => self.submit(text, id.as_deref()).await,
            Request::Listen { hands_free } => self.listen(hands_free).await,
            Request::ListenEnd => self.listen_end().await,
            Request::Interrupt { spoken_to, turn } => self.interrupt(spoken_to, turn).await,
            Request::Mute { on } => {
                self.muted = on;
                if on {
                    self.queue.silence(None);
                }
                Ok(())
            }
            Request::Answer { id, verdict } => match decided(&self.parts, &self.caller, &id, verdict).await {
                // The decision follows as an event.
                Ok(_) => Ok(()),
                Err((_, why)) => self.refuse(&why).await,
            },
            Request::Ping => self.send(String::new(), Content::Pong).await,
        }
    }

    async fn submit(&mut self, text: String, id: Option<&str>) -> Result<(), Disconnected> {
        match submit::say(&self.parts, &self.caller, &self.place, text, id).await {
            Ok(submitted) => self.send(String::new(), Content::Submitted(submitted)).await,
            Err((_, why)) => self.refuse(&why).await,
        }
    }

    /// Stops the answer that is being spoken, and records what was heard of it.
    async fn interrupt(&mut self, spoken_to: Option<usize>, turn: Option<String>) -> Result<(), Disconnected> {
        let spoken = turn.or_else(|| self.queue.turn().map(str::to_owned));
        let answer = match &spoken {
            Some(turn) => self.answers.of(turn),
            None => self.answers.newest(),
        };
        let Some(answer) = answer else { return self.refuse("there is no answer to interrupt").await };
        answer.is_cut = true;
        let is_recorded = answer.is_exchange && !answer.is_heard(spoken_to);
        let (turn, heard) = (answer.turn.clone(), interrupted(answer.heard(spoken_to)));
        self.queue.silence(Some(&turn));
        self.send(turn.clone(), Content::Interrupted { spoken_to }).await?;
        if !is_recorded {
            return Ok(());
        }
        let Some(asked) = self.parts.sessions.message(&self.place, &turn).await else { return Ok(()) };
        let heard = Exchange {
            person: asked.author.person,
            asked: asked.text,
            asked_at: asked.at,
            answered: heard,
            answered_at: self.parts.sessions.now(),
        };
        let (message, place) = (MessageId::new(DOOR, turn), self.place.clone());
        let interruption = Incoming::Interrupted(Box::new(Interruption { message, place, heard }));
        match self.parts.intake.accept(interruption, Sessions::us()).await {
            Ok(()) => Ok(()),
            Err(_) => self.refuse("the interruption was not recorded; try again in a moment").await,
        }
    }

    async fn refuse(&mut self, why: &str) -> Result<(), Disconnected> {
        self.send(String::new(), Content::Error { sentence: None, why: why.to_owned() }).await
    }

    async fn send(&mut self, turn: String, content: Content) -> Result<(), Disconnected> {
        // A client that lost its connection now resumes behind the events that are only rebuilt.
        let number = self.resumes.as_ref().map_or(self.last, |resumed| resumed.after.max(self.last));
        self.put(&Event { number, turn, content }).await
    }

    async fn put(&mut self, event: &Event) -> Result<(), Disconnected> {
        let Some(vtuber) = &mut self.vtuber else {
            // Plain data with string keys always serializes.
            return self.socket.send(Frame::text(serde_json::to_string(event).unwrap_or_default())).await;
        };
        for message in vtuber.messages(event) {
            self.socket.send(Frame::text(message.to_string())).await?;
        }
        Ok(())
    }

    async fn close(&mut self, code: CloseCode, reason: &str) -> Result<(), Disconnected> {
        self.socket.close(code, reason).await?;
        Err(Disconnected)
    }
}
