//! Requests from a server to this client. Only `ping` is supported. Every request is answered or refused here, before
//! rmcp sees it, with a bounded number of pending replies. A server that exceeds its rate or does not accept the
//! replies is disconnected.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::bucket::Bucket;

/// The burst size of one server's requests.
const BURST: f64 = 64.0;
/// The rate of one server's requests per second.
const A_SECOND: f64 = 20.0;
/// The most concurrent replies to one server.
const REPLIES_MAX: usize = 8;
/// The most queued replies to one server.
const WAITING_MAX: usize = 64;
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const ID_BYTES: usize = 256;

pub(super) trait ReplyPath: Clone + Send + Sync + 'static {
    /// Sends one message. Returns once it is sent or has failed.
    fn reply(&self, message: Vec<u8>) -> impl Future<Output = ()> + Send;
}

/// The requests of one server.
pub(super) struct Inquiries {
    waiting: Mutex<VecDeque<Vec<u8>>>,
    places: Arc<Semaphore>,
    rate: Mutex<Bucket>,
    /// The reason for disconnecting the server.
    shut: watch::Sender<Option<String>>,
}

impl Default for Inquiries {
    fn default() -> Self {
        let rate = Bucket::new(A_SECOND, BURST);
        Self {
            waiting: Mutex::default(),
            places: Arc::new(Semaphore::new(REPLIES_MAX)),
            rate: Mutex::new(rate),
            shut: watch::Sender::new(None),
        }
    }
}

impl Inquiries {
    /// Processes one request: queues its reply, or disconnects the server.
    pub(super) fn ask(&self, method: &str, id: &RawValue) {
        if self.is_shut() {
            return;
        }
        if !self.rate.lock().take(1.0, Instant::now()) {
            self.shut(format!("it sent more than {A_SECOND} requests a second and was disconnected"));
            return;
        }
        if id.get().len() > ID_BYTES {
            return;
        }
        let reply = if method == "ping" {
            json!({"jsonrpc": "2.0", "id": id, "result": {}})
        } else {
            let error = json!({"code": -32_601, "message": "not offered by this client"});
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        };
        let mut waiting = self.waiting.lock();
        if waiting.len() == WAITING_MAX {
            drop(waiting);
            self.shut(format!("it accepted none of {WAITING_MAX} replies to its requests and was disconnected"));
            return;
        }
        waiting.push_back(reply.to_string().into_bytes());
    }

    pub(super) fn is_shut(&self) -> bool {
        self.shut.borrow().is_some()
    }

    /// Waits until the server must be disconnected; returns the reason.
    pub(super) async fn until_shut(&self) -> String {
        let mut shut = self.shut.subscribe();
        let reason = shut.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }

    /// Returns the reason for disconnecting, if any.
    pub(super) fn reason(&self) -> Option<String> {
        self.shut.borrow().clone()
    }

    pub(super) fn shut(&self, reason: String) {
        self.shut.send_replace(Some(reason));
        self.waiting.lock().clear();
    }

    fn next(&self) -> Option<Vec<u8>> {
        self.waiting.lock().pop_front()
    }
}

/// Sends the queued replies in a bounded number of tasks.
pub(super) fn answer<E>(exchanges: &Arc<E>, path: &impl ReplyPath)
where
    E: AsRef<Inquiries> + Send + Sync + 'static,
{
    let inquiries = E::as_ref(exchanges);
    while !inquiries.waiting.lock().is_empty() {
        let Ok(place) = Arc::clone(&inquiries.places).try_acquire_owned() else { return };
        let Some(first) = inquiries.next() else { return };
        let (exchanges, path) = (Arc::clone(exchanges), path.clone());
        tokio::spawn(async move {
            let mut reply = Some(first);
            while let Some(message) = reply {
                // A server that is too slow gets no reply to this request.
                let _ = timeout(REPLY_TIMEOUT, path.reply(message)).await;
                reply = E::as_ref(&exchanges).next();
            }
            drop(place);
            // A reply queued in the meantime found all tasks busy.
            answer(&exchanges, &path);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;
    use crate::exchange::Exchanges;
    use crate::room::Room;
    use domain::tool::ServerName;

    #[derive(Clone, Default)]
    struct Slow {
        begun: Arc<AtomicUsize>,
        sent: Arc<Mutex<Vec<String>>>,
        open: Arc<Notify>,
    }

    impl ReplyPath for Slow {
        async fn reply(&self, message: Vec<u8>) {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.open.notified().await;
            self.sent.lock().push(String::from_utf8(message).unwrap());
        }
    }

    fn exchanges() -> Arc<Exchanges> {
        Arc::new(Exchanges::new(ServerName::new("s"), watch::Sender::new(0), Room::default()))
    }

    fn ask(exchanges: &Exchanges, method: &str, id: &str) {
        exchanges.inquiries.ask(method, serde_json::from_str(id).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn eight_replies_are_under_way_and_all_others_follow_them() {
        let (exchanges, path) = (exchanges(), Slow::default());
        for id in 0..20 {
            ask(&exchanges, "ping", &id.to_string());
            answer(&exchanges, &path);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(path.begun.load(Ordering::SeqCst), REPLIES_MAX);
        for _ in 0..20 {
            path.open.notify_one();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(path.sent.lock().len(), 20);
        assert_eq!(path.sent.lock()[0], r#"{"id":0,"jsonrpc":"2.0","result":{}}"#);
        assert_eq!(exchanges.inquiries.places.available_permits(), REPLIES_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_offered_is_refused_under_the_id_of_the_request() {
        let (exchanges, path) = (exchanges(), Slow::default());
        ask(&exchanges, "sampling/createMessage", r#""s\u0031""#);
        ask(&exchanges, "roots/list", &format!("{:?}", "x".repeat(ID_BYTES)));
        answer(&exchanges, &path);
        path.open.notify_one();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let sent: serde_json::Value = serde_json::from_str(&path.sent.lock()[0]).unwrap();
        assert_eq!((&sent["id"], &sent["error"]["code"]), (&json!("s1"), &json!(-32_601)));
        assert_eq!(path.sent.lock().len(), 1, "an oversized id is not echoed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_beyond_its_rate_is_disconnected_and_one_within_it_never() {
        let (steady, path) = (exchanges(), Slow::default());
        for _ in 0..2_000 {
            ask(&steady, "ping", "1");
            answer(&steady, &path);
            path.open.notify_one();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(steady.inquiries.reason(), None);
        let flooding = exchanges();
        for _ in 0..200 {
            ask(&flooding, "ping", "1");
            flooding.inquiries.next();
        }
        let reason = flooding.inquiries.until_shut().await;
        assert!(reason.contains("more than 20 requests a second"), "{reason}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_no_reply_is_disconnected() {
        let (exchanges, path) = (exchanges(), Slow::default());
        for n in 0..=REPLIES_MAX + WAITING_MAX {
            if n == WAITING_MAX / 2 {
                // The server keeps within its rate.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            ask(&exchanges, "ping", "1");
            answer(&exchanges, &path);
        }
        assert!(exchanges.inquiries.reason().unwrap().contains("accepted none of 64 replies"));
        assert!(exchanges.inquiries.waiting.lock().is_empty());
    }
}
