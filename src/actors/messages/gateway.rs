//! What doors tell the gateway.

use crate::actors::receipt::Receipt;
use crate::domain::ids::Person;
use crate::domain::incoming::Incoming;

/// What the gateway is told.
pub enum GatewayMsg {
    /// A door saw something; the person is our own account there. The receipt is settled when nobody needs the event any more.
    Received(Box<Incoming>, Person, Receipt),
}
