//! The real clock and the real dice.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::ids::Timestamp;
use ports::{Clock, Dice};

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one clock of the program")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The machine's chance.
pub struct SystemDice;

impl Dice for SystemDice {
    #[expect(clippy::disallowed_methods, reason = "this is the one source of chance of the program")]
    fn roll(&self) -> f64 {
        rand::random()
    }
}

/// Bits that nobody can guess, from the system's own source.
#[expect(clippy::disallowed_methods, reason = "this is the one source of chance of the program")]
pub fn random_bits<const BYTES: usize>() -> [u8; BYTES] {
    rand::random()
}

/// A token of 128 random bits that nobody can guess, from the system's own source.
#[cfg(feature = "playground")]
#[expect(clippy::disallowed_methods, reason = "this is the one source of chance of the program")]
pub fn random_token() -> secrecy::SecretString {
    format!("{:032x}", rand::random::<u128>()).into()
}
