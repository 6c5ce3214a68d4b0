//! The group of a channel's end-to-end encryption: the server proposes members, and the first member commits.

use std::num::NonZeroU16;

use davey::{DaveSession, ProposalsOperationType};
use openmls::group::GroupId;
use openmls::prelude::tls_codec::{DeserializeBytes, Serialize};
use openmls::prelude::{
    BasicCredential, ExternalProposal, ExternalSender, KeyPackageIn, LeafNodeIndex, OpenMlsProvider, ProtocolVersion,
    SenderExtensionIndex, SignatureScheme,
};
use openmls_basic_credential::SignatureKeyPair;
use openmls_rust_crypto::OpenMlsRustCrypto;

use super::AUDIO;

const VERSION: NonZeroU16 = NonZeroU16::MIN;

/// A message to the bot: its opcode and its content.
type ToBot = (u8, Vec<u8>);

pub(super) struct Group {
    channel: u64,
    signer: SignatureKeyPair,
    provider: OpenMlsRustCrypto,
    /// The members in the order of joining; the first one commits.
    members: Vec<(u64, DaveSession)>,
    bot: Option<u64>,
    /// The bot's offer to join a group, until there is one.
    offer: Option<Vec<u8>>,
    /// True once the bot is in the group and has its keys.
    bot_is_in: bool,
    /// The number of the last transition, and of the last one that was executed.
    transition: u16,
    executed: u16,
}

impl Group {
    pub(super) fn new(channel: u64) -> Self {
        let signer = SignatureKeyPair::new(SignatureScheme::ECDSA_SECP256R1_SHA256).expect("a key");
        Self {
            channel,
            signer,
            provider: OpenMlsRustCrypto::default(),
            members: Vec::new(),
            bot: None,
            offer: None,
            bot_is_in: false,
            transition: 0,
            executed: 0,
        }
    }

    /// Returns the server's key, with which members check proposals.
    pub(super) fn external_sender(&self) -> Vec<u8> {
        let credential = BasicCredential::new(b"voice server".to_vec());
        let sender = ExternalSender::new(self.signer.public().into(), credential.into());
        sender.tls_serialize_detached().expect("a key")
    }

    pub(super) fn has_bot(&self) -> bool {
        self.bot_is_in && self.executed == self.transition
    }

    /// The bot began a new session. A member of the old one leaves the group.
    pub(super) fn forget_bot(&mut self) {
        if let Some(bot) = self.bot.take() {
            self.bot_is_in = false;
            self.evict(bot);
        }
        self.offer = None;
    }

    /// The bot offers to join.
    pub(super) fn offered(&mut self, bot: u64, offer: &[u8]) -> Vec<ToBot> {
        self.bot = Some(bot);
        self.offer = Some(offer.to_vec());
        self.admit_bot()
    }

    /// Adds a member.
    pub(super) fn add(&mut self, user: u64) -> Vec<ToBot> {
        let mut session = DaveSession::new(VERSION, user, self.channel, None).expect("a session");
        session.set_external_sender(&self.external_sender()).expect("a key");
        if self.members.is_empty() {
            self.members.push((user, session));
            return self.admit_bot();
        }
        let package = session.create_key_package().expect("a key package");
        let proposals = self.addition(&package);
        let (commit, welcome) = self.commit(&proposals, user);
        let mut users: Vec<u64> = self.members.iter().map(|(user, _)| *user).collect();
        users.extend(self.bot.filter(|_| self.bot_is_in));
        users.push(user);
        session.process_welcome(&welcome.expect("a welcome"), Some(&users)).expect("a readable welcome");
        self.members.push((user, session));
        self.announce(&proposals, &commit)
    }

    /// Removes a member. The bot commits if no member is left.
    pub(super) fn remove(&mut self, user: u64) -> Vec<ToBot> {
        let leaf = self.leaf(user);
        let is_alone = self.members.iter().all(|(member, _)| *member == user);
        if is_alone {
            let proposals = self.bot_is_in.then(|| self.removal(leaf));
            self.members.clear();
            return proposals.map(|proposals| vec![(27, with_kind(&proposals))]).unwrap_or_default();
        }
        let proposals = self.removal(leaf);
        self.members.retain(|(member, _)| *member != user);
        let (commit, _) = self.commit(&proposals, user);
        self.announce(&proposals, &commit)
    }

    /// The bot committed. Its commit counts if no member is left to commit.
    pub(super) fn committed(&mut self, commit: &[u8]) -> Vec<ToBot> {
        if !self.members.is_empty() {
            return Vec::new();
        }
        self.transition += 1;
        vec![(29, [&self.transition.to_be_bytes()[..], commit].concat())]
    }

    /// All members switch to the keys of a transition.
    pub(super) fn execute(&mut self, id: u16) {
        for (_, session) in &mut self.members {
            session.execute_transition(id).expect("a transition");
        }
        self.executed = id;
        if id == self.transition && !self.members.is_empty() {
            self.bot_is_in = true;
        }
    }

    pub(super) fn seal(&mut self, user: u64, opus: &[u8]) -> Option<Vec<u8>> {
        let (_, session) = self.members.iter_mut().find(|(member, _)| *member == user)?;
        session.encrypt_opus(opus).ok().map(std::borrow::Cow::into_owned)
    }

    pub(super) fn open(&mut self, user: u64, from: u64, payload: &[u8]) -> Option<Vec<u8>> {
        let (_, session) = self.members.iter_mut().find(|(member, _)| *member == user)?;
        session.decrypt(from, AUDIO, payload).ok()
    }

    /// Adds the bot to the group of the members, once there is one.
    fn admit_bot(&mut self) -> Vec<ToBot> {
        if self.members.is_empty() {
            return Vec::new();
        }
        let Some((offer, bot)) = self.offer.take().zip(self.bot) else { return Vec::new() };
        let proposals = self.addition(&offer);
        let (_, welcome) = self.commit(&proposals, bot);
        self.transition += 1;
        for (_, session) in &mut self.members {
            session.prepare_transition(self.transition, VERSION.get()).expect("a transition");
        }
        vec![(30, [&self.transition.to_be_bytes()[..], &welcome.expect("a welcome")].concat())]
    }

    /// Removes the bot of an earlier session.
    fn evict(&mut self, bot: u64) {
        // A bot that was welcomed is in the group before it has its keys.
        let Some(leaf) = self.leaf_of(bot) else { return };
        let proposals = self.removal(leaf);
        self.commit(&proposals, bot);
        for (_, session) in &mut self.members {
            session.prepare_transition(0, VERSION.get()).expect("a transition");
        }
    }

    /// Prepares the members for a commit, and returns the messages to the bot.
    fn announce(&mut self, proposals: &[u8], commit: &[u8]) -> Vec<ToBot> {
        let id = if self.bot_is_in { self.transition + 1 } else { 0 };
        for (_, session) in &mut self.members {
            session.prepare_transition(id, VERSION.get()).expect("a transition");
        }
        if id == 0 {
            return Vec::new();
        }
        self.transition = id;
        vec![(27, with_kind(proposals)), (29, [&id.to_be_bytes()[..], commit].concat())]
    }

    /// Has the first member commit these proposals, and the others follow.
    fn commit(&mut self, proposals: &[u8], about: u64) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut users: Vec<u64> = self.members.iter().map(|(user, _)| *user).collect();
        users.extend(self.bot);
        users.push(about);
        let mut commit = None;
        for (_, session) in &mut self.members {
            let own = session.process_proposals(ProposalsOperationType::APPEND, proposals, Some(&users));
            let own = own.expect("readable proposals").expect("a commit");
            let first = commit.get_or_insert((own.commit, own.welcome));
            assert!(session.process_commit(&first.0).expect("a readable commit"));
        }
        commit.expect("a member")
    }

    /// Returns a proposal to add the owner of a key package.
    fn addition(&self, package: &[u8]) -> Vec<u8> {
        let package = KeyPackageIn::tls_deserialize_exact_bytes(package).expect("a key package");
        let package = package.validate(self.provider.crypto(), ProtocolVersion::Mls10).expect("a valid key package");
        let (group, epoch) = self.position();
        let index = SenderExtensionIndex::new(0);
        let proposal =
            ExternalProposal::new_add::<OpenMlsRustCrypto>(package, group, epoch.into(), &self.signer, index);
        vector(&proposal.expect("a proposal").tls_serialize_detached().expect("a proposal"))
    }

    fn removal(&self, leaf: LeafNodeIndex) -> Vec<u8> {
        let (group, epoch) = self.position();
        let index = SenderExtensionIndex::new(0);
        let proposal =
            ExternalProposal::new_remove::<OpenMlsRustCrypto>(leaf, group, epoch.into(), &self.signer, index);
        vector(&proposal.expect("a proposal").tls_serialize_detached().expect("a proposal"))
    }

    fn position(&self) -> (GroupId, u64) {
        let epoch = self.members[0].1.epoch().expect("a group").as_u64();
        (GroupId::from_slice(&self.channel.to_be_bytes()), epoch)
    }

    fn leaf(&self, user: u64) -> LeafNodeIndex {
        self.leaf_of(user).expect("a member of the group")
    }

    /// `None` if the user is not in the group.
    fn leaf_of(&self, user: u64) -> Option<LeafNodeIndex> {
        let group = self.members.first()?.1.group()?;
        let mut members = group.members();
        members.find(|member| member.credential.serialized_content() == user.to_be_bytes()).map(|member| member.index)
    }
}

/// Returns proposals that are appended, as in a message.
fn with_kind(proposals: &[u8]) -> Vec<u8> {
    [&[0], proposals].concat()
}

/// Returns bytes behind their length, as MLS writes it.
fn vector(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("a short proposal");
    let head = if length < 64 { vec![length.to_be_bytes()[1]] } else { (length | 0x4000).to_be_bytes().to_vec() };
    [&head[..], bytes].concat()
}
