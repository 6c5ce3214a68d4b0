//! Finds texts that ask for a secret: passwords, keys, tokens and payment credentials.

/// Words that name a secret on their own.
const WORDS: [&str; 19] = [
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

/// True if a text contains a word for a secret, however its words are joined: `apiKey`, `api_key`, `API key`.
pub(super) fn names_one(text: &str) -> bool {
    let words = words(text);
    let is_pair = |pair: &[String]| PAIRS.iter().any(|(one, other)| pair[0] == *one && pair[1] == *other);
    words.iter().any(|word| WORDS.contains(&word.as_str())) || words.windows(2).any(is_pair)
}

/// Returns the words in lower case. A capital letter after a small one begins a word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in text.chars() {
        let begins = !c.is_alphanumeric() || (small && c.is_uppercase());
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        small = c.is_lowercase();
    }
    words
}
