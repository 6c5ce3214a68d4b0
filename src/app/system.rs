//! The system clock and the system's random source.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::ids::Timestamp;
use ports::{Clock, Dice};

/// The system clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one clock of the program")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The system's random source.
pub struct SystemDice;

impl Dice for SystemDice {
    #[expect(clippy::disallowed_methods, reason = "this is the one source of chance of the program")]
    fn roll(&self) -> f64 {
        rand::random()
    }
}

/// Returns unpredictable bits from the system's random source.
#[expect(clippy::disallowed_methods, reason = "this is the one source of chance of the program")]
pub fn random_bits<const BYTES: usize>() -> [u8; BYTES] {
    rand::random()
}

/// Returns an unpredictable token of 128 bits from the system's random source.
#[cfg(feature = "playground")]
#[expect(clippy::disallowed_methods, reason = "this is the one source of chance of the program")]
pub fn random_token() -> secrecy::SecretString {
    format!("{:032x}", rand::random::<u128>()).into()
}
