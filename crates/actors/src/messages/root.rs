//! Messages of the root.

use crate::runtime::handle::Reply;
use crate::runtime::named::named;

/// The messages that the root handles.
pub enum RootMsg {
    /// From the app: the ranges of this process changed. The reply is sent when the actors of the first range run, or
    /// are stopped.
    Follow(Reply<()>),
}

named!(RootMsg: Follow);
