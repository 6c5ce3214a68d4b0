//! The figures of experiments.

use super::words::Words;
use super::{list, number, words};
use crate::arm_figures::ArmFigures;
use crate::experiment::Trial;
use crate::locale::Locale;
use crate::notice::report;

/// Maximum number of arms listed in [`experiments`].
const ARMS_SHOWN: usize = 32;

/// Shows the figures of experiments by arm, for operators. `None` if nothing was counted.
#[must_use]
pub fn experiments(arms: &[(Trial, ArmFigures)], locale: Locale) -> Option<String> {
    let words = words(locale);
    let line =
        |(trial, arm): &(Trial, ArmFigures)| format!("`{}` {}: {}", trial.experiment, trial.arm, figures(arm, words));
    let lines: Vec<String> = arms.iter().take(ARMS_SHOWN).map(line).collect();
    (!lines.is_empty()).then(|| list(words.experiments, &lines))
}

fn figures(arm: &ArmFigures, words: &Words) -> String {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let mut parts = vec![(words.answers)(count(arm.answers))];
    parts.extend((arm.apologies > 0).then(|| (words.apologies)(count(arm.apologies))));
    parts.extend((arm.repaired > 0).then(|| (words.repaired)(count(arm.repaired))));
    let seconds = |part| {
        let tenths = arm.took.percentile(part)?.div_ceil(100_000);
        Some(format!("{}.{}", tenths / 10, tenths % 10).chars().map(words.digit).collect::<String>())
    };
    parts.extend(seconds(50).zip(seconds(95)).map(|(half, most)| (words.took)(&half, &most)));
    parts.push((words.tokens)(&number(arm.tokens_in.saturating_add(arm.tokens_out), words)));
    if arm.micros > 0 {
        let more = if arm.unpriced > 0 { words.unpriced } else { "" };
        let cost: String = report::dollars(arm.micros).chars().map(words.digit).collect();
        parts.push(format!("{cost}{more}"));
    }
    parts.extend((arm.up > 0).then(|| format!("👍 {}", arm.up)));
    parts.extend((arm.down > 0).then(|| format!("👎 {}", arm.down)));
    parts.join(", ")
}
