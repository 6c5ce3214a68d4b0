//! Finds texts that ask for a secret: passwords, keys, tokens and payment credentials, in the languages of the notices.
//! The search is a second line of defence: each form that is shown says not to enter passwords or keys.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::clean::clean;

/// Words that name a secret on their own.
const WORDS: [&str; 23] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "token",
    "tokens",
    "apikey",
    "credential",
    "credentials",
    "pin",
    "otp",
    "cvv",
    "cvc",
    "mnemonic",
    "totp",
    "geheimzahl",
    "clave",
    "claves",
    "secreto",
];
/// Words that name a secret also as a part of a longer word.
const STEMS: [&str; 11] = [
    "password",
    "passwort",
    "passwd",
    "passphrase",
    "passcode",
    "kennwort",
    "contrasena",
    "credential",
    "zugangsdaten",
    "zugangscode",
    "apikey",
];
/// Pairs of words that name a secret together.
const PAIRS: [(&str, &str); 12] = [
    ("api", "key"),
    ("api", "keys"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("signing", "key"),
    ("card", "number"),
    ("security", "code"),
    ("verification", "code"),
    ("recovery", "code"),
    ("seed", "phrase"),
    ("pass", "word"),
];

/// True if a text contains a word for a secret, however its words are joined (`apiKey`, `api_key`, `API key`) and its
/// letters are written: with accents, in another form or width, or as letters that look like them.
pub(super) fn names_one(text: &str) -> bool {
    let words = words(text);
    let is_pair = |pair: &[String]| PAIRS.iter().any(|(one, other)| pair[0] == *one && pair[1] == *other);
    let is_one = |word: &String| WORDS.contains(&word.as_str()) || STEMS.iter().any(|stem| word.contains(stem));
    words.iter().any(is_one) || words.windows(2).any(is_pair)
}

/// Returns the words in lower case, in plain letters. A capital letter after a small one begins a word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    // Hidden characters would divide a word that people see whole.
    for c in clean(text, usize::MAX).nfkd().filter(|c| !is_combining_mark(*c) && !matches!(c, '\u{200c}' | '\u{200d}'))
    {
        let begins = !c.is_alphanumeric() || (small && c.is_uppercase());
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase().map(latin));
        }
        small = c.is_lowercase();
    }
    words
}

/// Returns the Latin letter that this small Greek or Cyrillic letter looks like, or itself.
const fn latin(c: char) -> char {
    match c {
        'а' | 'α' => 'a',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ε' => 'e',
        'һ' | 'н' => 'h',
        'і' | 'ι' => 'i',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'п' | 'η' => 'n',
        'о' | 'ο' | 'σ' => 'o',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        _ => c,
    }
}
