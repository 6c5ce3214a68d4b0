//! Webhooks: requests of other programs that prove themselves by a signature, and what of their data goes into a question.

use std::time::Duration;

use serde_json::Value;

use super::fire::{Cause, Deed, Fire};
use super::ids::Timestamp;
use super::prompt::clean;
use super::signature::{Signature, SigningKey};

/// The longest piece of data that a place of a template shows, in Unicode scalar values.
pub const FIELD_MAX: usize = 1_000;
/// The shortest secret, in bytes.
pub const SECRET_MIN: usize = 16;
/// The longest time by which a request may be old or ahead: its turn is on record for longer, so what is signed counts once.
pub const WINDOW_MAX: Duration = Duration::from_secs(1800);
/// Stands for a field that is not there.
const ABSENT: &str = "(none)";
/// Stands before a field in a template.
const OPEN: &str = "{{";
/// Stands behind it.
const CLOSE: &str = "}}";

/// One webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// What it does.
    pub deed: Deed,
    /// How its requests prove themselves.
    pub proof: Proof,
}

/// How requests prove themselves.
#[derive(Debug, Clone)]
pub struct Proof {
    /// What they are signed with.
    pub secret: SigningKey,
    /// How old one may be, or ahead of our clock.
    pub window: Duration,
}

/// Why a request is not taken for one of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// There is no time stamp or signature of the known form.
    #[error("a time stamp in seconds and a signature v1=<64 hexadecimal digits> are needed")]
    Form,
    /// It is too old, or of a time to come.
    #[error("the time stamp is too far from now")]
    Time,
    /// The signature is not that of this time stamp and body.
    #[error("the signature does not fit")]
    Signature,
}

impl Unproven {
    /// The label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Time => "time",
            Self::Signature => "signature",
        }
    }
}

impl Proof {
    /// A proof that nobody can give, which takes as long as any.
    #[must_use]
    pub fn nobodys() -> Self {
        Self { secret: SigningKey::new(""), window: Duration::ZERO }
    }

    /// Whether a request was signed with the secret: HMAC-SHA256 of the time stamp (seconds since the Unix epoch, as sent), a full stop, and the body.
    /// The comparison takes as long whatever differs.
    ///
    /// # Errors
    /// See [`Unproven`].
    pub fn check(&self, stamp: &str, body: &[u8], signature: &str, now: Timestamp) -> Result<(), Unproven> {
        let seconds: u64 = stamp.parse().map_err(|_| Unproven::Form)?;
        let signature = Signature::read(signature).ok_or(Unproven::Form)?;
        if !self.secret.signed(&[stamp.as_bytes(), b".", body], &signature) {
            return Err(Unproven::Signature);
        }
        let at = Timestamp(seconds.saturating_mul(1_000));
        if now.since(at).max(at.since(now)) > self.window { Err(Unproven::Time) } else { Ok(()) }
    }
}

impl Webhook {
    /// Its fire for a request that was proven.
    #[must_use]
    pub fn fire(&self, stamp: &str, body: &[u8], data: &Value, now: Timestamp) -> Fire {
        let occurrence = [stamp.as_bytes(), b".", body].concat();
        Fire::new(Cause::Webhook, &self.deed, &occurrence, &fill(&self.deed.prompt, data), now)
    }
}

/// The template with the fields of the data that it names: `{{pull_request.title}}`, `{{commits.0.id}}`, `{{.}}` for all of it. What stands in
/// the data is never read as a template, and a text of several lines stands as a quotation.
#[must_use]
pub fn fill(template: &str, data: &Value) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once(OPEN) {
        let Some((path, after)) = behind.split_once(CLOSE) else { break };
        filled.push_str(before);
        filled.push_str(&field(data, path.trim()).map_or_else(|| ABSENT.to_owned(), shown));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn field<'a>(data: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = path.split('.').filter(|step| !step.is_empty());
    steps.into_iter().try_fold(data, |data, step| match data {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => ABSENT.to_owned(),
        other => other.to_string(),
    };
    let text = clean(&text, FIELD_MAX);
    let lines: Vec<String> = text.trim().lines().map(|line| format!("> {line}")).collect();
    if lines.len() > 1 { format!("\n{}\n", lines.join("\n")) } else { text.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::ids::{Door, Place};

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn hook() -> Webhook {
        let target = Place::new(Door::new("discord"), "42");
        let deed = Deed { name: "ci".into(), target, prompt: "Tell.".into(), per_hour: 4, tools: false, model: None };
        let proof = Proof { secret: SigningKey::new("a secret of this story"), window: Duration::from_secs(300) };
        Webhook { deed, proof }
    }

    fn signed(secret: &str, stamp: &str, body: &str) -> String {
        SigningKey::new(secret).sign(&[format!("{stamp}.{body}").as_bytes()])
    }

    #[test]
    fn only_what_was_signed_just_now_is_proven() {
        let good = signed("a secret of this story", "1700000000", "{}");
        let other = signed("another secret of a story", "1700000000", "{}");
        for (stamp, body, signature, now, wanted) in [
            ("1700000000", "{}", good.as_str(), NOW, Ok(())),
            ("1700000000", "{} ", &good, NOW, Err(Unproven::Signature)),
            ("1700000001", "{}", &good, NOW, Err(Unproven::Signature)),
            ("1700000000", "{}", &other, NOW, Err(Unproven::Signature)),
            ("1700000000", "{}", &good[3..], NOW, Err(Unproven::Form)),
            ("1700000000", "{}", "v1=", NOW, Err(Unproven::Form)),
            ("soon", "{}", &good, NOW, Err(Unproven::Form)),
            ("1700000000", "{}", &good, Timestamp(NOW.0 + 300_000), Ok(())),
            ("1700000000", "{}", &good, Timestamp(NOW.0 + 301_000), Err(Unproven::Time)),
            ("1700000000", "{}", &good, Timestamp(NOW.0 - 301_000), Err(Unproven::Time)),
        ] {
            assert_eq!(
                hook().proof.check(stamp, body.as_bytes(), signature, now),
                wanted,
                "{stamp} {body} {signature}"
            );
        }
    }

    #[test]
    fn a_template_shows_the_fields_that_it_names() {
        let data = json!({"who": {"name": "Ada"}, "commits": [{"id": 7}], "text": "one\ntwo {{who.name}}", "no": null});
        for (template, filled) in [
            ("{{who.name}} pushed {{commits.0.id}}.", "Ada pushed 7."),
            ("{{ who.name }}", "Ada"),
            ("{{missing}} {{no}} {{who.name.more}}", "(none) (none) (none)"),
            ("said: {{text}}", "said: \n> one\n> two {{who.name}}\n"),
            ("{{commits}}", "[{\"id\":7}]"),
            ("an {{open end", "an {{open end"),
        ] {
            assert_eq!(fill(template, &data), filled);
        }
        assert!(fill("{{.}}", &json!({"a": "x".repeat(5_000)})).chars().count() < FIELD_MAX + 20);
    }
}
