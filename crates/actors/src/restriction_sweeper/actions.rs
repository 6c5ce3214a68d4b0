//! One action: assigns or removes a role through the outbox, once the store has its record.

use std::time::Duration;

use super::begun;
use crate::messages::outbox::OutboxMsg;
use crate::runtime::handle::Handle;
use domain::ids::Timestamp;
use domain::notice::restriction as notice;
use domain::restriction::book::RoleChange;
use domain::restriction::{Appointment, Member};
use ports::{PostError, PostRequest, PostResult, Store};

/// The timeout for the durability of a record. If the store fails for longer, the record stays in memory and the role
/// is assigned.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of one role change, including its waits for budgets.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The action is done.
    Done,
    /// The member or the whole community no longer exists.
    Absent,
    /// The platform rejected the action: the bot lacks a permission, or the role was deleted.
    Refused(String),
    /// A retry may succeed.
    Failed(String),
}

/// Assigns or removes the role.
pub(super) async fn perform(
    store: &dyn Store,
    outbox: &Handle<OutboxMsg>,
    member: &Member,
    change: RoleChange,
    role: String,
    until: Option<Timestamp>,
) -> Outcome {
    let reason = match change {
        RoleChange::Give => notice::REASON_ADDED,
        RoleChange::Take => notice::REASON_LIFTED,
    };
    let appointment = Appointment { member: member.clone(), role, reason: reason.to_owned() };
    let request = match change {
        RoleChange::Give => {
            // A role without a record would never be removed.
            let _ = tokio::time::timeout(RECORD_TIMEOUT, store.write(begun(member, until))).await;
            PostRequest::AddRole(appointment)
        }
        RoleChange::Take => PostRequest::RemoveRole(appointment),
    };
    match outbox.call(|reply| OutboxMsg::Read(request, reply), CHANGE_TIMEOUT).await {
        Ok(Ok(PostResult::Absent)) => Outcome::Absent,
        Ok(Ok(_)) => Outcome::Done,
        Ok(Err(PostError::Rejected { reason, message, .. })) if !reason.may_pass() => {
            Outcome::Refused(format!("{reason}: {message}"))
        }
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
