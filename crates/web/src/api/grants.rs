//! Re-checks the key of a request while its response is produced: if the key is revoked, expires or loses the right,
//! the response ends.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;

use domain::api_key::Caller;
use ports::Keys;

/// Interval of the checks. Together with the reload interval of the key file it is below 2 s.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// The authorized caller, and the keys to check it against.
pub struct Grant {
    /// The keys in force.
    pub keys: Arc<dyn Keys>,
    /// The caller at the time of authorization.
    pub caller: Caller,
}

/// Closes a connection, also after an upgrade.
#[derive(Clone)]
pub struct Cut(pub CancellationToken);

impl Grant {
    /// True if the caller would still be authorized with the same rights.
    fn holds(&self) -> bool {
        match &self.caller {
            Caller::Local => self.keys.are_unused(),
            Caller::Key(key) => self.keys.still_opens(key),
        }
    }

    /// Runs the request. Returns `None` if the grant ended before the response; the request is then dropped. The
    /// response's body, or the upgraded connection, ends with the grant.
    pub async fn while_it_holds(self, answer: impl Future<Output = Response>, cut: Option<Cut>) -> Option<Response> {
        let mut answer = pin!(answer);
        let response = loop {
            match timeout(LOOK_EVERY, answer.as_mut()).await {
                Ok(response) => break response,
                Err(_) if self.holds() => {}
                Err(_) => return None,
            }
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            if let Some(Cut(cut)) = cut {
                tokio::spawn(self.watch(cut));
            }
            return Some(response);
        }
        Some(response.map(|body| if body.is_end_stream() { body } else { Body::new(GrantedBody::new(body, self)) }))
    }

    /// Closes an upgraded connection when the grant ends; returns when the connection is gone.
    async fn watch(self, cut: CancellationToken) {
        while timeout(LOOK_EVERY, cut.cancelled()).await.is_err() {
            if !self.holds() {
                cut.cancel();
            }
        }
    }
}

/// The body of a response that is sent while its grant holds.
struct GrantedBody {
    body: Body,
    grant: Grant,
    looked: Instant,
    /// Wakes the body for the next check.
    look: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl GrantedBody {
    fn new(body: Body, grant: Grant) -> Self {
        Self { body, grant, looked: Instant::now(), look: None, is_over: false }
    }

    /// Checks the grant if that is due. The error closes the connection, so that the client detects the incomplete
    /// response.
    fn looks(&mut self) -> Result<(), axum::Error> {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            if !self.grant.holds() {
                self.is_over = true;
                // Drops the source of the response at once.
                self.body = Body::empty();
                return Err(axum::Error::new("the key is no longer valid"));
            }
        }
        Ok(())
    }
}

impl HttpBody for GrantedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        loop {
            if let Err(over) = self.looks() {
                return Poll::Ready(Some(Err(over)));
            }
            if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
                return Poll::Ready(frame);
            }
            let look = self.look.get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
            ready!(look.as_mut().poll(cx));
            self.look = None;
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
