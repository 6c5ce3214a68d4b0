//! Expands `${NAME}` and `${NAME:-default}` in values of entries.

use secrecy::{ExposeSecret, SecretString};

use super::Lookup;

/// Variables without secrets, which may appear in logs.
const PLAIN: [&str; 9] = ["HOME", "PATH", "USER", "LANG", "TMPDIR", "TZ", "PWD", "HOSTNAME", "SHELL"];
/// The shortest redacted secret; a shorter one would match ordinary words.
const SECRET_LEAST: usize = 6;
const VALUE_BYTES: usize = 64 * 1024;

/// Looks up variables and collects values that must be redacted.
pub(super) struct Variables<'a> {
    lookup: Lookup<'a>,
    pub secrets: Vec<SecretString>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(lookup: Lookup<'a>) -> Self {
        Self { lookup, secrets: Vec::new() }
    }

    /// Returns the value of a variable, if set.
    pub(super) fn get(&self, name: &str) -> Option<SecretString> {
        (self.lookup)(name)
    }

    /// Adds a value to be redacted.
    pub(super) fn hide(&mut self, secret: &str) {
        if secret.len() >= SECRET_LEAST {
            self.secrets.push(SecretString::from(secret));
        }
    }

    /// Expands the variables in a text.
    ///
    /// # Errors
    /// A variable is not set, or a brace is not closed; the message does not contain the value.
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
            // Some programs write `${env:NAME}`.
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
