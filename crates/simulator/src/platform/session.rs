//! The session of the platform: it is resumed with all missed events, or begins anew.

use tokio::sync::mpsc;

use super::{Event, Platform, State};
use ports::{AfterClose, Closed, GatewaySession, StreamEvent};

/// Returns the end of a connection.
pub fn closed(next: AfterClose) -> StreamEvent {
    StreamEvent::Closed(Closed { reason: "cut".to_owned(), next })
}

impl Platform {
    /// Opens a connection: a session is resumed, or a new one begins.
    pub fn open(&self, line: mpsc::UnboundedSender<StreamEvent>, session: Option<GatewaySession>) {
        self.0.lock().open(line, session);
    }
}

impl State {
    fn open(&mut self, line: mpsc::UnboundedSender<StreamEvent>, session: Option<GatewaySession>) {
        let line = self.line.insert(line).clone();
        let newest = 1 + self.told.len() as u64;
        let Some(session) = session else {
            let session =
                GatewaySession { id: "s".to_owned(), sequence: newest, resume_url: None, service: None, total: 1 };
            let _ = line.send(StreamEvent::Ready(session));
            self.told.push(Event::Places);
            self.send(newest + 1);
            return;
        };
        if session.id != "s" {
            let _ = line.send(closed(AfterClose::Identify));
            return;
        }
        let _ = line.send(StreamEvent::Resumed);
        for sequence in session.sequence + 1..=newest {
            self.send(sequence);
        }
    }

    pub(super) fn cut(&mut self, resumable: bool) {
        if let Some(line) = self.line.take() {
            let _ = line.send(closed(if resumable { AfterClose::Resume } else { AfterClose::Identify }));
        }
    }
}
