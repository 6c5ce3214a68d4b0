//! Reading a gap back: after a fresh session, what was posted since the stored watermark is read over the request API.
//!
//! The journal knows by message id what was answered, so reading too much does no harm; reading is bounded by age and count.
//! Messages that are read tell neither their guild nor the roles of their authors; those are asked for where they may matter.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::activity::{ActivePlaces, DIRECT, plan};
use super::{ShardActor, ShardEvent, ShardParts, ShardState};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::{ActorContext, EventSender};
use domain::ids;
use domain::ids::{Person, Place, Timestamp};
use domain::incoming::{AuthorKind, Posted};
use domain::keys;
use domain::restriction::Member;
use domain::triage::{self, TriageDecision};
use ports::{HistoryRange, PostError, PostRequest, PostResult, StoreStatus, Write};

/// How many communities are read back at once. Each waits for a request at a time, so answers keep their share of the budget.
pub(super) const CATCH_UPS: usize = 4;
/// How long the gap of one community may take to be read back.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(15 * 60);
/// How long the reading of one channel may take, with its waits for budgets.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// How often the reading of one channel is tried.
const TRIES: u32 = 5;
/// How long a store that is failing may take to give the watermark; then what came since this process began is read, and the
/// rest when the store tells.
const MARK_WITHIN: Duration = Duration::from_secs(60);
/// How often it is asked again meanwhile.
const MARK_AGAIN: Duration = Duration::from_secs(1);
/// How long the first connection waits for the note that somebody listens.
const NOTE_WITHIN: Duration = Duration::from_secs(2);
/// The head start of the journal, which has to read from a recovered store what was answered before.
const JOURNAL_FIRST: Duration = Duration::from_secs(5);
/// The most messages that one request reads.
const PAGE: usize = 100;
/// The most messages of one place that are read back, whatever is configured.
const PER_PLACE_MAX: usize = 5_000;

/// The places of a guild, each with the moment of its newest message as far as the platform says: that is a hint, and may lag behind.
pub(super) type Newest = Vec<(Place, Timestamp)>;

/// The moment of the newest message of each place that was read back.
pub(super) type ReadUpTo = HashMap<Place, Timestamp>;

/// A gap to read back.
pub(super) struct Gap {
    pub newest: Newest,
    /// What was read back of it before.
    pub read: ReadUpTo,
    /// Where members spoke to us lately.
    pub active: ActivePlaces,
    /// How many other places are read.
    pub others: usize,
    /// It was tried before, and the store did not tell where the gap begins.
    pub again: bool,
}

/// How the reading back of a guild's gap goes on.
pub enum CatchUp {
    /// One place was read.
    Read {
        /// The place.
        place: Place,
        /// The moment of its newest message.
        up_to: Timestamp,
        /// Its messages within the gap, oldest first.
        messages: Vec<Posted>,
    },
    /// All is read that anybody may still wait for.
    Done,
    /// The store fails, so nobody knows where the gap begins; the guild's watermark must not move until that is known.
    Unknown(Newest),
}

impl ShardActor {
    /// Begins to read back the next communities, as many as may at once.
    pub(super) fn catch_up(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        while state.catching_up.len() - state.gaps.len() < CATCH_UPS
            && let Some((guild, gap)) = state.gaps.pop_front()
        {
            let (events, last_guild) = (ctx.events(), guild.clone());
            let parts = self.parts.clone();
            ctx.task(
                async move {
                    let reading = read_back(&parts, &guild, gap, &events);
                    // What cannot be read in time is older than anybody still waits for.
                    let end = tokio::time::timeout(CATCH_UP_WITHIN, reading).await.unwrap_or(CatchUp::Done);
                    ShardEvent::CaughtUp(guild, end)
                },
                move |_| ShardEvent::CaughtUp(last_guild, CatchUp::Done),
            );
        }
    }
}

/// Notes durably when a process first listened here, unless that is known. A process that is killed in its first moments, before
/// a session or a watermark of it is durable, leaves at least this for the next one.
pub(super) async fn note_first_listened(parts: &ShardParts) {
    if first_listened(parts).await.is_none() {
        let (key, value) = (keys::first_listened(&parts.door), parts.began.0.to_string());
        let noted = parts.store.write(vec![Write::Put { key, value, ttl: Some(keys::WATERMARK_TTL) }]);
        // A store that takes longer, or fails, is not waited for.
        let _ = tokio::time::timeout(NOTE_WITHIN, noted).await;
    }
}

async fn first_listened(parts: &ShardParts) -> Option<Timestamp> {
    parts.store.get(&keys::first_listened(&parts.door)).await.and_then(|text| text.parse().ok()).map(Timestamp)
}

/// Reads back what was posted in one guild since its watermark. A guild without a watermark is new to us: what was said before
/// anybody listened was not said to us, but what came since may have been lost with a connection that broke, or a process that
/// was killed, before anything of it was durable.
async fn read_back(parts: &ShardParts, guild: &str, gap: Gap, shard: &EventSender<ShardActor>) -> CatchUp {
    let Gap { newest, read, again, active, others } = gap;
    let active = active.of(parts, guild).await;
    if newest.is_empty() && active.is_empty() {
        return CatchUp::Done;
    }
    let key = keys::watermark(&parts.door, guild);
    let stored = watermark(parts, &key).await;
    let now = parts.clock.now();
    let age = parts.live.now().settings.catch_up.age.min(keys::CATCH_UP_AGE_MAX);
    // Once this process is old enough, whatever the store may say lies before all that is read back.
    let unknown = stored.is_err() && now.since(parts.began) <= age;
    let stored = stored.unwrap_or(None);
    let watermark = match stored {
        Some(stored) => stored,
        None => first_listened(parts).await.unwrap_or(parts.began),
    };
    if stored.is_none() && !unknown {
        let value = watermark.0.to_string();
        drop(parts.store.write(vec![Write::Put { key, value, ttl: Some(keys::WATERMARK_TTL) }]));
    }
    if parts.live.now().settings.catch_up.per_channel == 0 {
        return CatchUp::Done;
    }
    if unknown && again {
        return CatchUp::Unknown(newest);
    }
    let since = watermark.max(Timestamp(now.0.saturating_sub(ids::millis(age))));
    let mut roles = Roles::default();
    // Messages of one millisecond have no order here, so the watermark's own is read as well.
    for (place, last) in plan(&newest, &active, since, others) {
        let known = read.get(&place).copied();
        if known.is_some_and(|known| last <= known) && !active.contains(&place) {
            continue;
        }
        let since = known.map_or(since, |known| since.max(Timestamp(known.0.saturating_add(1))));
        let Some(mut messages) = read_place(parts, &place, since).await else { continue };
        let up_to = messages.last().map_or(last, |newest| newest.at.max(last));
        messages.retain(|posted| posted.at >= since);
        for posted in &mut messages {
            posted.guild = Some(guild.to_owned()).filter(|guild| guild != DIRECT);
            parts.source.complete(posted);
            roles.complete(parts, posted).await;
        }
        if !messages.is_empty() {
            tracing::info!(event = "gateway.caught_up", place = %place, messages = messages.len(), "a gap was read back");
        }
        if shard.send(ShardEvent::CaughtUp(guild.to_owned(), CatchUp::Read { place, up_to, messages })).is_err() {
            break;
        }
    }
    if unknown { CatchUp::Unknown(newest) } else { CatchUp::Done }
}

/// The stored watermark, or none because there is none.
///
/// # Errors
/// The store fails and says nothing; taking that for a new guild would pass over its gap.
async fn watermark(parts: &ShardParts, key: &str) -> Result<Option<Timestamp>, StoreFails> {
    let ready = || parts.store.status() == StoreStatus::Ready;
    let read = async || {
        let before = ready();
        let stored = parts.store.get(key).await.and_then(|text| text.parse().ok()).map(Timestamp);
        if stored.is_some() || (before && ready()) { Ok(stored) } else { Err(StoreFails) }
    };
    if let Ok(stored) = read().await {
        return Ok(stored);
    }
    let patience = Instant::now() + MARK_WITHIN;
    while !ready() && Instant::now() < patience {
        tokio::time::sleep(MARK_AGAIN).await;
    }
    tokio::time::sleep(JOURNAL_FIRST).await;
    read().await
}

/// The store fails, and what it keeps cannot be known.
struct StoreFails;

/// The roles of authors, each asked for once; at most one for each message that is read.
#[derive(Default)]
struct Roles(HashMap<Person, Vec<String>>);

impl Roles {
    /// Adds to a message that we may answer the roles of its author. Who is not there any more has none; so has who cannot be
    /// asked about, because to be answered once too often does less harm than to be passed over.
    async fn complete(&mut self, parts: &ShardParts, posted: &mut Posted) {
        let running = parts.live.now();
        let Some(us) = parts.source.us() else { return };
        let Some(rules) = running.rules(&parts.door) else { return };
        let is_answered = !matches!(triage::triage(posted, rules, &us), TriageDecision::Ignore(_));
        let Some(guild) = posted.guild.clone().filter(|_| is_answered && running.roles_matter()) else { return };
        if posted.author.kind != AuthorKind::Member {
            return;
        }
        let person = posted.author.person.clone();
        if !self.0.contains_key(&person) {
            let request = PostRequest::Roles(Member { guild, person: person.clone() });
            let told = parts.outbox.call(|reply| OutboxMsg::Read(request, reply), READ_WITHIN).await;
            let roles = if let Ok(Ok(PostResult::Roles(roles))) = told { roles } else { Vec::new() };
            self.0.insert(person.clone(), roles);
        }
        posted.author.roles = self.0.get(&person).cloned().unwrap_or_default();
    }
}

/// The messages of a place since a moment, oldest first, page by page from the newest; some older ones may come along. None when it
/// could not be read.
async fn read_place(parts: &ShardParts, place: &Place, since: Timestamp) -> Option<Vec<Posted>> {
    let most = parts.live.now().settings.catch_up.per_channel.min(PER_PLACE_MAX);
    let mut pages: Vec<Vec<Posted>> = Vec::new();
    let (mut range, mut many) = (HistoryRange::Newest, 0);
    while many < most {
        let asked = PAGE.min(most - many);
        let Some(page) = read_page(parts, place, &range, asked).await else { break };
        let first = page.first().map(|oldest| (oldest.id.clone(), oldest.at));
        // Single messages that cannot be read are missing from a page, so one that lacks a few need not be the last.
        let last_page = page.len() * 2 < asked;
        many += page.len();
        pages.push(page);
        match first {
            Some((oldest, at)) if at >= since && !last_page => range = HistoryRange::Before(oldest),
            Some(_) | None => break,
        }
    }
    (!pages.is_empty()).then(|| pages.into_iter().rev().flatten().collect())
}

async fn read_page(parts: &ShardParts, place: &Place, range: &HistoryRange, limit: usize) -> Option<Vec<Posted>> {
    let limit = u8::try_from(limit).unwrap_or(u8::MAX);
    let request = PostRequest::History { place: place.clone(), range: range.clone(), limit };
    for attempt in 1..=TRIES {
        let ask = |reply| OutboxMsg::Read(request.clone(), reply);
        match parts.outbox.call(ask, READ_WITHIN).await {
            Ok(Ok(PostResult::Messages(messages))) => return Some(messages),
            // A channel that we may not read has nothing for us.
            Ok(Ok(_)) => return None,
            Ok(Err(PostError::Rejected { reason, .. })) if !reason.may_pass() => return None,
            Ok(Err(_)) | Err(_) => tokio::time::sleep(Duration::from_secs(1) * attempt).await,
        }
    }
    None
}
