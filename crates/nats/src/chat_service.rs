//! The door of programs that send requests over NATS: a question on `staffai.chat`, or on the earlier name
//! `rosey.llm.chat`, and the answer as its reply.
//!
//! A question is a message of its user in its channel, with that user's memory, limits and rights at this door. The
//! message id contains the inbox of the request, so that an answer is delivered even after a restart. NATS drops a
//! reply without a subscriber. Replies go to inboxes alone ([`is_inbox`]): another subject could be one of this
//! program's own. The permissions of the NATS server decide which clients may send requests. The name of the user is in
//! the message, so a client can speak as any user of this door.

mod wire;

use std::sync::Arc;

use async_nats::{Message, Subject};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::time::Instant;

use self::wire::{Ask, Reply, is_inbox};
use crate::inlet::{Arrival, Bounds, Dropped, Held, Inlet};
use crate::{Current, LOST, NatsSession, REQUESTS_MAX, Seldom};
use domain::ids::{Door, MessageId, Person, Place};
use domain::incoming::{Author, AuthorKind, Incoming, Posted, WantedModels};
use domain::notice::template;
use domain::outgoing::Capabilities;
use domain::restart::Backoff;
use ports::{Clock, EventSource, Intake, PostError, PostReply, PostRequest, PostResult, Poster, SourceError};
use telemetry::events::NATS_ODD;

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("nats");
/// The subjects of questions; the second is used by programs of the earlier bot.
const SUBJECTS: [&str; 2] = ["staffai.chat", "rosey.llm.chat"];
/// The queue group, which distributes questions over several bots.
const GROUP: &str = "staffai";
/// The bot's account at this door.
const US: &str = "staffai";
/// The most questions processed concurrently; further ones are refused at once, so that the connection's buffer never
/// overflows.
const TAKEN_AT_ONCE: usize = 1_024;
/// The bounds of the questions that wait or are processed.
const WAITING: Bounds = Bounds { messages: REQUESTS_MAX, bytes: 16 * 1024 * 1024, longest: Ask::BYTES_MAX };
/// The reply to a refused question.
const BUSY: &str = "busy: there are too many requests now; try again in a moment";
/// The most characters of a refused reply subject in a log line.
const SUBJECT_CHARS: usize = 100;
/// The longest answer in one reply, in Unicode scalar values: with escapes it fits the default payload limit of NATS.
const TEXT_LIMIT: usize = 100_000;

/// The chat service.
pub struct ChatService {
    url: SecretString,
    clock: Arc<dyn Clock>,
    session: Mutex<Option<NatsSession>>,
    last_id: Mutex<u64>,
    /// The questions whose reply subject is no inbox.
    misdirected: Seldom,
}

impl ChatService {
    /// Creates a service at this address, which may contain credentials. Does not connect yet.
    #[must_use]
    pub fn new(url: SecretString, clock: Arc<dyn Clock>) -> Self {
        Self { url, clock, session: Mutex::new(None), last_id: Mutex::new(0), misdirected: Seldom::default() }
    }

    /// Answers requests until the connection is lost.
    async fn serve(&self, intake: &dyn Intake, serving: Box<dyn Fn() + Send + Sync>) -> Result<(), String> {
        let session = crate::connect_for_requests(&self.url).await?;
        let mut asked = Vec::new();
        for subject in SUBJECTS {
            let subscribed = session.client.queue_subscribe(subject, GROUP.to_owned()).await;
            asked.push(subscribed.map_err(|error| error.to_string())?);
        }
        let mut asked = Inlet::new(asked, WAITING, |_| true);
        // A program that asks at once must find the subscriptions.
        session.client.flush().await.map_err(|error| error.to_string())?;
        let _current = Current::new(&self.session, &session);
        serving();
        let mut taken = FuturesUnordered::new();
        loop {
            tokio::select! {
                arrival = asked.next() => match arrival {
                    Some(Arrival::Message(Message { reply: Some(subject), .. }, _)) if !is_inbox(&subject) => {
                        self.tell_misdirected(&subject);
                    }
                    Some(Arrival::Message(message, held)) if taken.len() < TAKEN_AT_ONCE => {
                        taken.push(self.take(intake, message, held));
                    }
                    Some(Arrival::Message(Message { reply, .. }, _) | Arrival::Crowded(Dropped { reply, .. })) => {
                        self.refuse(reply.as_ref(), BUSY).await;
                    }
                    Some(Arrival::TooLong(Dropped { reply, .. })) => {
                        self.refuse(reply.as_ref(), &Ask::too_long()).await;
                    }
                    None => return Err("the subscription ended".to_owned()),
                },
                Some(()) = taken.next() => {}
                () = session.lost.cancelled() => return Err(LOST.to_owned()),
            }
        }
    }

    /// Passes a question on, or replies with the reason for a refusal.
    async fn take(&self, intake: &dyn Intake, message: Message, _held: Held) {
        // Without an inbox there is no reply address.
        let Some(inbox) = message.reply else { return };
        let asked = match Ask::read(&message.payload) {
            Ok(ask) => ask,
            Err(why) => return self.refuse(Some(&inbox), &why).await,
        };
        let posted = self.posted(asked, &inbox);
        if intake.accept(Incoming::Posted(posted), us()).await.is_err() {
            self.refuse(Some(&inbox), BUSY).await;
        }
    }

    async fn refuse(&self, inbox: Option<&Subject>, why: &str) {
        if let Some(inbox) = inbox {
            // The loop of the connection detects its loss.
            let _ = self.reply(inbox, &Reply::refused(why)).await;
        }
    }

    /// Logs that questions were ignored because of their reply subject, at most one line in ten seconds.
    fn tell_misdirected(&self, subject: &str) {
        if let Some(times) = self.misdirected.count(Instant::now()) {
            let subject: String = subject.chars().take(SUBJECT_CHARS).collect();
            tracing::warn!(
                event = NATS_ODD,
                subject,
                times,
                "a question is ignored because its reply subject is no inbox; ask with the request function of a NATS client"
            );
        }
    }

    fn posted(&self, ask: Ask, inbox: &str) -> Posted {
        let Ask { channel, user, message, enable_tools } = ask;
        let at = self.clock.now();
        let author = Author {
            person: Person::new(DOOR, user.clone()),
            name: user,
            roles: Vec::new(),
            joined: None,
            kind: AuthorKind::Member,
        };
        let mut last = self.last_id.lock();
        *last = (at.0 << 12).max(*last + 1);
        Posted {
            id: MessageId::new(DOOR, format!("{last}.{inbox}")),
            place: Place::new(DOOR, channel),
            parent: None,
            // Not a direct message: every client of this door is answered.
            guild: Some(DOOR.as_str().to_owned()),
            author,
            text: message,
            mentions_us: true,
            reply_to: None,
            attachments: Vec::new(),
            locale: None,
            may_answer: true,
            at,
            draw: None,
            tools: enable_tools,
            given: None,
            models: WantedModels::default(),
            lineage: None,
        }
    }

    async fn reply(&self, inbox: &str, reply: &Reply<'_>) -> Result<(), PostError> {
        // Records of earlier versions may contain any subject.
        if !is_inbox(inbox) {
            self.tell_misdirected(inbox);
            return Ok(());
        }
        let away = || PostError::Transient(LOST.to_owned());
        let session = self.session.lock().clone().filter(|session| !session.lost.is_cancelled()).ok_or_else(away)?;
        let payload = serde_json::to_vec(reply).map_err(|error| PostError::Transient(error.to_string()))?;
        session.client.publish(inbox.to_owned(), payload.into()).await.map_err(|_| away())
    }
}

fn us() -> Person {
    Person::new(DOOR, US)
}

#[async_trait]
impl EventSource for ChatService {
    async fn run(&self, intake: Arc<dyn Intake>, serving: Box<dyn Fn() + Send + Sync>) -> SourceError {
        SourceError::Unreachable(self.serve(&*intake, serving).await.err().unwrap_or_default())
    }

    fn pauses(&self) -> Backoff {
        crate::RECONNECT
    }
}

#[async_trait]
impl Poster for ChatService {
    fn capabilities(&self) -> Capabilities {
        Capabilities::replies(TEXT_LIMIT)
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        let result = match request {
            PostRequest::Create { piece, reply_to: Some(trigger), .. } => {
                let text = template::spelled_out(&piece.text, self.clock.now());
                if let Some((_, inbox)) = trigger.id.split_once('.') {
                    let reply = match &piece.spent {
                        _ if piece.apology => Reply::refused(&text),
                        Some(spent) => Reply::answer(&text).with(spent),
                        None => Reply::answer(&text),
                    };
                    self.reply(inbox, &reply).await?;
                }
                PostResult::Message(MessageId::new(DOOR, format!("{}.answer", trigger.id)))
            }
            PostRequest::History { .. } | PostRequest::Fetch { .. } => PostResult::Messages(Vec::new()),
            PostRequest::Roles(_) | PostRequest::AddRole(_) | PostRequest::RemoveRole(_) => PostResult::Absent,
            // This door only shows answers.
            _ => PostResult::Done,
        };
        Ok(PostReply { result, bucket: None })
    }
}

#[cfg(test)]
mod tests;
