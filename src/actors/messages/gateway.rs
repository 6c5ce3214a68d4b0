//! What doors tell the gateway.

use crate::actors::handle::Reply;
use crate::actors::receipt::Receipt;
use crate::domain::gate::{Click, Decision, Refusal};
use crate::domain::ids::Person;
use crate::domain::incoming::Incoming;

/// The messages that the gateway handles.
pub enum GatewayMsg {
    /// An event of a door; the person is our own account there. The receipt is settled when the event is durably taken or needs no
    /// owner.
    Received(Box<Incoming>, Person, Receipt),
    /// A door that is asked: somebody decides about a call that waits, and waits for what comes of it.
    Decide(Box<Click>, Reply<Result<Decision, Refusal>>),
}
