//! How the parts of the program are that are not actors: doors, shards, the store, models. Written by who knows, read by
//! readiness.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The status of each part, by kind and name.
pub struct Board {
    parts: Mutex<BTreeMap<(PartKind, String), PartState>>,
    phase: Mutex<Phase>,
}

/// The name of the store.
pub const STORE: &str = "store";

/// What kind of part it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A way in and out.
    Door,
    /// One gateway connection.
    Shard,
    /// The store.
    Store,
    /// A model row.
    Model,
    /// A tool server.
    McpServer,
    /// A place whose posts its platform refuses again and again.
    Place,
    /// The posts of a door, while its platform takes none.
    Posts,
}

impl PartKind {
    /// The word in the readiness body.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Door | Self::Posts => "door",
            Self::Shard => "shard",
            Self::Store => "store",
            Self::Model => "model",
            Self::McpServer => "mcp_server",
            Self::Place => "place",
        }
    }
}

/// How a part is.
#[derive(Debug, Clone)]
pub struct PartState {
    /// It does its work.
    pub up: bool,
    /// It did its work at least once.
    pub began: bool,
    /// Since when.
    pub since: Instant,
    /// How often it came back.
    pub restarts: u64,
    /// Why it was down last.
    pub last_error: Option<String>,
}

/// The phase of the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It serves, or is about to.
    Serving,
    /// It finishes what it has begun.
    Draining,
}

impl Default for Board {
    fn default() -> Self {
        Self { parts: Mutex::default(), phase: Mutex::new(Phase::Serving) }
    }
}

impl Board {
    /// A part begins; it does not do its work yet.
    pub fn starting(&self, kind: PartKind, name: &str) {
        self.change(kind, name, false, None);
    }

    /// A part does its work.
    pub fn up(&self, kind: PartKind, name: &str) {
        self.change(kind, name, true, None);
    }

    /// A part does not do its work, for this reason.
    pub fn down(&self, kind: PartKind, name: &str, reason: &str) {
        self.change(kind, name, false, Some(reason));
    }

    /// A door's platform does not answer, for this reason. Shards that are connected keep it open all the same.
    pub fn unreached(&self, door: &str, reason: &str) {
        let mut parts = self.parts.lock();
        let open = parts.get(&(PartKind::Door, door.to_owned())).is_some_and(|state| state.up);
        set(&mut parts, (PartKind::Door, door), open, Some(reason));
    }

    /// A part that nobody has told anything of is taken to do its work.
    pub fn meet(&self, kind: PartKind, name: &str) {
        let mut parts = self.parts.lock();
        if !parts.contains_key(&(kind, name.to_owned())) {
            set(&mut parts, (kind, name), true, None);
        }
    }

    /// A part is not there any more.
    pub fn forget(&self, kind: PartKind, name: &str) {
        self.parts.lock().remove(&(kind, name.to_owned()));
    }

    /// The parts of one door are not there any more: those whose names begin with it.
    pub fn forget_within(&self, kind: PartKind, door: &str) {
        let of_door = |name: &str| name.split_once(':').is_some_and(|(of, _)| of == door);
        self.parts.lock().retain(|(known, name), _| *known != kind || !of_door(name));
    }

    /// All parts.
    #[must_use]
    pub fn parts(&self) -> Vec<(PartKind, String, PartState)> {
        self.parts.lock().iter().map(|((kind, name), state)| (*kind, name.clone(), state.clone())).collect()
    }

    /// From now on the process finishes what it has begun.
    pub fn drain(&self) {
        *self.phase.lock() = Phase::Draining;
    }

    /// The phase of the whole process.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    fn change(&self, kind: PartKind, name: &str, up: bool, reason: Option<&str>) {
        let mut parts = self.parts.lock();
        set(&mut parts, (kind, name), up, reason);
        // A door is open while one of its shards is connected.
        if kind == PartKind::Shard
            && let Some((door, _)) = name.split_once(':')
        {
            let of_door = |name: &str| name.split_once(':').is_some_and(|(of, _)| of == door);
            let open = parts.iter().any(|((kind, name), state)| *kind == PartKind::Shard && of_door(name) && state.up);
            set(&mut parts, (PartKind::Door, door), open, reason.filter(|_| !open));
        }
    }
}

fn set(
    parts: &mut BTreeMap<(PartKind, String), PartState>,
    (kind, name): (PartKind, &str),
    up: bool,
    reason: Option<&str>,
) {
    let fresh = || PartState { up, began: up, since: Instant::now(), restarts: 0, last_error: None };
    let state = parts.entry((kind, name.to_owned())).or_insert_with(fresh);
    if state.up != up {
        state.up = up;
        state.began |= up;
        state.since = Instant::now();
        state.restarts += u64::from(up && state.last_error.is_some());
    }
    if let Some(reason) = reason {
        state.last_error = Some(reason.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_that_is_not_reached_tells_why_and_stays_open_while_a_shard_is_connected() {
        let board = Board::default();
        let door = || {
            let (.., state) = board.parts().into_iter().find(|(kind, ..)| *kind == PartKind::Door).unwrap();
            (state.up, state.last_error)
        };
        board.unreached("discord", "refused");
        assert_eq!(door(), (false, Some("refused".to_owned())));
        board.up(PartKind::Shard, "discord:0");
        board.unreached("discord", "timed out");
        assert_eq!(door(), (true, Some("timed out".to_owned())));
    }

    #[test]
    fn a_door_is_open_while_one_of_its_shards_is_connected() {
        let board = Board::default();
        let door = || {
            let parts = board.parts();
            let (.., state) = parts.into_iter().find(|(kind, ..)| *kind == PartKind::Door).unwrap();
            (state.up, state.restarts, state.last_error)
        };
        board.starting(PartKind::Shard, "discord:0");
        assert_eq!(door(), (false, 0, None));
        board.up(PartKind::Shard, "discord:0");
        board.up(PartKind::Shard, "discord:1");
        board.down(PartKind::Shard, "discord:0", "cut");
        assert_eq!(door(), (true, 0, None));
        board.down(PartKind::Shard, "discord:1", "cut as well");
        assert_eq!(door(), (false, 0, Some("cut as well".to_owned())));
        board.up(PartKind::Shard, "discord:0");
        assert_eq!(door(), (true, 1, Some("cut as well".to_owned())));
    }
}
