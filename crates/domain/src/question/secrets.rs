//! Finds texts that ask for a secret: passwords, keys, tokens and payment credentials, in the languages of the notices.
//! The search is a second line of defence: each form that is shown says not to enter passwords or keys.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::clean::clean;

/// Words that name a secret on their own.
const WORDS: [&str; 32] = [
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
    "cvn",
    "iban",
    "ssn",
    "heslo",
    "hasło",
    "hasła",
    "senha",
    "senhas",
    "puk",
];
/// Words that name a secret also as a part of a longer word.
const STEMS: [&str; 27] = [
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
    "motdepasse",
    "wachtwoord",
    "adgangskode",
    "passord",
    "lösenord",
    "salasana",
    "şifre",
    "парол",
    "パスワード",
    "暗証番号",
    "密码",
    "密碼",
    "비밀번호",
    "पासवर्ड",
    "รหัสผ่าน",
    "סיסמה",
];
/// Words that name a secret together.
const PHRASES: [&[&str]; 37] = [
    &["api", "key"],
    &["api", "keys"],
    &["access", "key"],
    &["private", "key"],
    &["secret", "key"],
    &["signing", "key"],
    &["recovery", "key"],
    &["card", "number"],
    &["card", "no"],
    &["card", "nr"],
    &["card", "num"],
    &["security", "code"],
    &["security", "number"],
    &["verification", "code"],
    &["authentication", "code"],
    &["authenticator", "code"],
    &["auth", "code"],
    &["login", "code"],
    &["sms", "code"],
    &["2fa", "code"],
    &["mfa", "code"],
    &["factor", "code"],
    &["onetime", "code"],
    &["one", "time", "code"],
    &["recovery", "code"],
    &["recovery", "codes"],
    &["backup", "codes"],
    &["recovery", "phrase"],
    &["seed", "phrase"],
    &["seed", "words"],
    &["pass", "word"],
    &["pass", "code"],
    &["mot", "de", "passe"],
    &["kata", "sandi"],
    &["mật", "khẩu"],
    &["كلمة", "المرور"],
    &["κωδικός", "πρόσβασης"],
];
/// The numbers and signs that stand for letters.
const SIGNS: [(char, char); 9] =
    [('0', 'o'), ('1', 'i'), ('3', 'e'), ('4', 'a'), ('5', 's'), ('7', 't'), ('@', 'a'), ('$', 's'), ('!', 'i')];

/// The lists, in the form of [`words`] before letters are replaced.
struct Names {
    words: Vec<String>,
    stems: Vec<String>,
    phrases: Vec<Vec<String>>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let plain = |word: &str| words(word, |c| c).concat();
    Names {
        words: WORDS.into_iter().map(plain).collect(),
        stems: STEMS.into_iter().map(plain).collect(),
        phrases: PHRASES.into_iter().map(|phrase| phrase.iter().copied().map(plain).collect()).collect(),
    }
});

/// True if a text contains a word for a secret, however its words are joined (`apiKey`, `api_key`, `API key`) and its
/// letters are written: with accents, in another form or width, one by one, or as letters, digits and signs that look like
/// them.
pub(super) fn names_one(text: &str) -> bool {
    let signs = |c: char| SIGNS.iter().find(|(sign, _)| *sign == c).map_or(c, |(_, letter)| *letter);
    [words(text, |c| c), words(text, latin), words(text, signs)].iter().any(|words| NAMES.are_in(words))
}

impl Names {
    fn are_in(&self, words: &[String]) -> bool {
        let is_word = |word: &str| {
            let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
            self.words.iter().any(|name| name == word) || self.stems.iter().any(|stem| word.contains(stem))
        };
        let is_phrase = |phrase: &Vec<String>| words.windows(phrase.len()).any(|run| run == phrase);
        // Letters that stand alone are one word.
        let mut runs = words.chunk_by(|one, other| is_letter(one) && is_letter(other)).filter(|run| run.len() > 2);
        words.iter().any(|word| is_word(word))
            || self.phrases.iter().any(is_phrase)
            || runs.any(|run| is_word(&run.concat()))
    }
}

fn is_letter(word: &str) -> bool {
    word.chars().nth(1).is_none()
}

/// Returns the words in lower case, in plain letters, after the replacement of each by `instead`. A capital letter after a
/// small one begins a word.
fn words(text: &str, instead: impl Fn(char) -> char) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    // Hidden characters would divide a word that people see whole.
    for c in clean(text, usize::MAX).nfkd().filter(|c| !is_combining_mark(*c) && !matches!(c, '\u{200c}' | '\u{200d}'))
    {
        let c = if c.is_uppercase() { c } else { instead(c) };
        let begins = !c.is_alphanumeric() || (small && c.is_uppercase());
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase().map(&instead));
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
