use std::sync::atomic::AtomicU64;

use super::*;
use crate::service::{Options, Service};
use ports::Faults as _;

const NOW: u64 = 1_790_000_000_000;
const JOURNAL: &str = "staffai/journal";

struct Place {
    chaos: Arc<Chaos>,
    strikes: Arc<Strikes>,
    spells: Arc<Spells>,
    now: Arc<AtomicU64>,
    _service: Service,
}

/// A bot in this process.
struct Here(Arc<Strikes>);

#[async_trait::async_trait]
impl BotProcess for Here {
    async fn order(&self, order: BotOrder) -> Result<(), OrderRefusal> {
        self.0.order(&order)
    }

    fn kill(&self) -> Result<(), OrderRefusal> {
        Ok(())
    }

    fn counted(&self) -> Counted {
        Counted { crashes: 3, lost: 0, doubled: 1 }
    }
}

async fn place(demo: bool) -> Place {
    let now = Arc::new(AtomicU64::new(NOW));
    let clock = Arc::clone(&now);
    let clock: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(move || clock.load(Ordering::Relaxed));
    let (spells, strikes) = (Spells::new(Arc::clone(&clock)), Strikes::new(clock));
    let service = Service::start(Options::new(Arc::new(|| NOW))).await.unwrap();
    let bot = Arc::new(Here(Arc::clone(&strikes)));
    let chaos = Chaos::new(service.faults().clone(), Arc::clone(&spells), demo, bot);
    Place { chaos, strikes, spells, now, _service: service }
}

#[tokio::test]
async fn an_order_reaches_the_life_that_runs_now_and_no_other() {
    let Place { chaos, strikes, .. } = place(true).await;
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash).await, Err(OrderRefusal::NotRunning));
    let mut first = strikes.ordered(JOURNAL).unwrap();
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash).await, Ok(()));
    assert_eq!(first.recv().await, Some(Fault::Panic));
    drop(first);
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash).await, Err(OrderRefusal::NotRunning), "it is down");
    let mut second = strikes.ordered(JOURNAL).unwrap();
    assert_eq!(chaos.strike(JOURNAL, Strike::Freeze).await, Ok(()));
    assert_eq!(second.recv().await, Some(Fault::Hang));
    assert_eq!(chaos.caused().ordered, 2, "what was refused is not counted");
}

#[tokio::test]
async fn the_root_takes_no_orders() {
    let Place { chaos, strikes, .. } = place(true).await;
    assert!(strikes.ordered("staffai").is_none());
    assert_eq!(chaos.strike("staffai", Strike::Crash).await, Err(OrderRefusal::NotRunning));
}

#[tokio::test]
async fn a_second_flood_waits_until_the_first_is_over() {
    let Place { chaos, strikes, .. } = place(true).await;
    let mut ordered = strikes.ordered(JOURNAL).unwrap();
    assert_eq!(chaos.strike(JOURNAL, Strike::Flood).await, Ok(()));
    assert_eq!(chaos.strike(JOURNAL, Strike::Flood).await, Err(OrderRefusal::Flooded));
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash).await, Err(OrderRefusal::Flooded));
    for _ in 0..FLOOD {
        assert_eq!(ordered.recv().await, Some(Fault::Delay(FLOOD_EACH)));
    }
    assert_eq!(chaos.strike(JOURNAL, Strike::Flood).await, Ok(()));
}

#[tokio::test]
async fn actors_that_ended_are_forgotten() {
    let Place { chaos, strikes, .. } = place(true).await;
    let kept = strikes.ordered(JOURNAL).unwrap();
    for number in 0..KNOWN * 3 {
        drop(strikes.ordered(&format!("staffai/conversations/conversation:{number}")));
    }
    assert!(strikes.actors.lock().len() <= KNOWN);
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash).await, Ok(()));
    drop(kept);
}

#[tokio::test]
async fn a_model_and_the_store_fail_for_a_while_and_work_again() {
    let Place { chaos, strikes, spells, now, .. } = place(true).await;
    let fails = strikes.store().unwrap();
    assert!(!fails() && spells.model() == ModelFault::None);
    for trouble in [Trouble::ModelSlow, Trouble::StoreDown] {
        assert_eq!(chaos.trouble(trouble).await, Ok(()));
    }
    assert!(fails() && spells.model() == ModelFault::Slow);
    assert_eq!(chaos.trouble(Trouble::ModelDown).await, Ok(()));
    assert_eq!(spells.model(), ModelFault::Down);
    let lasting: Vec<u64> = chaos.caused().lasting.into_iter().map(|(_, left)| left).collect();
    assert_eq!(lasting, [0, 0, 8_000, 8_000, 8_000, 0]);
    now.store(NOW + 8_000, Ordering::Relaxed);
    assert!(!fails() && spells.model() == ModelFault::None);
}

#[tokio::test]
async fn a_kill_ends_what_only_the_killed_life_knew() {
    let Place { chaos, .. } = place(true).await;
    assert_eq!(chaos.trouble(Trouble::StoreDown).await, Ok(()));
    assert_eq!(chaos.trouble(Trouble::KillBot).await, Ok(()));
    let caused = chaos.caused();
    assert_eq!(caused.ordered, 2);
    assert!(caused.lasting.contains(&(Trouble::StoreDown, 0)), "{caused:?}");
    assert_eq!(chaos.counted(), Counted { crashes: 3, lost: 0, doubled: 1 }, "failures are counted, not orders");
}

#[tokio::test]
async fn a_real_model_is_left_alone() {
    let Place { chaos, .. } = place(false).await;
    assert_eq!(chaos.trouble(Trouble::ModelDown).await, Err(OrderRefusal::NoDemo));
    let offered: Vec<Trouble> = chaos.caused().lasting.into_iter().map(|(trouble, _)| trouble).collect();
    assert_eq!(offered, [Trouble::CutDiscord, Trouble::RefusePosts, Trouble::StoreDown, Trouble::KillBot]);
}
