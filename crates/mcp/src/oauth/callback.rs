//! Receives the browser's redirect after a login, on a local port. Received data is never displayed.

use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

pub(super) const PATH: &str = "/callback";
const HEAD_BYTES: usize = 16 * 1024;
/// The timeout of one connection.
const HEARING_TIMEOUT: Duration = Duration::from_secs(5);

/// The parameters of the redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Brought {
    pub code: Option<String>,
    pub issuer: Option<String>,
    pub error: Option<String>,
}

/// Waits for the browser. A request without this state belongs to another login: it is refused and the wait continues.
pub(super) async fn hear(listener: &TcpListener, state: &str) -> std::io::Result<Brought> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let head = timeout(HEARING_TIMEOUT, head(&mut stream)).await.ok().flatten();
        let brought = head.as_deref().and_then(|head| brought(head, state));
        let (status, words) = match &brought {
            Some(brought) if brought.error.is_none() => {
                ("200 OK", "staffai has received your login. You can close this page.")
            }
            Some(_) => ("200 OK", "The login was refused. You can close this page."),
            None => ("404 Not Found", "There is nothing here."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{words}",
            words.len()
        );
        // A client that does not read the response has already sent everything.
        let _ = timeout(HEARING_TIMEOUT, stream.write_all(answer.as_bytes())).await;
        let _ = timeout(HEARING_TIMEOUT, stream.shutdown()).await;
        if let Some(brought) = brought {
            return Ok(brought);
        }
    }
}

/// Reads the head of a request; `None` if it is too long or incomplete.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).rev().take(piece.len() + 4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&piece[..read]);
        if head.len() > HEAD_BYTES {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// Returns the parameters of a request to the redirect path with the expected state.
fn brought(head: &str, state: &str) -> Option<Brought> {
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    let url = Url::parse("http://callback/").ok()?.join(target).ok()?;
    let value = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let is_ours = url.path() == PATH && value("state").as_deref() == Some(state);
    is_ours.then(|| Brought { code: value("code"), issuer: value("iss"), error: value("error") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_bears_our_state_is_heard() {
        let read = |target: &str| brought(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"), "s1");
        let fine = Brought { code: Some("a b".to_owned()), issuer: Some("https://b.example".to_owned()), error: None };
        assert_eq!(read("/callback?code=a+b&state=s1&iss=https%3A%2F%2Fb.example"), Some(fine));
        for odd in ["/callback?code=a", "/callback?code=a&state=s2", "/?code=a&state=s1", "//callback?state=s1", "x"] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert_eq!(brought("POST /callback?state=s1 HTTP/1.1\r\n\r\n", "s1"), None);
    }

    #[tokio::test]
    async fn noise_on_the_port_ends_no_login() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hears = async { hear(&listener, "s1").await.unwrap() };
        let comes = async {
            for head in [
                "GET /favicon.ico HTTP/1.1\r\n\r\n",
                "\u{1}\r\n\r\n",
                "GET /callback?error=access_denied&state=s1 HTTP/1.1\r\n\r\n",
            ] {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(head.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
            }
        };
        let (brought, ()) = tokio::join!(hears, comes);
        assert_eq!(brought.error.as_deref(), Some("access_denied"));
    }
}
