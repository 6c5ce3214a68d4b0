//! The arithmetic of the benchmark's figures.

/// Converts a count to floating point.
#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
pub const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Returns the percentile for a share of 0 to 1.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = share * as_f64(sorted.len() as u64 - 1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among them")]
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

pub fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

pub fn quartiles(values: &[f64]) -> (f64, f64, f64) {
    (percentile(values, 0.25), median(values), percentile(values, 0.75))
}

/// Formats the minimum, the quartiles and the maximum.
pub fn spread(values: &[f64]) -> String {
    let (low, _, high) = quartiles(values);
    let [least, most] = [0.0, 1.0].map(|share| percentile(values, share));
    format!("[{} {} {} {}]", plain(least), plain(low), plain(high), plain(most))
}

/// Formats a number with a sensible number of digits.
pub fn plain(value: f64) -> String {
    match value.abs() {
        big if big >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
