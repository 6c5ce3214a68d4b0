//! Headers of one connection, which a proxy must not pass on, and the handshake of a WebSocket.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};

/// The only protocol that upgrades are passed on for.
const WEBSOCKET: &str = "websocket";

/// Headers of one connection, and headers that the next connection sets itself.
const OF_ONE_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Returns the headers without those of one connection, including those that `Connection` names.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
    for name in named.flat_map(|line| line.split(',')) {
        kept.remove(name.trim());
    }
    for name in &OF_ONE_CONNECTION {
        kept.remove(name);
    }
    kept
}

/// True if the request asks for an upgrade to a WebSocket.
pub fn asks_for_socket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|protocol| protocol.to_str().ok());
    upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case(WEBSOCKET))
}

/// Adds the headers of a WebSocket handshake.
pub fn of_a_socket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(WEBSOCKET));
}

/// Copies bytes between the two ends of a WebSocket until either of them ends.
pub async fn join(client: impl AsyncRead + AsyncWrite, other: impl AsyncRead + AsyncWrite) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_other, mut to_other) = split(other);
    // Each side sees the close of the other, clean or not.
    tokio::select! {
        _ = copy(&mut from_client, &mut to_other) => {}
        _ = copy(&mut from_other, &mut to_client) => {}
    }
    let _ = tokio::join!(to_client.shutdown(), to_other.shutdown());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_that_concern_both_ends_are_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "Keep-Alive, X-Hop"),
            ("connection", "upgrade"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("proxy-connection", "close"),
            ("authorization", "Bearer a"),
            ("accept", "a"),
            ("accept", "b"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert!(asks_for_socket(&headers));
        let kept = end_to_end(&headers);
        let mut names: Vec<_> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "authorization"]);
        assert_eq!(kept.get_all("accept").iter().count(), 2);
    }
}
