//! source, `slack_socket`: maintains one connection of a door: the only one, or one of several that the platform treats
//! alike.
//!
//! Supervised by: staffai, or the branch of the platform (permanent).
//! Receives: the end of its connection, the loss of its door to another process, its timer.
//! Sends: events to the gateway, through the intake that it passes to its connection.
//! A restart loses: the connection, which is established again; the platform or the source redelivers events that were
//! not accepted.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::observation::board::{Board, PartKind};
use crate::runtime::reconnect::Reconnect;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::{Exit, ExitSender};
use domain::gate::{ApprovalDecision, Click, ClickRefusal};
use domain::ids::{self, Door, Person};
use domain::incoming::Incoming;
use domain::ownership::Range;
use ports::{Dice, EventSource, Intake, NotAccepted, SourceError};
use telemetry::events::{SOURCE_LOST, SOURCE_REFUSED};

/// The time from the loss of the door to the end of the connection. Events in progress are refused in it.
const LEAVE_AFTER: Duration = Duration::from_millis(500);

/// Events from its connection and its timer.
pub enum SourceEvent {
    /// The time to connect.
    Connect,
    /// The connection ended.
    Ended(SourceError),
    /// Another process owns the turns of this door, so the connection was closed.
    Superseded,
}

/// The behaviour and its arguments.
pub struct SourceActor {
    /// The door.
    pub door: Door,
    /// The name of the connection on the board.
    pub part: Part,
    /// The source of its events.
    pub source: Arc<dyn EventSource>,
    /// The destination of the events.
    pub intake: Arc<dyn Intake>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// The board, from which readiness reads the state of the connection.
    pub board: Arc<Board>,
    /// Notified if the platform rejects the bot permanently. None for a door beside the home door: that door is down
    /// until the operator restarts the process, and the others continue.
    pub exit: Option<ExitSender>,
    /// The ranges of turns that other processes took over. A process without its range leaves the platform, so that
    /// the platform passes all events to the owner.
    pub fenced: watch::Receiver<Vec<Range>>,
}

/// The name of a connection on the board: the door itself, or one of its connections.
#[derive(Debug, Clone)]
pub struct Part {
    /// The kind.
    pub kind: PartKind,
    /// The name.
    pub name: String,
}

/// The state of a source.
pub struct SourceState(Reconnect);

impl Actor for SourceActor {
    type Msg = Infallible;
    type Event = SourceEvent;
    type State = SourceState;

    fn start(&self, ctx: &mut ActorContext<SourceActor>) -> Result<SourceState, Crash> {
        self.board.starting(self.part.kind, &self.part.name);
        self.connect(ctx);
        Ok(SourceState(Reconnect::begun()))
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut SourceState,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: SourceEvent,
        state: &mut SourceState,
    ) -> Result<(), Crash> {
        match event {
            SourceEvent::Connect => {
                state.0.again();
                self.connect(ctx);
            }
            SourceEvent::Ended(SourceError::Refused(reason)) => {
                tracing::error!(event = SOURCE_REFUSED, door = %self.door, reason, "the platform rejects the bot permanently; correct its token or its permissions");
                self.board.down(self.part.kind, &self.part.name, &reason);
                if let Some(exit) = &self.exit {
                    exit.send_replace(Some(Exit::Refused(reason)));
                }
            }
            SourceEvent::Ended(SourceError::Unreachable(reason)) => {
                let wait = state.0.pause(&self.source.pauses(), self.dice.roll());
                let again_in_ms = ids::millis(wait);
                tracing::warn!(event = SOURCE_LOST, door = %self.door, reason, again_in_ms, "the connection of a door ended");
                self.board.down(self.part.kind, &self.part.name, &reason);
                ctx.after(wait, SourceEvent::Connect);
            }
            SourceEvent::Superseded => {
                self.board.down(self.part.kind, &self.part.name, "another process owns its turns");
            }
        }
        Ok(())
    }
}

impl SourceActor {
    fn connect(&self, ctx: &mut ActorContext<SourceActor>) {
        let source = Arc::clone(&self.source);
        let (board, part) = (Arc::clone(&self.board), self.part.clone());
        let intake =
            Arc::new(Noting { intake: Arc::clone(&self.intake), board: Arc::clone(&board), part: part.clone() });
        let serving = Box::new(move || board.up(part.kind, &part.name));
        let superseded = superseded(self.fenced.clone(), self.door.clone());
        let connection = async move {
            tokio::select! {
                ended = source.run(intake, serving) => SourceEvent::Ended(ended),
                () = superseded => SourceEvent::Superseded,
            }
        };
        ctx.task(connection, |panic| {
            SourceEvent::Ended(SourceError::Unreachable(format!("its task panicked: {panic}")))
        });
    }
}

/// Notes the time of each event of a connection on the board: a connection can be open and deliver nothing.
struct Noting {
    intake: Arc<dyn Intake>,
    board: Arc<Board>,
    part: Part,
}

#[async_trait]
impl Intake for Noting {
    fn noted(&self) {
        self.board.heard(self.part.kind, &self.part.name);
    }

    async fn accept(&self, incoming: Incoming, us: Person) -> Result<(), NotAccepted> {
        self.noted();
        self.intake.accept(incoming, us).await
    }

    async fn decide(&self, click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        self.intake.decide(click).await
    }
}

/// Resolves shortly after another process took over the turns of this process at this door.
async fn superseded(mut fenced: watch::Receiver<Vec<Range>>, door: Door) {
    if fenced.wait_for(|lost| lost.iter().any(|range| *range.door() == door)).await.is_err() {
        // Without a store no range is taken over.
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(LEAVE_AFTER).await;
}

#[cfg(test)]
mod tests;
