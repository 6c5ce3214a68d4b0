//! `${NAME}` and `${NAME:-default}` in the values of entries.

use secrecy::{ExposeSecret, SecretString};

use super::Lookup;

/// Variables that hold nothing secret, and may stand in a log.
const PLAIN: [&str; 9] = ["HOME", "PATH", "USER", "LANG", "TMPDIR", "TZ", "PWD", "HOSTNAME", "SHELL"];
/// A shorter secret would be found in ordinary words.
const SECRET_LEAST: usize = 6;
/// The longest value, in bytes.
const VALUE_BYTES: usize = 64 * 1024;

/// Looks variables up, and keeps what must never be shown.
pub(super) struct Variables<'a> {
    lookup: Lookup<'a>,
    /// The secrets that were met.
    pub secrets: Vec<SecretString>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(lookup: Lookup<'a>) -> Self {
        Self { lookup, secrets: Vec::new() }
    }

    /// The value of one variable; none when it is not set.
    pub(super) fn get(&self, name: &str) -> Option<SecretString> {
        (self.lookup)(name)
    }

    /// Something that must never be shown.
    pub(super) fn hide(&mut self, secret: &str) {
        if secret.len() >= SECRET_LEAST {
            self.secrets.push(SecretString::from(secret));
        }
    }

    /// A text with its variables filled in.
    ///
    /// # Errors
    /// A variable is not set, or a brace is not closed; the value itself is not told.
    pub(super) fn expand(&mut self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${") {
            out.push_str(before);
            let (inside, after) = behind.split_once('}').ok_or("${ is not closed; write ${NAME}")?;
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            // Some programs write ${env:NAME}.
            let name = name.strip_prefix("env:").unwrap_or(name);
            match ((self.lookup)(name), default) {
                (Some(value), _) => {
                    if !PLAIN.contains(&name) {
                        self.hide(value.expose_secret());
                    }
                    out.push_str(value.expose_secret());
                }
                (None, Some(default)) => out.push_str(default),
                (None, None) => {
                    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
                    return Err(format!("the variable {shown} is not set; set it in .env or the environment"));
                }
            }
            if out.len() > VALUE_BYTES {
                return Err(format!("a value is longer than {VALUE_BYTES} bytes"));
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}
