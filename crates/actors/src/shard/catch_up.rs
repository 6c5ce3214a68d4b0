//! Catch-up: after a fresh session, the messages posted since the stored watermark are read over the request API.
//!
//! The journal deduplicates by message id, so reading too many messages is harmless; age and count bound the reading.
//! Messages from the API include neither their guild nor the roles of their authors; the roles are requested where they
//! may matter.

use std::collections::{HashMap, VecDeque};
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
use ports::{HistoryRange, PostError, PostRequest, PostResult, StoreStatus, Stored, Unreadable, Write};

/// The number of pages after which a catch-up lets those of other communities go on.
pub(super) const PAGES_AT_ONCE: usize = 8;
/// The maximum number of concurrent catch-ups. Each has one request in flight at a time, so answers keep their share of
/// the budget.
pub(super) const CATCH_UPS: usize = 4;
/// The timeout for the catch-up of one community.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(15 * 60);
/// The timeout for reading one channel, including the delays by request budgets.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// The maximum number of attempts to read one channel.
const TRIES: u32 = 5;
/// The timeout for reading the watermark from a failing store. After it, the messages since the start of this process
/// are read, and the others when the store recovers.
const MARK_WITHIN: Duration = Duration::from_secs(60);
/// The interval between the attempts to read the watermark.
const MARK_AGAIN: Duration = Duration::from_secs(1);
/// The timeout for the note of first listening, which precedes the first connection.
const NOTE_WITHIN: Duration = Duration::from_secs(2);
/// The head start of the journal, which must first read the answered turns from a recovered store.
const JOURNAL_FIRST: Duration = Duration::from_secs(5);
/// The maximum number of messages in one request.
const PAGE: usize = 100;
/// The maximum number of messages read back for one place, regardless of the configuration.
const PER_PLACE_MAX: usize = 5_000;

/// The places of a guild, each with the platform's time of its newest message: a hint that may be out of date.
pub(super) type Newest = Vec<(Place, Timestamp)>;

/// The time of the newest message of each place that was read back.
pub(super) type ReadUpTo = HashMap<Place, Timestamp>;

/// A gap to read back.
pub struct Gap {
    pub(super) newest: Newest,
    /// The part that was read back before.
    pub(super) read: ReadUpTo,
    /// The places with recent member activity.
    pub(super) active: ActivePlaces,
    /// The number of other places to read.
    pub(super) others: usize,
    /// True if an earlier attempt failed because the store did not return the start of the gap.
    pub(super) again: bool,
    /// The part to read after a pause. `None`: the beginning.
    pub(super) rest: Option<Rest>,
}

/// The part of a gap that is not read yet.
pub(super) struct Rest {
    /// The places, each with the platform's time of its newest message and the time since which it is read.
    places: VecDeque<(Place, Timestamp, Timestamp)>,
    /// True if the start of the gap is unknown.
    unknown: bool,
    roles: Roles,
    /// The time after which messages are too old to answer.
    end: Instant,
}

/// The progress of a guild's catch-up.
pub enum CatchUp {
    /// One place was read.
    Read {
        /// The place.
        place: Place,
        /// The time of its newest message.
        up_to: Timestamp,
        /// Its messages within the gap, oldest first.
        messages: Vec<Posted>,
    },
    /// Other communities are next; the rest of this gap is read after them.
    Paused(Box<Gap>),
    /// All messages that may still need an answer have been read.
    Done,
    /// The store fails, so the start of the gap is unknown; the guild's watermark must not advance until it is known.
    Unknown(Newest),
}

impl ShardActor {
    /// Starts queued catch-ups, up to the concurrency limit.
    pub(super) fn catch_up(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        while state.catching_up.len() - state.gaps.len() < CATCH_UPS
            && let Some((guild, gap)) = state.gaps.pop_front()
        {
            let (events, last_guild) = (ctx.events(), guild.clone());
            let parts = self.parts.clone();
            ctx.task(
                async move {
                    let within = gap.rest.as_ref().map(|rest| rest.end);
                    let within = within.unwrap_or_else(|| Instant::now() + CATCH_UP_WITHIN);
                    let reading = read_back(&parts, &guild, gap, within, &events);
                    // Messages that are not read before the timeout are too old to answer.
                    let end = tokio::time::timeout_at(within, reading).await.unwrap_or(CatchUp::Done);
                    ShardEvent::CaughtUp(guild, end)
                },
                move |_| ShardEvent::CaughtUp(last_guild, CatchUp::Done),
            );
        }
    }
}

/// Durably notes the time at which a process first listened here, unless it is known. If a process is killed in its
/// first moments, before a session or a watermark is durable, the next process has at least this time.
pub(super) async fn note_first_listened(parts: &ShardParts) {
    // One that cannot be read may be older.
    if parts.basics.store.read(&keys::first_listened(&parts.door)).await == Stored::Absent {
        let (key, value) = (keys::first_listened(&parts.door), parts.began.0.to_string());
        let noted = parts.basics.store.write(vec![Write::Put { key, value, ttl: Some(keys::WATERMARK_TTL) }]);
        // A slow or failing store does not delay the connection further.
        let _ = tokio::time::timeout(NOTE_WITHIN, noted).await;
    }
}

async fn first_listened(parts: &ShardParts) -> Option<Timestamp> {
    parts.basics.store.get(&keys::first_listened(&parts.door)).await.and_then(|text| text.parse().ok()).map(Timestamp)
}

/// Reads a gap, or the next part of it.
async fn read_back(
    parts: &ShardParts,
    guild: &str,
    mut gap: Gap,
    end: Instant,
    shard: &EventSender<ShardActor>,
) -> CatchUp {
    let mut rest = match gap.rest.take() {
        Some(rest) => rest,
        None => match begin(parts, guild, &mut gap, end).await {
            Ok(rest) => rest,
            Err(end) => return end,
        },
    };
    let mut pages = 0;
    while let Some((place, last, since)) = rest.places.pop_front() {
        let read = read_place(parts, &place, since).await;
        pages += read.as_ref().map_or(1, |messages| messages.len().div_ceil(PAGE).max(1));
        if let Some(mut messages) = read {
            let up_to = messages.last().map_or(last, |newest| newest.at.max(last));
            messages.retain(|posted| posted.at >= since);
            for posted in &mut messages {
                posted.guild = Some(guild.to_owned()).filter(|guild| guild != DIRECT);
                parts.source.complete(posted);
                rest.roles.complete(parts, posted).await;
            }
            if shard.send(ShardEvent::CaughtUp(guild.to_owned(), CatchUp::Read { place, up_to, messages })).is_err() {
                break;
            }
        }
        if pages >= PAGES_AT_ONCE && !rest.places.is_empty() {
            return CatchUp::Paused(Box::new(Gap { rest: Some(rest), ..gap }));
        }
    }
    if rest.unknown { CatchUp::Unknown(gap.newest) } else { CatchUp::Done }
}

/// Returns the places to read for the messages posted in one guild since its watermark. A guild without a watermark is
/// new to the bot: messages from before the first listening were not for the bot. Later messages may have been lost with
/// a broken connection or a killed process, before anything of it was durable.
///
/// # Errors
/// The end of the catch-up, because there is nothing to read.
async fn begin(parts: &ShardParts, guild: &str, gap: &mut Gap, end: Instant) -> Result<Rest, CatchUp> {
    let active = gap.active.of(parts, guild).await;
    if gap.newest.is_empty() && active.is_empty() {
        return Err(CatchUp::Done);
    }
    let key = keys::watermark(&parts.door, guild);
    let stored = watermark(parts, &key).await;
    let now = parts.basics.clock.now();
    let age = parts.basics.live.now().settings.catch_up.age.min(keys::CATCH_UP_AGE_MAX);
    // Once the process is older than the maximum age, the stored watermark lies before everything to be read, so it
    // does not matter.
    let unknown = stored.is_err() && now.since(parts.began) <= age;
    let stored = stored.unwrap_or(None);
    let watermark = match stored {
        Some(stored) => stored,
        None => first_listened(parts).await.unwrap_or(parts.began),
    };
    if stored.is_none() && !unknown {
        let value = watermark.0.to_string();
        drop(parts.basics.store.write(vec![Write::Put { key, value, ttl: Some(keys::WATERMARK_TTL) }]));
    }
    if parts.basics.live.now().settings.catch_up.per_channel == 0 {
        return Err(CatchUp::Done);
    }
    if unknown && gap.again {
        return Err(CatchUp::Unknown(std::mem::take(&mut gap.newest)));
    }
    let since = watermark.max(Timestamp(now.0.saturating_sub(ids::millis(age))));
    // Messages of the same millisecond have no order here, so the millisecond of the watermark is read as well.
    let place = |(place, last): (Place, Timestamp)| {
        let known = gap.read.get(&place).copied();
        let is_read = known.is_some_and(|known| last <= known) && !active.contains(&place);
        let since = known.map_or(since, |known| since.max(Timestamp(known.0.saturating_add(1))));
        (!is_read).then_some((place, last, since))
    };
    let places = plan(&gap.newest, &active, since, gap.others).into_iter().filter_map(place).collect();
    Ok(Rest { places, unknown, roles: Roles::default(), end })
}

/// Returns the stored watermark; `None` if there is none.
///
/// # Errors
/// The store fails and the watermark is unknown; treating the guild as new would skip its gap.
async fn watermark(parts: &ShardParts, key: &str) -> Result<Option<Timestamp>, StoreFails> {
    let ready = || parts.basics.store.status() == StoreStatus::Ready;
    let read = async || match parts.basics.store.read(key).await {
        Stored::Unreadable(Unreadable::NoAnswer) => Err(StoreFails),
        stored => Ok(stored.value().and_then(|text| text.parse().ok()).map(Timestamp)),
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

/// The store fails, so its content is unknown.
struct StoreFails;

/// The roles of authors, each requested once; at most one request for each message.
#[derive(Default)]
struct Roles(HashMap<Person, Vec<String>>);

impl Roles {
    /// Adds the roles of its author to a message that the bot may answer. An author who has left has no roles. If the
    /// lookup fails, the author also counts as without roles, because one answer too many is less harmful than a
    /// missing one.
    async fn complete(&mut self, parts: &ShardParts, posted: &mut Posted) {
        let running = parts.basics.live.now();
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

/// Returns the messages of a place since a time, the oldest first, read page by page from the newest; the result may
/// include some older ones. `None` if the place could not be read.
async fn read_place(parts: &ShardParts, place: &Place, since: Timestamp) -> Option<Vec<Posted>> {
    let most = parts.basics.live.now().settings.catch_up.per_channel.min(PER_PLACE_MAX);
    let mut pages: Vec<Vec<Posted>> = Vec::new();
    let (mut range, mut many) = (HistoryRange::Newest, 0);
    while many < most {
        let asked = PAGE.min(most - many);
        let Some(page) = read_page(parts, place, &range, asked).await else { break };
        let first = page.first().map(|oldest| (oldest.id.clone(), oldest.at));
        // Unreadable messages are missing from a page, so a page that lacks a few may not be the last.
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
            // A channel without read permission contains nothing for the bot.
            Ok(Ok(_)) => return None,
            Ok(Err(PostError::Rejected { reason, .. })) if !reason.may_pass() => return None,
            Ok(Err(_)) | Err(_) => tokio::time::sleep(Duration::from_secs(1) * attempt).await,
        }
    }
    None
}
