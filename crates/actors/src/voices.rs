//! voices: joins and leaves voice channels, and keeps which members agreed to be heard.
//!
//! Supervised by: staffai (permanent). Its children, one for each community with a call, are permanent.
//! Receives: requests of commands, the ends of calls, changes of the ranges of this process from the app.
//! Sends: notices to the outbox.
//! A restart loses: the calls below it, and the consents: the bot leaves its channels, and members have it join again.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::messages::voices::VoicesMsg;
use crate::runtime::handle::Handle;
use crate::runtime::shrink;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use crate::services::own_ranges::OwnRanges;
use crate::tree::{Scope, TreeRow};
use crate::voice::{Call, Voice, VoiceParts, post};
use domain::caller::Caller;
use domain::ids::{Person, Place};
use domain::locale::Locale;
use domain::notice::commands as words;
use domain::voice_channel::{VoiceNotice, VoiceReply};
use ports::voice_calls::{HEARD_MAX, VoiceCalls, VoiceRoom};

/// The maximum number of calls: each encodes audio every 20 milliseconds.
const CALLS_MAX: usize = 16;

/// The behaviour and its arguments.
pub struct Voices {
    /// The row that supervises each call.
    pub template: &'static TreeRow,
    /// The services of calls.
    pub parts: Arc<VoiceParts>,
    /// The ranges of this process, which has the calls in their communities.
    pub ranges: OwnRanges,
}

/// The state of the supervisor.
#[derive(Default)]
pub struct VoicesState {
    calls: HashMap<String, Known>,
}

struct Known {
    handle: Handle<Infallible>,
    call: Arc<Call>,
}

impl Actor for Voices {
    type Msg = VoicesMsg;
    type Event = Infallible;
    type State = VoicesState;

    fn start(&self, _ctx: &mut ActorContext<Voices>) -> Result<VoicesState, Crash> {
        Ok(VoicesState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: VoicesMsg,
        state: &mut VoicesState,
    ) -> Result<(), Crash> {
        // The caller of a request may have gone.
        match message {
            VoicesMsg::Join(room, reply) => {
                let _ = reply.send(self.join(ctx, state, *room).await?);
            }
            VoicesMsg::Leave(guild, reply) => {
                let left = self.end(ctx, state, &guild).await;
                let _ = reply.send(if left { VoiceReply::Leaving } else { VoiceReply::Absent });
            }
            VoicesMsg::Listen { guild, caller, channel, on, reply } => {
                let _ = reply.send(self.listen(ctx, state, (&guild, channel), *caller, on));
            }
            VoicesMsg::Follow => {
                let portions = self.ranges.now();
                let gone: Vec<_> =
                    state.calls.keys().filter(|guild| !portions.has_guild(Some(guild))).cloned().collect();
                for guild in gone {
                    self.end(ctx, state, &guild).await;
                }
            }
            VoicesMsg::Ended(guild) => {
                self.end(ctx, state, &guild).await;
            }
        }
        Ok(())
    }

    async fn event(
        &self,
        _ctx: &mut ActorContext<Self>,
        event: Infallible,
        _state: &mut VoicesState,
    ) -> Result<(), Crash> {
        match event {}
    }
}

impl Voices {
    async fn join(
        &self,
        ctx: &mut ActorContext<Voices>,
        state: &mut VoicesState,
        room: VoiceRoom,
    ) -> Result<VoiceReply, Crash> {
        if let Some(known) = state.calls.get(&room.guild) {
            let is_there = known.call.room.channel == room.channel;
            return Ok(if is_there { VoiceReply::Already } else { VoiceReply::Elsewhere });
        }
        if state.calls.len() >= CALLS_MAX {
            return Ok(VoiceReply::Full);
        }
        let (guild, locale) = (room.guild.clone(), Locale::of(room.language.as_deref()));
        let call = Arc::new(Call {
            room,
            locale,
            heard: watch::Sender::new(Arc::default()),
            speakers: Mutex::default(),
            announced: AtomicBool::new(false),
        });
        let handle = Handle::new(self.template, ctx.path(), Scope::Community(guild.clone()));
        let voice = Voice { call: Arc::clone(&call), parts: Arc::clone(&self.parts), supervisor: ctx.handle().clone() };
        ctx.start_child(ChildSpec::new(self.template, &handle, voice, Vec::new())).await?;
        state.calls.insert(guild, Known { handle, call });
        Ok(VoiceReply::Joining)
    }

    /// Ends a call: its actor stops, and the bot leaves the channel. Returns false if there is none.
    async fn end(&self, ctx: &mut ActorContext<Voices>, state: &mut VoicesState, guild: &str) -> bool {
        let Some(known) = state.calls.remove(guild) else { return false };
        shrink::shrink(&mut state.calls);
        ctx.stop_child(&known.handle.stats().path).await;
        true
    }

    fn listen(
        &self,
        ctx: &mut ActorContext<Voices>,
        state: &VoicesState,
        (guild, channel): (&str, Option<Place>),
        caller: Caller,
        on: bool,
    ) -> VoiceReply {
        let Some(Known { call, .. }) = state.calls.get(guild) else { return VoiceReply::Absent };
        if on && !self.parts.calls.can_hear() {
            return VoiceReply::NoHearing;
        }
        // A member outside of the channel would keep a place, which leaving the channel frees.
        match channel {
            None if on => return VoiceReply::NotThere,
            Some(channel) if channel != call.room.channel => return VoiceReply::Elsewhere,
            None | Some(_) => {}
        }
        let name = caller.name.clone();
        let reply = if on { VoiceReply::Listening } else { VoiceReply::Deaf };
        let changed = if on { call.agree(caller) } else { Some(call.forget(&caller.person)) };
        match changed {
            None => return VoiceReply::TooManyHeard,
            Some(false) => return reply,
            Some(true) => {}
        }
        let notice = if on { VoiceNotice::Listens(&name) } else { VoiceNotice::Deaf(&name) };
        let text = words::voice_notice(&notice, call.locale);
        let (parts, place) = (Arc::clone(&self.parts), call.room.channel.clone());
        ctx.background(async move { drop(post(&parts, place, text).await) });
        reply
    }
}

impl Call {
    /// Notes that a member agrees to be heard. Returns false if that was known; `None` if too many members agree.
    fn agree(&self, caller: Caller) -> Option<bool> {
        let person = caller.person.clone();
        let mut speakers = self.speakers.lock();
        let is_new = !speakers.contains_key(&person);
        if is_new && speakers.len() >= HEARD_MAX {
            return None;
        }
        speakers.insert(person, caller);
        self.send(&speakers);
        Some(is_new)
    }

    /// Ends the consent of a member, who revoked it or left the channel. Returns false if there was none.
    pub(crate) fn forget(&self, person: &Person) -> bool {
        let mut speakers = self.speakers.lock();
        let was_heard = speakers.remove(person).is_some();
        if was_heard {
            self.send(&speakers);
        }
        was_heard
    }

    /// Ends the consent of members who are not in the channel: they may have left it while the connection was lost, and
    /// the platform does not report that later. A member whose channel cannot be read counts as absent.
    pub(crate) async fn forget_absent(&self, calls: &dyn VoiceCalls) {
        let agreed: Vec<Person> = self.speakers.lock().keys().cloned().collect();
        let each = agreed.iter().map(async |person| {
            let channel = calls.channel_of(&self.room.guild, person).await;
            if channel.as_ref().ok().and_then(Option::as_ref) != Some(&self.room.channel) {
                self.forget(person);
            }
        });
        join_all(each).await;
    }

    /// Publishes the members who agree, under the lock, so that the last change is the last one sent.
    fn send(&self, speakers: &HashMap<Person, Caller>) {
        let heard: HashSet<Person> = speakers.keys().cloned().collect();
        self.heard.send_replace(Arc::new(heard));
    }
}
