//! The door of programs that ask over NATS: a request on `staffai.chat`, or on the earlier name `rosey.llm.chat`, and the answer as
//! its reply.
//!
//! A question is a message of its user in its channel, with the memory, limits and rights of that user at this door. The id of the
//! message carries the inbox of the request, so an answer finds its way also after a restart. A reply that nobody waits for any more
//! is dropped by NATS. Who may ask, and under which name, is for the permissions of the NATS server to say.

mod wire;

use std::sync::Arc;

use async_nats::Message;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use secrecy::SecretString;

use self::wire::{Ask, Reply};
use crate::{Current, LOST, Session};
use domain::ids::{Door, MessageId, Person, Place};
use domain::incoming::{Author, AuthorKind, Incoming, Posted, WantedModels};
use domain::notice::template;
use domain::outgoing::Capabilities;
use domain::restart::Backoff;
use ports::{Clock, EventSource, Intake, PostError, PostReply, PostRequest, PostResult, Poster, SourceError};

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("nats");
/// Where questions are asked; the second is the name that programs of the earlier bot use.
const SUBJECTS: [&str; 2] = ["staffai.chat", "rosey.llm.chat"];
/// Several bots on one NATS share the questions.
const GROUP: &str = "staffai";
/// Our own account at this door.
const US: &str = "staffai";
/// Questions that are being taken at once; more are refused at once, so that none is lost in the connection.
const TAKEN_AT_ONCE: usize = 1_024;
/// The reply to a question that is not taken.
const BUSY: &str = "busy: there are too many requests now; try again in a moment";
/// The longest answer in one reply, in Unicode scalar values: with escapes it fits the payload that NATS carries by default.
const TEXT_LIMIT: usize = 100_000;

/// The service.
pub struct ChatService {
    url: SecretString,
    clock: Arc<dyn Clock>,
    session: Mutex<Option<Session>>,
    last_id: Mutex<u64>,
}

impl ChatService {
    /// A service at this address, which may hold a login. Nothing is connected yet.
    #[must_use]
    pub fn new(url: SecretString, clock: Arc<dyn Clock>) -> Self {
        Self { url, clock, session: Mutex::new(None), last_id: Mutex::new(0) }
    }

    /// Answers requests until the connection is lost.
    async fn serve(&self, intake: &dyn Intake, serving: Box<dyn Fn() + Send + Sync>) -> Result<(), String> {
        let session = crate::connect_for_requests(&self.url).await?;
        let mut asked = futures_util::stream::SelectAll::new();
        for subject in SUBJECTS {
            let subscribed = session.client.queue_subscribe(subject, GROUP.to_owned()).await;
            asked.push(subscribed.map_err(|error| error.to_string())?);
        }
        let _current = Current::new(&self.session, &session);
        serving();
        let mut taken = FuturesUnordered::new();
        loop {
            tokio::select! {
                message = asked.next() => match message {
                    Some(message) if taken.len() < TAKEN_AT_ONCE => taken.push(self.take(intake, message)),
                    Some(Message { reply: Some(inbox), .. }) => {
                        // A connection that is gone is seen below.
                        let _ = self.reply(&inbox, &Reply::refused(BUSY)).await;
                    }
                    Some(_) => {}
                    None => return Err("the subscription ended".to_owned()),
                },
                Some(()) = taken.next() => {}
                () = session.lost.cancelled() => return Err(LOST.to_owned()),
            }
        }
    }

    /// Hands a question on, or says why it is not taken.
    async fn take(&self, intake: &dyn Intake, message: Message) {
        // Without an inbox nobody can be answered.
        let Some(inbox) = message.reply else { return };
        let asked = match Ask::read(&message.payload) {
            Ok(ask) => ask,
            Err(why) => return drop(self.reply(&inbox, &Reply::refused(&why)).await),
        };
        let posted = self.posted(asked, &inbox);
        if intake.accept(Incoming::Posted(posted), us()).await.is_err() {
            drop(self.reply(&inbox, &Reply::refused(BUSY)).await);
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
            // No direct message: all who may reach this door are answered.
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
        Capabilities::text_only(TEXT_LIMIT)
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
            // Nothing is shown here but answers to questions.
            _ => PostResult::Done,
        };
        Ok(PostReply { result, bucket: None })
    }
}

#[cfg(test)]
mod tests;
