//! An owner: a thread that runs one process after the other, each with the lease, the store and the records of turns of
//! the program, on a runtime of its own. Blocking the thread stops a process as SIGSTOP does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use domain::ids::{Door, Timestamp};
use domain::ownership::{FencingToken, Portions, Range};
use domain::turn::{ClosedTurn, Custody, OpenTurn, Policy, Turn};
use ports::{Clock, OwnedStore, Pace, Store, Turns, WriteOutcome};
use secrecy::SecretString;
use serde_json::json;
use staffai::app::system::SystemClock;
use store::redis::lease::{Lease, LeaseAnswer, TERM};
use store::redis::opener::Opener;
use store::redis::{self, Redis};
use store::resilient::Resilient;
use store::turns::StoredTurns;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::checker::Event;
use super::scene::{Fault, Planned, Scene};

/// The pauses between two renewals, and between two requests of a process that stands by, and the time before the end of
/// a term at which its holder stops: those of the program.
const RENEW_EVERY: Duration = Duration::from_millis(400);
const ASK_EVERY: Duration = Duration::from_millis(100);
const MARGIN: Duration = Duration::from_millis(250);

/// The pause between two looks for questions.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The time for which a process that ends in order saves what is pending.
const SAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for which requests in progress go on after the lease is lost. Their writes are refused, or the term still runs.
const LINGERS: Duration = Duration::from_millis(200);

const DOOR: Door = Door::new("d");

/// A clock that differs from those of the other owners, and jumps.
struct Skewed(Arc<AtomicI64>);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0.saturating_add_signed(self.0.load(Ordering::Relaxed)))
    }
}

/// A process.
struct Life {
    scene: Arc<Scene>,
    number: u64,
    store: Arc<Resilient<Redis>>,
    turns: StoredTurns,
}

/// Runs one process after the other until the history is over.
pub fn run(scene: &Arc<Scene>, owner: usize) {
    let skew = Arc::new(AtomicI64::new(scene.plan[owner].skew_ms));
    while !scene.is_over() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(process(scene, owner, &skew));
        runtime.shutdown_background();
    }
}

async fn process(scene: &Arc<Scene>, owner: usize, skew: &Arc<AtomicI64>) {
    let number = scene.next_life();
    let url = SecretString::from(scene.url(owner));
    let opener = Opener::new(&url).unwrap();
    let lease = Lease::new(opener.open().unwrap(), format!("life {number}"));
    let (kill, killed) = oneshot::channel();
    let faults = tokio::spawn(suffers(Arc::clone(scene), owner, Arc::clone(skew), kill));
    tokio::select! {
        () = scene.over() => {}
        _ = killed => {}
        () = acts(scene, owner, number, &lease, opener, skew) => {}
    }
    faults.abort();
    scene.stands_by(owner);
}

/// Suffers the faults of the plan that lie ahead. Resolves `killed` if a kill is one of them.
async fn suffers(scene: Arc<Scene>, owner: usize, skew: Arc<AtomicI64>, killed: oneshot::Sender<()>) {
    let now = scene.now();
    let faults: Vec<Planned> = scene.plan[owner].faults.iter().filter(|fault| fault.at > now).copied().collect();
    for Planned { at, of_active, fault } in faults {
        sleep(Duration::from_micros(at.saturating_sub(scene.now()))).await;
        if scene.is_active(owner) != of_active {
            continue;
        }
        scene.suffers(&fault);
        match fault {
            // Nothing of this process runs meanwhile.
            Fault::Stop(lasts) => std::thread::sleep(lasts),
            Fault::Kill => {
                let _ = killed.send(());
                return;
            }
            Fault::End => scene.tell(owner),
            Fault::Partition(mode, lasts) => scene.parts(owner, mode, lasts),
            Fault::Cut => scene.lines[owner].cut(),
            Fault::Jump(by) => {
                skew.fetch_add(by, Ordering::Relaxed);
            }
        }
    }
    // A dropped sender would end the process.
    std::future::pending::<()>().await;
    drop(killed);
}

/// Waits for the lease, acts while it holds it, and ends.
async fn acts(scene: &Arc<Scene>, owner: usize, number: u64, lease: &Lease, opener: Opener, skew: &Arc<AtomicI64>) {
    let mut stands_by = false;
    let asked = loop {
        let asked = Instant::now();
        match lease.take(stands_by).await {
            Ok(LeaseAnswer::Held { .. }) => break asked,
            // A process whose first request has no answer may not assume that it is alone.
            Ok(LeaseAnswer::Elsewhere(_)) | Err(_) => stands_by = true,
        }
        sleep(ASK_EVERY).await;
    };
    let granted = scene.now();
    scene.acts(owner);
    let over = AtomicU64::new(scene.at(asked + TERM));
    let clock = Arc::new(Skewed(Arc::clone(skew)));
    let open = async {
        let store = Resilient::start_with(move || opener.open(), clock, redis::bounds()).await.unwrap();
        let store = Arc::new(store);
        let turns = StoredTurns::new(Arc::clone(&store) as _, vec![DOOR], Portions::WHOLE);
        Arc::new(Life { scene: Arc::clone(scene), number, store, turns })
    };
    // A process that is killed holds the lease until its term is over.
    let _held = Held { scene, life: number, from: granted, over: &over };
    let mut opened = None;
    let serves = async {
        let life = opened.insert(open.await);
        life.serve().await;
    };
    let in_order = tokio::select! {
        biased;
        () = renew(scene, lease, asked, &over) => false,
        () = scene.told(owner) => true,
        () = serves => unreachable!("it serves for ever"),
    };
    if in_order {
        if let Some(life) = &opened {
            life.store.close(SAVE_TIMEOUT).await;
        }
        over.fetch_min(scene.now(), Ordering::Relaxed);
        let _ = lease.release().await;
    } else {
        over.fetch_min(scene.now(), Ordering::Relaxed);
        sleep(LINGERS).await;
    }
}

/// Records the time for which a life held the lease, also if its future is dropped.
struct Held<'a> {
    scene: &'a Scene,
    life: u64,
    from: u64,
    over: &'a AtomicU64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let until = self.over.load(Ordering::Relaxed).min(self.scene.now());
        self.scene.record(Event::Held { life: self.life, from: self.from, until });
    }
}

/// Renews the lease until it is lost, by the rules of the program while another process stands by.
async fn renew(scene: &Scene, lease: &Lease, mut renewed: Instant, over: &AtomicU64) {
    loop {
        let next = async {
            sleep(RENEW_EVERY).await;
            (Instant::now(), lease.take(false).await)
        };
        let (asked, answer) = tokio::select! {
            biased;
            () = sleep_until(renewed + TERM.saturating_sub(MARGIN)) => return,
            next = next => next,
        };
        match answer {
            Ok(LeaseAnswer::Held { .. }) => {
                renewed = asked;
                over.store(scene.at(asked + TERM), Ordering::Relaxed);
            }
            Ok(LeaseAnswer::Elsewhere(_)) => return,
            Err(_) => {}
        }
    }
}

impl Life {
    /// Takes up the turns of earlier processes, and answers questions.
    async fn serve(self: &Arc<Self>) {
        self.store.owned().await;
        if self.term() != FencingToken::NONE.0 {
            let (life, term, at) = (self.number, self.term(), self.scene.now());
            self.scene.record(Event::Acquired { life, term, at });
        }
        let taking_up = tokio::spawn(Arc::clone(self).takes_up());
        loop {
            for number in self.scene.undelivered(self.number) {
                tokio::spawn(Arc::clone(self).answers(number, false));
            }
            sleep(LOOK_EVERY).await;
            assert!(!taking_up.is_finished() || self.scene.took_up(self.number), "taking up failed");
        }
    }

    /// Reads the records of earlier processes until all are known, and answers those of open turns.
    async fn takes_up(self: Arc<Self>) {
        loop {
            let (adopted, complete) = self.turns.adopt().await.into_parts();
            for adopted in adopted {
                let record = adopted.record.unwrap_or_else(|error| panic!("{}: {error}", adopted.key));
                if let Custody::Open(open) = record.custody {
                    let number = open.turn.id.id.parse().unwrap();
                    if self.scene.takes(self.number, number) {
                        tokio::spawn(Arc::clone(&self).answers(number, true));
                    }
                }
            }
            if complete {
                self.scene.has_taken_up(self.number);
                return;
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Answers a question: the record, the model, the record of the answer, the post, and the end of the turn.
    async fn answers(self: Arc<Self>, number: u64, again: bool) {
        let open = OpenTurn::new(turn(number), None);
        if !again {
            match self.writes(self.turns.accept(&open, Pace::Now)).await {
                WriteOutcome::Durable => self.scene.acknowledge(number),
                WriteOutcome::InMemory => {}
                WriteOutcome::Fenced => return,
            }
        }
        sleep(Duration::from_millis(number * 7 % 60)).await;
        if self.writes(self.turns.answered(&open)).await == WriteOutcome::Fenced {
            return;
        }
        self.scene.post(self.term(), number);
        let closed = ClosedTurn { posted: Vec::new(), alone: false };
        self.writes(self.turns.close(&open.turn, closed, Vec::new())).await;
    }

    /// Records a write that becomes durable or is refused.
    async fn writes(&self, write: impl Future<Output = WriteOutcome>) -> WriteOutcome {
        let begun = self.scene.now();
        let outcome = write.await;
        match outcome {
            WriteOutcome::Durable => {
                self.scene.record(Event::Wrote { term: self.term(), begun, ended: self.scene.now() });
            }
            WriteOutcome::Fenced => self.scene.record(Event::Refused { term: self.term() }),
            WriteOutcome::InMemory => {}
        }
        outcome
    }

    fn term(&self) -> u64 {
        self.store.token(&Range::Door(DOOR)).0
    }
}

fn turn(number: u64) -> Arc<Turn> {
    let turn = json!({
        "id": format!("d:{number}"), "place": "d:1", "parent": null, "guild": null, "person": "d:7", "name": "Ada",
        "trigger": "mention", "text": "hello", "quoted": null, "at": 1, "policy": Policy::default(),
    });
    Arc::new(serde_json::from_value(turn).unwrap())
}
