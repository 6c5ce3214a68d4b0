//! Records the calls of one model row. The metric handles are looked up once, because a label look-up costs more than
//! all updates of one call.

use metrics::Histogram;

use domain::happening::ModelCalled;
use telemetry::metrics as names;

/// The metric handles of one row.
pub(super) struct RowMeter {
    input: Histogram,
    output: Histogram,
    succeeded: Histogram,
}

impl RowMeter {
    pub(super) fn of(row: &str) -> Self {
        Self { input: tokens(row, "input"), output: tokens(row, "output"), succeeded: took(row, None) }
    }

    /// Records a call: its duration, and its tokens if they are known.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(super) fn called(&self, call: &ModelCalled<'_>) {
        if let Some(usage) = call.usage() {
            self.input.record(usage.prompt as f64);
            self.output.record(usage.completion as f64);
        }
        match call.error() {
            None => self.succeeded.record(call.took),
            Some(error) => took(call.row, Some(error)).record(call.took),
        }
    }
}

fn tokens(row: &str, kind: &'static str) -> Histogram {
    let row = row.to_owned();
    metrics::histogram!(
        names::GEN_AI_CLIENT_TOKEN_USAGE,
        "gen_ai_operation_name" => "chat", "gen_ai_request_model" => row, "gen_ai_token_type" => kind,
    )
}

fn took(row: &str, error: Option<&'static str>) -> Histogram {
    let mut labels = vec![("gen_ai_operation_name", "chat".to_owned()), ("gen_ai_request_model", row.to_owned())];
    labels.extend(error.map(|error| ("error_type", error.to_owned())));
    metrics::histogram!(names::GEN_AI_CLIENT_OPERATION_DURATION_SECONDS, &labels)
}
