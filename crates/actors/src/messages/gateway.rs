//! What doors tell the gateway.

use crate::messages::receipt::Receipt;
use crate::runtime::handle::Reply;
use domain::gate::{Click, Decision, Refusal};
use domain::ids::Person;
use domain::incoming::Incoming;

/// The messages that the gateway handles.
pub enum GatewayMsg {
    /// An event of a door; the person is our own account there. The receipt is settled when the event is durably taken or needs no
    /// owner.
    Received(Box<Incoming>, Person, Receipt),
    /// A door that is asked: somebody decides about a call that waits, and waits for what comes of it.
    Decide(Box<Click>, Reply<Result<Decision, Refusal>>),
}
