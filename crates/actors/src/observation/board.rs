//! The states of the parts that are not actors: doors, shards, the store, models. Each part's owner writes its state;
//! readiness reads it.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The state of each part, by kind and name.
pub struct Board {
    parts: Mutex<BTreeMap<(PartKind, String), PartState>>,
    phase: Mutex<Phase>,
}

/// The name of the store.
pub const STORE: &str = "store";

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A channel through which messages enter and answers leave.
    Door,
    /// One gateway connection.
    Shard,
    /// One of several connections of a door to each of which the platform may give any event.
    Socket,
    /// The store.
    Store,
    /// A model row.
    Model,
    /// A tool server.
    McpServer,
    /// A place whose posts the platform rejects repeatedly.
    Place,
    /// The posts of a door, while its platform accepts none.
    Posts,
    /// The requests of a door, while they wait because the platform refused too many.
    Requests,
    /// The community or place whose requests wait because the platform refused too many of them.
    Held,
    /// A range of turns that another process took over; this one never gets it back.
    Custody,
}

impl PartKind {
    /// The label in the readiness body.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Door | Self::Posts | Self::Requests => "door",
            Self::Shard => "shard",
            Self::Socket => "socket",
            Self::Store => "store",
            Self::Model => "model",
            Self::McpServer => "mcp_server",
            Self::Place | Self::Held => "place",
            Self::Custody => "custody",
        }
    }

    /// True for one of several connections of a door, which is open while one of them is up.
    #[must_use]
    pub const fn is_connection(self) -> bool {
        matches!(self, Self::Shard | Self::Socket)
    }
}

/// The state of a part.
#[derive(Debug, Clone)]
pub struct PartState {
    /// True if the part works.
    pub up: bool,
    /// True if the part has worked at least once.
    pub began: bool,
    /// The time of the last change of state.
    pub since: Instant,
    /// The number of recoveries.
    pub restarts: u64,
    /// The reason of the last failure.
    pub last_error: Option<String>,
    /// The time of the last event, for a connection that received one.
    pub heard: Option<Instant>,
    /// The time after which the board drops the part; none for a lasting part.
    pub until: Option<Instant>,
}

/// The phase of the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The process serves, or is about to.
    Serving,
    /// The process finishes the work in progress and accepts no more.
    Draining,
}

impl Default for Board {
    fn default() -> Self {
        Self { parts: Mutex::default(), phase: Mutex::new(Phase::Serving) }
    }
}

impl Board {
    /// Records that a part starts; it does not work yet.
    pub fn starting(&self, kind: PartKind, name: &str) {
        self.change(kind, name, false, None);
    }

    /// Records that a part works.
    pub fn up(&self, kind: PartKind, name: &str) {
        self.change(kind, name, true, None);
    }

    /// Records that a part does not work, with the reason.
    pub fn down(&self, kind: PartKind, name: &str, reason: &str) {
        self.change(kind, name, false, Some(reason));
    }

    /// Records that the platform of a door does not respond, with the reason. Connected shards keep the door open.
    pub fn unreached(&self, door: &str, reason: &str) {
        let mut parts = self.parts.lock();
        let open = parts.get(&(PartKind::Door, door.to_owned())).is_some_and(|state| state.up);
        set(&mut parts, (PartKind::Door, door), open, Some(reason));
    }

    /// Adds a part as working if the board does not have it yet.
    pub fn meet(&self, kind: PartKind, name: &str) {
        let mut parts = self.parts.lock();
        if !parts.contains_key(&(kind, name.to_owned())) {
            set(&mut parts, (kind, name), true, None);
        }
    }

    /// Records that a part does not work until this time, with the reason. The board drops it then.
    pub fn pause(&self, kind: PartKind, name: &str, reason: &str, until: Instant) {
        let mut parts = self.parts.lock();
        drop_ended(&mut parts);
        set(&mut parts, (kind, name), false, Some(reason));
        if let Some(state) = parts.get_mut(&(kind, name.to_owned())) {
            state.until = Some(until);
        }
    }

    /// Records that a connection received an event, also for its door.
    pub fn heard(&self, kind: PartKind, name: &str) {
        let mut parts = self.parts.lock();
        let door = name.split_once(':').map_or(name, |(door, _)| door);
        for key in [(kind, name.to_owned()), (PartKind::Door, door.to_owned())] {
            if let Some(state) = parts.get_mut(&key) {
                state.heard = Some(Instant::now());
            }
        }
    }

    /// Removes a part.
    pub fn forget(&self, kind: PartKind, name: &str) {
        self.parts.lock().remove(&(kind, name.to_owned()));
    }

    /// Removes the parts of one door: those whose names begin with the door's name.
    pub fn forget_within(&self, kind: PartKind, door: &str) {
        let of_door = |name: &str| name.split_once(':').is_some_and(|(of, _)| of == door);
        self.parts.lock().retain(|(known, name), _| *known != kind || !of_door(name));
    }

    /// Returns all parts.
    #[must_use]
    pub fn parts(&self) -> Vec<(PartKind, String, PartState)> {
        let mut parts = self.parts.lock();
        drop_ended(&mut parts);
        parts.iter().map(|((kind, name), state)| (*kind, name.clone(), state.clone())).collect()
    }

    /// Enters the draining phase: the process finishes the work in progress.
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
        // A door is open while at least one of its connections is.
        if kind.is_connection()
            && let Some((door, _)) = name.split_once(':')
        {
            let of_door = |name: &str| name.split_once(':').is_some_and(|(of, _)| of == door);
            let open = parts.iter().any(|((kind, name), state)| kind.is_connection() && of_door(name) && state.up);
            set(&mut parts, (PartKind::Door, door), open, reason.filter(|_| !open));
        }
    }
}

/// Drops the parts whose time is over.
fn drop_ended(parts: &mut BTreeMap<(PartKind, String), PartState>) {
    let now = Instant::now();
    parts.retain(|_, state| state.until.is_none_or(|until| until > now));
}

fn set(
    parts: &mut BTreeMap<(PartKind, String), PartState>,
    (kind, name): (PartKind, &str),
    up: bool,
    reason: Option<&str>,
) {
    let fresh =
        || PartState { up, began: up, since: Instant::now(), restarts: 0, last_error: None, heard: None, until: None };
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
