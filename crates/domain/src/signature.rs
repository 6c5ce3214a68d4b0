//! Signatures by a shared secret: HMAC-SHA256, as text.

use std::fmt;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The prefix of a signature, which names its scheme.
const SCHEME: &str = "v1=";
/// The number of hexadecimal digits in a signature.
const DIGITS: usize = 64;

/// A secret for signatures. It never appears in logs or errors.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Creates the key of a text secret.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self::of_bytes(secret.as_bytes())
    }

    /// Creates the key of a binary secret.
    #[must_use]
    pub fn of_bytes(secret: &[u8]) -> Self {
        // HMAC accepts keys of any length.
        Self(Hmac::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&[0; 64].into())))
    }

    /// Returns the signature of these pieces, concatenated.
    #[must_use]
    pub fn sign(&self, pieces: &[&[u8]]) -> String {
        let mut text = SCHEME.to_owned();
        for byte in self.over(pieces).finalize().into_bytes() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// True if this is their signature. The comparison takes constant time.
    #[must_use]
    pub fn signed(&self, pieces: &[&[u8]], signature: &Signature) -> bool {
        self.over(pieces).verify_slice(&signature.0).is_ok()
    }

    /// True if both texts are equal. They are compared by their signatures in constant time.
    #[must_use]
    pub fn same(&self, text: &[u8], other: &[u8]) -> bool {
        let other = self.over(&[other]).finalize().into_bytes();
        self.over(&[text]).verify_slice(&other).is_ok()
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

/// A received signature.
pub struct Signature([u8; DIGITS / 2]);

impl Signature {
    /// Parses `v1=` and 64 hexadecimal digits; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::of_hex(text.strip_prefix(SCHEME)?)
    }

    /// Parses 64 hexadecimal digits; `None` for anything else.
    #[must_use]
    pub fn of_hex(digits: &str) -> Option<Self> {
        if digits.len() != DIGITS {
            return None;
        }
        let digit =
            |at: usize| char::from(digits.as_bytes()[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0; DIGITS / 2];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = digit(2 * index)? << 4 | digit(2 * index + 1)?;
        }
        Some(Self(bytes))
    }

    /// Parses a signature in base64; `None` for anything else.
    #[must_use]
    pub fn of_base64(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Self)
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
        assert!(key.same(b"a token", b"a token") && !key.same(b"a token", b"a token ") && !key.same(b"", b"a token"));
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
