//! A request API for tests: receives requests one after another over real sockets, records them, and sends the test's
//! responses.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::Access;

/// The token in all tests; it may only appear in the authorization header.
pub(super) const TOKEN: &str = "MTk4.secret-of-the-test.k3y";

#[derive(Debug)]
pub(super) struct Request {
    /// The request line without the version, such as `GET /api/v10/users/@me`.
    pub(super) line: String,
    /// The headers in lower case.
    pub(super) headers: String,
    pub(super) body: String,
}

/// Serves the responses in order, one connection each; an empty one drops the connection after reading the request.
pub(super) async fn serve(answers: Vec<String>) -> (String, mpsc::UnboundedReceiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (seen, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let request = read(&mut socket).await;
            let _ = seen.send(request);
            let _ = socket.write_all(answer.as_bytes()).await;
            let _ = socket.shutdown().await;
        }
    });
    (base, requests)
}

/// Builds a whole response; `headers` are lines that end with a line break.
pub(super) fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Some\r\ncontent-length: {}\r\nconnection: close\r\n{}\r\n{body}",
        body.len(),
        headers.replace('\n', "\r\n")
    )
}

pub(super) fn access(api_url: &str) -> Access {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Access { api_url: api_url.to_owned(), token: TOKEN.into(), allow_insecure: false }
}

async fn read(socket: &mut TcpStream) -> Request {
    let mut bytes = Vec::new();
    let end = loop {
        let mut chunk = [0; 4096];
        let many = socket.read(&mut chunk).await.unwrap();
        assert!(many > 0, "the request ended early");
        bytes.extend_from_slice(&chunk[..many]);
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    let headers = headers.to_lowercase();
    let length: usize = headers
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        let mut chunk = [0; 4096];
        let many = socket.read(&mut chunk).await.unwrap();
        assert!(many > 0, "the body ended early");
        bytes.extend_from_slice(&chunk[..many]);
    }
    Request {
        line: line.trim_end_matches(" HTTP/1.1").to_owned(),
        headers,
        body: String::from_utf8(bytes[end..].to_vec()).unwrap(),
    }
}
