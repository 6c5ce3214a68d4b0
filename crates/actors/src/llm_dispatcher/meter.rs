//! What is measured of the calls of one row. The handles are looked up once: a turn makes a call, and each look-up of labels costs
//! more than all that is counted under them.

use std::time::Duration;

use metrics::Histogram;

use domain::completion::Usage;

/// The handles of one row.
pub(super) struct Meter {
    row: String,
    input: Histogram,
    output: Histogram,
    succeeded: Histogram,
}

impl Meter {
    pub(super) fn of(row: &str) -> Self {
        Self {
            row: row.to_owned(),
            input: tokens(row, "input"),
            output: tokens(row, "output"),
            succeeded: took(row, None),
        }
    }

    /// Counts the tokens of a call.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(super) fn used(&self, usage: Usage) {
        self.input.record(usage.prompt as f64);
        self.output.record(usage.completion as f64);
    }

    /// Counts a call that took so long; `error` is the type of its failure.
    pub(super) fn ended(&self, after: Duration, error: Option<&'static str>) {
        match error {
            None => self.succeeded.record(after),
            Some(error) => took(&self.row, Some(error)).record(after),
        }
    }
}

fn tokens(row: &str, kind: &'static str) -> Histogram {
    let row = row.to_owned();
    metrics::histogram!(
        "gen_ai_client_token_usage",
        "gen_ai_operation_name" => "chat", "gen_ai_request_model" => row, "gen_ai_token_type" => kind,
    )
}

fn took(row: &str, error: Option<&'static str>) -> Histogram {
    let mut labels = vec![("gen_ai_operation_name", "chat".to_owned()), ("gen_ai_request_model", row.to_owned())];
    labels.extend(error.map(|error| ("error_type", error.to_owned())));
    metrics::histogram!("gen_ai_client_operation_duration_seconds", &labels)
}
