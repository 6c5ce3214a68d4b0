//! Supervises the bot in a separate process, as a container runtime would: starts it, restarts it when it ends, and
//! ends it with the playground.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::link::{Birth, BotReport, Heard, Link, Order, Says};
use crate::app::exit;
use playground::bot_process::Choice;
use playground::bot_process::{BotOrder, BotProcess, Counted, OrderRefusal};
use telemetry::events::{PLAYGROUND_BOT_ENDED, PLAYGROUND_BOT_STARTED};

/// The capacity of the queue of orders.
const ORDERS: usize = 64;
/// The timeout for the bot to report the outcome of an order.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before a restart, and its maximum after a series of short runs.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The length of a run that resets the pause.
const GOOD_LIFE: Duration = Duration::from_secs(20);
/// The maximum number of consecutive starts that find the data directory in use: the previous process may still be
/// ending.
const IN_USE_FOR: u32 = 6;

/// The capacity of the queue of signals.
const SIGNALS: usize = 4;

type SentOrder = (BotOrder, oneshot::Sender<Result<(), OrderRefusal>>);

/// The queued input for the bot.
pub(super) struct Asks {
    orders: mpsc::Receiver<SentOrder>,
    signals: mpsc::Receiver<Signal>,
}

/// The supervisor of one bot process.
pub(super) struct Keeper {
    life: Mutex<Life>,
    address: watch::Sender<Option<SocketAddr>>,
    asked: mpsc::Sender<SentOrder>,
    signals: mpsc::Sender<Signal>,
    /// The model that a user selected; the next run uses it too.
    model: Mutex<Option<Choice>>,
}

#[derive(Default)]
struct Life {
    runs: bool,
    earlier: Counted,
    now: Counted,
}

/// The end of one run.
enum End {
    /// As requested, with this exit code.
    Told(u8),
    /// By itself: the exit code, or `None` after a signal.
    Itself(Option<u8>),
}

impl Keeper {
    /// Creates the supervisor without a start, and the input for [`keep`](Self::keep).
    pub fn new() -> (Arc<Self>, Asks) {
        let ((asked, orders), (signals, wanted)) = (mpsc::channel(ORDERS), mpsc::channel(SIGNALS));
        let keeper =
            Self { life: Mutex::default(), address: watch::Sender::new(None), asked, signals, model: Mutex::default() };
        (Arc::new(keeper), Asks { orders, signals: wanted })
    }

    /// Returns the bot's address, while it listens.
    pub fn address(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.address.subscribe()
    }

    /// Makes the bot reload its configuration.
    pub fn reload(&self) {
        let _ = self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) -> Result<(), OrderRefusal> {
        if !self.life.lock().runs {
            return Err(OrderRefusal::Away);
        }
        self.signals.try_send(signal).map_err(|_| OrderRefusal::Flooded)
    }

    /// Runs the bot repeatedly until `stop`, or until its exit code says that a restart would fail the same way.
    /// Returns the exit code for the whole program. `now` ends a run that drains for too long.
    pub async fn keep(
        &self,
        args: &[String],
        birth: &Birth,
        mut asks: Asks,
        stop: CancellationToken,
        now: CancellationToken,
    ) -> u8 {
        let (mut pause, mut in_use) = (PAUSE, 0);
        loop {
            let begun = Instant::now();
            let ended = match self.live(args, birth, &mut asks, &stop, &now).await {
                Ok(ended) => ended,
                Err(error) => {
                    eprintln!("the bot cannot be started: {error}");
                    return exit::GAVE_UP;
                }
            };
            let lived = begun.elapsed();
            in_use = if matches!(ended, End::Itself(Some(exit::IN_USE))) { in_use + 1 } else { 0 };
            match ended {
                End::Told(code) | End::Itself(Some(code @ (exit::USAGE | exit::REFUSED))) => return code,
                End::Itself(Some(code @ exit::IN_USE)) if in_use >= IN_USE_FOR => return code,
                End::Itself(code) => {
                    tracing::warn!(event = PLAYGROUND_BOT_ENDED, code, "the bot ended and is started again");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return exit::FINE,
                () = sleep(if was_killed(&ended) || lived >= GOOD_LIFE { PAUSE } else { pause }) => {}
            }
            pause = match lived {
                long if long >= GOOD_LIFE => PAUSE,
                _ if was_killed(&ended) => pause,
                _ => (pause * 2).min(LONGEST_PAUSE),
            };
        }
    }

    async fn live(
        &self,
        args: &[String],
        birth: &Birth,
        Asks { orders, signals }: &mut Asks,
        stop: &CancellationToken,
        now: &CancellationToken,
    ) -> std::io::Result<End> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.args(args).stdin(Stdio::from(OwnedFd::from(theirs))).kill_on_drop(true);
        // The playground receives Ctrl-C and then stops the bot.
        let mut child = command.process_group(0).spawn()?;
        drop(command);
        let Link { mut heard, mut says } = Link::of(ours)?;
        // Signals for the previous run are obsolete.
        while signals.try_recv().is_ok() {}
        self.life.lock().runs = true;
        tracing::info!(event = PLAYGROUND_BOT_STARTED, process = child.id(), "the bot is started");
        // If the bot has ended already, the wait below reports it.
        let model = self.model.lock().clone();
        let _ = says.say(&Birth { model, ..birth.clone() }).await;
        let mut talk = pin!(self.talk(&mut heard, &mut says, orders));
        let told = loop {
            tokio::select! {
                () = &mut talk => break false,
                () = ended(&mut child) => break false,
                () = stop.cancelled() => break true,
                Some(signal) = signals.recv() => send(&child, signal),
            }
        };
        if told {
            send(&child, Signal::TERM);
        }
        let status = tokio::select! {
            status = child.wait() => status?,
            () = now.cancelled() => {
                child.kill().await?;
                child.wait().await?
            }
        };
        self.address.send_replace(None);
        let mut life = self.life.lock();
        life.runs = false;
        life.earlier = life.earlier.and(std::mem::take(&mut life.now));
        life.earlier.crashes += u64::from(!told);
        drop(life);
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(if told { End::Told(code.unwrap_or(exit::FINE)) } else { End::Itself(code) })
    }

    /// Forwards orders and receives messages of the bot, until the bot disconnects.
    async fn talk(&self, heard: &mut Heard, says: &mut Says, asks: &mut mpsc::Receiver<SentOrder>) {
        let (mut number, mut waiting) = (0, HashMap::new());
        loop {
            tokio::select! {
                told = heard.next() => match told {
                    Some(BotReport::Listens(address)) => drop(self.address.send_replace(Some(address))),
                    Some(BotReport::Counted(counted)) => self.life.lock().now = counted,
                    Some(BotReport::Done(number, result)) => {
                        // The caller may have timed out.
                        let asker: Option<oneshot::Sender<_>> = waiting.remove(&number);
                        let _ = asker.map(|asker| asker.send(result));
                    }
                    None => return,
                },
                // A caller that was told that the bot is away has stopped waiting.
                Some((order, asker)) = asks.recv() => if !asker.is_closed() {
                    number += 1;
                    waiting.retain(|_, asker: &mut oneshot::Sender<_>| !asker.is_closed());
                    waiting.insert(number, asker);
                    if says.say(&Order { number, order }).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Sends a signal, unless the process was reaped: its id may then belong to another process.
fn send(child: &Child, signal: Signal) {
    if let Some(process) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // A process that has just ended needs no signal.
        let _ = kill_process(process, signal);
    }
}

/// Resolves when the process has ended. The caller then reads its status.
async fn ended(child: &mut Child) {
    // The caller's wait returns the same error.
    let _ = child.wait().await;
}

/// True if it was killed rather than failed, so that a pause before the restart is useless.
const fn was_killed(ended: &End) -> bool {
    matches!(ended, End::Itself(None))
}

#[async_trait]
impl BotProcess for Keeper {
    async fn order(&self, order: BotOrder) -> Result<(), OrderRefusal> {
        if self.address.borrow().is_none() {
            return Err(OrderRefusal::Away);
        }
        let model = if let BotOrder::AskModel(model) = &order { Some(model.clone()) } else { None };
        let (asker, answer) = oneshot::channel();
        self.asked.try_send((order, asker)).map_err(|_| OrderRefusal::Flooded)?;
        match timeout(ANSWER_TIMEOUT, answer).await {
            Ok(Ok(result)) => {
                if let Some(model) = model.filter(|_| result.is_ok()) {
                    *self.model.lock() = model;
                }
                result
            }
            Ok(Err(_)) | Err(_) => Err(OrderRefusal::Away),
        }
    }

    fn kill(&self) -> Result<(), OrderRefusal> {
        self.signal(Signal::KILL)
    }

    fn counted(&self) -> Counted {
        let Life { earlier, now, .. } = *self.life.lock();
        earlier.and(now)
    }
}
