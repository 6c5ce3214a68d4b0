//! Why the service refused something, or did not answer.

use reqwest::StatusCode;

use super::shown::harmless;

/// The longest answer that refuses something and is read, in bytes.
const REFUSAL_MAX: usize = 16 * 1024;
/// How somebody gets a key, and where this looks for it.
const KEY_HINT: &str = "the service asks for a key: staffai key add NAME --right chat --right tools prints one; set STAFFAI_API_KEYS to it";

/// A refusal, as the service tells it.
#[derive(serde::Deserialize)]
struct Problem {
    detail: String,
}

/// Why the service refused something, in its words.
pub(super) async fn refusal(answer: reqwest::Response) -> String {
    let status = answer.status();
    let why = beginning(answer).await;
    let why = serde_json::from_str::<Problem>(&why).map_or(why, |problem| problem.detail);
    let why: String = harmless(&why).chars().take(300).collect();
    if status == StatusCode::UNAUTHORIZED { format!("{why}\n{KEY_HINT}") } else { why }
}

/// The service did not answer, or not to its end.
pub(super) fn unreachable(error: reqwest::Error) -> String {
    format!("the service cannot be reached: {}", error.without_url())
}

/// The first bytes of an answer that refuses something, as text.
async fn beginning(mut answer: reqwest::Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(REFUSAL_MAX - body.len())]);
        if body.len() == REFUSAL_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}
