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
/// The longest id of a delivery, in bytes.
pub const DELIVERY_MAX: usize = 128;
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

/// A request of a webhook as it came.
#[derive(Debug, Clone, Copy)]
pub struct Knock<'a> {
    /// When it was signed, in seconds since the Unix epoch, as it was sent.
    pub stamp: &'a str,
    /// The sender's own id of what it tells, the same in each try of it; none leaves it to time stamp and body.
    pub delivery: Option<&'a str>,
    /// What it tells.
    pub body: &'a [u8],
    /// Its proof.
    pub signature: &'a str,
}

impl Knock<'_> {
    /// What tells it from all others of the same webhook.
    fn occurrence(&self) -> Vec<u8> {
        match self.delivery {
            Some(delivery) => [b"delivery ", delivery.as_bytes()].concat(),
            None => [self.stamp.as_bytes(), b".", self.body].concat(),
        }
    }
}

/// Whether an id of a delivery is one. None has a full stop, so it is clear where the body begins in what is signed.
fn is_delivery(id: &str) -> bool {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !id.is_empty() && id.len() <= DELIVERY_MAX && id.bytes().all(usable)
}

/// Why a request is not taken for one of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// There is no time stamp, id or signature of the known form.
    #[error(
        "a time stamp in seconds and a signature v1=<64 hexadecimal digits> are needed, and an id of letters, digits, - and _ if any"
    )]
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
    /// Checks what can be checked before the body is read: the form of the headers, and the time stamp.
    ///
    /// # Errors
    /// See [`Unproven`].
    pub fn check_head(&self, knock: Knock<'_>, now: Timestamp) -> Result<(), Unproven> {
        let Knock { stamp, delivery, signature, .. } = knock;
        if delivery.is_some_and(|delivery| !is_delivery(delivery)) || Signature::read(signature).is_none() {
            return Err(Unproven::Form);
        }
        let seconds: u64 = stamp.parse().map_err(|_| Unproven::Form)?;
        let at = Timestamp(seconds.saturating_mul(1_000));
        if now.since(at).max(at.since(now)) > self.window { Err(Unproven::Time) } else { Ok(()) }
    }

    /// Whether a request was signed with the secret: HMAC-SHA256 of the time stamp (seconds since the Unix epoch, as sent), a full stop, the id of the
    /// delivery and a full stop where there is one, and the body. The comparison takes as long whatever differs.
    ///
    /// # Errors
    /// See [`Unproven`].
    pub fn check(&self, knock: Knock<'_>, now: Timestamp) -> Result<(), Unproven> {
        self.check_head(knock, now)?;
        let Knock { stamp, delivery, body, signature } = knock;
        let signature = Signature::read(signature).ok_or(Unproven::Form)?;
        let (id, stop) = delivery.map_or((&b""[..], &b""[..]), |delivery| (delivery.as_bytes(), b"."));
        let fits = self.secret.signed(&[stamp.as_bytes(), b".", id, stop, body], &signature);
        if fits { Ok(()) } else { Err(Unproven::Signature) }
    }
}

impl Webhook {
    /// Its fire for a request that was proven.
    #[must_use]
    pub fn fire(&self, knock: Knock<'_>, data: &Value, now: Timestamp) -> Fire {
        Fire::new(Cause::Webhook, &self.deed, &knock.occurrence(), &fill(&self.deed.prompt, data), now)
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
            let knock = Knock { stamp, delivery: None, body: body.as_bytes(), signature };
            assert_eq!(hook().proof.check(knock, now), wanted, "{stamp} {body} {signature}");
        }
    }

    #[test]
    fn an_id_is_signed_too_and_says_alone_which_delivery_it_is() {
        let body = "{}";
        let told = |stamp: &'static str, delivery: Option<&'static str>, signature: &str| {
            let knock = Knock { stamp, delivery, body: body.as_bytes(), signature };
            hook().proof.check(knock, NOW).map(|()| hook().fire(knock, &json!({}), NOW).id)
        };
        let secret = "a secret of this story";
        let first = told("1700000000", Some("d-1"), &signed(secret, "1700000000", "d-1.{}")).unwrap();
        let later = told("1700000100", Some("d-1"), &signed(secret, "1700000100", "d-1.{}")).unwrap();
        let other = told("1700000000", Some("d-2"), &signed(secret, "1700000000", "d-2.{}")).unwrap();
        assert!(first == later && first != other);
        let unsigned = signed(secret, "1700000000", "{}");
        assert_eq!(told("1700000000", Some("d-1"), &unsigned), Err(Unproven::Signature));
        assert_eq!(told("1700000000", Some("d.1"), &signed(secret, "1700000000", "d.1.{}")), Err(Unproven::Form));
        assert_ne!(told("1700000000", None, &unsigned), Ok(first));
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
