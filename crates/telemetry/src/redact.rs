//! Takes secrets out of text.

use std::fmt::Write;
use std::sync::Arc;

use super::line::bounded;
use parking_lot::RwLock;
use secrecy::{ExposeSecret, SecretString};

/// Shorter texts are left alone: replacing them would make lines unreadable and give the secret away by what is missing.
const MIN_SECRET_BYTES: usize = 4;

const MASK: &str = "***";

/// The most spellings that are known; an operator who changes secrets at every reload for years comes nowhere near.
const SPELLINGS_MAX: usize = 30_000;

/// The secrets that must not show. Cheap to clone; secrets that come with a reload are added, and none is taken out: a line
/// about yesterday's key must not show it either.
#[derive(Clone, Default)]
pub struct Redaction(Arc<RwLock<Arc<Redactor>>>);

impl Redaction {
    /// From now on these do not show either.
    pub fn add(&self, secrets: &[SecretString]) {
        let mut known = self.0.write();
        let more = Redactor::new(secrets);
        if more.spellings.iter().all(|spelling| known.spellings.contains(spelling)) {
            return;
        }
        let both = known.spellings.iter().cloned().chain(more.spellings).take(SPELLINGS_MAX).collect();
        *known = Arc::new(Redactor::of(both));
    }

    /// The text as it may be shown.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.now().clean(&mut text);
        text
    }

    /// The beginning of the text as it may be shown, at most so many bytes of a JSON string.
    #[must_use]
    pub fn excerpt(&self, text: &str, most: usize) -> String {
        let mut out = String::new();
        bounded(&text, most, &self.now(), &mut out);
        out
    }

    /// What is known now.
    pub(super) fn now(&self) -> Arc<Redactor> {
        Arc::clone(&self.0.read())
    }
}

impl From<Vec<SecretString>> for Redaction {
    fn from(secrets: Vec<SecretString>) -> Self {
        let redaction = Self::default();
        redaction.add(&secrets);
        redaction
    }
}

/// Knows the secrets of this process in every spelling that they may appear in.
#[derive(Default)]
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
        Self::of(spellings)
    }

    fn of(mut spellings: Vec<String>) -> Self {
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
