//! Signatures by a shared secret: HMAC-SHA256, as text.

use std::fmt;
use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How a signature begins: the scheme that it was made by.
const SCHEME: &str = "v1=";
/// Hexadecimal digits of one.
const DIGITS: usize = 64;

/// A secret that messages are signed with: it never shows in logs or errors.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// The key of a secret.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        // HMAC takes keys of every length.
        Self(Hmac::new_from_slice(secret.as_bytes()).unwrap_or_else(|_| Hmac::new(&[0; 64].into())))
    }

    /// The signature of these pieces, one behind the other.
    #[must_use]
    pub fn sign(&self, pieces: &[&[u8]]) -> String {
        let mut text = SCHEME.to_owned();
        for byte in self.over(pieces).finalize().into_bytes() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Whether this is their signature. It takes as long whatever differs.
    #[must_use]
    pub fn signed(&self, pieces: &[&[u8]], signature: &Signature) -> bool {
        self.over(pieces).verify_slice(&signature.0).is_ok()
    }

    fn over(&self, pieces: &[&[u8]]) -> Hmac<Sha256> {
        pieces.iter().fold(self.0.clone(), Mac::chain_update)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// A signature that somebody sent.
pub struct Signature([u8; DIGITS / 2]);

impl Signature {
    /// Reads `v1=` and 64 hexadecimal digits; none when it is no signature.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(SCHEME).filter(|digits| digits.len() == DIGITS)?;
        let digit =
            |at: usize| char::from(digits.as_bytes()[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0; DIGITS / 2];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = digit(2 * index)? << 4 | digit(2 * index + 1)?;
        }
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_signature() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac 'a secret of this story'
        let known = "v1=54787a5e147ebb075d535fe95c7c7fc875fc483d857100a20ad56d4097141782";
        let key = SigningKey::new("a secret of this story");
        assert_eq!(key.sign(&[b"1700000000", b".", b"{}"]), known);
        let read = Signature::read(known).unwrap();
        assert!(key.signed(&[b"1700000000.{}"], &read));
        assert!(!key.signed(&[b"1700000000.{ }"], &read));
        assert!(!SigningKey::new("another").signed(&[b"1700000000.{}"], &read));
        assert_eq!(format!("{key:?}"), "SigningKey(..)");
    }

    #[test]
    fn what_is_no_signature_is_not_read() {
        for bad in
            ["", "v1=", "v1=00", &"0".repeat(67), &format!("v1={}", "g".repeat(64)), &format!("v1={}", "ä".repeat(32))]
        {
            assert!(Signature::read(bad).is_none(), "{bad}");
        }
    }
}
