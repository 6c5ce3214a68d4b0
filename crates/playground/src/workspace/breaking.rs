//! The faults of a workspace.

use std::time::Duration;

use serde_json::json;

use super::state::Frame;
use super::{Fault, Workspace};

impl Workspace {
    /// Breaks the next call of a method; several faults are used one after the other.
    pub fn breaks(&self, method: &str, fault: Fault) {
        self.state.lock().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Limits the calls of a method, as a tier of Slack does.
    pub fn limits(&self, method: &str, many: usize, within: Duration) {
        self.state.lock().tiers.insert(method.to_owned(), (many, within));
    }

    /// Accepts streaming calls, and closes each stream after this time.
    pub fn streams(&self, lasts: Duration) {
        self.state.lock().options.streams = Some(lasts);
    }

    /// Gives the bot's token these scopes alone.
    pub fn grants(&self, scopes: &str) {
        scopes.clone_into(&mut self.state.lock().scopes);
    }

    /// Announces this life of connections.
    pub fn life(&self, seconds: u64) {
        self.state.lock().life = seconds;
    }

    /// Forgets all events that are not delivered yet, as Slack does after some minutes.
    pub fn forgets(&self) {
        self.state.lock().pending.clear();
    }

    /// Asks each connection to be replaced, for this reason.
    pub fn disconnects(&self, reason: &str) {
        let frame = json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "local"}}).to_string();
        self.frames(|| Frame::Text(frame.clone()));
    }

    /// Sends a frame on one connection. Returns false if none is open.
    #[must_use]
    pub fn sends_frame(&self, frame: &str) -> bool {
        let state = self.state.lock();
        let open = state.sockets.values().next();
        open.is_some_and(|open| open.frames.try_send(Frame::Text(frame.to_owned())).is_ok())
    }

    /// Closes each connection.
    pub fn hangs_up(&self) {
        self.frames(|| Frame::Close);
    }

    fn frames(&self, frame: impl Fn() -> Frame) {
        for open in self.state.lock().sockets.values() {
            // A connection that does not read is closed by its client.
            let _ = open.frames.try_send(frame());
        }
    }

    /// Lets each open connection go silent without closing it.
    pub fn goes_silent(&self) {
        for open in self.state.lock().sockets.values() {
            open.silent.send_replace(true);
        }
    }
}
