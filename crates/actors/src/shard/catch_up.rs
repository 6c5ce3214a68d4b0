//! Catch-up: after a fresh session, the messages posted since the stored watermark are read over the request API.
//!
//! The journal deduplicates by message id, so reading too many messages is harmless; age and count bound the reading.
//! Messages from the API include neither their guild nor the roles of their authors; the roles are requested where they
//! may matter.
//!
//! A place that cannot be read is stored with its gap, and read again later by itself.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::activity::{ActivePlaces, plan};
use super::read_back::{PAGE, PlaceRead, Roles, complete, read_place};
use super::unsettled::Arrival;
use super::{ShardActor, ShardEvent, ShardParts, ShardState};
use crate::runtime::supervisor::{ActorContext, EventSender};
use crate::unread::oldest;
use domain::happening::ShardChange;
use domain::ids::{Place, Timestamp};
use domain::incoming::Incoming;
use domain::keys;
use ports::{StoreStatus, Stored, Unreadable, Write};

/// The number of pages after which a catch-up lets those of other communities go on.
pub(super) const PAGES_AT_ONCE: usize = 8;
/// The maximum number of concurrent catch-ups. Each has one request in flight at a time, so answers keep their share of
/// the budget.
pub(super) const CATCH_UPS: usize = 4;
/// The timeout for the catch-up of one community.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The timeout for reading the watermark from a failing store. After it, the messages since the start of this process
/// are read, and the others when the store recovers.
const MARK_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval between the attempts to read the watermark.
pub(super) const MARK_AGAIN: Duration = Duration::from_secs(1);
/// The timeout for the note of first listening, which precedes the first connection.
const NOTE_TIMEOUT: Duration = Duration::from_secs(2);
/// The head start of the journal, which must first read the answered turns from a recovered store.
const JOURNAL_FIRST: Duration = Duration::from_secs(5);

/// The places of a guild, each with the platform's time of its newest message: a hint that may be out of date.
pub(super) type Newest = Vec<(Place, Timestamp)>;

/// The time of the newest message of each place that was read back.
pub(super) type ReadUpTo = HashMap<Place, Timestamp>;

/// A gap to read back.
#[derive(Clone)]
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
#[derive(Clone)]
pub(super) struct Rest {
    /// The places, each with the platform's time of its newest message and the time since which it is read.
    places: VecDeque<(Place, Timestamp, Timestamp)>,
    /// True if the start of the gap is unknown.
    unknown: bool,
    roles: Roles,
    /// The time after which messages are too old to answer.
    end: Instant,
}

impl Gap {
    /// Returns the places that are not read yet, each with the start of its gap. Before its beginning was read from the
    /// store, a gap begins at `oldest`.
    fn unread(&self, guild: &str, oldest: Timestamp) -> Vec<(Place, Timestamp)> {
        match &self.rest {
            Some(rest) => rest.places.iter().map(|(place, _, since)| (place.clone(), *since)).collect(),
            None => plan(&self.newest, self.active.known(guild), oldest, self.others)
                .into_iter()
                .map(|(place, _)| (place, oldest))
                .collect(),
        }
    }
}

/// The progress of a guild's catch-up.
pub enum CatchUp {
    /// One place was read, completely or in part.
    Read {
        /// The place.
        place: Place,
        /// The start of its gap.
        since: Timestamp,
        /// The time of its newest message.
        up_to: Timestamp,
        /// Its messages within the gap.
        read: PlaceRead,
    },
    /// A place that could not be read before was tried again.
    ReadAgain {
        /// The place.
        place: Place,
        /// The end of its gap when the task began.
        until: Timestamp,
        /// Its messages within the gap.
        read: PlaceRead,
    },
    /// Other communities are next; the rest of this gap is read after them.
    Paused(Box<Gap>),
    /// All places were read or reported as unread.
    Done,
    /// The task failed for this reason. It may have read some places of this gap.
    Broke(Box<Gap>, String),
    /// The store fails, so the start of the gap is unknown; the guild's watermark must not advance until it is known.
    Unknown(Newest),
}

impl ShardActor {
    /// Starts queued catch-ups, up to the concurrency limit.
    pub(super) fn catch_up(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        while state.catching_up.len() - state.gaps.len() < CATCH_UPS
            && let Some((guild, gap)) = state.gaps.pop_front()
        {
            let (events, last_guild, whole) = (ctx.events(), guild.clone(), gap.clone());
            let parts = self.parts.clone();
            ctx.task(
                async move {
                    let within = gap.rest.as_ref().map(|rest| rest.end);
                    let within = within.unwrap_or_else(|| Instant::now() + CATCH_UP_TIMEOUT);
                    let end = read_back(&parts, &guild, gap, within, &events).await;
                    ShardEvent::CaughtUp(guild, end)
                },
                move |panic| {
                    let reason = format!("its task panicked: {panic}");
                    ShardEvent::CaughtUp(last_guild, CatchUp::Broke(Box::new(whole), reason))
                },
            );
        }
    }

    /// Handles the progress of a guild's catch-up.
    pub(super) fn caught_up(
        &self,
        ctx: &mut ActorContext<ShardActor>,
        state: &mut ShardState,
        guild: String,
        progress: CatchUp,
    ) {
        match progress {
            CatchUp::Read { place, since, up_to, read } => {
                self.tell_read(&place, &read);
                let told_at = state.catching_up.get(&guild).copied().flatten();
                if let Some(reason) = &read.unread {
                    self.unread(state, &guild, &place, since, reason);
                } else {
                    state.read_up_to.entry(guild).or_default().insert(place, up_to);
                }
                for posted in read.messages {
                    self.take(ctx, state, Incoming::Posted(posted), Arrival::Missed(told_at));
                }
            }
            CatchUp::ReadAgain { place, until, read } => self.was_read_again(ctx, state, &guild, (place, until), read),
            CatchUp::Paused(gap) => {
                state.gaps.push_back((guild, *gap));
                self.catch_up(ctx, state);
            }
            CatchUp::Broke(gap, reason) => {
                for (place, since) in gap.unread(&guild, oldest(&self.parts.basics)) {
                    self.unread(state, &guild, &place, since, &reason);
                }
                self.caught_up(ctx, state, guild, CatchUp::Done);
            }
            CatchUp::Done => {
                let read = state.read_up_to.remove(&guild).unwrap_or_default();
                match state.further.remove(&guild) {
                    Some(newest) => {
                        let gap = Gap { read, ..state.gap(newest) };
                        state.gaps.push_back((guild, gap));
                    }
                    None => drop(state.catching_up.remove(&guild)),
                }
                self.catch_up(ctx, state);
            }
            CatchUp::Unknown(newest) => {
                let newest = state.further.remove(&guild).unwrap_or(newest);
                // The messages between that time and the watermark are still to be read.
                state.read_up_to.remove(&guild);
                let gap = Gap { again: true, ..state.gap(newest) };
                state.gaps.push_back((guild, gap));
                self.catch_up(ctx, state);
            }
        }
    }

    /// Reports the messages of a place that were read back.
    pub(super) fn tell_read(&self, place: &Place, read: &PlaceRead) {
        let messages = read.messages.len();
        if messages > 0 {
            self.tell(ShardChange::CaughtUp { place, messages });
        }
        if read.exceeds {
            self.tell(ShardChange::Exceeded { place, messages });
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
        let _ = tokio::time::timeout(NOTE_TIMEOUT, noted).await;
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
        None => match tokio::time::timeout_at(end, begin(parts, guild, &mut gap, end)).await {
            Ok(Ok(rest)) => rest,
            Ok(Err(end)) => return end,
            Err(_) => return CatchUp::Done,
        },
    };
    let mut pages = 0;
    while let Some((place, last, since)) = rest.places.pop_front() {
        let mut read = if Instant::now() < end {
            read_place(parts, &place, since, None).await
        } else {
            PlaceRead { unread: Some("the catch-up took too long".to_owned()), ..PlaceRead::default() }
        };
        pages += read.messages.len().div_ceil(PAGE).max(1);
        let up_to = read.messages.last().map_or(last, |newest| newest.at.max(last));
        complete(parts, guild, since, &mut read.messages, &mut rest.roles).await;
        let progress = CatchUp::Read { place, since, up_to, read };
        if shard.send(ShardEvent::CaughtUp(guild.to_owned(), progress)).is_err() {
            break;
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
    let oldest = oldest(&parts.basics);
    // Once the process is older than the maximum age, the stored watermark lies before everything to be read, so it
    // does not matter.
    let unknown = stored.is_err() && parts.began >= oldest;
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
    let since = watermark.max(oldest);
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
    let patience = Instant::now() + MARK_TIMEOUT;
    while !ready() && Instant::now() < patience {
        tokio::time::sleep(MARK_AGAIN).await;
    }
    tokio::time::sleep(JOURNAL_FIRST).await;
    read().await
}

/// The store fails, so its content is unknown.
struct StoreFails;
