//! Bodies of requests and responses.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Frame, SizeHint};

use super::{Failure, Response};

type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request.
pub enum Outgoing {
    /// Bytes in memory, possibly empty.
    Whole(Bytes),
    /// The body type of another library.
    Foreign(Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>),
}

impl Outgoing {
    /// No body.
    pub const EMPTY: Self = Self::Whole(Bytes::new());
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outgoing")
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Foreign(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Foreign(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Foreign(body) => body.size_hint(),
        }
    }
}

impl Response {
    /// Returns the length of the rest of the body, if the server declared it.
    pub fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Returns the next piece of the body, or `None` at its end.
    ///
    /// # Errors
    /// The rest of the body was lost.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

/// The pieces of the body.
impl Stream for Response {
    type Item = Result<Bytes, Failure>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = &mut self.get_mut().body;
        loop {
            match ready!(Pin::new(&mut *body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(Failure::of(&error)))),
                // Frames without data are trailers, which are not used.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }
}
