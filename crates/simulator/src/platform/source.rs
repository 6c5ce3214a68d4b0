//! Connections of the platform: a session is resumed with all missed events, or begins anew.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Event, State, us};
use crate::outside::Outside;
use domain::ids::Person;
use domain::incoming::Posted;
use ports::{
    Advice, AfterClose, Closed, EventStream, GatewaySession, IdentifyPermit, PresenceUpdates, Shard, ShardedSource,
    SourceError, StreamEvent,
};

/// The advice of the platform: one shard, and more sessions than a life can use.
const ADVICE: Advice =
    Advice { shards: 1, max_concurrency: 1, remaining: 1_000, reset_after: std::time::Duration::from_secs(86_400) };

/// The connections of the platform.
pub struct SimulatedSource(pub Arc<Outside>);

struct Connection {
    outside: Arc<Outside>,
    session: Option<GatewaySession>,
    permit: IdentifyPermit,
    events: Option<mpsc::UnboundedReceiver<StreamEvent>>,
}

#[async_trait]
impl ShardedSource for SimulatedSource {
    async fn advice(&self) -> Result<Advice, SourceError> {
        self.0.alive().await;
        Ok(ADVICE)
    }

    fn us(&self) -> Option<Person> {
        Some(us())
    }

    fn complete(&self, _posted: &mut Posted) -> bool {
        true
    }

    fn connect(
        &self,
        _shard: Shard,
        session: Option<GatewaySession>,
        permit: IdentifyPermit,
        _shown: PresenceUpdates,
    ) -> Box<dyn EventStream> {
        Box::new(Connection { outside: Arc::clone(&self.0), session, permit, events: None })
    }
}

#[async_trait]
impl EventStream for Connection {
    async fn next(&mut self) -> StreamEvent {
        self.outside.alive().await;
        if self.events.is_none() {
            if self.session.is_none() && !(self.permit)().await {
                std::future::pending::<()>().await;
            }
            let (sender, events) = mpsc::unbounded_channel();
            self.events = Some(events);
            self.outside.platform.0.lock().open(sender, self.session.take());
        }
        let event = match &mut self.events {
            Some(events) => events.recv().await,
            None => None,
        };
        self.outside.alive().await;
        // A connection that another one replaced is closed.
        event.unwrap_or_else(|| closed(AfterClose::Resume))
    }
}

fn closed(next: AfterClose) -> StreamEvent {
    StreamEvent::Closed(Closed { reason: "cut".to_owned(), next })
}

impl State {
    fn open(&mut self, line: mpsc::UnboundedSender<StreamEvent>, session: Option<GatewaySession>) {
        self.line = Some(line.clone());
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
