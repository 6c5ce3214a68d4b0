//! Messages of the gateway, sent by doors.

use crate::messages::receipt::Receipt;
use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use domain::gate::{ApprovalDecision, Click, ClickRefusal};
use domain::ids::Person;
use domain::incoming::Incoming;

/// The messages that the gateway handles.
pub enum GatewayMsg {
    /// An event of a door; the person is the bot's own account there. The receipt is settled when the event is durably
    /// stored or needs no owner.
    Received(Box<Incoming>, Person, Receipt),
    /// From a door with direct requests: a member decides about a pending call. The reply carries the outcome.
    Decide(Box<Click>, Reply<Result<ApprovalDecision, ClickRefusal>>),
}

named!(GatewayMsg: Received, Decide);
