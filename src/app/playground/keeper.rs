//! Keeps the bot running in a process of its own, as a container runtime would: started, started again when it ends, ended with
//! the playground.

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

use super::link::{Birth, Heard, Link, Order, Says, Told};
use crate::app::exit;
use playground::bot_process::Choice;
use playground::bot_process::{BotOrder, BotProcess, Counted, Refused};

/// Orders that wait to be handed on.
const ORDERS: usize = 64;
/// How long the bot may take to say what became of an order.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// The pause before a start, and what the longest becomes when one life after the other is short.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A life of this length was a good one.
const GOOD_LIFE: Duration = Duration::from_secs(20);
/// Starts in a row for which another process may still use the data directory, which the one before may need to end.
const IN_USE_FOR: u32 = 6;

/// Signals that wait to be sent.
const SIGNALS: usize = 4;

type Asked = (BotOrder, oneshot::Sender<Result<(), Refused>>);

/// What waits for the bot.
pub(super) struct Asks {
    orders: mpsc::Receiver<Asked>,
    signals: mpsc::Receiver<Signal>,
}

/// Keeps one bot.
pub(super) struct Keeper {
    life: Mutex<Life>,
    address: watch::Sender<Option<SocketAddr>>,
    asked: mpsc::Sender<Asked>,
    signals: mpsc::Sender<Signal>,
    /// The model that somebody chose; the next life asks it too.
    model: Mutex<Option<Choice>>,
}

#[derive(Default)]
struct Life {
    runs: bool,
    earlier: Counted,
    now: Counted,
}

/// How one life ended.
enum End {
    /// As it was told to, with this code.
    Told(u8),
    /// By itself: the code, or none after a signal.
    Itself(Option<u8>),
}

impl Keeper {
    /// Starts nothing yet. What it gives is for [`keep`](Self::keep).
    pub fn new() -> (Arc<Self>, Asks) {
        let ((asked, orders), (signals, wanted)) = (mpsc::channel(ORDERS), mpsc::channel(SIGNALS));
        let keeper =
            Self { life: Mutex::default(), address: watch::Sender::new(None), asked, signals, model: Mutex::default() };
        (Arc::new(keeper), Asks { orders, signals: wanted })
    }

    /// Where the bot listens, while it does.
    pub fn address(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.address.subscribe()
    }

    /// Lets the bot read its configuration again.
    pub fn reload(&self) {
        let _ = self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) -> Result<(), Refused> {
        if !self.life.lock().runs {
            return Err(Refused::Away);
        }
        self.signals.try_send(signal).map_err(|_| Refused::Flooded)
    }

    /// Lets it live again and again until `stop`, or until it says by its code that a further life would be like this one. Gives
    /// the code for the whole program. `now` ends a life that drains for too long.
    pub async fn keep(
        &self,
        args: &[String],
        birth: &Birth,
        mut asks: Asks,
        (stop, now): (CancellationToken, CancellationToken),
    ) -> u8 {
        let (mut pause, mut in_use) = (PAUSE, 0);
        loop {
            let begun = Instant::now();
            let ended = match self.live(args, birth, &mut asks, (&stop, &now)).await {
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
                    tracing::warn!(event = "playground.bot_ended", code, "the bot ended and is started again");
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
        (stop, now): (&CancellationToken, &CancellationToken),
    ) -> std::io::Result<End> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.args(args).stdin(Stdio::from(OwnedFd::from(theirs))).kill_on_drop(true);
        // Ctrl-C is for the playground, which then tells the bot.
        let mut child = command.process_group(0).spawn()?;
        drop(command);
        let Link { mut heard, mut says } = Link::of(ours)?;
        // What was meant for the life before is over with it.
        while signals.try_recv().is_ok() {}
        self.life.lock().runs = true;
        tracing::info!(event = "playground.bot_started", process = child.id(), "the bot is started");
        // A bot that is gone already is seen by its end.
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

    /// Hands orders on and hears what the bot tells, until it tells nothing any more.
    async fn talk(&self, heard: &mut Heard, says: &mut Says, asks: &mut mpsc::Receiver<Asked>) {
        let (mut number, mut waiting) = (0, HashMap::new());
        loop {
            tokio::select! {
                told = heard.next() => match told {
                    Some(Told::Listens(address)) => drop(self.address.send_replace(Some(address))),
                    Some(Told::Counted(counted)) => self.life.lock().now = counted,
                    Some(Told::Done(number, result)) => {
                        // Whoever asked may have stopped waiting.
                        let asker: Option<oneshot::Sender<_>> = waiting.remove(&number);
                        let _ = asker.map(|asker| asker.send(result));
                    }
                    None => return,
                },
                // Whoever was told that the bot is away waits for nothing any more.
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

/// Sends a signal, unless the end of the process was seen: then its number may be another's.
fn send(child: &Child, signal: Signal) {
    if let Some(process) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // One that ended meanwhile needs none.
        let _ = kill_process(process, signal);
    }
}

/// Resolves when the process ended; its status is asked for afterwards.
async fn ended(child: &mut Child) {
    // An error here comes again there.
    let _ = child.wait().await;
}

/// Whether it was killed and not ended by a fault of its own, so that there is nothing to wait for.
const fn was_killed(ended: &End) -> bool {
    matches!(ended, End::Itself(None))
}

#[async_trait]
impl BotProcess for Keeper {
    async fn order(&self, order: BotOrder) -> Result<(), Refused> {
        if self.address.borrow().is_none() {
            return Err(Refused::Away);
        }
        let model = if let BotOrder::AskModel(model) = &order { Some(model.clone()) } else { None };
        let (asker, answer) = oneshot::channel();
        self.asked.try_send((order, asker)).map_err(|_| Refused::Flooded)?;
        match timeout(ANSWERS_WITHIN, answer).await {
            Ok(Ok(result)) => {
                if let Some(model) = model.filter(|_| result.is_ok()) {
                    *self.model.lock() = model;
                }
                result
            }
            Ok(Err(_)) | Err(_) => Err(Refused::Away),
        }
    }

    fn kill(&self) -> Result<(), Refused> {
        self.signal(Signal::KILL)
    }

    fn counted(&self) -> Counted {
        let Life { earlier, now, .. } = *self.life.lock();
        earlier.and(now)
    }
}
