//! Which generation of the protocol a server speaks: found once, and remembered for the next connections of this process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;

use super::failure::Failure;
use super::session::{Handshake, Session};
use domain::tool::ServerName;

/// The handshakes that work, by server.
#[derive(Clone, Default)]
pub(super) struct Eras(Arc<Mutex<HashMap<ServerName, Handshake>>>);

impl Eras {
    /// Begins a session in the generation that the server is known to speak, else in the one that it shows. `fresh`: each attempt has
    /// a process of its own, so a server that ends or breaks at the newer handshake is tried with the older one.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn negotiate<B: Future<Output = Result<Session, Failure>>>(
        &self,
        server: &ServerName,
        fresh: bool,
        begin: impl Fn(Handshake) -> B,
    ) -> Result<Session, Failure> {
        let known = self.0.lock().get(server).cloned();
        let first = known.clone().unwrap_or(Handshake::Either);
        if known.is_none() {
            // An attempt that is given up because the server falls silent leaves this behind.
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

/// The handshake for the newest revision of these that is spoken here. A server that refuses the older handshake without a word about
/// revisions is one of the newer generation.
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
