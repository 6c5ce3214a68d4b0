//! The journal's records in a store: one value for each turn, under the turn's key, written under the range that owns
//! it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use tokio::sync::watch;

use domain::custody::{Record, has_owner};
use domain::given::Given;
use domain::ids::{Door, TurnId};
use domain::keys;
use domain::ownership::{Portion, Portions, Range, Term};
use domain::turn::{ClosedTurn, Custody, OpenTurn, Turn};
use ports::{Adopted, OwnedStore, Pace, Scanned, StoreStatus, Stored, Turns, Unreadable, Write, WriteOutcome};

/// The most records read at startup.
const ADOPT_MAX: usize = 200_000;

/// The usual size of a record in bytes, without the conversation supplied with its turn.
const RECORD_BYTES: usize = 1_024;

/// The records of turns in a store.
pub struct StoredTurns {
    store: Arc<dyn OwnedStore>,
    /// The doors of this process.
    doors: Vec<Door>,
    /// The portions of their turns that this process owns.
    portions: RwLock<Portions>,
}

impl StoredTurns {
    /// Creates the records of these portions of the turns of these doors, which this process owns from now on.
    #[must_use]
    pub fn new(store: Arc<dyn OwnedStore>, doors: Vec<Door>, portions: Portions) -> Self {
        let turns = Self { store, doors, portions: RwLock::new(portions) };
        turns.store.own(portions.iter().flat_map(|portion| turns.ranges(portion)).collect());
        turns
    }

    fn portions(&self) -> Portions {
        *self.portions.read()
    }

    /// Returns the ranges of a portion, one for each door.
    fn ranges(&self, portion: Portion) -> Vec<Range> {
        self.doors.iter().map(|door| portion.range(door.clone())).collect()
    }

    /// Returns the range whose owner writes about this turn, if any.
    fn owner_of(&self, turn: &Turn) -> Option<Range> {
        let door = Some(&turn.id.door).filter(|door| self.doors.contains(door) && has_owner(turn))?;
        Some(self.portions().range_of(door.clone(), turn.guild.as_deref()))
    }

    fn put(&self, turn: &Turn, custody: Custody) -> Write {
        let term = |range: Range| Term { token: self.store.token(&range), range };
        let (ttl, given) = match &custody {
            Custody::Open(open) => (life(open), turn.given.as_ref().map_or(0, Given::written_bytes)),
            Custody::Closed(_) => (keys::CLOSED_TURN_TTL, 0),
        };
        let record = Record::new(self.owner_of(turn).map(term), custody);
        // A conversation with pictures is large, so it is copied only once. Plain data with string keys always
        // serialises.
        let mut value = Vec::with_capacity(given + RECORD_BYTES);
        let written = serde_json::to_writer(&mut value, &record);
        let value = written.ok().and_then(|()| String::from_utf8(value).ok()).unwrap_or_default();
        Write::Put { key: keys::turn(&turn.id), value, ttl: Some(ttl) }
    }

    fn open(&self, open: &OpenTurn) -> Write {
        self.put(&open.turn, Custody::Open(open.clone()))
    }

    fn write(&self, turn: &Turn, writes: Vec<Write>, pace: Pace) -> BoxFuture<'static, WriteOutcome> {
        if let Some(range) = self.owner_of(turn) {
            return self.store.write_under(&range, writes, pace);
        }
        let durable = match pace {
            Pace::Gathered => self.store.write(writes),
            Pace::Now => self.store.commit(writes),
        };
        Box::pin(async move { if durable.await { WriteOutcome::Durable } else { WriteOutcome::InMemory } })
    }
}

/// Returns the TTL of the records of an open turn: a turn that waits is kept beyond the end of its wait.
fn life(open: &OpenTurn) -> Duration {
    let gate = open.parked.as_ref().map(|parked| &parked.case.gate);
    keys::TURN_TTL + gate.map_or(Duration::ZERO, |gate| gate.expires_at.since(gate.asked_at))
}

impl Turns for StoredTurns {
    fn accept(&self, open: &OpenTurn, pace: Pace) -> BoxFuture<'static, WriteOutcome> {
        self.update(open, pace)
    }

    fn update(&self, open: &OpenTurn, pace: Pace) -> BoxFuture<'static, WriteOutcome> {
        self.write(&open.turn, vec![self.open(open)], pace)
    }

    fn park(&self, open: &OpenTurn, dialogue: String) -> BoxFuture<'static, WriteOutcome> {
        let said = Write::Put { key: keys::parked(&open.turn.id), value: dialogue, ttl: Some(life(open)) };
        self.write(&open.turn, vec![said, self.open(open)], Pace::Now)
    }

    fn answered(&self, open: &OpenTurn) -> BoxFuture<'static, WriteOutcome> {
        self.update(open, Pace::Gathered)
    }

    fn close(&self, turn: &Turn, closed: ClosedTurn, mut with: Vec<Write>) -> BoxFuture<'static, WriteOutcome> {
        with.push(self.put(turn, Custody::Closed(closed)));
        self.write(turn, with, Pace::Gathered)
    }

    fn adopt(&self) -> BoxFuture<'_, Scanned<Vec<Adopted>>> {
        Box::pin(async move {
            self.store.owned().await;
            let (rows, complete) = self.store.scan(keys::TURN_PREFIX, ADOPT_MAX).await.into_parts();
            // A former owner may still write until the tokens are acquired.
            let complete = complete && rows.len() < ADOPT_MAX && self.store.status() == StoreStatus::Ready;
            let adopted = rows.into_iter().map(|(key, value)| self.adopted(key, &value));
            // The turns of other processes may become those of this process later.
            let ours = adopted.filter_map(|(adopted, others)| (!others).then_some(adopted));
            Scanned::new(ours.collect(), complete)
        })
    }

    fn recorded<'a>(&'a self, id: &'a TurnId) -> BoxFuture<'a, Result<Option<Adopted>, Unreadable>> {
        Box::pin(async move {
            let key = keys::turn(id);
            match self.store.read(&key).await {
                Stored::Absent => Ok(None),
                Stored::Value(value) | Stored::Part(value) => Ok(Some(self.adopted(key, &value).0)),
                Stored::Unreadable(Unreadable::NotText) => Ok(Some(self.adopted(key, "").0)),
                Stored::Unreadable(Unreadable::NoAnswer) => Err(Unreadable::NoAnswer),
            }
        })
    }

    fn range_of(&self, turn: &Turn) -> Option<Range> {
        self.owner_of(turn)
    }

    fn owns(&self, turn: &Turn) -> bool {
        self.owner_of(turn).is_none() || self.portions().has_guild(turn.guild.as_deref())
    }

    fn take(&self, portion: Portion) {
        self.store.own(self.ranges(portion));
        let mut portions = self.portions.write();
        *portions = portions.with(portion.number);
    }

    fn refuse(&self, portion: Portion) {
        let mut portions = self.portions.write();
        *portions = portions.without(portion.number);
    }

    fn leave(&self, portion: Portion) -> BoxFuture<'_, ()> {
        self.store.leave(self.ranges(portion))
    }

    fn fenced(&self) -> watch::Receiver<Vec<Range>> {
        self.store.fenced()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }
}

impl StoredTurns {
    /// Reads a record; true if it is an open turn of another process at one of this process's doors. Such a turn is
    /// closed as far as this process is concerned: it neither answers the turn nor accepts its message again. Turns of
    /// doors that this process lacks are returned for the log.
    fn adopted(&self, key: String, value: &str) -> (Adopted, bool) {
        let (id, mut others) = (keys::parse_turn(&key), false);
        let mut record = serde_json::from_str::<Record>(value).map_err(|error| error.to_string());
        if let (Some(id), Ok(record)) = (&id, &mut record) {
            let open = matches!(record.custody, Custody::Open(_));
            others = open && self.doors.contains(&id.door) && !record.is_within(&id.door, self.portions());
            if others {
                record.custody = Custody::Closed(ClosedTurn { posted: Vec::new(), alone: false });
            }
        }
        (Adopted { key, id, record }, others)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::embedded::opener::Opener;
    use crate::resilient::Resilient;
    use crate::suite::TestClock;
    use domain::arguments_hash::ArgumentsHash;
    use domain::effort::Effort;
    use domain::gate::{Case, Gate, GateId, Parked, Subject};
    use domain::ids::{Door, MessageId, Timestamp};
    use domain::ownership::FencingToken;
    use ports::{Clock as _, Store};

    const DOOR: Door = Door::new("d");

    fn half(number: u32) -> Portions {
        Portions::none(2).with(number)
    }

    fn turn(id: &str) -> Arc<Turn> {
        turn_in(id, None)
    }

    fn turn_in(id: &str, guild: Option<u64>) -> Arc<Turn> {
        let place = serde_json::json!({
            "id": format!("d:{id}"), "place": "d:1", "parent": null, "person": "d:7", "name": "Ada",
            "guild": guild.map(|guild| (guild << 22).to_string()),
            "trigger": "mention", "text": "hello", "quoted": null, "at": 1, "policy": domain::turn::Policy::default(),
        });
        Arc::new(serde_json::from_value(place).unwrap())
    }

    fn owner(store: &Arc<Resilient<crate::embedded::Embedded>>, portions: Portions) -> StoredTurns {
        StoredTurns::new(Arc::clone(store) as _, vec![DOOR], portions)
    }

    /// Returns the ids of the turns that an owner takes over, and those of unreadable records.
    async fn adopted(turns: &StoredTurns) -> Vec<String> {
        let name = |adopted: Adopted| {
            let id = adopted.id.map_or(adopted.key, |id| id.id.to_string());
            match adopted.record.map(|record| record.custody) {
                Ok(Custody::Open(_)) => id,
                Ok(Custody::Closed(_)) => format!("{id} of another process"),
                Err(_) => format!("{id} cannot be read"),
            }
        };
        turns.adopt().await.part().into_iter().map(name).collect()
    }

    #[tokio::test]
    async fn each_owner_takes_up_the_turns_of_its_ranges() {
        let (dir, clock) = (tempfile::TempDir::new().unwrap(), Arc::new(TestClock::default()));
        let opener = Opener::new(dir.path(), clock.clone());
        let store = Arc::new(Resilient::start(move || opener.open(), clock).await.unwrap());
        for number in 0..2_u32 {
            let turns = owner(&store, half(number));
            let turn = turn_in(&number.to_string(), Some(u64::from(number)));
            assert!(turns.adopt().await.is_complete() && turns.owns(&turn));
            assert_eq!(turns.accept(&OpenTurn::new(turn, None), Pace::Now).await, WriteOutcome::Durable);
        }
        // The previous version had no owners.
        let before = serde_json::to_string(&Custody::Open(OpenTurn::new(turn("8"), None))).unwrap();
        let put = |id: &str, value: String| Write::Put { key: keys::turn(&id_of(id)), value, ttl: None };
        assert!(store.commit(vec![put("8", before), put("9", "{".to_owned())]).await);
        assert_eq!(adopted(&owner(&store, half(1))).await, ["1", "9 cannot be read"]);
        assert_eq!(adopted(&owner(&store, Portions::WHOLE)).await, ["0", "1", "8", "9 cannot be read"]);
        assert!(store.close(Duration::from_secs(20)).await);
    }

    #[tokio::test]
    async fn a_range_is_taken_beside_another_one_and_given_away_again() {
        let (dir, clock) = (tempfile::TempDir::new().unwrap(), Arc::new(TestClock::default()));
        let opener = Opener::new(dir.path(), clock.clone());
        let store = Arc::new(Resilient::start(move || opener.open(), clock).await.unwrap());
        let (turns, second) = (owner(&store, half(0)), Portion { number: 1, of: 2 });
        let [own, other] = [0, 1].map(|guild| OpenTurn::new(turn_in(&guild.to_string(), Some(guild)), None));
        assert!(turns.owns(&own.turn) && !turns.owns(&other.turn));
        assert_eq!(turns.accept(&other, Pace::Now).await, WriteOutcome::Fenced, "it writes nothing about it");
        turns.take(second);
        assert!(turns.adopt().await.is_complete() && turns.owns(&other.turn));
        for turn in [&own, &other] {
            assert_eq!(turns.accept(turn, Pace::Now).await, WriteOutcome::Durable);
        }
        assert_eq!(adopted(&turns).await, ["0", "1"]);
        turns.refuse(second);
        assert!(!turns.owns(&other.turn));
        let last = turns.answered(&other);
        turns.leave(second).await;
        assert_eq!(last.await, WriteOutcome::Durable, "the last write is durable before the range is left");
        assert_eq!(turns.answered(&other).await, WriteOutcome::Fenced);
        assert_eq!((turns.answered(&own).await, adopted(&turns).await), (WriteOutcome::Durable, vec!["0".to_owned()]));
        assert!(turns.fenced().borrow().is_empty(), "no other process took it");
        turns.take(second);
        assert_eq!((adopted(&turns).await.len(), turns.answered(&other).await), (2, WriteOutcome::Durable));
        assert!(store.close(Duration::from_secs(20)).await);
    }

    fn id_of(id: &str) -> TurnId {
        TurnId::of(&MessageId::new(DOOR, id))
    }

    #[tokio::test]
    async fn a_record_names_its_owner_and_its_end_is_one_write_with_what_is_counted() {
        let (dir, clock) = (tempfile::TempDir::new().unwrap(), Arc::new(TestClock::default()));
        let opener = Opener::new(dir.path(), clock.clone());
        let store = Arc::new(Resilient::start(move || opener.open(), clock).await.unwrap());
        let turns = owner(&store, Portions::WHOLE);
        assert!(turns.adopt().await.part().is_empty());
        let turn = turn("1");
        let record = async || {
            let text = store.get(&keys::turn(&turn.id)).await.unwrap();
            serde_json::from_str::<Record>(&text).unwrap()
        };
        assert_eq!(turns.accept(&OpenTurn::new(turn.clone(), None), Pace::Gathered).await, WriteOutcome::Durable);
        let owner = Term { range: Range::Door(DOOR), token: FencingToken(1) };
        let open = record().await;
        assert_eq!((open.owner, open.version), (Some(owner), domain::custody::RECORD_VERSION));
        assert_eq!(turns.park(&OpenTurn::new(turn.clone(), None), "said".to_owned()).await, WriteOutcome::Durable);
        assert_eq!(store.get(&keys::parked(&turn.id)).await.as_deref(), Some("said"));

        // A newer owner exists.
        let newer = Write::Put { key: keys::term(&Range::Door(DOOR)), value: "2".to_owned(), ttl: None };
        assert!(store.commit(vec![newer]).await);
        let counted = Write::Add { key: "n".to_owned(), by: 1.into(), ttl: None };
        let closed = ClosedTurn { posted: Vec::new(), alone: false };
        assert_eq!(turns.close(&turn, closed, vec![counted]).await, WriteOutcome::Fenced);
        assert_eq!(store.get("n").await, None);
        assert!(matches!(record().await.custody, Custody::Open(_)));
        assert_eq!(*turns.fenced().borrow(), [Range::Door(DOOR)]);
        assert!(store.close(Duration::from_secs(20)).await);
    }

    #[tokio::test]
    async fn a_turn_that_waits_for_days_is_kept_until_a_day_after_the_end_of_its_wait() {
        let (dir, clock) = (tempfile::TempDir::new().unwrap(), Arc::new(TestClock::default()));
        let opener = Opener::new(dir.path(), clock.clone());
        let store = Arc::new(Resilient::start(move || opener.open(), clock.clone()).await.unwrap());
        let turns = owner(&store, Portions::WHOLE);
        assert!(turns.adopt().await.part().is_empty());
        let (waits, works) = (OpenTurn::new(turn("1"), None), OpenTurn::new(turn("2"), None));
        let now = clock.now();
        let after = |days: u64| Timestamp(now.0 + days * 24 * 3_600_000);
        let (hash, asked) = (ArgumentsHash("ab".to_owned()), &waits.turn);
        let gate = Gate {
            id: GateId::draw([0.5; 4], &asked.id, &hash, now),
            turn: asked.id.clone(),
            place: asked.place.clone(),
            requester: asked.person.clone(),
            unattended: false,
            locale: None,
            approvers: Vec::new(),
            tool: "fm__copy".to_owned(),
            hash,
            arguments: "{}".to_owned(),
            subject: Subject::Approval,
            asked_at: now,
            expires_at: after(7),
        };
        let case = Case { gate, decision: None };
        let parked = Parked { case, posted: None, effort: Effort::default(), acted: false };
        let waits = OpenTurn { parked: Some(Box::new(parked)), ..waits };
        assert_eq!(turns.park(&waits, "said".to_owned()).await, WriteOutcome::Durable);
        assert_eq!(turns.accept(&works, Pace::Now).await, WriteOutcome::Durable);
        let kept = async || {
            let keys = [keys::turn(&waits.turn.id), keys::parked(&waits.turn.id), keys::turn(&works.turn.id)];
            [store.get(&keys[0]).await, store.get(&keys[1]).await, store.get(&keys[2]).await].map(|kept| kept.is_some())
        };
        for (days, expected) in [(0, [true; 3]), (3, [true, true, false]), (7, [true, true, false]), (9, [false; 3])] {
            clock.advance(after(days).since(clock.now()));
            assert_eq!(kept().await, expected, "after {days} days");
        }
        assert!(store.close(Duration::from_secs(20)).await);
    }

    #[tokio::test]
    async fn a_turn_that_lasts_while_it_is_read_has_no_owner() {
        let (dir, clock) = (tempfile::TempDir::new().unwrap(), Arc::new(TestClock::default()));
        let opener = Opener::new(dir.path(), clock.clone());
        let store = Arc::new(Resilient::start(move || opener.open(), clock).await.unwrap());
        let turns = owner(&store, Portions::WHOLE);
        let mut read = turn("1");
        Arc::make_mut(&mut read).policy.lasts = domain::turn::Lasts::WhileRead;
        assert_eq!((turns.range_of(&read), turns.range_of(&turn("2"))), (None, Some(Range::Door(DOOR))));
        let newer = Write::Put { key: keys::term(&Range::Door(DOOR)), value: "9".to_owned(), ttl: None };
        assert!(store.commit(vec![newer]).await);
        assert_eq!(turns.accept(&OpenTurn::new(read, None), Pace::Now).await, WriteOutcome::Durable);
        let adopted = turns.adopt().await.part();
        assert!(adopted[0].record.as_ref().is_ok_and(|record| record.owner.is_none()));
        assert!(store.close(Duration::from_secs(20)).await);
    }
}
