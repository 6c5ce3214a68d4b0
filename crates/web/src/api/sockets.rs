//! Listening sockets that the pages of a process that stands by leave to those of the active process at the same
//! addresses. Clients that connect in between wait instead of being refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;

/// Sockets by the addresses of the settings. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Sockets(Arc<Mutex<BTreeMap<String, TcpListener>>>);

impl Sockets {
    /// Leaves a socket to the next pages at this address.
    pub(super) fn leave(&self, address: &str, socket: TcpListener) {
        self.0.lock().insert(address.to_owned(), socket);
    }

    /// Takes the socket that was left for this address.
    pub(super) fn take(&self, address: &str) -> Option<TcpListener> {
        self.0.lock().remove(address)
    }

    /// Closes the sockets for all other addresses: none will take them.
    pub fn keep_only(&self, addresses: &[String]) {
        self.0.lock().retain(|address, _| addresses.contains(address));
    }
}
