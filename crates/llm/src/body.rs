//! What holds for the body of any answer, streamed or whole: its bounds, runs of blanks, and the one parse of it.

use ports::{ModelError, ModelErrorKind};
use serde_json::Value;

use crate::provider_error;

/// The largest answer that is read. The longest real ones are a tenth of this.
pub const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The longest run of blanks in an answer. A model that runs away in JSON mode writes nothing else; keep-alive blanks of
/// proxies stay far below.
pub const BLANK_RUN: usize = 64 * 1024;

/// A longer answer, in bytes, is parsed on a thread of its own: no task holds a core for as long as that may take.
pub const LONG_ANSWER: usize = 64 * 1024;

/// Counts blanks in a row: bare ones, and the escaped ones inside a JSON text.
#[derive(Default)]
pub struct Blanks {
    run: usize,
    escaped: bool,
}

impl Blanks {
    /// Takes in a piece of an answer.
    ///
    /// # Errors
    /// The model has run away.
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

/// The one parse of a successful body. Long ones are parsed on a thread for blocking work.
pub async fn whole(body: Vec<u8>) -> Result<Value, ModelError> {
    if body.len() <= LONG_ANSWER {
        return parsed(&body);
    }
    let parsing = tokio::task::spawn_blocking(move || parsed(&body));
    parsing.await.map_err(|_| ModelError::new(ModelErrorKind::Malformed, "the answer could not be parsed"))?
}

/// Refuses a successful body that is not a completion: not JSON, not an object, or an error after all.
pub fn parsed(body: &[u8]) -> Result<Value, ModelError> {
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

/// The failure of an answer beyond [`ANSWER_BYTES`].
pub fn too_large() -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, format!("the answer is larger than {ANSWER_BYTES} bytes"))
}
