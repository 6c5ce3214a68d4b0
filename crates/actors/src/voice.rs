//! voice: owns the call in the voice channel of one community.
//!
//! Supervised by: voices (permanent).
//! Receives: the events of its call, its timer.
//! Sends: questions and interruptions to the gateway, through the intake; transcripts and notices to the outbox; the end of
//! its call to voices.
//! A restart loses: the connection, which is made again; the utterances that were being transcribed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::intake::GatewayIntake;
use crate::messages::outbox::OutboxMsg;
use crate::messages::voices::VoicesMsg;
use crate::runtime::handle::Handle;
use crate::runtime::reconnect::LASTED;
use crate::runtime::supervisor::{Actor, ActorContext, Crash, EventSender};
use domain::caller::Caller;
use domain::history::{Exchange, interrupted};
use domain::ids::{self, MessageId, Person, Place, Timestamp};
use domain::incoming::{Author, AuthorKind, Incoming, Interruption, Posted, WantedModels};
use domain::locale::Locale;
use domain::notice::commands as words;
use domain::outgoing::{Outgoing, Part};
use domain::restart::Backoff;
use domain::restriction::Member;
use domain::voice_channel::{VoiceNotice, transcript};
use ports::voice_calls::{CallEnd, CallHost, VoiceCalls, VoiceRoom};
use ports::{Clock, Dice, Intake, Origin, PostRequest, PostResult, ShardedSource};
use telemetry::events::{VOICE_CHANNEL_DROPPED, VOICE_CHANNEL_ENDED};

/// The backoff between attempts to join again, and the number of attempts in a row.
const AGAIN: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(30) };
const ATTEMPTS_MAX: u32 = 5;
/// The maximum time for one request to the platform.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of spoken questions that are remembered, for interruptions.
const ASKED_MAX: usize = 16;
/// The maximum number of utterances that are being posted.
const ASKING_MAX: usize = 8;

/// The services of calls.
pub struct VoiceParts {
    /// The voice channels of the platform.
    pub calls: Arc<dyn VoiceCalls>,
    /// The outbox of the platform.
    pub outbox: Handle<OutboxMsg>,
    /// Passes questions to the gateway.
    pub intake: GatewayIntake,
    /// The platform, which has the bot's account.
    pub source: Arc<dyn ShardedSource>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// The number of posts, for their nonces.
    pub posts: AtomicU64,
}

/// The call of a community. It survives restarts of its actor.
pub struct Call {
    /// The channel.
    pub room: VoiceRoom,
    /// The language of notices.
    pub locale: Locale,
    /// The members who agreed to be heard.
    pub heard: watch::Sender<Arc<HashSet<Person>>>,
    /// The same, with their names.
    pub speakers: Mutex<HashMap<Person, Caller>>,
    /// True once the channel was told that the bot is there.
    pub announced: AtomicBool,
}

/// A question that a member asked by voice, under its transcript.
#[derive(Debug, Clone)]
pub struct Asked {
    message: MessageId,
    person: Person,
    words: String,
    at: Timestamp,
}

/// Events of the call, its tasks and its timer.
pub enum VoiceEvent {
    /// The time to join.
    Join,
    /// The bot is in the channel.
    Joined,
    /// A member said this.
    Heard(Person, String),
    /// A member left the channel.
    Left(Person),
    /// A spoken question was passed on. `None` if it was not.
    Asked(Option<Asked>),
    /// The answer of this turn was heard up to here.
    Interrupted(String, String),
    /// The call ended.
    Ended(CallEnd),
}

/// The behaviour and its arguments.
pub struct Voice {
    /// The call.
    pub call: Arc<Call>,
    /// The services.
    pub parts: Arc<VoiceParts>,
    /// The supervisor, which removes an ended call.
    pub supervisor: Handle<VoicesMsg>,
}

/// The state of the call.
#[derive(Default)]
pub struct VoiceState {
    /// The failed attempts in a row. A call that lasted begins anew.
    failures: u32,
    /// The time at which the bot entered the channel; `None` while it is not there.
    joined: Option<Instant>,
    /// The last spoken questions, oldest first.
    asked: VecDeque<Asked>,
    /// The utterances that are being posted.
    asking: usize,
}

/// Passes the events of a call to its actor.
struct Host(EventSender<Voice>);

impl CallHost for Host {
    fn joined(&self) {
        self.0.tell(VoiceEvent::Joined);
    }

    fn heard(&self, speaker: Person, words: String) {
        self.0.tell(VoiceEvent::Heard(speaker, words));
    }

    fn left(&self, member: Person) {
        self.0.tell(VoiceEvent::Left(member));
    }

    fn interrupted(&self, turn: String, heard: String) {
        self.0.tell(VoiceEvent::Interrupted(turn, heard));
    }
}

impl Actor for Voice {
    type Msg = Infallible;
    type Event = VoiceEvent;
    type State = VoiceState;

    fn start(&self, ctx: &mut ActorContext<Voice>) -> Result<VoiceState, Crash> {
        self.join(ctx);
        Ok(VoiceState::default())
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut VoiceState,
    ) -> Result<(), Crash> {
        match message {}
    }

    fn origin(event: &VoiceEvent) -> Origin {
        match event {
            VoiceEvent::Heard(..) | VoiceEvent::Left(_) | VoiceEvent::Interrupted(..) | VoiceEvent::Ended(_) => {
                Origin::Outside(None)
            }
            VoiceEvent::Join | VoiceEvent::Joined | VoiceEvent::Asked(_) => Origin::Own,
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: VoiceEvent,
        state: &mut VoiceState,
    ) -> Result<(), Crash> {
        match event {
            VoiceEvent::Join => self.join(ctx),
            VoiceEvent::Joined => {
                state.joined = Some(Instant::now());
                if !self.call.announced.swap(true, Ordering::Relaxed) {
                    self.tell(ctx, &VoiceNotice::Joined { hears: self.parts.calls.can_hear() });
                }
            }
            VoiceEvent::Heard(person, words) => self.heard(ctx, state, &person, words),
            VoiceEvent::Left(person) => drop(self.call.forget(&person)),
            VoiceEvent::Asked(asked) => {
                state.asking = state.asking.saturating_sub(1);
                state.asked.extend(asked);
                while state.asked.len() > ASKED_MAX {
                    state.asked.pop_front();
                }
            }
            VoiceEvent::Interrupted(turn, heard) => self.interrupted(ctx, state, turn, heard),
            VoiceEvent::Ended(end) => self.ended(ctx, state, end),
        }
        Ok(())
    }
}

impl Voice {
    fn join(&self, ctx: &mut ActorContext<Voice>) {
        let (call, calls, host) = (Arc::clone(&self.call), Arc::clone(&self.parts.calls), Host(ctx.events()));
        let run = async move {
            if call.announced.load(Ordering::Relaxed) {
                call.forget_absent(&*calls).await;
            }
            VoiceEvent::Ended(calls.run(call.room.clone(), call.heard.subscribe(), Arc::new(host)).await)
        };
        ctx.task(run, |panic| VoiceEvent::Ended(CallEnd::Lost(format!("its task panicked: {panic}"))));
    }

    /// Joins again after a lost connection. After some attempts, and if the platform ended the call, the call is over.
    fn ended(&self, ctx: &mut ActorContext<Voice>, state: &mut VoiceState, end: CallEnd) {
        let (reason, is_lost) = match end {
            CallEnd::Lost(reason) => (reason, true),
            CallEnd::Dismissed(reason) => (reason, false),
        };
        if state.joined.take().is_some_and(|at| at.elapsed() >= LASTED) {
            state.failures = 0;
        }
        state.failures += 1;
        if is_lost && state.failures <= ATTEMPTS_MAX {
            let wait = AGAIN.base + AGAIN.delay(state.failures, self.parts.dice.roll());
            let again_in_ms = ids::millis(wait);
            tracing::warn!(event = VOICE_CHANNEL_ENDED, guild = %self.call.room.guild, reason, again_in_ms, "the connection of a call was lost");
            return ctx.after(wait, VoiceEvent::Join);
        }
        tracing::info!(event = VOICE_CHANNEL_ENDED, guild = %self.call.room.guild, reason, "a call is over");
        let (supervisor, guild) = (self.supervisor.clone(), self.call.room.guild.clone());
        let notice = is_lost.then(|| words::voice_notice(&VoiceNotice::Lost, self.call.locale));
        let (parts, place) = (Arc::clone(&self.parts), self.call.room.channel.clone());
        ctx.background(async move {
            if let Some(text) = notice {
                drop(post(&parts, place, text).await);
            }
            // A full supervisor keeps the ended call: members can still have the bot leave.
            supervisor.tell(VoicesMsg::Ended(guild));
        });
    }

    fn tell(&self, ctx: &mut ActorContext<Voice>, notice: &VoiceNotice<'_>) {
        let text = words::voice_notice(notice, self.call.locale);
        let (parts, place) = (Arc::clone(&self.parts), self.call.room.channel.clone());
        ctx.background(async move { drop(post(&parts, place, text).await) });
    }

    /// Makes a question of the words of a member who still agrees.
    fn heard(&self, ctx: &mut ActorContext<Voice>, state: &mut VoiceState, person: &Person, words: String) {
        let Some(caller) = self.call.speakers.lock().get(person).cloned() else { return };
        if state.asking >= ASKING_MAX {
            tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason = "too many spoken questions wait");
            return;
        }
        state.asking += 1;
        let (parts, room) = (Arc::clone(&self.parts), self.call.room.clone());
        let ask = async move { VoiceEvent::Asked(ask(&parts, &room, caller, words).await) };
        ctx.task(ask, |_| VoiceEvent::Asked(None));
    }

    /// Records an interruption, unless the question cannot be read.
    fn interrupted(&self, ctx: &mut ActorContext<Voice>, state: &VoiceState, turn: String, heard: String) {
        let (parts, place) = (Arc::clone(&self.parts), self.call.room.channel.clone());
        let message = MessageId::new(place.door.clone(), turn);
        let known = state.asked.iter().find(|asked| asked.message == message).cloned();
        ctx.background(async move {
            let asked = match known {
                Some(asked) => Some(asked),
                None => written(&parts, &place, &message).await,
            };
            let (Some(asked), Some(us)) = (asked, parts.source.us()) else { return };
            let heard = Exchange {
                person: asked.person,
                asked: asked.words,
                asked_at: asked.at,
                answered: interrupted(&heard),
                answered_at: parts.clock.now(),
            };
            let interruption = Incoming::Interrupted(Box::new(Interruption { message, place, heard }));
            if parts.intake.accept(interruption, us).await.is_err() {
                tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason = "an interruption was not recorded");
            }
        });
    }
}

/// Posts the transcript, whose message is the question, and passes it on with the current roles of the member.
async fn ask(parts: &VoiceParts, room: &VoiceRoom, caller: Caller, said: String) -> Option<Asked> {
    let dropped =
        |reason: &str| tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason, "a spoken question was dropped");
    let member = Member { guild: room.guild.clone(), person: caller.person.clone() };
    let read = |reply| OutboxMsg::Read(PostRequest::Roles(member), reply);
    let Ok(Ok(PostResult::Roles(roles))) = parts.outbox.call(read, REQUEST_TIMEOUT).await else {
        dropped("the roles of the member cannot be read");
        return None;
    };
    let Some(message) = post(parts, room.channel.clone(), transcript(&caller.name, &said)).await else {
        dropped("its transcript was not posted");
        return None;
    };
    let us = parts.source.us()?;
    let asked =
        Asked { message: message.clone(), person: caller.person.clone(), words: said.clone(), at: parts.clock.now() };
    let posted = Posted {
        id: message,
        place: room.channel.clone(),
        parent: None,
        guild: Some(room.guild.clone()),
        author: Author { person: caller.person, name: caller.name, roles, joined: None, kind: AuthorKind::Member },
        text: said,
        mentions_us: true,
        reply_to: None,
        attachments: Vec::new(),
        locale: caller.locale,
        may_answer: true,
        at: asked.at,
        draw: None,
        tools: true,
        given: None,
        models: WantedModels::default(),
        lineage: None,
    };
    if parts.intake.accept(Incoming::Posted(posted), us).await.is_err() {
        dropped("the gateway did not accept it");
        return None;
    }
    Some(asked)
}

/// Returns the question of a member that was written in the text chat.
async fn written(parts: &VoiceParts, place: &Place, message: &MessageId) -> Option<Asked> {
    let request = PostRequest::Fetch { place: place.clone(), message: message.clone() };
    let fetched = parts.outbox.call(|reply| OutboxMsg::Read(request, reply), REQUEST_TIMEOUT).await;
    let Ok(Ok(PostResult::Messages(messages))) = fetched else { return None };
    let posted = messages.into_iter().next().filter(|posted| posted.author.kind == AuthorKind::Member)?;
    Some(Asked { message: posted.id, person: posted.author.person, words: posted.text, at: posted.at })
}

/// Posts a text, and returns its message. `None` if it was not posted.
pub(crate) async fn post(parts: &VoiceParts, place: Place, text: String) -> Option<MessageId> {
    let number = parts.posts.fetch_add(1, Ordering::Relaxed);
    // Unlike those of an earlier process.
    let name = format!("v{:x}-{:x}", parts.clock.now().0, number & 0xffff);
    let part = Part::Text { text };
    let outgoing = Outgoing { place, reply_to: None, parts: vec![part], apology: false, spent: None, private: false };
    let post = |reply| OutboxMsg::Post { name, outgoing, reply };
    let delivery = parts.outbox.call(post, REQUEST_TIMEOUT).await.ok()?.ok()?;
    delivery.posted.into_iter().next()
}
