//! Takes secrets out of text.

use std::fmt::Write;

use secrecy::{ExposeSecret, SecretString};

/// Shorter texts are left alone: replacing them would make lines unreadable and give the secret away by what is missing.
const MIN_SECRET_BYTES: usize = 4;

const MASK: &str = "***";

/// Knows the secrets of this process in every spelling that they may appear in.
pub struct Redactor {
    /// Longest first, so that a secret within another leaves nothing of the longer one behind.
    spellings: Vec<String>,
}

impl Redactor {
    /// Knows these secrets.
    pub fn new(secrets: &[SecretString]) -> Self {
        let mut spellings: Vec<String> = Vec::new();
        for secret in secrets {
            let raw = secret.expose_secret();
            if raw.len() < MIN_SECRET_BYTES {
                continue;
            }
            spellings.extend([raw.to_owned(), raw.escape_debug().to_string(), percent(raw)]);
        }
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Self { spellings }
    }

    /// The length of the longest spelling: text that was cut may end with up to this many bytes of a secret, less one.
    pub fn longest(&self) -> usize {
        self.spellings.first().map_or(0, String::len)
    }

    /// Replaces every secret in the text.
    pub fn clean(&self, text: &mut String) {
        for spelling in &self.spellings {
            if text.contains(spelling.as_str()) {
                *text = text.replace(spelling.as_str(), MASK);
            }
        }
    }
}

/// As a URL would hold it.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
