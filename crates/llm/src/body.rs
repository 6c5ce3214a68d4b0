//! Bounds and parsing of response bodies, streamed or whole.

use ports::{ModelError, ModelErrorKind};
use serde_json::Value;

use crate::bounds::{ANSWER_BYTES, LONG_ANSWER, check_values};
use crate::budget::Reservation;
use crate::provider_error;

/// The longest run of white space in an answer. A model that loops in JSON mode emits only white space; keep-alive
/// bytes of proxies stay far below.
pub const BLANK_RUN: usize = 64 * 1024;

/// Counts consecutive white space, literal or escaped in JSON text.
#[derive(Default)]
pub struct Blanks {
    run: usize,
    escaped: bool,
}

impl Blanks {
    /// Checks a piece of an answer.
    ///
    /// # Errors
    /// The run of white space exceeds [`BLANK_RUN`].
    pub fn check(&mut self, piece: &[u8]) -> Result<(), ModelError> {
        if self.run_away_in(piece) {
            let message = format!("more than {BLANK_RUN} blanks in a row in the answer");
            return Err(ModelError::new(ModelErrorKind::Malformed, message));
        }
        Ok(())
    }

    pub fn run_away_in(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            let blank = match byte {
                b'\\' if !self.escaped => {
                    self.escaped = true;
                    continue;
                }
                b'n' | b'r' | b't' => self.escaped,
                byte => byte.is_ascii_whitespace(),
            };
            self.escaped = false;
            self.run = if blank { self.run + 1 } else { 0 };
            if self.run > BLANK_RUN {
                return true;
            }
        }
        false
    }
}

/// Parses a successful body of at most `most` values, on a blocking thread if it is long.
pub async fn whole(body: Vec<u8>, most: usize, held: &mut Reservation) -> Result<Value, ModelError> {
    if body.len() <= LONG_ANSWER {
        return parsed(&body, most);
    }
    held.parse().await;
    let parsing = tokio::task::spawn_blocking(move || parsed(&body, most));
    parsing.await.map_err(|_| ModelError::new(ModelErrorKind::Malformed, "the answer could not be parsed"))?
}

/// Parses a body and rejects one that is not a completion: not JSON, not an object, or an error. One with more than
/// `most` values is rejected unparsed.
pub fn parsed(body: &[u8], most: usize) -> Result<Value, ModelError> {
    check_values(body, most)?;
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        ModelError::new(ModelErrorKind::Malformed, format!("the answer is not usable JSON: {error}"))
    })?;
    if let Some(provider_error) = provider_error::inside(&value) {
        let what = "an error inside a successful answer";
        return Err(provider_error::model_error(ModelErrorKind::Provider, what, &provider_error));
    }
    if value.is_object() {
        Ok(value)
    } else {
        Err(ModelError::new(ModelErrorKind::Malformed, "the answer is not a JSON object"))
    }
}

/// Returns the error for an answer larger than [`ANSWER_BYTES`].
pub fn too_large() -> ModelError {
    ModelError::new(ModelErrorKind::TooLarge, format!("the answer is larger than {ANSWER_BYTES} bytes"))
}
