//! Redaction of secrets in text.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::RwLock;
use secrecy::{ExposeSecret, SecretString};

/// The shortest redacted secret, in bytes: replacing shorter ones would make lines unreadable and reveal the secret by
/// its absence.
const MIN_SECRET_BYTES: usize = 4;

const MASK: &str = "***";

/// The most spellings; an operator who changes secrets at every reload for years stays far below.
const SPELLINGS_MAX: usize = 30_000;

/// The secrets to be redacted. Cheap to clone. A reload adds secrets and never removes any, because a line must not
/// show an old key either.
#[derive(Clone, Default)]
pub struct Redaction(Arc<RwLock<Arc<Redactor>>>);

impl Redaction {
    /// Adds secrets.
    pub fn add(&self, secrets: &[SecretString]) {
        let mut known = self.0.write();
        let more = Redactor::new(secrets);
        if more.spellings.iter().all(|spelling| known.spellings.contains(spelling)) {
            return;
        }
        let both = known.spellings.iter().cloned().chain(more.spellings).take(SPELLINGS_MAX).collect();
        *known = Arc::new(Redactor::of(both));
    }

    /// Returns the redacted text.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.now().clean(&mut text);
        text
    }

    /// Returns the beginning of the redacted text, at most `most` bytes of a JSON string.
    #[must_use]
    pub fn excerpt(&self, text: &str, most: usize) -> String {
        let mut out = String::new();
        bounded(&text, most, &self.now(), &mut out);
        out
    }

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

/// The secrets of this process in every spelling in which they may appear.
#[derive(Default)]
pub struct Redactor {
    /// Longest first, so that a secret contained in another one does not leave parts of the longer one.
    spellings: Vec<String>,
}

impl Redactor {
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

    /// Returns the length of the longest spelling: truncated text may end with up to this many bytes of a secret, less
    /// one.
    pub fn longest(&self) -> usize {
        self.spellings.first().map_or(0, String::len)
    }

    pub fn clean(&self, text: &mut String) {
        for spelling in &self.spellings {
            if text.contains(spelling.as_str()) {
                *text = text.replace(spelling.as_str(), MASK);
            }
        }
    }
}

/// Percent-encodes a secret as in a URL.
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

/// Sets `text` to the redacted value, truncated to at most `most` bytes of a JSON string. Returns the number of bytes.
pub fn bounded(value: &dyn fmt::Display, most: usize, redactor: &Redactor, text: &mut String) -> usize {
    text.clear();
    let mut gathered = Gathered { text, most: most + redactor.longest(), full: false };
    // The only error is the one that stops formatting an oversized value.
    let _ = write!(gathered, "{value}");
    let Gathered { text, full, .. } = gathered;
    redactor.clean(text);
    if full {
        // Truncated text may end with the beginning of a secret.
        let sure = text.len().saturating_sub(redactor.longest());
        text.truncate(floor(text, sure));
    }
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\') || byte == b' ';
    if !full && text.len() <= most && text.bytes().all(plain) {
        return text.len();
    }
    let (mut end, mut cost, mut fits) = (0, 0, !full);
    let ellipsis = '…'.len_utf8();
    for (at, character) in text.char_indices() {
        let next = cost + json_cost(character);
        if next > most {
            fits = false;
            break;
        }
        if next + ellipsis <= most {
            end = at + character.len_utf8();
        }
        cost = next;
    }
    if fits {
        return cost;
    }
    text.truncate(end);
    let cost = text.chars().map(json_cost).sum::<usize>();
    if cost + ellipsis > most {
        return cost;
    }
    text.push('…');
    cost + ellipsis
}

/// Returns the bytes of a character in a JSON string.
fn json_cost(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// Returns the nearest character boundary at or below `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Stops formatting at the bound.
struct Gathered<'a> {
    text: &'a mut String,
    most: usize,
    full: bool,
}

impl fmt::Write for Gathered<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.most - self.text.len();
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        self.text.push_str(&part[..floor(part, room)]);
        self.full = true;
        Err(fmt::Error)
    }
}
