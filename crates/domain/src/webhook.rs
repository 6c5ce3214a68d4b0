//! Webhooks: requests of other programs that are authenticated by a signature, and the data that goes into a question.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::clean::clean;
use super::fire::{Cause, Fire, TriggerAction};
use super::ids::Timestamp;
use super::signature::SigningKey;

mod schemes;

pub use schemes::{SCHEMES, Scheme};

/// The longest value that a template placeholder shows, in Unicode scalar values.
pub const FIELD_MAX: usize = 1_000;
/// The shortest secret, in bytes.
pub const SECRET_MIN: usize = 16;
/// The longest id of a delivery, in bytes.
pub const DELIVERY_MAX: usize = 128;
/// The maximum age of a request, and the maximum lead of its clock. Its turn is recorded for longer, so a signed
/// request counts once.
pub const WINDOW_MAX: Duration = Duration::from_secs(1800);
/// The text for an absent field.
const ABSENT: &str = "(none)";
/// The start mark of a field in a template.
const OPEN: &str = "{{";
/// The end mark of a field.
const CLOSE: &str = "}}";

/// One webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The action.
    pub action: TriggerAction,
    /// The authentication of its requests.
    pub proof: Proof,
}

/// The authentication of requests.
#[derive(Clone)]
pub struct Proof {
    /// The scheme of the sender.
    pub scheme: &'static Scheme,
    secret: Vec<u8>,
    key: SigningKey,
    /// The maximum age and the maximum clock lead of a request, for schemes that sign the time.
    pub window: Duration,
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proof").field("scheme", &self.scheme.name).field("window", &self.window).finish_non_exhaustive()
    }
}

/// A received webhook request.
#[derive(Debug, Clone, Copy)]
pub struct WebhookRequest<'a> {
    /// The time of signing as received, in seconds since the Unix epoch; `None` if the scheme signs no time.
    pub stamp: Option<&'a str>,
    /// The sender's id of the event, equal in all retries; `None` identifies the event by time stamp and body.
    pub delivery: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
    /// The header with the proofs.
    pub proof: &'a str,
}

impl WebhookRequest<'_> {
    /// Returns the bytes that identify the event within its webhook. Only signed parts count, because the others may be
    /// changed in transit.
    fn occurrence(&self, scheme: &Scheme) -> Vec<u8> {
        match (self.delivery, self.stamp) {
            (Some(delivery), _) => [b"delivery ", delivery.as_bytes()].concat(),
            (None, Some(stamp)) if scheme.remembered.is_none() => [stamp.as_bytes(), b".", self.body].concat(),
            // Senders sign each retry of one body anew, or sign no time.
            (None, _) => [b"body ", self.body].concat(),
        }
    }
}

/// True if a delivery id is valid. A valid id has no full stop, so the start of the body in the signed text is
/// unambiguous.
fn is_delivery(id: &str) -> bool {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !id.is_empty() && id.len() <= DELIVERY_MAX && id.bytes().all(usable)
}

/// The reason why a request is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// A time stamp, id or proof in the form of the scheme is absent.
    #[error("the headers of the scheme are needed: a time in seconds, an id of letters, digits, - and _, and a proof")]
    Form,
    /// The time stamp is too old or in the future.
    #[error("the time stamp is too far from now")]
    Time,
    /// The signature does not match this time stamp and body.
    #[error("the signature does not fit")]
    Signature,
}

impl Unproven {
    /// Returns the label for logs.
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
    /// Creates the authentication by a scheme with a secret, in the text form given to the sender; `None` if the
    /// secret's form does not fit the scheme.
    #[must_use]
    pub fn new(scheme: &'static Scheme, secret: &str, window: Duration) -> Option<Self> {
        let secret = scheme.secret(secret)?;
        Some(Self { scheme, key: SigningKey::of_bytes(&secret), secret, window })
    }

    /// True if the secret is shorter than [`SECRET_MIN`].
    #[must_use]
    pub const fn is_weak(&self) -> bool {
        self.secret.len() < SECRET_MIN
    }

    /// Checks the form of the headers and the time stamp, before the body is read.
    ///
    /// # Errors
    /// See [`Unproven`].
    pub fn check_head(&self, knock: WebhookRequest<'_>, now: Timestamp) -> Result<(), Unproven> {
        let WebhookRequest { stamp, delivery, proof, .. } = knock;
        let is_named = delivery.map_or(!self.scheme.needs_id(), is_delivery);
        if !is_named || !self.scheme.is_formed(proof) {
            return Err(Unproven::Form);
        }
        if self.scheme.is_token() && !self.fits(knock) {
            return Err(Unproven::Signature);
        }
        if !self.scheme.has_time() {
            return Ok(());
        }
        let seconds: u64 = stamp.and_then(|stamp| stamp.parse().ok()).ok_or(Unproven::Form)?;
        let at = Timestamp(seconds.saturating_mul(1_000));
        if now.since(at).max(at.since(now)) > self.window { Err(Unproven::Time) } else { Ok(()) }
    }

    fn fits(&self, knock: WebhookRequest<'_>) -> bool {
        self.scheme.fits(knock, &self.secret, &self.key)
    }

    /// Checks that a request was authenticated with the secret. The comparison takes constant time.
    ///
    /// # Errors
    /// See [`Unproven`].
    pub fn check(&self, knock: WebhookRequest<'_>, now: Timestamp) -> Result<(), Unproven> {
        self.check_head(knock, now)?;
        if self.fits(knock) { Ok(()) } else { Err(Unproven::Signature) }
    }
}

impl Webhook {
    /// Returns the fire for an authenticated request.
    #[must_use]
    pub fn fire(&self, knock: WebhookRequest<'_>, data: &Value, now: Timestamp) -> Fire {
        Fire::new(
            Cause::Webhook,
            &self.action,
            &knock.occurrence(self.proof.scheme),
            &fill(&self.action.prompt, data),
            now,
        )
    }
}

/// Returns the template with the named fields of the data inserted: `{{pull_request.title}}`, `{{commits.0.id}}`,
/// `{{.}}` for all data. Inserted data is never parsed as a template, and a text of several lines is inserted as a
/// quotation.
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
    use crate::ids::{Door, Place};

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn hook() -> Webhook {
        let target = Place::new(Door::new("discord"), "42");
        let action =
            TriggerAction { name: "ci".into(), target, prompt: "Tell.".into(), per_hour: 4, tools: false, model: None };
        Webhook { action, proof: proof("staffai", "a secret of this story") }
    }

    fn proof(scheme: &str, secret: &str) -> Proof {
        Proof::new(Scheme::named(scheme).unwrap(), secret, Duration::from_secs(300)).unwrap()
    }

    /// Checks these headers and this body with a scheme and a secret at this second.
    fn proves(
        (scheme, secret): (&str, &str),
        headers: &[(&str, &'static str)],
        body: &'static str,
        second: u64,
    ) -> Result<Vec<u8>, Unproven> {
        let proof = proof(scheme, secret);
        let find = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let knock = WebhookRequest { body: body.as_bytes(), ..proof.scheme.knock(find) };
        proof.check(knock, Timestamp(second * 1_000)).map(|()| knock.occurrence(proof.scheme))
    }

    const GITHUB: (&str, &str) = ("github", "It's a Secret to Everybody");
    const STANDARD: (&str, &str) = ("standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    const STRIPE: (&str, &str) = ("stripe", "whsec_a secret of this story");
    const GITLAB: (&str, &str) = ("gitlab", "a token of this story");

    #[test]
    fn the_published_vectors_of_each_scheme_are_proven() {
        // The example from GitHub's documentation.
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let headers = [("x-hub-signature-256", signature)];
        let first = proves(GITHUB, &headers, "Hello, World!", 0).unwrap();
        let later = proves(GITHUB, &headers, "Hello, World!", 9_999_999).unwrap();
        assert_eq!(first, later, "one body is one delivery at any time");
        assert_eq!(proves(GITHUB, &headers, "Hello, World?", 0), Err(Unproven::Signature));
        assert_eq!(proves(("github", "another secret of it"), &headers, "Hello, World!", 0), Err(Unproven::Signature));
        assert_eq!(proves(GITHUB, &[("x-hub-signature", signature)], "Hello, World!", 0), Err(Unproven::Form));

        // The vector of the Standard Webhooks libraries, after the signature of another key.
        let both = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let (id, stamp) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        let headers = [("webhook-id", id), ("webhook-timestamp", stamp), ("webhook-signature", both)];
        let body = r#"{"test": 2432232314}"#;
        assert_eq!(
            proves(STANDARD, &headers, body, 1_614_265_330),
            Ok(b"delivery msg_p5jXN8AQM9LWM0D4loKWxJek".to_vec())
        );
        assert_eq!(proves(STANDARD, &headers, body, 1_614_265_330 + 301), Err(Unproven::Time));
        assert_eq!(proves(STANDARD, &headers[1..], body, 1_614_265_330), Err(Unproven::Form), "without its id");
        assert_eq!(proves(STANDARD, &[headers[0], headers[2]], body, 1_614_265_330), Err(Unproven::Form));
        let other = [("webhook-id", "msg_other"), headers[1], headers[2]];
        assert_eq!(proves(STANDARD, &other, body, 1_614_265_330), Err(Unproven::Signature), "the id is signed");

        // printf '1614265330.{"id": "evt_1"}' | openssl dgst -sha256 -hmac 'whsec_a secret of this story'
        let told = "t=1614265330,v0=00,v1=5c1ae4ac7de2d046c40d93eacb6ae3f76990bf41a6a6b77a5406ee3c4d51052c";
        let body = r#"{"id": "evt_1"}"#;
        assert!(proves(STRIPE, &[("stripe-signature", told)], body, 1_614_265_330).is_ok());
        assert_eq!(proves(STRIPE, &[("stripe-signature", told)], body, 1_614_266_330), Err(Unproven::Time));
        let moved = "t=1614265331,v1=5c1ae4ac7de2d046c40d93eacb6ae3f76990bf41a6a6b77a5406ee3c4d51052c";
        assert_eq!(proves(STRIPE, &[("stripe-signature", moved)], body, 1_614_265_331), Err(Unproven::Signature));
        let weaker = "t=1614265330,v0=5c1ae4ac7de2d046c40d93eacb6ae3f76990bf41a6a6b77a5406ee3c4d51052c";
        assert_eq!(proves(STRIPE, &[("stripe-signature", weaker)], body, 1_614_265_330), Err(Unproven::Form));
    }

    #[test]
    fn a_token_is_checked_before_the_body_is_read() {
        let proof = proof("gitlab", "a token of this story");
        for (sent, wanted) in [
            (Some("a token of this story"), Ok(())),
            (Some("a token of this stori"), Err(Unproven::Signature)),
            (Some("a token of this"), Err(Unproven::Signature)),
            (Some(""), Err(Unproven::Form)),
            (None, Err(Unproven::Form)),
        ] {
            let knock = proof.scheme.knock(|name| sent.filter(|_| name == "x-gitlab-token"));
            assert_eq!(proof.check_head(knock, NOW), wanted, "{sent:?}");
        }
        assert!(proves(GITLAB, &[("x-gitlab-token", "a token of this story")], "{}", 0).is_ok());
    }

    #[test]
    fn a_secret_that_is_no_base64_is_not_one_of_standard_webhooks() {
        let standard = Scheme::named("standard").unwrap();
        assert!(Proof::new(standard, "whsec_not base64", Duration::ZERO).is_none());
        assert!(Proof::new(standard, "whsec_AAAA", Duration::ZERO).unwrap().is_weak());
        assert!(!Proof::new(standard, STANDARD.1, Duration::ZERO).unwrap().is_weak());
        assert!(!format!("{:?}", proof(STRIPE.0, STRIPE.1)).contains("secret of"), "a secret is never shown");
    }

    #[test]
    fn names_of_schemes_are_names_and_the_first_is_ours() {
        assert_eq!(SCHEMES[0].name, "staffai");
        for scheme in &SCHEMES {
            assert!(std::ptr::eq(Scheme::named(scheme.name).unwrap(), scheme));
            assert_eq!(scheme.header, scheme.header.to_lowercase(), "headers are looked up in small letters");
        }
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
            let knock = WebhookRequest { stamp: Some(stamp), delivery: None, body: body.as_bytes(), proof: signature };
            assert_eq!(hook().proof.check(knock, now), wanted, "{stamp} {body} {signature}");
        }
    }

    #[test]
    fn an_id_is_signed_too_and_says_alone_which_delivery_it_is() {
        let body = "{}";
        let told = |stamp: &'static str, delivery: Option<&'static str>, signature: &str| {
            let knock = WebhookRequest { stamp: Some(stamp), delivery, body: body.as_bytes(), proof: signature };
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
