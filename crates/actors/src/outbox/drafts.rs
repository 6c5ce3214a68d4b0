//! The drafts of a door: the turns with text to show, and the part of it that the channel shows.
//!
//! Places take turns in a ring, and so do the turns within a place. A place that was skipped because the budget was
//! used up goes first the next time. A place without drafts stays in the ring until its next turn, so that the end of
//! one draft costs no search.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use super::found::VisiblePiece;
use super::pace::Track;
use crate::messages::deadline::Deadline;
use crate::messages::draft::Watcher;
use crate::messages::outbox::TurnDraft;
use domain::ids::{MessageId, Place, TurnId};
use settings::community::Streaming;

/// The state of all drafts.
#[derive(Default)]
pub(super) struct Drafts {
    places: HashMap<Place, VecDeque<Entry>>,
    ring: VecDeque<Place>,
    /// True if the budget was used up before the end of the ring: places are waiting for their turn.
    short: bool,
}

struct Entry {
    turn: TurnId,
    reply_to: Option<MessageId>,
    watcher: Watcher,
    drawn: Drawn,
    /// The time of its first text.
    since: Instant,
    /// The time after which the draft expires, regardless of the outcome of the turn.
    until: Deadline,
}

/// The messages of one turn in its channel.
#[derive(Debug, Clone, Default)]
pub(super) struct Drawn {
    /// Its known messages, in order.
    pub shown: Vec<VisiblePiece>,
    /// True if a further, unknown message may exist: its response was lost, or an earlier process posted it.
    pub doubtful: bool,
    /// The origin of its messages.
    pub origin: Origin,
    /// The earliest time at which the first message may have been visible.
    pub first_visible: Option<Instant>,
    /// True if the platform rejected the draft: only the answer itself is tried again.
    pub over: bool,
    /// True if the channel does not show all of the sampled text yet.
    pub behind: bool,
}

/// The origin of the messages of a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Origin {
    /// This outbox posted them.
    #[default]
    ThisOutbox,
    /// An earlier outbox may have posted some: each further message is searched for before it is posted.
    EarlierOutbox,
}

impl Drawn {
    /// Returns the state of a draft about which nothing is known.
    pub(super) fn forgotten() -> Self {
        Self { doubtful: true, origin: Origin::EarlierOutbox, ..Self::default() }
    }

    /// Returns the state after a request with an unknown outcome.
    pub(super) fn unknown(mut self) -> Self {
        self.shown.iter_mut().for_each(|shown| shown.text.clear());
        Self { doubtful: true, ..self }
    }

    /// Returns the queue of its next request.
    const fn track(&self) -> Track {
        if self.shown.is_empty() { Track::Posts } else { Track::Edits }
    }
}

/// One draft to be shown now.
pub(super) struct Step {
    pub turn: TurnId,
    pub place: Place,
    pub reply_to: Option<MessageId>,
    pub text: String,
    pub drawn: Drawn,
    /// The queue whose courier shows it.
    pub track: Track,
}

/// The capacity of a place for drafts, and the conditions for a first message.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub now: Instant,
    /// True if the queue of posts is free.
    pub posts: bool,
    /// True if the queue of edits is free.
    pub edits: bool,
    /// True if enough time has passed since the last change in this place.
    pub redraw: bool,
    pub hold: &'a Streaming,
}

impl Drafts {
    /// Registers a turn with text. A registered turn only gets its new slot, if there is one.
    pub(super) fn note(&mut self, draft: TurnDraft) {
        let TurnDraft { turn, place, reply_to, slot, again, until } = draft;
        let entries = self.places.entry(place.clone()).or_insert_with(|| {
            self.ring.push_back(place);
            VecDeque::new()
        });
        match entries.iter_mut().find(|entry| entry.turn == turn) {
            Some(entry) if entry.watcher.is_of(&slot) => {}
            Some(entry) => {
                entry.watcher = slot.watch();
                entry.until = until;
            }
            None => {
                let known = !again && slot.visible().is_none();
                let drawn = if known { Drawn::default() } else { Drawn::forgotten() };
                let since = Instant::now();
                entries.push_back(Entry { turn, reply_to, watcher: slot.watch(), drawn, since, until });
            }
        }
    }

    /// True if there are no drafts.
    pub(super) fn is_empty(&self) -> bool {
        self.places.values().all(VecDeque::is_empty)
    }

    /// Returns the number of places in the ring.
    pub(super) fn places(&self) -> usize {
        self.ring.len()
    }

    /// Returns the next place, and moves it to the end of the ring.
    pub(super) fn next_place(&mut self) -> Option<Place> {
        while let Some(place) = self.ring.pop_front() {
            if self.places.get(&place).is_some_and(|entries| !entries.is_empty()) {
                self.ring.push_back(place.clone());
                return Some(place);
            }
            self.places.remove(&place);
        }
        None
    }

    /// Moves the last place back to the front, because the budget had no room for it.
    pub(super) fn put_back(&mut self) {
        self.ring.rotate_right(usize::from(!self.ring.is_empty()));
        self.short = true;
    }

    /// Begins a round, regardless of the previous one.
    pub(super) const fn begin_round(&mut self) {
        self.short = false;
    }

    /// True if the last round ended before all places had their turn: new drafts wait as well.
    pub(super) const fn is_short(&self) -> bool {
        self.short
    }

    /// Returns the queue of the next draft to show in a place, if there is one and room for it.
    pub(super) fn due(&self, place: &Place, room: Room<'_>) -> Option<Track> {
        self.places.get(place)?.iter().find(|entry| entry.is_due(room)).map(|entry| entry.drawn.track())
    }

    /// Takes the next draft to show in a place, and moves its turn to the end of the line.
    pub(super) fn take_step(&mut self, place: &Place, room: Room<'_>) -> Option<Step> {
        let entries = self.places.get_mut(place)?;
        let index = entries.iter().position(|entry| entry.is_due(room))?;
        let mut entry = entries.remove(index)?;
        let text = entry.watcher.take();
        let (turn, reply_to, drawn) = (entry.turn.clone(), entry.reply_to.clone(), entry.drawn.clone());
        entries.push_back(entry);
        let track = drawn.track();
        Some(Step { turn, place: place.clone(), reply_to, text: text?, drawn, track })
    }

    /// Stores the result of a step. No effect if the turn was answered or removed meanwhile.
    pub(super) fn drew(&mut self, place: &Place, turn: &TurnId, drawn: Drawn) {
        let entry = self.places.get_mut(place).and_then(|entries| entries.iter_mut().find(|entry| entry.turn == *turn));
        if let Some(entry) = entry {
            entry.drawn = drawn;
        }
    }

    /// True if messages of this turn are known to be in the channel.
    pub(super) fn is_shown(&self, place: &Place, turn: &TurnId) -> bool {
        let entries = self.places.get(place).into_iter().flatten();
        entries.filter(|entry| entry.turn == *turn).any(|entry| !entry.drawn.shown.is_empty())
    }

    /// Ends the drafts of a turn, and returns the state of its messages.
    pub(super) fn remove(&mut self, place: &Place, turn: &TurnId) -> Option<Drawn> {
        let entries = self.places.get_mut(place)?;
        let index = entries.iter().position(|entry| entry.turn == *turn)?;
        entries.remove(index).map(|entry| entry.drawn)
    }

    /// Removes expired drafts.
    pub(super) fn expire(&mut self, now: Instant) {
        for entries in self.places.values_mut() {
            entries.retain(|entry| entry.until.at() > now);
        }
        self.places.retain(|_, entries| !entries.is_empty());
        self.ring.retain(|place| self.places.contains_key(place));
    }
}

impl Entry {
    fn is_due(&self, room: Room<'_>) -> bool {
        let Drawn { doubtful, over, behind, .. } = self.drawn;
        if over || !(behind || self.watcher.is_fresh()) {
            return false;
        }
        let (track, first) = (self.drawn.track(), self.drawn.shown.is_empty() && !doubtful);
        match track {
            Track::Posts if !room.posts => false,
            Track::Posts if first => {
                self.since + room.hold.hold <= room.now || self.watcher.is_longer(room.hold.hold_characters)
            }
            Track::Posts => room.redraw,
            Track::Edits => room.edits && room.redraw,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::messages::draft::Slot;
    use domain::ids::Door;

    const HOLD: Streaming = Streaming { hold: Duration::from_millis(300), hold_characters: 20 };
    const NO_HOLD: Streaming = Streaming { hold: Duration::ZERO, hold_characters: 0 };

    fn room(redraw: bool) -> Room<'static> {
        Room { now: Instant::now(), posts: true, edits: true, redraw, hold: &NO_HOLD }
    }

    fn draft(place: &str, turn: &str) -> (TurnDraft, Slot) {
        let door = Door::new("test");
        let slot = Slot::default();
        let draft = TurnDraft {
            turn: TurnId::of(&MessageId::new(door.clone(), turn)),
            place: Place::new(door, place),
            reply_to: None,
            slot: slot.clone(),
            again: false,
            until: Deadline::fixed(Instant::now() + Duration::from_secs(60)),
        };
        (draft, slot)
    }

    #[tokio::test(start_paused = true)]
    async fn places_and_turns_take_turns() {
        let mut drafts = Drafts::default();
        let mut slots = Vec::new();
        for (place, turn) in [("1", "10"), ("1", "11"), ("2", "20")] {
            let (draft, slot) = draft(place, turn);
            drafts.note(draft);
            slots.push(slot);
        }
        let places: Vec<_> = (0..3).map(|_| drafts.next_place().unwrap().id).collect();
        assert_eq!(places, ["1", "2", "1"]);
        drafts.put_back();
        assert_eq!(drafts.next_place().unwrap().id, "1");

        let one = Place::new(Door::new("test"), "1");
        assert!(drafts.due(&one, room(true)).is_none());
        for slot in &slots {
            assert!(slot.write("a"));
        }
        let take = |drafts: &mut Drafts| drafts.take_step(&one, room(true)).map(|step| step.turn.id);
        assert_eq!(take(&mut drafts).as_deref(), Some("10"));
        slots[0].write("ab");
        assert_eq!(take(&mut drafts).as_deref(), Some("11"));
        assert_eq!(take(&mut drafts).as_deref(), Some("10"));
        assert_eq!(take(&mut drafts), None);
    }

    #[tokio::test(start_paused = true)]
    async fn first_words_are_held_until_they_are_worth_a_message() {
        let mut drafts = Drafts::default();
        let ((one, short), (two, long)) = (draft("1", "10"), draft("2", "20"));
        let (here, there) = (one.place.clone(), two.place.clone());
        drafts.note(one);
        drafts.note(two);
        short.write("hello");
        long.write(&"w".repeat(20));
        let room = || Room { hold: &HOLD, ..room(true) };
        assert!(drafts.due(&here, room()).is_none() && drafts.due(&there, room()) == Some(Track::Posts));
        long.write(&"w".repeat(19));
        assert!(drafts.due(&there, room()).is_none());
        tokio::time::sleep(HOLD.hold).await;
        assert!(drafts.due(&here, room()).is_some());
        assert!(drafts.due(&here, Room { posts: false, ..room() }).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_draft_does_not_wait_for_the_next_edit() {
        let mut drafts = Drafts::default();
        let ((first, old), (second, new)) = (draft("1", "10"), draft("1", "11"));
        let (place, turn) = (first.place.clone(), first.turn.clone());
        drafts.note(first);
        old.write("a");
        drafts.take_step(&place, room(false)).unwrap();
        let shown = vec![VisiblePiece::draft(MessageId::new(Door::new("test"), "99"), "a".to_owned())];
        drafts.drew(&place, &turn, Drawn { shown, ..Drawn::default() });
        assert!(drafts.is_shown(&place, &turn));
        old.write("ab");
        assert!(drafts.due(&place, room(true)) == Some(Track::Edits) && drafts.due(&place, room(false)).is_none());
        drafts.note(second);
        new.write("n");
        assert_eq!(drafts.take_step(&place, room(false)).unwrap().turn.id, "11");
        assert_eq!(drafts.remove(&place, &turn).unwrap().shown[0].message.id, "99");
        drafts.expire(Instant::now() + Duration::from_secs(61));
        assert!(drafts.is_empty() && drafts.next_place().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_whose_drafts_ended_leaves_the_ring_when_its_turn_comes() {
        let mut drafts = Drafts::default();
        let ((one, _first), (two, _second)) = (draft("1", "10"), draft("2", "20"));
        let (place, turn) = (one.place.clone(), one.turn.clone());
        drafts.note(one);
        drafts.note(two);
        drafts.remove(&place, &turn).unwrap();
        assert!(!drafts.is_empty() && drafts.places() == 2);
        assert_eq!(drafts.next_place().unwrap().id, "2");
        assert_eq!(drafts.places(), 1);
        let (again, _third) = draft("1", "11");
        drafts.note(again);
        assert_eq!(drafts.places(), 2, "it comes back once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_was_shown_before_is_looked_for() {
        let (before, slot) = draft("1", "10");
        slot.write("a");
        slot.watch().take();
        let place = before.place.clone();
        let mut drafts = Drafts::default();
        drafts.note(before);
        slot.write("ab");
        let step = drafts.take_step(&place, room(true)).unwrap();
        assert!(step.drawn.doubtful && step.text == "ab");
    }
}
