//! The request that opens a WebSocket.
//!
//! Source: RFC 6455, section 4.2, "Server-Side Requirements".

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::OptionalFromRequestParts;
use axum::response::Response;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::ClientSocket;
use super::frames::Counted;

/// A request for a WebSocket. A handler takes it as an `Option`: any other request has none.
pub struct Upgrade {
    key: HeaderValue,
    connection: OnUpgrade,
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Upgrade {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        let headers = &parts.headers;
        let asked = parts.method == Method::GET
            && names(headers, &CONNECTION, "upgrade")
            && names(headers, &UPGRADE, "websocket")
            && names(headers, &SEC_WEBSOCKET_VERSION, "13");
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| asked).cloned();
        Ok(key.and_then(|key| Some(Self { key, connection: parts.extensions.remove::<OnUpgrade>()? })))
    }
}

/// True if a header has a word in its list.
fn names(headers: &HeaderMap, header: &HeaderName, word: &str) -> bool {
    let lists = headers.get_all(header).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|named| named.trim().eq_ignore_ascii_case(word))
}

impl Upgrade {
    /// Accepts the request: the future runs with the socket in a task of its own. A message has at most `message_max`
    /// bytes.
    pub fn open<Served>(
        self,
        message_max: usize,
        serve: impl FnOnce(ClientSocket) -> Served + Send + 'static,
    ) -> Response
    where
        Served: Future<Output = ()> + Send + 'static,
    {
        let Self { key, connection } = self;
        tokio::spawn(async move {
            let Ok(connection) = connection.await else { return };
            let limits =
                WebSocketConfig::default().max_message_size(Some(message_max)).max_frame_size(Some(message_max));
            let stream = Counted::new(TokioIo::new(connection));
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(limits)).await;
            serve(ClientSocket::new(socket)).await;
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        response
    }
}
