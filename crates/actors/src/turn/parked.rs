//! A turn parked until a decision: its record for the journal, and its resumption.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::parts::TurnParts;
use super::tools::Tools;
use super::{Gathered, TurnTask};
use crate::messages::journal::Parking;
use crate::messages::outbox::OutboxMsg;
use crate::services::running::Running;
use domain::dialogue::{Dialogue, Resumed, Saved};
use domain::ending::Ending;
use domain::gate::{self, ApprovalDecision, EXPIRY_MAX, Gate, GateId, PARKED_BYTES_MAX, Parked, Subject};
use domain::ids::{self, Timestamp};
use domain::keys;
use domain::prompt::Transcript;
use domain::restriction::Member;
use domain::tool::begun::Need;
use domain::tool::round::{Planned, Ready};
use domain::tool::turn_tools::ShownResult;
use domain::tool::{Source, ToolKind};
use domain::turn::Turn;
use ports::{PostRequest, PostResult, Stored, Unreadable};

/// A call that requires approval before it runs, and the rest of its round.
pub(super) struct Asking {
    /// The results of the calls before it.
    pub done: Vec<ShownResult>,
    /// The call, and those after it.
    pub left: Vec<Planned>,
    /// The ids of the roles whose holders decide.
    pub approvers: Vec<String>,
}

/// A request for approval that exceeds its size limit: the turn continues without the call.
pub(super) struct TooLong(pub Asking);

/// The timeout for the tool of an approved call to become available: after a restart its server connects first.
pub(super) const BACK_TIMEOUT: Duration = Duration::from_secs(20);
/// The pause between two reads of the stored dialogue.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// The timeout for reading the member's roles from the platform.
const ROLES_TIMEOUT: Duration = Duration::from_secs(10);

/// A turn that resumes after a decision.
pub(super) struct GoingOn {
    /// The parked state with its decision.
    pub parked: Box<Parked>,
    /// The availability of the member's current roles, for the rules.
    pub roles: Roles,
}

/// The availability of the current roles of a member whose call was approved some time after the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Roles {
    /// The roles are current, or no rule depends on roles.
    Known,
    /// The platform did not return the roles.
    Unknown,
}

impl GoingOn {
    /// Prepares a turn to resume, if it was parked. The rules decide again about an approved call, with the member's
    /// current roles, and its tool may need time to become available.
    pub async fn ready(
        parts: &TurnParts,
        running: &Running,
        turn: &mut Arc<Turn>,
        resumed: Option<Box<Parked>>,
    ) -> Option<Self> {
        let parked = resumed?;
        if !parked.case.continues() && !matches!(parked.case.decision, Some(ApprovalDecision::Approved { .. })) {
            return Some(Self { parked, roles: Roles::Known });
        }
        let back = tokio::time::timeout(BACK_TIMEOUT, parts.tools.toolbox.offers(&parked.case.gate.tool));
        let (_, roles) = tokio::join!(back, roles_now(parts, running, turn));
        let known = if roles.is_some() { Roles::Known } else { Roles::Unknown };
        if let Some(roles) = roles {
            Arc::make_mut(turn).roles = roles;
        }
        Some(Self { parked, roles: known })
    }
}

/// Returns the member's current roles if a rule depends on roles; `None` if they are not available.
async fn roles_now(parts: &TurnParts, running: &Running, turn: &Turn) -> Option<Vec<String>> {
    let Some(guild) = turn.guild.clone().filter(|_| running.tool_rules.iter().any(|rule| !rule.roles.is_empty()))
    else {
        return Some(turn.roles.clone());
    };
    let request = PostRequest::Roles(Member { guild, person: turn.person.clone() });
    let ask = |reply| OutboxMsg::Read(request, reply);
    match parts.neighbors.outboxes.of(&turn.place.door).call(ask, ROLES_TIMEOUT).await {
        Ok(Ok(PostResult::Roles(roles))) => Some(roles),
        Ok(_) | Err(_) => None,
    }
}

impl TurnTask<'_> {
    /// Returns the record with which the journal parks the turn.
    pub(super) fn parking(&self, dialogue: &Dialogue, asking: Asking) -> Result<Parking, TooLong> {
        let made = self.gate(&asking).zip(said(dialogue, &asking, &self.tools));
        let Some((gate, dialogue)) = made else { return Err(TooLong(asking)) };
        // No further text of this part is shown.
        let drafted = self.slot.finish();
        let mut effort = self.tally.effort();
        effort.drafted |= drafted;
        Ok(Parking { gate, dialogue, effort, acted: self.tally.may_have_acted() })
    }

    fn gate(&self, asking: &Asking) -> Option<Gate> {
        let Self { parts, running, turn, .. } = *self;
        let Some(Planned::Run(ready)) = asking.left.first() else { return None };
        let Ready { entry, arguments, hash, begun, .. } = &**ready;
        let server = match &entry.tool.source {
            Source::Server(name) => name.as_str(),
            Source::BuiltIn => "",
        };
        let subject = begun.as_ref().map_or(Some(Subject::Approval), |begun| begun.subject(server))?;
        let hash = subject.identity(hash);
        let now = parts.basics.clock.now();
        let open_for = running.settings.gates.expiry.min(EXPIRY_MAX);
        let usual = Timestamp(now.0.saturating_add(ids::millis(open_for)));
        let expires_at = match begun.as_ref().map(|begun| begun.need()) {
            Some(Need::Time(task)) => task.until,
            Some(Need::Answer(_) | Need::Nothing) | None => usual,
        };
        let rolls = std::array::from_fn(|_| parts.basics.dice.roll());
        Some(Gate {
            id: GateId::draw(rolls, &turn.id, &hash, now),
            turn: turn.id.clone(),
            place: turn.place.clone(),
            requester: turn.person.clone(),
            unattended: !turn.trigger.has_person(),
            locale: turn.locale.clone(),
            approvers: asking.approvers.clone(),
            tool: entry.name.to_string(),
            hash,
            // A question of a server and a task are shown without the arguments of the call.
            arguments: if begun.is_some() { "{}".to_owned() } else { gate::arguments(arguments)? },
            subject,
            asked_at: now,
            expires_at,
        })
    }

    /// Returns the dialogue from before the turn was parked; the error is its end if the dialogue cannot be read any
    /// more.
    pub(super) async fn go_on(&self) -> Result<(Resumed, Gathered), Ending> {
        let Self { parts, running, turn, tools, .. } = self;
        let stored = stored(parts, turn).await.ok_or(Ending::NotResumed)?;
        let saved: Saved = serde_json::from_str(&stored).map_err(|_| Ending::NotResumed)?;
        let saved = if tools.results.hold(saved.kept_bytes()) { saved } else { saved.without_kept() };
        let schema = Arc::clone(&running.schema);
        let resumed = Dialogue::resume(saved, turn.policy.reply, schema, self.available().await);
        let resumed = Resumed {
            dialogue: resumed.dialogue.about(turn.given.clone()).sampled(turn.policy.preferences.sampling()),
            ..resumed
        };
        tools.begin_at(resumed.called);
        let read = parts.facts.forgotten().now();
        let history = super::memory::load(parts, turn).await;
        // The dialogue has the files already, but a tool that edits pictures needs them.
        let edits = tools.set.catalogue.entries().iter().any(|entry| entry.tool.kind == ToolKind::Image);
        let room = match &turn.given {
            Some(given) => {
                self.give_pictures(given);
                Vec::new()
            }
            None if edits => {
                let quoted = super::memory::quoted(parts, turn).await;
                self.files(Vec::new(), quoted.as_ref()).await.room
            }
            None => Vec::new(),
        };
        let gathered = Gathered { transcript: Transcript::default(), history: (history, read), _room: room };
        Ok((resumed, gathered))
    }
}

/// Reads the dialogue of a parked turn. The decision is spent by then, so the read is repeated while the store does not
/// answer, until the deadline of the turn.
async fn stored(parts: &TurnParts, turn: &Turn) -> Option<String> {
    let store = &parts.basics.store;
    loop {
        match store.read(&keys::parked(&turn.id)).await {
            Stored::Unreadable(Unreadable::NoAnswer) => tokio::time::sleep(READ_AGAIN).await,
            stored => return stored.value(),
        }
    }
}

/// Returns the dialogue so far in its stored form, with shorter results if necessary; `None` if it exceeds its limit all
/// the same.
fn said(dialogue: &Dialogue, asking: &Asking, tools: &Tools) -> Option<String> {
    let mut saved = dialogue.save(&asking.done, &asking.left, tools.calls.load(Ordering::Relaxed))?;
    if saved.kept_bytes() > PARKED_BYTES_MAX {
        saved = saved.without_kept();
    }
    loop {
        let text = serde_json::to_string(&saved).ok()?;
        if text.len() <= PARKED_BYTES_MAX {
            return Some(text);
        }
        if saved.kept_bytes() > 0 {
            saved = saved.without_kept();
        } else if !saved.shorten() {
            return None;
        }
    }
}

impl Tools {
    /// Adds the number of calls that the turn made before it was parked.
    fn begin_at(&self, calls: usize) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }
}
