//! Takes secrets out of text.

use std::fmt::{self, Write as _};
use std::sync::Arc;

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

/// Makes `text` that of a value without secrets, cut so that it takes at most `most` bytes of a JSON string. Gives the bytes it
/// takes.
pub fn bounded(value: &dyn fmt::Display, most: usize, redactor: &Redactor, text: &mut String) -> usize {
    text.clear();
    let mut gathered = Gathered { text, most: most + redactor.longest(), full: false };
    // The only error is the one that ends the formatting of a value that is too long.
    let _ = write!(gathered, "{value}");
    let Gathered { text, full, .. } = gathered;
    redactor.clean(text);
    if full {
        // What was cut may end with the beginning of a secret.
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

/// How many bytes a character takes in a JSON string.
fn json_cost(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// The nearest border between characters at or below `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Formats no more than is kept.
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
