use super::*;
use crate::messages::gateway::GatewayMsg;
use crate::messages::receipt::Receipt;
use crate::runtime::handle::Handle;
use crate::services::running::Triggers;
use crate::testing::{Inbox, LEAF, Stage, Tree, at, place, row, running};
use domain::fire::{CLAIM, TriggerAction};
use domain::timer::CronSchedule;
use ports::testing::{ManualClock, MemoryStore, ScriptedModels};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The state that processes share.
type Outside = (Arc<MemoryStore>, Arc<ManualClock>);

fn outside() -> Outside {
    (Arc::new(MemoryStore::new()), Arc::new(ManualClock::new()))
}

/// One process with a timer.
struct Process {
    gateway: Inbox<GatewayMsg>,
    fenced: watch::Sender<Vec<Range>>,
    _tree: Tree,
}

async fn process(name: &str, (store, clock): &Outside, cron: &str, per_hour: u32) -> Process {
    let action = TriggerAction {
        name: "tide".into(),
        target: place("42"),
        prompt: "Which?".into(),
        per_hour,
        tools: false,
        model: None,
    };
    let timer = Timer { action, schedule: CronSchedule::read(cron, "UTC").unwrap(), grace: HOUR / 4 };
    let triggers = Triggers { timers: vec![Arc::new(timer)], ..Triggers::default() };
    let running =
        crate::services::running::Running { triggers, ..running(&[], Arc::new(ScriptedModels::new(&["main"]))) };
    let gateway: Handle<GatewayMsg> = at("gateway");
    let mut stage = Stage::new();
    let (fence, fenced) = watch::channel(Vec::new());
    let actor = Timers {
        live: Live::new(running),
        store: Arc::clone(store) as _,
        limiter: Arc::clone(store) as _,
        clock: Arc::clone(clock) as _,
        intake: Arc::new(GatewayIntake { gateway: gateway.clone() }),
        process: name.into(),
        fenced,
    };
    let inbox = stage.probe(&gateway);
    stage.actor(row(LEAF), &at("timers"), actor);
    Process { gateway: inbox, fenced: fence, _tree: stage.go().await }
}

impl Process {
    /// Returns the fire that the process passes to the gateway within this time.
    async fn fires(&mut self, within: Duration) -> Option<(Fire, Receipt)> {
        let GatewayMsg::Received(incoming, _, receipt) = self.gateway.within(within).await? else { return None };
        match *incoming {
            Incoming::Fired(fire) => Some((*fire, receipt)),
            _ => panic!("a timer does nothing else"),
        }
    }
}

fn record(store: &MemoryStore, fire: &Fire) {
    store.put(keys::turn(&TurnId::of(&fire.id)), "{}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_lost_its_turns_claims_no_fire_and_the_owner_fires_in_time() {
    let outside = outside();
    let mut fenced = process("one", &outside, "0 * * * *", 9).await;
    let mut owner = process("two", &outside, "0 * * * *", 9).await;
    fenced.fenced.send_replace(vec![Range::Door(place("42").door)]);
    let (fired, none) = tokio::join!(owner.fires(HOUR + CLAIM / 2), fenced.fires(HOUR + CLAIM / 2));
    assert!(fired.is_some() && none.is_none());
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_one_fires() {
    let outside = outside();
    let mut one = process("one", &outside, "0 * * * *", 9).await;
    let mut two = process("two", &outside, "0 * * * *", 9).await;
    assert!(one.fires(HOUR / 2).await.is_none(), "a new timer has nothing to catch up");
    let (fired, other) = tokio::join!(one.fires(HOUR), async { two.fires(HOUR / 2 + CLAIM / 2).await });
    let (first, silent) = match (fired, other) {
        (Some(first), None) => (first, &mut two),
        (None, Some(first)) => (first, &mut one),
        (fired, other) => panic!("{} {}", fired.is_some(), other.is_some()),
    };
    record(&outside.0, &first.0);
    first.1.settle();
    assert!(silent.fires(HOUR / 4).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fire_that_nobody_put_on_record_is_fired_by_another_process_under_the_same_id() {
    let outside = outside();
    let mut one = process("one", &outside, "0 * * * *", 9).await;
    let (first, receipt) = one.fires(2 * HOUR).await.unwrap();
    drop((one, receipt));
    let mut two = process("two", &outside, "0 * * * *", 9).await;
    let (second, _) = two.fires(2 * CLAIM).await.unwrap();
    assert_eq!(first.id, second.id);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_the_budget_or_of_another_expression_is_dealt_with() {
    let outside = outside();
    let mut every = process("one", &outside, "* * * * *", 2).await;
    for _ in 0..2 {
        let (fire, receipt) = every.fires(Duration::from_secs(90)).await.unwrap();
        record(&outside.0, &fire);
        receipt.settle();
    }
    assert!(every.fires(HOUR / 2).await.is_none());
    drop(every);
    let mut other = process("two", &outside, "*/7 * * * *", 9).await;
    assert!(other.fires(Duration::from_secs(5)).await.is_none(), "it was another one until now");
    assert!(other.fires(HOUR / 4).await.is_some());
}
