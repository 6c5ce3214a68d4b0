//! The places with member activity for the bot within the last day. The platform's time of the newest message of a
//! place is a hint that may be out of date, so a catch-up reads these places regardless of it. For direct messages the
//! platform gives no hint.
//!
//! Each place has its own key in the store, written at most once an hour, with a TTL of one day.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::catch_up::{Gap, Newest, ReadUpTo};
use super::{ShardActor, ShardParts, ShardState};
use crate::runtime::supervisor::ActorContext;
use domain::ids::{Door, Place, Timestamp};
use domain::incoming::Posted;
use domain::keys;
use domain::shared_map::SharedMap;
use domain::triage::{self, TriageDecision};
use ports::Write;

/// The community name that stands for direct messages.
pub(super) const DIRECT: &str = "%direct";
/// The maximum number of places that one shard records, shared by communities. Beyond its share, a community loses the
/// place with the oldest activity; for such places the platform's hint decides.
const PLACES_MAX: usize = 5_000;
/// The minimum interval between two writes of one place.
const NOTED_EVERY: Duration = Duration::from_secs(60 * 60);
/// The maximum number of keys to read.
const LOAD_MAX: usize = 20_000;
/// The maximum number of places of one community, or of direct messages, that are read back for their activity.
const ACTIVE_MAX: usize = 50;
/// The maximum number of further places of one community that are read back, those with the newest messages first.
const OTHERS_EACH: usize = 8;
/// The maximum number of further places in one session.
const OTHERS_MAX: usize = 400;

/// The places with member activity in this life.
pub(super) struct Activity {
    /// The time of each place, grouped by community.
    noted: SharedMap<Place, Timestamp>,
    /// The time of the last removal of expired places.
    swept: Timestamp,
    unsaved: Vec<Write>,
}

impl Default for Activity {
    fn default() -> Self {
        Self { noted: SharedMap::new(PLACES_MAX), swept: Timestamp(0), unsaved: Vec::new() }
    }
}

impl Activity {
    fn is_noted(&self, place: &Place, at: Timestamp) -> bool {
        self.noted.get(place).is_some_and(|noted| at.since(*noted) < NOTED_EVERY)
    }

    fn note(&mut self, guild: &str, place: &Place, at: Timestamp) {
        if self.is_noted(place, at) {
            return;
        }
        if !self.noted.has_room(guild) && at.since(self.swept) >= NOTED_EVERY {
            self.swept = at;
            self.noted.retain(|_, noted| at.since(*noted) < keys::active::ACTIVE_TTL);
        }
        let Ok(evicted) = self.noted.insert(guild, place.clone(), at) else { return };
        if let Some(evicted) = evicted {
            self.unsaved.push(Write::Delete { key: keys::active::active(&evicted, guild) });
        }
        let (key, ttl) = (keys::active::active(place, guild), Some(keys::active::ACTIVE_TTL));
        self.unsaved.push(Write::Put { key, value: at.0.to_string(), ttl });
    }

    /// Returns the pending writes.
    pub(super) fn writes(&mut self) -> impl Iterator<Item = Write> + '_ {
        self.unsaved.drain(..)
    }
}

/// The stored places by community, the most recently active first; read once for each session.
#[derive(Clone, Default)]
pub(super) struct ActivePlaces(Arc<OnceCell<HashMap<String, Vec<Place>>>>);

impl ActivePlaces {
    /// Returns the places of one community.
    pub(super) async fn of(&self, parts: &ShardParts, guild: &str) -> Vec<Place> {
        let all = self.0.get_or_init(async || {
            let rows = parts.basics.store.scan(&keys::active::active_of(&parts.door), LOAD_MAX).await.part();
            by_community(&rows, &parts.door)
        });
        all.await.get(guild).cloned().unwrap_or_default()
    }
}

impl ActivePlaces {
    /// Returns the places of one community, as far as they were read.
    pub(super) fn known(&self, guild: &str) -> &[Place] {
        self.0.get().and_then(|all| all.get(guild)).map_or(&[], Vec::as_slice)
    }
}

fn by_community(rows: &[(String, String)], door: &Door) -> HashMap<String, Vec<Place>> {
    let read =
        |(key, value): &(String, String)| Some((value.parse::<u64>().ok()?, keys::active::parse_active(key, door)?));
    let mut rows: Vec<_> = rows.iter().filter_map(read).collect();
    rows.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut places: HashMap<String, Vec<Place>> = HashMap::new();
    for (_, (guild, place)) in rows {
        let of_guild = places.entry(guild).or_default();
        if of_guild.len() < ACTIVE_MAX {
            of_guild.push(place);
        }
    }
    places
}

/// Returns the places of a community to read back, each with the platform's time of its newest message: the places with
/// newer messages than `since`, the places with member activity, and then up to `others` further places, the newest
/// first.
pub(super) fn plan(newest: &Newest, active: &[Place], since: Timestamp, others: usize) -> Newest {
    let hint = |place: &Place| newest.iter().find(|(known, _)| known == place).map_or(Timestamp(0), |(_, last)| *last);
    let is_told = |(_, last): &&(Place, Timestamp)| *last >= since;
    let mut plan: Newest = newest.iter().filter(is_told).cloned().collect();
    let active = active.iter().filter(|place| !plan.iter().any(|(known, _)| known == *place));
    let active: Newest = active.map(|place| (place.clone(), hint(place))).collect();
    plan.extend(active);
    let mut rest: Newest =
        newest.iter().filter(|(place, _)| !plan.iter().any(|(known, _)| known == place)).cloned().collect();
    rest.sort_by_key(|(_, last)| std::cmp::Reverse(*last));
    plan.extend(rest.into_iter().take(others));
    plan
}

impl ShardActor {
    /// Records the place of a message that the bot may answer.
    pub(super) fn note_activity(&self, state: &mut ShardState, posted: &Posted) {
        let running = self.parts.basics.live.now();
        let (Some(us), Some(rules)) = (self.parts.source.us(), running.rules(&self.parts.door)) else { return };
        if state.activity.is_noted(&posted.place, posted.at) {
            return;
        }
        if matches!(triage::triage(posted, rules, &us), TriageDecision::Turn(_) | TriageDecision::Hint(_)) {
            state.activity.note(posted.guild.as_deref().unwrap_or(DIRECT), &posted.place, posted.at);
        }
    }

    /// Starts the catch-up of direct messages: no session announces these places. The first shard receives them.
    pub(super) fn read_direct_back(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        let running = self.parts.basics.live.now();
        let serves = running.rules(&self.parts.door).is_some_and(|rules| rules.direct_messages);
        if self.shard.number != 0 || !serves {
            return;
        }
        state.direct_begun = true;
        if state.catching_up.insert(DIRECT.to_owned(), None).is_some() {
            state.further.insert(DIRECT.to_owned(), Newest::new());
            return;
        }
        let gap = state.gap(Newest::new());
        state.gaps.push_back((DIRECT.to_owned(), gap));
        self.catch_up(ctx, state);
    }
}

impl ShardState {
    /// Resets the catch-up for a fresh session.
    pub(super) fn session_began(&mut self) {
        self.active = ActivePlaces::default();
        self.others_left = OTHERS_MAX;
    }

    /// Returns the gap of a community with these places.
    pub(super) fn gap(&mut self, newest: Newest) -> Gap {
        let others = OTHERS_EACH.min(self.others_left).min(newest.len());
        self.others_left -= others;
        Gap { newest, read: ReadUpTo::new(), again: false, active: self.active.clone(), others, rest: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DOOR, place};

    const MINUTE: u64 = 60_000;

    #[test]
    fn a_plan_reads_what_is_told_then_where_we_were_spoken_to_then_the_newest_others() {
        let now = 100 * MINUTE;
        let mut newest: Newest = (0..20).map(|id| (place(&id.to_string()), Timestamp(id * MINUTE))).collect();
        newest.push((place("50"), Timestamp(now)));
        newest.push((place("51"), Timestamp(0)));
        let active = [place("51"), place("50"), place("90")];
        let ids = |others: usize| -> Vec<String> {
            let plan = plan(&newest, &active, Timestamp(now - 1), others);
            plan.into_iter().map(|(place, _)| place.id.to_string()).collect()
        };
        assert_eq!(ids(0), ["50", "51", "90"]);
        assert_eq!(ids(2), ["50", "51", "90", "19", "18"]);
    }

    #[test]
    fn a_place_is_written_once_an_hour_and_communities_share_the_places() {
        let mut activity = Activity::default();
        let mut note = |guild: &str, id: u64, minute: u64| {
            activity.note(guild, &place(&id.to_string()), Timestamp(minute * MINUTE));
            activity.writes().map(|write| matches!(write, Write::Put { .. })).collect::<Vec<_>>()
        };
        assert_eq!([note("5", 1, 100), note("5", 1, 159), note("5", 1, 160)], [vec![true], vec![], vec![true]]);
        for id in 2..PLACES_MAX as u64 + 10 {
            note("5", id, 160);
        }
        assert_eq!(note("6", 1_000_000, 161), [true], "a community with thousands of threads leaves room for others");
        assert_eq!(note("5", 1_000_001, 162), [false, true], "its oldest place gives way");
        assert_eq!(note("6", 1_000_000, 160 + 24 * 60), [true]);
        assert_eq!(note("5", 1_000_002, 160 + 24 * 60), [true], "expired places give way first");
        assert_eq!(activity.noted.len(), 3);
    }

    #[test]
    fn what_is_written_down_is_read_by_community_the_last_first_and_bounded() {
        let rows: Vec<(String, String)> = (0..200)
            .map(|id| (keys::active::active(&place(&id.to_string()), "5"), id.to_string()))
            .chain([
                (keys::active::active(&place("7"), DIRECT), "1".to_owned()),
                ("staffai:active:discord:5:8".to_owned(), "x".to_owned()),
            ])
            .collect();
        let places = by_community(&rows, &DOOR);
        assert_eq!(
            (places["5"].len(), &places["5"][0], &places[DIRECT]),
            (ACTIVE_MAX, &place("199"), &vec![place("7")])
        );
    }
}
