//! Overflow of each mailbox: each actor receives far more messages than its mailbox holds while its handler is
//! blocked. The test walks the rows of the tree, so it includes new actors. `cargo test -p staffai-actors flood --
//! --nocapture` prints the refusals of each actor.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use super::failures::{Breaks, typing};
use super::*;
use crate::messages::approvals::ApprovalsMsg;
use crate::messages::commands::CommandsMsg;
use crate::messages::conversation::ConversationMsg;
use crate::messages::conversations::ConversationsMsg;
use crate::messages::discord::DiscordMsg;
use crate::messages::gateway::GatewayMsg;
use crate::messages::identify_queue::IdentifyQueueMsg;
use crate::messages::llm_dispatcher::{LlmDispatcherMsg, Priority};
use crate::messages::mcp::McpMsg;
use crate::messages::outbox::OutboxMsg;
use crate::messages::presence_scheduler::PresenceMsg;
use crate::messages::rate_limiter::{Asker, RateLimiterMsg};
use crate::messages::receipt::Receipt;
use crate::messages::restriction_sweeper::SweeperMsg;
use crate::messages::root::RootMsg;
use crate::messages::summaries::{Conversation, SummariesMsg};
use crate::messages::tool_cache::ToolCacheMsg;
use crate::messages::tools::ToolsMsg;
use crate::messages::voices::VoicesMsg;
use crate::runtime::handle::{Handle, LifeState, Refused, Stats};
use crate::runtime::supervisor::Actor;
use crate::testing::{person, turn_id, us};
use crate::tree::{Mailbox, WhenFull};
use domain::experiment::Vote;
use domain::incoming::Reaction;
use domain::people::Linked;
use domain::restriction::Member;
use domain::tool::ServerName;
use ports::{Fault, Shard};

/// The time for which the handler of a flooded actor is blocked: less than its row allows.
const HOLD: Duration = Duration::from_secs(4);
/// The number of messages sent, in multiples of the capacity.
const TIMES: usize = 3;

/// Returns no row for an actor without messages: the compiler checks that its message type has no values.
fn takes_none<A: Actor<Msg = Infallible>>(kind: ActorKind) -> Option<String> {
    assert_eq!((TREE.find(kind).unwrap().mailbox, size_of::<A::Msg>()), (Mailbox::NONE, 0), "{kind:?}");
    None
}

/// A running tree in which one actor is blocked at its next message.
struct Held {
    world: World,
    breaks: Arc<Breaks>,
    stats: Arc<Stats>,
    /// The result of the flood, as a row of the table.
    line: String,
}

impl Held {
    async fn new(path: &str) -> Self {
        let outside = Outside::asked();
        let breaks = Breaks::new(path, Fault::Delay(HOLD));
        let mut world = life(&outside, Arc::clone(&breaks) as _).await;
        world.models.takes(Duration::from_secs(100));
        assert!(!world.passes(Duration::from_secs(1), &outside).await, "{path}");
        let stats = world.roster.find(path).unwrap_or_else(|| panic!("{path} does not live"));
        assert_eq!(stats.depth.load(Ordering::Relaxed), 0, "{path}");
        breaks.next(1);
        Self { world, breaks, stats, line: String::new() }
    }

    fn queued(&self) -> usize {
        self.stats.queued.load(Ordering::Relaxed)
    }

    fn refused(&self) -> u64 {
        self.stats.refused.load(Ordering::Relaxed)
    }

    /// Sends one message that blocks the handler, and then many more than the mailbox holds.
    async fn flood<M: Send + 'static>(&mut self, handle: &Handle<M>, message: impl Fn() -> M) {
        let Mailbox { capacity, when_full } = handle.mailbox();
        handle.cast(message()).unwrap();
        settle().await;
        // Messages of other actors count as well.
        let waiting = self.queued();
        assert!(waiting >= 1 && self.refused() == 0, "{}", self.stats.path);
        let (sent, mut given_back) = (capacity * TIMES, 0);
        for _ in 0..sent {
            match handle.cast(message()) {
                Ok(()) => {}
                Err(Refused::Full(_)) => given_back += 1,
                Err(Refused::Down(_)) => panic!("{} is down", self.stats.path),
            }
            assert!(self.queued() <= capacity, "{}", self.stats.path);
        }
        let refused = sent - (capacity - waiting);
        assert_eq!(given_back, if when_full == WhenFull::Refuse { refused } else { 0 }, "{}", self.stats.path);
        self.check::<M>(sent + 1, refused);
    }

    /// The mailbox is full up to its capacity, and each further message is counted.
    fn check<M>(&mut self, sent: usize, refused: usize) {
        let capacity = self.stats.mailbox.capacity;
        assert_eq!((self.queued(), self.refused()), (capacity, refused as u64), "{}", self.stats.path);
        let bytes = capacity * size_of::<M>();
        self.line = format!("{:46} {capacity:>8} {sent:>8} {refused:>8} {bytes:>10}", self.stats.path);
    }

    /// The handler continues: it handles the queued messages, and the actor serves as before.
    async fn serves_again(self) -> String {
        let handled = self.stats.handled.load(Ordering::Relaxed);
        tokio::time::sleep(HOLD * 2).await;
        let path = &self.stats.path;
        assert_eq!(self.queued(), 0, "{path}");
        assert!(
            self.stats.handled.load(Ordering::Relaxed) - handled + 1 >= self.stats.mailbox.capacity as u64,
            "{path}"
        );
        assert_eq!(
            (self.stats.life().state, self.stats.restarts.load(Ordering::Relaxed)),
            (LifeState::Running, 0),
            "{path}"
        );
        assert_eq!(self.breaks.met(), 1, "{path} was not held");
        self.world.tree.stop().await;
        self.line
    }
}

/// Floods an actor through its own handle.
async fn direct<M: Send + 'static>(handle: impl Fn(&Handles) -> Handle<M>, message: impl Fn() -> M) -> Option<String> {
    let world = life(&Outside::new(), Arc::new(NoFaults)).await;
    let path = handle(&world.handles).stats().path.to_string();
    world.tree.stop().await;
    let mut held = Held::new(&path).await;
    let handle = handle(&held.world.handles);
    held.flood(&handle, &message).await;
    Some(held.serves_again().await)
}

/// Floods an actor whose handle only its supervisor has, through the messages that the supervisor forwards, in rounds
/// that fit its mailbox.
async fn through<M, N: Send + 'static>(
    path: &str,
    above: impl Fn(&Handles) -> Handle<N>,
    message: impl Fn() -> N,
) -> Option<String> {
    let mut held = Held::new(path).await;
    let above = above(&held.world.handles);
    let (round, mut sent) = (above.mailbox().capacity.min(held.stats.mailbox.capacity), 0);
    for _ in 0..TIMES {
        for _ in 0..round {
            above.cast(message()).unwrap();
        }
        sent += round;
        while above.stats().queued.load(Ordering::Relaxed) > 0 {
            settle().await;
        }
    }
    held.check::<M>(sent, sent - held.stats.mailbox.capacity);
    Some(held.serves_again().await)
}

/// A reply without a reader.
fn unread<T>() -> crate::runtime::handle::Reply<T> {
    tokio::sync::oneshot::channel().0
}

/// Returns the row of the table for this kind; none if it takes no messages.
async fn flooded(kind: ActorKind) -> Option<String> {
    match kind {
        ActorKind::Root => direct(|all| all.root.clone(), || RootMsg::Follow(unread())).await,
        ActorKind::Ops => takes_none::<crate::ops::Ops>(kind),
        ActorKind::Listener => takes_none::<crate::listening::Listening>(kind),
        ActorKind::Providers => takes_none::<crate::providers::Providers>(kind),
        ActorKind::Reporter => takes_none::<crate::reporter::Reporter>(kind),
        ActorKind::Timers => takes_none::<crate::timers::Timers>(kind),
        ActorKind::Source | ActorKind::SlackSocket => takes_none::<crate::source::SourceActor>(kind),
        ActorKind::Slack => takes_none::<crate::slack::Slack>(kind),
        ActorKind::Shard => takes_none::<crate::shard::ShardActor>(kind),
        ActorKind::Journal => direct(|all| all.journal.clone(), || JournalMsg::Undelivered(turn_id("99"))).await,
        ActorKind::Outbox => {
            direct(|all| all.outboxes.of(&DOOR).clone(), || OutboxMsg::Quiet(place("9"), turn_id("99"))).await
        }
        ActorKind::RateLimiter => direct(|all| all.rate_limiter.clone(), usage).await,
        ActorKind::RestrictionSweeper => {
            let member = || Member { guild: "5".to_owned(), person: person("9") };
            direct(|all| all.restriction_sweeper.clone(), || SweeperMsg::Lifted(member())).await
        }
        ActorKind::Tools => direct(|all| all.tools.clone(), || ToolsMsg::Configured).await,
        ActorKind::ToolCache => {
            let nowhere = || ServerName::new("nowhere");
            direct(|all| all.tool_cache.clone(), || ToolCacheMsg::Listed(nowhere(), Vec::new())).await
        }
        ActorKind::Approvals => direct(|all| all.approvals.clone(), || ApprovalsMsg::List(unread())).await,
        ActorKind::Mcp => {
            through::<McpMsg, _>("staffai/tools/mcp:time", |all| all.tools.clone(), || ToolsMsg::Refresh).await
        }
        ActorKind::LlmDispatcher => direct(|all| all.llm_dispatcher.clone(), acquire).await,
        ActorKind::Conversations => direct(|all| all.conversations.clone(), || cancel("9")).await,
        ActorKind::Conversation => {
            let path = "staffai/conversations/conversation:discord:42";
            through::<ConversationMsg, _>(path, |all| all.conversations.clone(), || cancel("42")).await
        }
        ActorKind::Summaries => direct(|all| all.summaries.clone(), saved).await,
        ActorKind::PresenceScheduler => direct(|all| all.presence_scheduler.clone(), || PresenceMsg::Refresh).await,
        ActorKind::Commands => direct(|all| all.commands.clone(), || CommandsMsg::Suggest(Box::new(typing(1)))).await,
        ActorKind::ConfigWatcher => direct(|all| all.config_watcher.clone(), || ConfigWatcherMsg::Reload).await,
        ActorKind::Gateway => direct(|all| all.gateway.clone(), reacted).await,
        ActorKind::Voices => direct(|all| all.voices.clone(), || VoicesMsg::Ended("9".to_owned())).await,
        ActorKind::Voice => takes_none::<crate::voice::Voice>(kind),
        ActorKind::Discord => direct(|all| all.discord.clone(), || DiscordMsg::StartShards(1)).await,
        ActorKind::IdentifyQueue => {
            let shard = Shard { number: 0, total: 1 };
            direct(|all| all.identify_queue.clone(), || IdentifyQueueMsg::Identify(shard, unread())).await
        }
    }
}

fn usage() -> RateLimiterMsg {
    let asker = Asker {
        person: person("9"),
        linked: Linked::default(),
        guild: None,
        roles: Vec::new(),
        place: place("9"),
        parent: None,
    };
    RateLimiterMsg::Usage { asker: Box::new(asker), reply: unread() }
}

fn acquire() -> LlmDispatcherMsg {
    let (among, tried) = (Vec::new(), Vec::new());
    LlmDispatcherMsg::Acquire { row: None, among, tried, priority: Priority::IfFree, reply: unread() }
}

fn cancel(to: &str) -> ConversationsMsg {
    ConversationsMsg::Cancel(place(to), turn_id("99"))
}

pub(super) fn saved() -> SummariesMsg {
    SummariesMsg::Saved(Conversation { person: person("9"), place: place("9") }, Instant::now())
}

fn reacted() -> GatewayMsg {
    let (message, by) = (turn_id("9").trigger(), person("9"));
    let reaction = Reaction { place: place("9"), message, by, vote: Some(Vote::Up) };
    GatewayMsg::Received(Box::new(Incoming::Reacted(reaction)), us(), Receipt::new(|_| {}))
}

fn kinds(row: &'static TreeRow) -> Vec<ActorKind> {
    std::iter::once(row.kind).chain(row.children.iter().flat_map(kinds)).collect()
}

#[tokio::test(start_paused = true)]
async fn no_mailbox_grows_beyond_its_row_and_what_was_refused_is_counted() {
    let mut lines =
        vec![format!("{:46} {:>8} {:>8} {:>8} {:>10}", "actor", "capacity", "sent", "refused", "bytes held")];
    for kind in kinds(&TREE) {
        lines.extend(flooded(kind).await);
    }
    println!("{}", lines.join("\n"));
    assert!(lines.len() > 10, "{lines:?}");
}
