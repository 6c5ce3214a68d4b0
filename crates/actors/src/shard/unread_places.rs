//! The places of a shard that could not be read back, by community. Each is read again by itself, until its messages are
//! read or too old to be answered. The record in the store keeps a place until its messages have a durable owner.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::catch_up::{CATCH_UPS, CatchUp, MARK_AGAIN};
use super::read_back::{PlaceRead, Roles, complete, read_place};
use super::unsettled::Arrival;
use super::{ShardActor, ShardEvent, ShardState};
use crate::runtime::supervisor::ActorContext;
use crate::unread::{StoredGaps, Unread, oldest};
use domain::happening::ShardChange;
use domain::ids::{Door, Place, Timestamp};
use domain::incoming::Incoming;
use domain::keys;
use ports::{Stored, Unreadable, Write};

/// The maximum number of unread places of one shard; further places are dropped with a warning.
const UNREAD_MAX: usize = 1_000;
/// The timeout for reading the record of unread places once.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The unread places of a shard.
#[derive(Default)]
pub(super) struct UnreadPlaces {
    by_guild: BTreeMap<String, Unread>,
    /// The places that a task reads, each with the end of its gap at that time.
    reading: HashMap<Place, Timestamp>,
    /// The places that were read, with messages that may have no durable owner yet.
    read: HashSet<Place>,
    /// True once the record of the last process was read. Before that, nothing is saved.
    loaded: bool,
    /// True if the record differs from the stored one.
    changed: bool,
}

impl UnreadPlaces {
    /// True once the record of the last process was read.
    pub(super) fn is_loaded(&self) -> bool {
        self.loaded
    }

    fn load(&mut self, door: &Door, text: Option<&str>) {
        let stored: BTreeMap<String, StoredGaps> =
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        for (guild, mut gaps) in stored {
            // Places that failed meanwhile have their earlier gap, too.
            let failed = self.by_guild.remove(&guild).map(|unread| unread.stored()).unwrap_or_default();
            for (place, (since, until)) in failed {
                let gap = gaps.entry(place).or_insert((since, until));
                *gap = (gap.0.min(since), gap.1.max(until));
            }
            self.by_guild.insert(guild, Unread::from_stored(door, gaps));
        }
        self.loaded = true;
    }

    fn len(&self) -> usize {
        self.by_guild.values().map(Unread::len).sum()
    }

    fn until(&self, guild: &str, place: &Place) -> Option<Timestamp> {
        self.by_guild.get(guild).and_then(|unread| unread.until(place))
    }

    /// Adds the messages of a place since a time, which could not be read now. Returns true if the place is new.
    ///
    /// # Errors
    /// There is no room for it.
    fn failed(
        &mut self,
        guild: &str,
        place: &Place,
        since: Timestamp,
        now: Timestamp,
        roll: f64,
    ) -> Result<bool, NoRoom> {
        let is_new = self.until(guild, place).is_none();
        if is_new && self.len() >= UNREAD_MAX {
            return Err(NoRoom);
        }
        self.read.remove(place);
        self.changed = true;
        self.by_guild.entry(guild.to_owned()).or_default().failed(place.clone(), since, now, now, roll);
        Ok(is_new)
    }

    /// Removes the places that were read and have no message among those without a durable owner.
    fn remove_settled(&mut self, unsettled: impl Iterator<Item = Place>) {
        if self.read.is_empty() {
            return;
        }
        let unsettled: HashSet<Place> = unsettled.collect();
        let Self { read, by_guild, changed, .. } = self;
        read.retain(|place| {
            let is_settled = !unsettled.contains(place);
            if is_settled {
                for unread in by_guild.values_mut() {
                    unread.read(place);
                }
                *changed = true;
            }
            !is_settled
        });
        by_guild.retain(|_, unread| unread.len() > 0);
    }

    /// Removes the places whose messages are too old; returns their number.
    fn expire(&mut self, oldest: Timestamp) -> usize {
        let expired = self.by_guild.values_mut().map(|unread| unread.expire(oldest)).sum();
        if expired > 0 {
            self.changed = true;
            self.by_guild.retain(|_, unread| unread.len() > 0);
        }
        expired
    }

    /// Returns the next places to read, each with its community, the time of its first message and the end of its gap.
    fn begin(&mut self, now: Timestamp, oldest: Timestamp) -> Vec<(String, Place, Timestamp, Timestamp)> {
        let mut begun = Vec::new();
        for (guild, unread) in &self.by_guild {
            for (place, since) in unread.due(now, oldest) {
                if self.reading.len() >= CATCH_UPS {
                    return begun;
                }
                let Some(until) = unread.until(&place) else { continue };
                if self.read.contains(&place) || self.reading.contains_key(&place) {
                    continue;
                }
                self.reading.insert(place.clone(), until);
                begun.push((guild.clone(), place, since, until));
            }
        }
        begun
    }

    /// Returns the write of the record if it changed.
    pub(super) fn write(&mut self, key: impl FnOnce() -> String) -> Option<Write> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let stored: BTreeMap<&String, StoredGaps> =
            self.by_guild.iter().map(|(guild, unread)| (guild, unread.stored())).collect();
        Some(match serde_json::to_string(&stored) {
            Ok(value) if !stored.is_empty() => Write::Put { key: key(), value, ttl: Some(keys::WATERMARK_TTL) },
            _ => Write::Delete { key: key() },
        })
    }
}

/// There is no room for another unread place.
struct NoRoom;

impl ShardActor {
    /// Returns the key of the record of unread places.
    pub(super) fn unread_key(&self) -> String {
        keys::watermark(&self.parts.door, &format!("unread:{}", self.shard.number))
    }

    /// Reads the record of the last process, as soon as the store answers.
    pub(super) fn load_unread(&self, ctx: &mut ActorContext<ShardActor>) {
        let (store, key) = (Arc::clone(&self.parts.basics.store), self.unread_key());
        let load = async move {
            loop {
                match tokio::time::timeout(LOAD_TIMEOUT, store.read(&key)).await {
                    Err(_) | Ok(Stored::Unreadable(Unreadable::NoAnswer)) => tokio::time::sleep(MARK_AGAIN).await,
                    Ok(stored) => return ShardEvent::UnreadLoaded(stored.value()),
                }
            }
        };
        ctx.task(load, |_| ShardEvent::UnreadLoaded(None));
    }

    /// Handles the record of the last process.
    pub(super) fn unread_loaded(&self, state: &mut ShardState, text: Option<&str>) {
        state.unread.load(&self.parts.door, text);
    }

    /// Keeps a place that could not be read.
    pub(super) fn unread(&self, state: &mut ShardState, guild: &str, place: &Place, since: Timestamp, reason: &str) {
        let (now, roll) = (self.parts.basics.clock.now(), self.parts.basics.dice.roll());
        match state.unread.failed(guild, place, since, now, roll) {
            Ok(true) => self.tell(ShardChange::Unread { place, reason }),
            Ok(false) => {}
            Err(NoRoom) => self.tell(ShardChange::NotRead { places: 1, reason: "too many unread channels" }),
        }
    }

    /// Removes the places that are done or too old, and reads the next ones again.
    pub(super) fn read_again(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        let posted = state.unsettled.values().filter_map(|pending| match &pending.incoming {
            Incoming::Posted(posted) => Some(posted.place.clone()),
            _ => None,
        });
        state.unread.remove_settled(posted);
        let oldest = oldest(&self.parts.basics);
        let places = state.unread.expire(oldest);
        if places > 0 {
            self.tell(ShardChange::NotRead { places, reason: "too old" });
        }
        // Before the first session, no message can be passed on.
        if self.parts.source.us().is_none() {
            return;
        }
        for (guild, place, since, until) in state.unread.begin(self.parts.basics.clock.now(), oldest) {
            let (parts, of_guild, failed) = (self.parts.clone(), guild.clone(), (guild.clone(), place.clone()));
            let read = async move {
                let mut read = read_place(&parts, &place, since, Some(until)).await;
                complete(&parts, &of_guild, since, &mut read.messages, &mut Roles::default()).await;
                ShardEvent::CaughtUp(of_guild, CatchUp::ReadAgain { place, until, read })
            };
            ctx.task(read, move |panic| {
                let unread = Some(format!("its task panicked: {panic}"));
                let (read, (guild, place)) = (PlaceRead { unread, ..PlaceRead::default() }, failed);
                ShardEvent::CaughtUp(guild, CatchUp::ReadAgain { place, until, read })
            });
        }
    }

    /// Handles the result of another try of a place.
    pub(super) fn was_read_again(
        &self,
        ctx: &mut ActorContext<ShardActor>,
        state: &mut ShardState,
        guild: &str,
        (place, until): (Place, Timestamp),
        read: PlaceRead,
    ) {
        state.unread.reading.remove(&place);
        self.tell_read(&place, &read);
        for posted in read.messages {
            self.take(ctx, state, Incoming::Posted(posted), Arrival::Missed(None));
        }
        if read.unread.is_some() {
            let (now, roll) = (self.parts.basics.clock.now(), self.parts.basics.dice.roll());
            if let Some(unread) = state.unread.by_guild.get_mut(guild) {
                unread.failed_again(&place, now, roll);
            }
        } else if state.unread.until(guild, &place) == Some(until) {
            // A gap that grew meanwhile is not read yet.
            state.unread.read.insert(place);
        }
    }
}
