//! The protocol generation of each server: detected once, then cached for later connections of this process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;

use super::failure::Failure;
use super::session::{Handshake, Session};
use domain::tool::ServerName;

/// The working handshake of each server.
#[derive(Clone, Default)]
pub(super) struct Eras(Arc<Mutex<HashMap<ServerName, Handshake>>>);

impl Eras {
    /// Starts a session in the cached generation of the server, or detects it. `fresh` means that each attempt has its
    /// own process: a server that exits or fails at the newer handshake is tried again with the older one.
    ///
    /// # Errors
    /// No session could be started.
    pub(super) async fn negotiate<B: Future<Output = Result<Session, Failure>>>(
        &self,
        server: &ServerName,
        fresh: bool,
        begin: impl Fn(Handshake) -> B,
    ) -> Result<Session, Failure> {
        let known = self.0.lock().get(server).cloned();
        let first = known.clone().unwrap_or(Handshake::Either);
        if known.is_none() {
            // Remains in effect if the attempt is cancelled because the server does not answer.
            self.remember(server, Handshake::OLDER);
        }
        let mut used = first.clone();
        let mut begun = begin(first).await;
        let second = match &begun {
            Err(Failure::Versions(versions)) => common(versions),
            Err(Failure::Exited(_) | Failure::Malformed(_) | Failure::Rpc { .. }) if fresh && known.is_none() => {
                Some(Handshake::OLDER)
            }
            _ => None,
        };
        if let Some(second) = second.filter(|second| *second != used) {
            used = second.clone();
            begun = begin(second).await;
        }
        match &begun {
            Ok(session) if session.modern => self.remember(server, Handshake::Newer),
            Ok(_) if used == Handshake::Either => self.remember(server, Handshake::OLDER),
            Ok(_) => self.remember(server, used),
            Err(_) => drop(self.0.lock().remove(server)),
        }
        begun
    }

    fn remember(&self, server: &ServerName, handshake: Handshake) {
        self.0.lock().insert(server.clone(), handshake);
    }
}

/// Returns the handshake for the newest supported revision of these. A server that refuses the older handshake without
/// naming revisions belongs to the newer generation.
fn common(versions: &[String]) -> Option<Handshake> {
    let offered = |version: &ProtocolVersion| versions.iter().any(|offered| offered == version.as_str());
    if versions.is_empty() || offered(&ProtocolVersion::V_2026_07_28) {
        return Some(Handshake::Newer);
    }
    let older = [
        ProtocolVersion::V_2025_11_25,
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_03_26,
        ProtocolVersion::V_2024_11_05,
    ];
    older.into_iter().find(offered).map(|version| Handshake::Older(Some(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_revision_is_spoken() {
        let of = |versions: &[&str]| common(&versions.iter().map(|version| (*version).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]), Some(Handshake::Newer));
        assert_eq!(of(&["2025-06-18", "2026-07-28"]), Some(Handshake::Newer));
        assert_eq!(of(&["2024-11-05", "2025-06-18"]), Some(Handshake::Older(Some(ProtocolVersion::V_2025_06_18))));
        assert_eq!(of(&["2031-01-01"]), None);
    }
}
