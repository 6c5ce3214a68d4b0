//! The door of the platform: connections and requests, with their faults.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::history::{Seen, tokens};
use super::outside::{Answer, Way};
use super::platform::{closed, place_number, us};
use super::swarm::Port;
use super::world::World;
use domain::ids::Person;
use domain::incoming::{Incoming, Posted};
use domain::outgoing::Capabilities;
use ports::{
    Advice, AfterClose, EventStream, GatewaySession, IdentifyPermit, LimitScope, Missing, PostError, PostReply,
    PostRequest, Poster, PresenceUpdates, Shard, ShardedSource, SourceError, StreamEvent,
};

/// The characters of a message.
const TEXT_LIMIT: usize = 120;
/// The timeout of a request, as at the real doors.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The advice of the platform: one shard, and more sessions than a life can use.
const ADVICE: Advice =
    Advice { shards: 1, max_concurrency: 1, remaining: 1_000, reset_after: Duration::from_secs(86_400) };

/// The connections of the platform.
pub struct SimulatedSource(pub Arc<World>);

struct Connection {
    world: Arc<World>,
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

    fn complete(&self, _posted: &mut Posted) -> Option<Missing> {
        None
    }

    fn connect(
        &self,
        _shard: Shard,
        session: Option<GatewaySession>,
        permit: IdentifyPermit,
        _shown: PresenceUpdates,
    ) -> Box<dyn EventStream> {
        Box::new(Connection { world: Arc::clone(&self.0), session, permit, events: None })
    }
}

#[async_trait]
impl EventStream for Connection {
    async fn next(&mut self) -> StreamEvent {
        self.world.alive().await;
        if self.events.is_none() {
            if self.session.is_none() && !(self.permit)().await {
                // The platform closes a connection that does not identify.
                return closed(AfterClose::Identify);
            }
            let (sender, events) = mpsc::unbounded_channel();
            self.events = Some(events);
            if self.session.is_none() {
                self.world.record(Seen::NewSession);
            }
            self.world.platform.open(sender, self.session.take());
        }
        let event = match &mut self.events {
            Some(events) => events.recv().await,
            None => None,
        };
        self.world.alive().await;
        if let Some(StreamEvent::Incoming { incoming, .. }) = &event
            && let Incoming::Posted(posted) = &**incoming
        {
            for number in tokens(&posted.text) {
                self.world.record(Seen::Delivered { number });
            }
        }
        // A connection that another one replaced is closed.
        event.unwrap_or_else(|| closed(AfterClose::Resume))
    }
}

/// The requests of the program.
pub struct SimulatedPoster(pub Arc<World>);

#[async_trait]
impl Poster for SimulatedPoster {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            cards: 10,
            files: 10,
            file_bytes: 8 * 1024 * 1024,
            buttons: 5,
            ..Capabilities::text_only(TEXT_LIMIT)
        }
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        let late = || Err(PostError::Unsure("no answer in time".to_owned()));
        let result = tokio::time::timeout(TIMEOUT, self.send(request)).await.unwrap_or_else(|_| late());
        let place = match request {
            PostRequest::Create { place, .. }
            | PostRequest::Edit { place, .. }
            | PostRequest::History { place, .. } => Some(place),
            _ => None,
        };
        if let (Err(_), Some(place)) = (&result, place) {
            self.0.record(Seen::Unposted { place: place_number(place) });
        }
        result
    }
}

impl SimulatedPoster {
    async fn send(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        let world = &self.0;
        let fault = match world.enter(port(request)).await {
            Way::Through(fault) => fault,
            Way::Refused if world.limits_instead() => {
                return Err(PostError::Limited { retry_after: Duration::from_secs(2), scope: LimitScope::Route });
            }
            Way::Refused => return Err(PostError::Transient("there is no connection".to_owned())),
            Way::TimedOut => return Err(PostError::Unsure("no answer".to_owned())),
        };
        let result = world.platform.perform(world, request);
        match world.leave(fault).await {
            Answer::Arrives => result.map(|result| PostReply { result, bucket: None }),
            Answer::Lost => Err(PostError::Unsure("the answer was lost".to_owned())),
        }
    }
}

const fn port(request: &PostRequest) -> Port {
    match request {
        PostRequest::Create { .. } | PostRequest::Edit { .. } | PostRequest::Delete { .. } => Port::Post,
        PostRequest::History { .. } | PostRequest::Fetch { .. } | PostRequest::FetchGuild { .. } => Port::Read,
        PostRequest::Typing { .. }
        | PostRequest::React { .. }
        | PostRequest::RegisterCommands(_)
        | PostRequest::Defer(_)
        | PostRequest::OpenForm { .. }
        | PostRequest::Respond { .. }
        | PostRequest::Suggest { .. }
        | PostRequest::Roles(_)
        | PostRequest::AddRole(_)
        | PostRequest::RemoveRole(_) => Port::Courtesy,
    }
}
