use std::sync::atomic::AtomicU64;

use super::*;
use crate::playground::service::{Options, Service};
use crate::ports::Faults as _;

const NOW: u64 = 1_790_000_000_000;
const JOURNAL: &str = "staffai/journal";

struct Place {
    chaos: Arc<Chaos>,
    spells: Arc<Spells>,
    now: Arc<AtomicU64>,
    _service: Service,
}

async fn place(demo: bool) -> Place {
    let now = Arc::new(AtomicU64::new(NOW));
    let clock = Arc::clone(&now);
    let spells = Spells::new(Arc::new(move || clock.load(Ordering::Relaxed)));
    let service = Service::start(Options::new(Arc::new(|| NOW))).await.unwrap();
    let chaos = Chaos::new(service.faults().clone(), Arc::clone(&spells), demo);
    Place { chaos, spells, now, _service: service }
}

#[tokio::test]
async fn an_order_reaches_the_life_that_runs_now_and_no_other() {
    let Place { chaos, .. } = place(true).await;
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash), Err(Refused::NotRunning));
    let mut first = chaos.ordered(JOURNAL).unwrap();
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash), Ok(()));
    assert_eq!(first.recv().await, Some(Fault::Panic));
    drop(first);
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash), Err(Refused::NotRunning), "it is down");
    let mut second = chaos.ordered(JOURNAL).unwrap();
    assert_eq!(chaos.strike(JOURNAL, Strike::Freeze), Ok(()));
    assert_eq!(second.recv().await, Some(Fault::Hang));
    assert_eq!(chaos.caused().crashes, 2, "what was refused is not counted");
}

#[tokio::test]
async fn the_root_takes_no_orders() {
    let Place { chaos, .. } = place(true).await;
    assert!(chaos.ordered("staffai").is_none());
    assert_eq!(chaos.strike("staffai", Strike::Crash), Err(Refused::NotRunning));
}

#[tokio::test]
async fn a_second_flood_waits_until_the_first_is_over() {
    let Place { chaos, .. } = place(true).await;
    let mut ordered = chaos.ordered(JOURNAL).unwrap();
    assert_eq!(chaos.strike(JOURNAL, Strike::Flood), Ok(()));
    assert_eq!(chaos.strike(JOURNAL, Strike::Flood), Err(Refused::Flooded));
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash), Err(Refused::Flooded));
    for _ in 0..FLOOD {
        assert_eq!(ordered.recv().await, Some(Fault::Delay(FLOOD_EACH)));
    }
    assert_eq!(chaos.strike(JOURNAL, Strike::Flood), Ok(()));
}

#[tokio::test]
async fn actors_that_ended_are_forgotten() {
    let Place { chaos, .. } = place(true).await;
    let kept = chaos.ordered(JOURNAL).unwrap();
    for number in 0..KNOWN * 3 {
        drop(chaos.ordered(&format!("staffai/conversations/conversation:{number}")));
    }
    assert!(chaos.actors.lock().len() <= KNOWN);
    assert_eq!(chaos.strike(JOURNAL, Strike::Crash), Ok(()));
    drop(kept);
}

#[tokio::test]
async fn a_model_and_the_store_fail_for_a_while_and_work_again() {
    let Place { chaos, spells, now, .. } = place(true).await;
    let fails = chaos.store().unwrap();
    assert!(!fails() && spells.model() == ModelFault::None);
    for trouble in [Trouble::ModelSlow, Trouble::StoreDown] {
        assert_eq!(chaos.trouble(trouble), Ok(()));
    }
    assert!(fails() && spells.model() == ModelFault::Slow);
    assert_eq!(chaos.trouble(Trouble::ModelDown), Ok(()));
    assert_eq!(spells.model(), ModelFault::Down);
    let lasting: Vec<u64> = chaos.caused().lasting.into_iter().map(|(_, left)| left).collect();
    assert_eq!(lasting, [0, 0, 8_000, 8_000, 8_000]);
    now.store(NOW + 8_000, Ordering::Relaxed);
    assert!(!fails() && spells.model() == ModelFault::None);
}

#[tokio::test]
async fn a_real_model_is_left_alone() {
    let Place { chaos, .. } = place(false).await;
    assert_eq!(chaos.trouble(Trouble::ModelDown), Err(Refused::NoDemo));
    let offered: Vec<Trouble> = chaos.caused().lasting.into_iter().map(|(trouble, _)| trouble).collect();
    assert_eq!(offered, [Trouble::CutDiscord, Trouble::RefusePosts, Trouble::StoreDown]);
}
