//! Bodies: those of requests have a deadline, those of responses keep their connection busy.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::sleep;

use crate::api::connection_slots::{AwaitsBody, Busy};

/// Responds with 408 if the body of a request does not arrive within the timeout.
pub async fn within(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    until(sleep(limit), request, next).await
}

/// Responds with 408 if `deadline` resolves before the body of a request is complete. Drops `deadline` with the body.
pub async fn until(deadline: impl Future<Output = ()> + Send + 'static, request: Request, next: Next) -> Response {
    let late = Arc::new(AtomicBool::new(false));
    let timed = |body| Body::new(Timed { body, deadline: Box::pin(deadline), late: Arc::clone(&late) });
    let request = request.map(|body| if body.is_end_stream() { body } else { timed(body) });
    let response = next.run(request).await;
    if late.load(Ordering::Relaxed) {
        return (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")], "the body took too long")
            .into_response();
    }
    response
}

struct Timed {
    body: Body,
    deadline: Pin<Box<dyn Future<Output = ()> + Send>>,
    late: Arc<AtomicBool>,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.deadline.as_mut().poll(cx).is_ready() {
            self.late.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err(axum::Error::new("the body took too long"))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request. While it is incomplete, its connection may be closed in favour of others.
pub struct CameBody {
    body: Incoming,
    awaits: Option<AwaitsBody>,
}

impl CameBody {
    /// Marks the body as incomplete, unless it is empty or the connection has lost its place.
    pub fn new(body: Incoming, busy: Option<&Busy>) -> Self {
        let awaits = busy.filter(|_| !body.is_end_stream()).map(Busy::awaits_body);
        Self { body, awaits }
    }
}

impl HttpBody for CameBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.awaits = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response; its connection is busy until the body is sent.
pub struct SentBody {
    body: Body,
    _busy: Option<Busy>,
}

impl SentBody {
    /// Keeps the connection busy while `body` is sent, unless it has lost its place.
    pub fn new(body: Body, busy: Option<Busy>) -> Self {
        Self { body, _busy: busy }
    }
}

impl HttpBody for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
