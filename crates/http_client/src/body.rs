//! Bodies: those that are sent, and those that come.

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
    /// Bytes that are there already, maybe none.
    Whole(Bytes),
    /// The body of a library.
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
    /// The length of what is still to come, where it was told.
    pub fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next piece of the body; none at its end.
    ///
    /// # Errors
    /// The rest will not come.
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
                // What is no data are trailers, which nothing here reads.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }
}
