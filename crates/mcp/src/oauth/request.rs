//! Requests to authorization servers: no redirects, bounded bodies and times, and no text in errors that could contain
//! a secret.

use std::time::Duration;

use http::HeaderValue;
use http::header::{ACCEPT, AUTHORIZATION};
use reqwest::Url;
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::timeout;

use super::reach::{Reach, Rule, Zone};
use crate::address::is_here;
use crate::failure::{one_line, root_cause};
use domain::json_values::{Unparsed, parsed};

const TIMEOUT: Duration = Duration::from_secs(10);
const BODY_BYTES: usize = 256 * 1024;
/// The most values in an answer.
const BODY_VALUES: usize = 8 * 1024;
/// The longest text of an authorization server in a message, in bytes.
const WORDS: usize = 200;

/// The form fields that must be redacted.
const SECRET_FIELDS: [&str; 4] = ["code", "code_verifier", "refresh_token", "client_secret"];

/// A response: its status, and its body, or the reason why that is not used.
pub(super) struct Answer {
    hidden: Vec<SecretString>,
    pub status: u16,
    pub body: Result<Value, Unparsed>,
}

impl Answer {
    pub fn text(&self, key: &str) -> Option<&str> {
        self.body.as_ref().ok()?.get(key)?.as_str()
    }

    /// Describes a refusal (RFC 6749, 5.2).
    pub fn refusal(&self) -> String {
        let word = |key: &str| {
            let word = self.text(key).unwrap_or_default();
            let hide = |word: String, secret: &SecretString| word.replace(secret.expose_secret(), "***");
            one_line(&self.hidden.iter().fold(word.to_owned(), hide), WORDS)
        };
        let status = self.status;
        // An error page is not JSON, and needs no further reason.
        if let Err(why) = self.body
            && (why != Unparsed::NotJson || (200..300).contains(&status))
        {
            return format!("it answers with HTTP {status}, and {why}");
        }
        let (error, about) = (word("error"), word("error_description"));
        format!("it answers with HTTP {status} {error} {about}").trim_end().to_owned()
    }
}

/// Checks that an address is fit for secrets: encrypted, or on this machine.
///
/// # Errors
/// It is neither.
pub(super) fn safe(address: &str, clear: bool) -> Result<Url, String> {
    // The parser drops line breaks and encodes other letters; questions and errors show the text as it came.
    let url = Url::parse(address).ok().filter(|_| address.bytes().all(|byte| byte.is_ascii_graphic()));
    let url =
        url.ok_or_else(|| format!("{} is not an address", one_line(&address.escape_debug().to_string(), WORDS)))?;
    let fine = url.scheme() == "https" || (url.scheme() == "http" && (clear || is_here(&url)));
    if fine && url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err(format!("{} is not encrypted, or contains credentials", one_line(address, WORDS)))
}

/// Creates a client of this one address, subject to the rule.
fn client(url: &Url, rule: Rule) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("staffai/", env!("CARGO_PKG_VERSION")))
        .timeout(TIMEOUT)
        .redirect(Policy::none())
        .dns_resolver(rule.resolver(url))
        .referer(false)
        .retry(reqwest::retry::never());
    let builder = if is_here(url) { builder.no_proxy() } else { builder };
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|error| root_cause(&error))
}

/// Fetches a document.
///
/// # Errors
/// There is no response.
pub(super) async fn get(url: &Url, reach: &Reach) -> Result<Answer, String> {
    let request = client(url, reach.rule(url)?)?.get(url.clone()).header(ACCEPT, "application/json");
    perform(url, request).await
}

/// Sends a form, with this header if it contains the secret.
///
/// # Errors
/// There is no response.
pub(super) async fn form(
    url: &Url,
    fields: &[(&str, &str)],
    authorization: Option<HeaderValue>,
    reach: &Reach,
) -> Result<Answer, String> {
    // A query has the encoding of a form.
    let mut body = Url::parse("form:/").map_err(|error| error.to_string())?;
    body.query_pairs_mut().extend_pairs(fields);
    let body = body.query().unwrap_or_default().to_owned();
    let request = client(url, reach.rule(url)?)?.post(url.clone()).header(ACCEPT, "application/json");
    let request = match authorization {
        Some(header) => request.header(AUTHORIZATION, header),
        None => request,
    };
    let request = request.header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
    let secret = fields.iter().filter(|(name, value)| SECRET_FIELDS.contains(name) && !value.is_empty());
    let hidden = secret.map(|(_, value)| SecretString::from(*value)).collect();
    Ok(Answer { hidden, ..perform(url, request).await? })
}

/// Sends a document.
///
/// # Errors
/// There is no response.
pub(super) async fn json(url: &Url, document: &Value, reach: &Reach) -> Result<Answer, String> {
    let request = client(url, reach.rule(url)?)?.post(url.clone()).header(ACCEPT, "application/json").json(document);
    perform(url, request).await
}

/// Returns the challenge header of a refusal, if any, and the zone of the server.
pub(super) async fn challenge(url: &Url) -> Result<(Option<String>, Zone), String> {
    let ask = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let accepted = "application/json, text/event-stream";
    let (rule, zone) = Rule::find(url);
    let request = client(url, rule)?.post(url.clone()).header(ACCEPT, accepted).json(&ask);
    let response = request.send().await.map_err(|error| told(url, &error))?;
    let header = response.headers().get(http::header::WWW_AUTHENTICATE);
    let header = header.and_then(|header| header.to_str().ok()).map(|header| header.chars().take(2_000).collect());
    // The zone is unknown behind the operator's proxy; the public one allows least.
    let zone = zone.lock().unwrap_or(Zone::Public);
    Ok((header, zone))
}

async fn perform(url: &Url, request: reqwest::RequestBuilder) -> Result<Answer, String> {
    let mut response = request.send().await.map_err(|error| told(url, &error))?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() > BODY_BYTES {
                break;
            }
        }
    };
    // A truncated body is not JSON.
    let _ = timeout(TIMEOUT, read).await;
    let is_too_long = body.len() > BODY_BYTES;
    let body = if is_too_long { Err(Unparsed::TooLong(BODY_BYTES)) } else { parsed(&body, BODY_VALUES) };
    Ok(Answer { hidden: Vec::new(), status, body })
}

fn told(url: &Url, error: &reqwest::Error) -> String {
    format!("{}: {}", url.origin().ascii_serialization(), root_cause(error))
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_address_that_would_be_shown_otherwise_than_it_is_read_is_refused() {
        for address in
            ["https://a.example/x\ny", "https://a.ex\tample", "https://a.example/\u{202e}x", "https://ä.example"]
        {
            let refused = safe(address, false).unwrap_err();
            assert!(refused.contains("is not an address") && refused.chars().all(|c| !c.is_control()), "{refused}");
            assert!(!refused.contains('\u{202e}'), "{refused}");
        }
        assert!(safe("https://a.example/tenant?x=%20", false).is_ok());
    }

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Sends this response to one request; returns true if a request came.
    async fn once(listener: TcpListener, answer: String) -> bool {
        let Ok(Ok((mut stream, _))) = timeout(Duration::from_millis(500), listener.accept()).await else {
            return false;
        };
        let _ = stream.read(&mut [0; 4096]).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        true
    }

    #[tokio::test]
    async fn nothing_is_sent_into_this_machine_for_a_server_elsewhere_and_no_redirect_is_followed() {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let reach = |zone| Reach { zone, confirmed: Vec::new() };
        for host in ["127.0.0.1", "localhost"] {
            for (zone, reaches) in [(Zone::Public, false), (Zone::Private, false), (Zone::Loopback, true)] {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                let url = Url::parse(&format!("http://{host}:{port}/x")).unwrap();
                let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned();
                let came = tokio::spawn(once(listener, answer));
                let got = get(&url, &reach(zone)).await;
                assert_eq!((got.is_ok(), came.await.unwrap()), (reaches, reaches), "{host} {zone:?}");
                if let Err(why) = got {
                    assert!(why.contains("--allow-origin"), "{why}");
                }
            }
        }
        let (first, second) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let url = Url::parse(&format!("http://{}/", first.local_addr().unwrap())).unwrap();
        let target = format!("http://{}/", second.local_addr().unwrap());
        let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
        let (came, followed) = (tokio::spawn(once(first, redirect)), tokio::spawn(once(second, String::new())));
        assert_eq!(get(&url, &reach(Zone::Loopback)).await.unwrap().status, 302);
        assert_eq!((came.await.unwrap(), followed.await.unwrap()), (true, false));
    }

    #[tokio::test]
    async fn an_answer_that_is_not_used_says_why() {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let reach = Reach { zone: Zone::Loopback, confirmed: Vec::new() };
        for (status, body, told) in [
            (200, format!("[{}0]", "0,".repeat(BODY_VALUES)), "HTTP 200, and its answer has too many values"),
            (400, format!("[{}0]", "0,".repeat(BODY_VALUES)), "HTTP 400, and its answer has too many values"),
            (200, " ".repeat(BODY_BYTES + 1), "HTTP 200, and its answer is longer than 262144 bytes"),
            (200, "<html>".to_owned(), "HTTP 200, and its answer is not JSON"),
            (502, "<html>".to_owned(), "HTTP 502"),
            (400, r#"{"error": "invalid_grant"}"#.to_owned(), "HTTP 400 invalid_grant"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
            let answer = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let came = tokio::spawn(once(listener, answer));
            assert_eq!(get(&url, &reach).await.unwrap().refusal(), format!("it answers with {told}"));
            assert!(came.await.unwrap());
        }
    }
}
