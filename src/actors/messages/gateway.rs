//! What doors tell the gateway.

use crate::actors::receipt::Receipt;
use crate::domain::ids::Person;
use crate::domain::incoming::Incoming;

/// The messages that the gateway handles.
pub enum GatewayMsg {
    /// An event of a door; the person is our own account there. The receipt is settled when the event is durably taken or needs no
    /// owner.
    Received(Box<Incoming>, Person, Receipt),
}
