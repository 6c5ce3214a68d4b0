//! The authentication schemes of webhooks, as rows of one table.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::WebhookRequest;
use crate::signature::{Signature, SigningKey};

/// The maximum number of proofs checked in one header.
const PROOFS_MAX: usize = 8;
/// The time for which a request is remembered if its time is not signed, or if its sender signs each retry anew.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A scheme: the positions of the proof's parts in a request, and the signed parts.
#[derive(Debug)]
pub struct Scheme {
    /// The name in settings.
    pub name: &'static str,
    /// The header with the proof.
    pub header: &'static str,
    /// The separator of several proofs in that header, any of which suffices; `None` for a single proof.
    between: Option<char>,
    /// The prefix of each proof.
    prefix: &'static str,
    form: Form,
    /// The position of the time of signing.
    time: Time,
    /// The header with the sender's id of the event, which is signed too.
    id: Id,
    /// The signed parts, in order.
    signed: &'static [Part],
    secret: SecretForm,
    /// The time for which a request is remembered beyond its turn; `None` if a second time stamp makes it another
    /// request.
    pub remembered: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// HMAC-SHA256 in hexadecimal.
    Hex,
    /// HMAC-SHA256 in base64.
    Base64,
    /// The secret itself.
    Token,
}

/// The position of the time of signing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// No time is signed.
    Absent,
    /// A separate header.
    Header(&'static str),
    /// The text after these characters in the header with the proofs.
    Field(&'static str),
}

/// The header with the sender's id of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    /// No id is signed.
    Absent,
    /// An optional header.
    Optional(&'static str),
    /// A required header.
    Required(&'static str),
}

/// A part of the signed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The time as received, and a full stop.
    Time,
    /// The id and a full stop, if there is an id.
    Id,
    /// The body.
    Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretForm {
    /// The unchanged text.
    Text,
    /// Bytes in base64, after this prefix.
    Base64(&'static str),
}

/// All schemes. The first one is the project's own and the default.
pub static SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "staffai",
        header: "x-staffai-signature",
        between: None,
        prefix: "v1=",
        form: Form::Hex,
        time: Time::Header("x-staffai-timestamp"),
        id: Id::Optional("x-staffai-delivery"),
        signed: &[Part::Time, Part::Id, Part::Body],
        secret: SecretForm::Text,
        remembered: None,
    },
    // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    Scheme {
        name: "github",
        header: "x-hub-signature-256",
        between: None,
        prefix: "sha256=",
        form: Form::Hex,
        time: Time::Absent,
        id: Id::Absent,
        signed: &[Part::Body],
        secret: SecretForm::Text,
        remembered: Some(REMEMBERED),
    },
    // https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    Scheme {
        name: "standard",
        header: "webhook-signature",
        between: Some(' '),
        prefix: "v1,",
        form: Form::Base64,
        time: Time::Header("webhook-timestamp"),
        id: Id::Required("webhook-id"),
        signed: &[Part::Id, Part::Time, Part::Body],
        secret: SecretForm::Base64("whsec_"),
        remembered: Some(REMEMBERED),
    },
    // https://docs.gitlab.com/user/project/integrations/webhooks/
    Scheme {
        name: "gitlab",
        header: "x-gitlab-token",
        between: None,
        prefix: "",
        form: Form::Token,
        time: Time::Absent,
        id: Id::Absent,
        signed: &[],
        secret: SecretForm::Text,
        remembered: Some(REMEMBERED),
    },
    // https://docs.stripe.com/webhooks#verify-manually
    Scheme {
        name: "stripe",
        header: "stripe-signature",
        between: Some(','),
        prefix: "v1=",
        form: Form::Hex,
        time: Time::Field("t="),
        id: Id::Absent,
        signed: &[Part::Time, Part::Body],
        secret: SecretForm::Text,
        remembered: Some(REMEMBERED),
    },
];

impl Scheme {
    /// Returns the scheme of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SCHEMES.iter().find(|scheme| scheme.name == name)
    }

    /// Returns the secret as bytes; `None` if its form does not fit the scheme.
    #[must_use]
    pub fn secret(&self, text: &str) -> Option<Vec<u8>> {
        match self.secret {
            SecretForm::Text => Some(text.as_bytes().to_vec()),
            SecretForm::Base64(prefix) => STANDARD.decode(text.strip_prefix(prefix).unwrap_or(text)).ok(),
        }
    }

    /// Returns the request as described by its headers, without its body.
    #[must_use]
    pub fn knock<'a>(&self, header: impl Fn(&str) -> Option<&'a str>) -> WebhookRequest<'a> {
        let proof = header(self.header).unwrap_or_default();
        let stamp = match self.time {
            Time::Absent => None,
            Time::Header(name) => header(name),
            Time::Field(mark) => self.fields(proof).find_map(|field| field.strip_prefix(mark)),
        };
        let delivery = match self.id {
            Id::Absent => None,
            Id::Optional(name) | Id::Required(name) => header(name),
        };
        WebhookRequest { stamp, delivery, body: &[], proof }
    }

    /// True if requests contain the time of signing.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.time != Time::Absent
    }

    /// True if requests must contain an id.
    #[must_use]
    pub const fn needs_id(&self) -> bool {
        matches!(self.id, Id::Required(_))
    }

    /// True if one of the proofs has the form of the scheme.
    #[must_use]
    pub fn is_formed(&self, proof: &str) -> bool {
        self.proofs(proof).any(|text| match self.form {
            Form::Hex => Signature::of_hex(text).is_some(),
            Form::Base64 => Signature::of_base64(text).is_some(),
            Form::Token => !text.is_empty(),
        })
    }

    /// True if the proof is the secret itself, so that it can be checked before the body is read.
    #[must_use]
    pub fn is_token(&self) -> bool {
        self.form == Form::Token
    }

    /// True if a request was authenticated with this secret. Each comparison takes constant time.
    #[must_use]
    pub fn fits(&self, knock: WebhookRequest<'_>, secret: &[u8], key: &SigningKey) -> bool {
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(2 * self.signed.len());
        for part in self.signed {
            match part {
                Part::Time => pieces.extend([knock.stamp.unwrap_or_default().as_bytes(), b"."]),
                Part::Id => pieces.extend(knock.delivery.into_iter().flat_map(|id| [id.as_bytes(), b"."])),
                Part::Body => pieces.push(knock.body),
            }
        }
        let signed = |signature: Option<Signature>| signature.is_some_and(|found| key.signed(&pieces, &found));
        self.proofs(knock.proof).any(|text| match self.form {
            Form::Hex => signed(Signature::of_hex(text)),
            Form::Base64 => signed(Signature::of_base64(text)),
            Form::Token => key.same(text.as_bytes(), secret),
        })
    }

    fn fields<'a>(&self, proof: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let between = self.between;
        proof.split(move |c| Some(c) == between).map(str::trim).take(PROOFS_MAX)
    }

    fn proofs<'a>(&self, proof: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let prefix = self.prefix;
        self.fields(proof).filter_map(move |field| field.strip_prefix(prefix))
    }
}
