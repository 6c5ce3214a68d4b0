//! The end-to-end encryption of a call (DAVE): the group of its members, and the keys of their audio.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use davey::{
    CommitWelcome, DAVE_PROTOCOL_VERSION, DaveSession, MediaType, OPUS_SILENCE_PACKET, ProposalsOperationType,
};
use serde_json::json;

use super::wire::{self, Dave as Change};
use telemetry::events::VOICE_CHANNEL_DROPPED;

/// The newest version that this program has.
pub(crate) const VERSION: u16 = DAVE_PROTOCOL_VERSION;
/// The most announced changes of the version; a server has one or two.
const PENDING_MAX: usize = 16;
/// The most members whose membership is checked; a channel has fewer.
const USERS_MAX: usize = 2_000;

/// A message to the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    Text(String),
    Binary(Vec<u8>),
}

/// The encryption of one call.
pub(crate) struct Encryption {
    me: u64,
    channel: u64,
    /// The version in use; 0 is none.
    version: u16,
    session: Option<Box<DaveSession>>,
    /// The announced changes of the version, by the ids of their transitions.
    pending: HashMap<u16, u16>,
    /// The users in the channel: others cannot join the group.
    users: BTreeSet<u64>,
}

impl Encryption {
    pub(crate) fn new(me: u64, channel: u64) -> Self {
        let users = [me].into();
        Self { me, channel, version: 0, session: None, pending: HashMap::new(), users }
    }

    /// Begins with the version of the server, and returns the first message.
    pub(crate) fn begin(&mut self, version: u16) -> Vec<Reply> {
        self.version = version;
        self.restart()
    }

    pub(crate) fn joined(&mut self, users: impl IntoIterator<Item = u64>) {
        let room = USERS_MAX.saturating_sub(self.users.len());
        self.users.extend(users.into_iter().take(room));
    }

    pub(crate) fn left(&mut self, user: u64) {
        self.users.remove(&user);
    }

    /// True if audio can be sent so that its receivers can decrypt it.
    pub(crate) fn can_speak(&self) -> bool {
        self.version == 0 || self.session.as_ref().is_some_and(|session| session.can_encrypt())
    }

    /// Returns a packet for all members; `None` without a key.
    pub(crate) fn seal<'a>(&mut self, opus: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.version == 0 {
            return Some(Cow::Borrowed(opus));
        }
        let session = self.session.as_mut()?;
        guarded(|| session.encrypt_opus(opus).ok())
    }

    /// Returns the audio of a member. `None` if it is not authentic; plain audio is refused in an encrypted call.
    pub(crate) fn open(&mut self, user: u64, packet: Vec<u8>) -> Option<Vec<u8>> {
        if self.version == 0 || packet == OPUS_SILENCE_PACKET {
            return Some(packet);
        }
        let session = self.session.as_mut()?;
        guarded(|| session.decrypt(user, MediaType::AUDIO, &packet).ok())
    }

    /// Applies a change of the server, and returns the messages to it. A group that cannot follow a change starts over.
    pub(crate) fn apply(&mut self, change: &Change) -> Vec<Reply> {
        match change {
            Change::PrepareTransition { id, version } => self.announced(*id, *version),
            Change::Execute { id } => {
                if let Some(version) = self.pending.remove(id) {
                    self.version = version;
                }
                let session = self.session.as_mut();
                let done = session.map(|session| guarded(|| session.execute_transition(*id).ok()));
                if done == Some(None) { self.restart() } else { Vec::new() }
            }
            Change::PrepareEpoch { version, epoch: 1 } => {
                self.version = *version;
                self.restart()
            }
            Change::PrepareEpoch { .. } => Vec::new(),
            Change::ExternalSender(bytes) => {
                if let Some(session) = &mut self.session {
                    guarded(|| session.set_external_sender(bytes).ok());
                }
                Vec::new()
            }
            Change::Proposals { revokes, bytes } => self.proposed(*revokes, bytes),
            Change::Commit { id, bytes } => {
                let session = self.session.as_mut();
                let done = session.map(|session| guarded(|| session.process_commit(bytes).ok()));
                match done {
                    None | Some(Some(false)) => Vec::new(),
                    Some(Some(true)) => self.prepared(*id),
                    Some(None) => self.refuse(*id),
                }
            }
            Change::Welcome { id, bytes } => {
                let users: Vec<u64> = self.users.iter().copied().collect();
                let session = self.session.as_mut();
                let done = session.map(|session| guarded(|| session.process_welcome(bytes, Some(&users)).ok()));
                match done {
                    None => Vec::new(),
                    Some(Some(())) => self.prepared(*id),
                    Some(None) => self.refuse(*id),
                }
            }
        }
    }

    fn announced(&mut self, id: u16, version: u16) -> Vec<Reply> {
        if let Some(session) = &mut self.session {
            guarded(|| session.prepare_transition(id, version).ok());
        }
        if id == 0 {
            self.version = version;
            return Vec::new();
        }
        // What the server never executed is over.
        if self.pending.len() >= PENDING_MAX {
            self.pending.clear();
        }
        self.pending.insert(id, version);
        vec![ready(id)]
    }

    fn proposed(&mut self, revokes: bool, bytes: &[u8]) -> Vec<Reply> {
        let kind = if revokes { ProposalsOperationType::REVOKE } else { ProposalsOperationType::APPEND };
        let users: Vec<u64> = self.users.iter().copied().collect();
        let Some(session) = &mut self.session else { return Vec::new() };
        let done = guarded(|| session.process_proposals(kind, bytes, Some(&users)).ok());
        let Some(Some(CommitWelcome { commit, welcome })) = done else { return Vec::new() };
        let mut message = vec![28];
        message.extend(commit);
        message.extend(welcome.into_iter().flatten());
        vec![Reply::Binary(message)]
    }

    /// Prepares the keys of a group that changed.
    fn prepared(&mut self, id: u16) -> Vec<Reply> {
        let version = self.version;
        let session = self.session.as_mut();
        if session.is_none_or(|session| guarded(|| session.prepare_transition(id, version).ok()).is_none()) {
            return self.refuse(id);
        }
        if id == 0 { Vec::new() } else { vec![ready(id)] }
    }

    /// Reports a change that could not be followed, and starts over.
    fn refuse(&mut self, id: u16) -> Vec<Reply> {
        tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason = "the change of a group could not be followed");
        let mut replies = vec![Reply::Text(wire::message(31, &json!({"transition_id": id})))];
        replies.extend(self.restart());
        replies
    }

    /// Begins a group anew, and returns the offer to join it.
    fn restart(&mut self) -> Vec<Reply> {
        let Some(version) = NonZeroU16::new(self.version) else { return Vec::new() };
        let (me, channel) = (self.me, self.channel);
        let session = &mut self.session;
        let offer = guarded(|| {
            match session {
                Some(session) => session.reinit(version, me, channel, None).ok()?,
                None => *session = Some(Box::new(DaveSession::new(version, me, channel, None).ok()?)),
            }
            session.as_mut()?.create_key_package().ok()
        });
        let Some(offer) = offer else {
            self.session = None;
            return Vec::new();
        };
        let mut message = vec![26];
        message.extend(offer);
        vec![Reply::Binary(message)]
    }
}

fn ready(id: u16) -> Reply {
    Reply::Text(wire::message(23, &json!({"transition_id": id})))
}

/// Runs code of the library on bytes from outside. A panic counts as a refusal.
fn guarded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}
