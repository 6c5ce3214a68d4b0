//! One statement on a database server, on a connection of its own.
//!
//! - The statement ends at its timeout, and when its caller is gone: the server is told on a second connection, because it
//!   notices no closed connection while a statement runs.
//! - The caller gets its rows as soon as no more fit; the statement is then ended like one whose caller is gone.
//! - The permit is kept until the server has ended the statement. Some functions of servers check no timeout for minutes,
//!   and further statements beside them would use up the server's connections. If the connection broke, the end may be
//!   unknown; the permit is then kept until the server's own timeout.
//! - A server that cannot be reached for [`MISSES_MAX`] tries counts as gone.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::rows::Rows;
use ports::shares::Share;

/// The timeout of telling the server to end a statement, and of its end after that.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of tries in a row that do not reach the server, after which the statement counts as ended.
const MISSES_MAX: u32 = 12;
/// The time after which a statement counts as ended in any case: its connection may be lost without a sign.
const STOPPING_MAX: Duration = Duration::from_secs(3_600);

/// The answer to a request to end a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopAnswer {
    /// The server was told.
    Told,
    /// The server has no such statement any more.
    Ended,
    /// The server was not reached.
    Unreached,
}

/// Tells a server to end a statement.
pub(super) type Stop = Box<dyn Fn() -> BoxFuture<'static, StopAnswer> + Send + Sync>;

/// The failure of a statement, with a sentence.
#[derive(Debug)]
pub(super) enum Failed {
    /// The server ended it.
    AtServer(String),
    /// The connection broke, and the server may still run it.
    Unknown(String),
}

impl Failed {
    fn into_sentence(self) -> String {
        let (Self::AtServer(why) | Self::Unknown(why)) = self;
        why
    }
}

/// A statement that begins when it is polled, and the way to stop it.
pub(super) struct Session {
    /// Runs the statement to its end at the server. Dropping it closes the connection, which does not end the statement.
    pub statement: BoxFuture<'static, Result<Rows, Failed>>,
    /// Receives the rows once no more fit, while the statement may still run.
    pub full: oneshot::Receiver<Rows>,
    /// Tells the server to end the statement.
    pub stop: Stop,
}

/// Returns the sentence for an error whose message may quote values of rows.
pub(super) fn unfit(code: impl std::fmt::Display) -> String {
    format!("the database refused a value with error {code}; its message is not shown, because it may quote rows")
}

/// Opens a session and runs its statement within this time. If the returned future is dropped, the statement is stopped.
///
/// # Errors
/// A sentence: the connection or the statement failed, or the time is over.
pub(super) async fn run(
    open: impl Future<Output = Result<Session, String>> + Send + 'static,
    within: Duration,
    share: Share,
) -> Result<Rows, String> {
    let (caller, result) = oneshot::channel();
    tokio::spawn(async move {
        attend(open, Instant::now() + within, caller).await;
        drop(share);
    });
    result.await.unwrap_or_else(|_| Err("it broke".to_owned()))
}

/// Returns when the server has ended the statement, or is gone.
async fn attend(
    open: impl Future<Output = Result<Session, String>>,
    end: Instant,
    mut caller: oneshot::Sender<Result<Rows, String>>,
) {
    let opened = tokio::select! {
        opened = timeout_at(end, open) => opened.unwrap_or_else(|_| Err("it does not answer".to_owned())),
        () = caller.closed() => return,
    };
    let Session { mut statement, mut full, stop } = match opened {
        Ok(session) => session,
        Err(why) => return drop(caller.send(Err(why))),
    };
    let ended = tokio::select! {
        result = &mut statement => Some(result),
        Ok(rows) = &mut full => {
            drop(caller.send(Ok(rows)));
            drop(stopped(statement, stop).await);
            return;
        }
        () = caller.closed() => None,
        () = sleep_until(end) => None,
    };
    // The receiver is gone if the caller was cancelled.
    match ended {
        Some(Err(Failed::Unknown(why))) => {
            drop(caller.send(Err(why)));
            forsaken(stop, end).await;
        }
        Some(result) => drop(caller.send(result.map_err(Failed::into_sentence))),
        None => drop(caller.send(stopped(statement, stop).await)),
    }
}

/// Tells the server to end a statement whose connection broke, until it reports the end or its own timeout is over.
async fn forsaken(stop: Stop, end: Instant) {
    while Instant::now() < end {
        if timeout(STOP_TIMEOUT, stop()).await.is_ok_and(|answer| answer == StopAnswer::Ended) {
            return;
        }
        sleep_until(end.min(Instant::now() + STOP_TIMEOUT)).await;
    }
}

/// Tells the server to end a statement until it did. Repeated, because a statement that begins at the same moment is not
/// ended. The outcome is that of the statement.
async fn stopped(mut statement: BoxFuture<'static, Result<Rows, Failed>>, stop: Stop) -> Result<Rows, String> {
    let late = || Err("the statement takes too long: request or change fewer rows".to_owned());
    let (begun, mut misses) = (Instant::now(), 0);
    while begun.elapsed() < STOPPING_MAX {
        let answer = timeout(STOP_TIMEOUT, stop()).await.unwrap_or(StopAnswer::Unreached);
        if let Ok(result) = timeout(STOP_TIMEOUT, &mut statement).await {
            return result.or_else(|_| late());
        }
        misses = if answer == StopAnswer::Unreached { misses + 1 } else { 0 };
        if answer == StopAnswer::Ended || misses >= MISSES_MAX {
            break;
        }
    }
    late()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use tokio::sync::{Notify, Semaphore};

    use super::*;
    use ports::shares::Shares;

    /// A statement that ends only when the server ends it by itself.
    struct Stubborn {
        ends: Arc<Notify>,
        told: Arc<AtomicUsize>,
        reached: Arc<AtomicBool>,
    }

    impl Stubborn {
        fn new() -> Self {
            Self { ends: Arc::default(), told: Arc::default(), reached: Arc::new(AtomicBool::new(true)) }
        }

        fn session(&self) -> Session {
            let (ends, told, reached) = (Arc::clone(&self.ends), Arc::clone(&self.told), Arc::clone(&self.reached));
            let statement = async move {
                ends.notified().await;
                Ok(Rows::of_at_most(1))
            };
            let stop = move || {
                told.fetch_add(1, Ordering::SeqCst);
                let reached = reached.load(Ordering::SeqCst);
                async move { if reached { StopAnswer::Told } else { StopAnswer::Unreached } }.boxed()
            };
            Session { statement: statement.boxed(), full: oneshot::channel().1, stop: Box::new(stop) }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_statement_that_no_timeout_ends_keeps_its_permit_until_it_ended() {
        let (stubborn, share) = (Stubborn::new(), Shares::new(Arc::new(Semaphore::new(1))));
        let permit = share.take(None).unwrap();
        let session = stubborn.session();
        let caller = run(async move { Ok(session) }, Duration::from_secs(1), permit);
        assert!(timeout(Duration::from_secs(3), caller).await.is_err(), "its caller does not wait longer");
        tokio::time::sleep(Duration::from_secs(1_800)).await;
        assert!(share.take(None).is_none() && stubborn.told.load(Ordering::SeqCst) > 100);
        stubborn.ends.notify_one();
        drop(timeout(Duration::from_secs(1), share.wait(None)).await.expect("the permit is free"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_statement_whose_rows_were_given_keeps_its_permit_until_it_ended() {
        let (stubborn, share) = (Stubborn::new(), Shares::new(Arc::new(Semaphore::new(1))));
        let permit = share.take(None).unwrap();
        let (sender, full) = oneshot::channel();
        let session = Session { full, ..stubborn.session() };
        sender.send(Rows::of_at_most(2)).unwrap();
        let rows = run(async move { Ok(session) }, Duration::from_secs(1), permit).await;
        assert_eq!(rows, Ok(Rows::of_at_most(2)));
        tokio::time::sleep(Duration::from_secs(1_800)).await;
        assert!(share.take(None).is_none() && stubborn.told.load(Ordering::SeqCst) > 100);
        stubborn.ends.notify_one();
        drop(timeout(Duration::from_secs(1), share.wait(None)).await.expect("the permit is free"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_statement_whose_connection_broke_keeps_its_permit_until_the_server_s_timeout() {
        let (stubborn, share) = (Stubborn::new(), Shares::new(Arc::new(Semaphore::new(1))));
        let permit = share.take(None).unwrap();
        let broken = async { Err(Failed::Unknown("it broke off".to_owned())) };
        let session = Session { statement: broken.boxed(), ..stubborn.session() };
        let rows = run(async move { Ok(session) }, Duration::from_secs(60), permit).await;
        assert_eq!(rows, Err("it broke off".to_owned()));
        tokio::time::sleep(Duration::from_secs(58)).await;
        assert!(share.take(None).is_none() && stubborn.told.load(Ordering::SeqCst) > 5);
        drop(timeout(Duration::from_secs(3), share.wait(None)).await.expect("the permit is free"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_stops_its_statement_and_a_server_that_is_gone_frees_the_permit() {
        let (stubborn, share) = (Stubborn::new(), Shares::new(Arc::new(Semaphore::new(1))));
        let permit = share.take(None).unwrap();
        let session = stubborn.session();
        let caller = run(async move { Ok(session) }, Duration::from_secs(3_600), permit);
        assert!(timeout(Duration::from_secs(1), caller).await.is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stubborn.told.load(Ordering::SeqCst), 1);
        stubborn.reached.store(false, Ordering::SeqCst);
        let free = timeout(STOP_TIMEOUT * 2 * (MISSES_MAX + 2), share.wait(None)).await;
        assert!(free.is_ok(), "no try reaches the server");
    }
}
