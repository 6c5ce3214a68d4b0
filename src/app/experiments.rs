//! Checks of the arms of experiments.

use domain::experiment::{PLACE_PROMPTS, Subject};
use domain::prompt::Prompts;
use llm::registry::Registry;
use settings::Settings;

/// Returns a mistake for each arm whose model row or profile does not exist. Parts that could not be read are not
/// checked. A member whose arm is a disabled row is outside of the experiment.
pub(crate) fn unknown_arms(
    settings: &Settings,
    (prompts, registry): (Option<&Prompts>, Option<&Registry>),
) -> Vec<String> {
    let mut mistakes = Vec::new();
    for experiment in &settings.llm.experiments {
        let (kind, known): (_, Option<Vec<&str>>) = match experiment.subject {
            Subject::Models => (
                "model row",
                registry.map(|registry| {
                    let rows = registry.rows().iter().map(|row| row.key.as_str());
                    rows.chain(registry.off().iter().map(|row| row.key.as_str())).collect()
                }),
            ),
            Subject::Profiles => (
                "profile",
                prompts.map(|prompts| prompts.profiles.keys().map(String::as_str).chain([PLACE_PROMPTS]).collect()),
            ),
        };
        let Some(known) = known else { continue };
        for arm in experiment.arms.iter().filter(|arm| !known.contains(&arm.name.as_str())) {
            let (name, arm) = (&experiment.name, &arm.name);
            mistakes
                .push(format!("llm.experiments, {name}: there is no {kind} {arm:?}; there are {}", known.join(", ")));
        }
    }
    mistakes
}
