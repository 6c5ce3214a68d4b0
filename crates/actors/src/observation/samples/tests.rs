use super::*;
use crate::runtime::handle::Handle;
use crate::testing::{place, real};
use crate::tree::ROOT;
use ports::{Input, Origin};

/// The maximum bytes of the ring, without the texts of paths, which the samples share.
const BYTES: usize = 3 << 20;

fn entered(roster: &Roster, kind: ActorKind, above: &str, scope: Scope) -> Arc<Stats> {
    let stats = Arc::clone(Handle::<()>::new(real(kind), above, scope).stats());
    stats.enter(LifeState::Running);
    roster.enter(Arc::clone(&stats));
    stats
}

fn conversations(roster: &Roster, many: usize) -> Vec<Arc<Stats>> {
    let of = |number: usize| Scope::Place(place(&number.to_string()));
    (0..many).map(|number| entered(roster, ActorKind::Conversation, "staffai/conversations", of(number))).collect()
}

#[tokio::test]
async fn twenty_thousand_conversations_and_a_thousand_shards_take_no_more_room_than_a_few() {
    let (roster, samples) = (Roster::default(), Samples::default());
    for moment in 0..KEPT as u64 {
        samples.take(&roster, Figures::default(), Timestamp(moment));
    }
    let talks = conversations(&roster, 20_000);
    talks[7].depth.fetch_add(3, Ordering::Relaxed);
    talks[8].restarts.fetch_add(2, Ordering::Relaxed);
    for number in 0..1_000 {
        entered(&roster, ActorKind::Shard, "staffai/discord", Scope::Number(number));
    }
    entered(&roster, ActorKind::Journal, ROOT, Scope::One);
    samples.take(&roster, Figures::default(), Timestamp(KEPT as u64));
    assert_eq!(samples.ring.lock().len(), KEPT);
    let told = samples.after(Timestamp(0));
    assert_eq!((told.samples.len(), told.samples[0].at), (TOLD, Timestamp(1)), "the oldest one is gone");
    assert!(told.more);
    let told = samples.after(Timestamp(KEPT as u64 - 1));
    assert!(!told.more);
    let last = told.samples.last().unwrap();
    assert_eq!(last.rows.len(), 1 + NAMED_OF_A_KIND + 1 + 1);
    let of = |path: &str| last.rows[told.actors.iter().position(|actor| actor == path).unwrap()];
    let talks = of("staffai/conversations/conversation:*");
    assert_eq!((talks.count, talks.mailbox, talks.restarts), (20_000, 3, 2));
    assert_eq!(of("staffai/discord/shard:*").count, 1_000 - NAMED_OF_A_KIND as u64);
    assert_eq!(of("staffai/journal").count, 1);
    // Each kind adds at most one further row beside the named ones.
    assert!(KEPT * (NAMED + 32) * size_of::<Kept>() <= BYTES, "{} bytes a row", size_of::<Kept>());
}

#[tokio::test(start_paused = true)]
async fn a_sample_tells_how_long_handlers_ran_since_the_one_before() {
    let (roster, samples) = (Roster::default(), Samples::default());
    let journal = entered(&roster, ActorKind::Journal, ROOT, Scope::One);
    for millis in [1, 1, 1, 80] {
        journal.begin(Input::Message(None), "Work");
        tokio::time::advance(Duration::from_millis(millis)).await;
        journal.done();
    }
    // A tick of an actor's own timer does not count as work.
    journal.begin(Input::Event(Origin::Own), "event");
    tokio::time::advance(Duration::from_secs(1)).await;
    journal.done();
    samples.take(&roster, Figures::default(), Timestamp(1));
    samples.take(&roster, Figures::default(), Timestamp(2));
    let told = samples.after(Timestamp(0));
    let row = told.samples[0].rows[0];
    let near = |found: Option<u64>, truth: u64| found.is_some_and(|found| found.abs_diff(truth) * 5 <= truth);
    assert!(near(row.p50_us, 1_000) && near(row.p99_us, 80_000), "{row:?}");
    let row = told.samples[1].rows[0];
    assert_eq!((row.p50_us, row.p99_us), (None, None), "nothing was handled since");
    assert_eq!(samples.after(Timestamp(1)).samples.len(), 1, "only what is newer");
    assert_eq!(serde_json::to_value(row).unwrap().to_string(), r#"[0,"running",1,0,0,0,null,null]"#);
}

#[tokio::test(start_paused = true)]
async fn one_of_many_that_hangs_or_fails_is_seen_in_the_row_of_all() {
    let (roster, samples) = (Roster::default(), Samples::default());
    let talks = conversations(&roster, 5);
    talks[3].begin(Input::Message(None), "Work");
    tokio::time::advance(Duration::from_secs(120)).await;
    samples.take(&roster, Figures::default(), Timestamp(1));
    talks[3].done();
    talks[2].enter(LifeState::Restarting);
    samples.take(&roster, Figures::default(), Timestamp(2));
    let states: Vec<_> = samples.after(Timestamp(0)).samples.iter().map(|sample| sample.rows[0].state).collect();
    assert_eq!(states, ["hung", "restarting"]);
}

#[tokio::test]
async fn a_clock_that_is_set_back_hides_no_sample() {
    let (roster, samples) = (Roster::default(), Samples::default());
    for moment in [100, 40, 50] {
        samples.take(&roster, Figures::default(), Timestamp(moment));
    }
    let moments: Vec<u64> = samples.after(Timestamp(100)).samples.iter().map(|sample| sample.at.0).collect();
    assert_eq!(moments, [101, 102]);
}
