//! What a request was let in by, looked at again while its answer is made and sent: a key that is revoked, expires or loses a
//! right ends the answers that it opened.

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

/// How often a grant is looked at. Together with the time in which a changed file of keys is read this is less than 2 s.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// The caller that was let in, and the keys that still have to say so.
pub struct Grant {
    /// The keys in force.
    pub keys: Arc<dyn Keys>,
    /// The caller as it was let in.
    pub caller: Caller,
}

/// Ends a connection whatever it is used for, also after an upgrade.
#[derive(Clone)]
pub struct Cut(pub CancellationToken);

impl Grant {
    /// True while the caller would be let in again, with what it was let in for.
    fn holds(&self) -> bool {
        match &self.caller {
            Caller::Local => self.keys.are_unused(),
            Caller::Key(key) => self.keys.still_opens(key),
        }
    }

    /// Runs the request. None if the grant ended before there was an answer; the request is dropped then. The body of the answer
    /// ends with the grant, and so does a connection that is upgraded.
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

    /// Ends an upgraded connection with the grant; returns when the connection is gone.
    async fn watch(self, cut: CancellationToken) {
        while timeout(LOOK_EVERY, cut.cancelled()).await.is_err() {
            if !self.holds() {
                cut.cancel();
            }
        }
    }
}

/// The body of an answer that is sent while its grant holds.
struct GrantedBody {
    body: Body,
    grant: Grant,
    looked: Instant,
    /// Wakes a body that waits for something to send.
    look: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl GrantedBody {
    fn new(body: Body, grant: Grant) -> Self {
        Self { body, grant, looked: Instant::now(), look: None, is_over: false }
    }

    /// Looks at the grant if that is due. The error ends the connection, so the client sees that the answer is not whole.
    fn looks(&mut self) -> Result<(), axum::Error> {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            if !self.grant.holds() {
                self.is_over = true;
                // What the answer is made of is let go at once.
                self.body = Body::empty();
                return Err(axum::Error::new("the key is not in force any more"));
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
