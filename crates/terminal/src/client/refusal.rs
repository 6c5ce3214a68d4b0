//! Reasons for refused and failed requests.

use reqwest::StatusCode;

use super::shown::harmless;

/// Maximum size of an error response, in bytes.
const REFUSAL_MAX: usize = 16 * 1024;
/// The way to get a key, and where this client looks for it.
const KEY_HINT: &str = "the service asks for a key: staffai key add NAME --right chat --right tools prints one; set STAFFAI_API_KEYS to it";

#[derive(serde::Deserialize)]
struct Problem {
    detail: String,
}

/// Returns the service's reason for a refusal.
pub(super) async fn refusal(answer: reqwest::Response) -> String {
    let status = answer.status();
    let why = beginning(answer).await;
    let why = serde_json::from_str::<Problem>(&why).map_or(why, |problem| problem.detail);
    let why: String = harmless(&why).chars().take(300).collect();
    if status == StatusCode::UNAUTHORIZED { format!("{why}\n{KEY_HINT}") } else { why }
}

/// Describes a failed or incomplete response.
pub(super) fn unreachable(error: reqwest::Error) -> String {
    format!("the service cannot be reached: {}", error.without_url())
}

/// Reads the first bytes of an error response as text.
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
