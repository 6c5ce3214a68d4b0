//! `[[llm.experiments]]`: members split between model rows or profiles of prompts.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::read;
use domain::experiment::{EXPERIMENTS_MAX, Experiment, Subject};

/// One `[[llm.experiments]]`: models or profiles.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentRow {
    #[serde(deserialize_with = "read::some_text")]
    name: String,
    /// The arms, each the key of a model row and its share of members in percent.
    #[serde(default, deserialize_with = "read::texts")]
    models: Vec<String>,
    /// The same with names of profiles.
    #[serde(default, deserialize_with = "read::texts")]
    profiles: Vec<String>,
}

/// Parses the rows.
pub fn rows<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Experiment>, D::Error> {
    let rows: Vec<ExperimentRow> = read::rows(deserializer)?;
    if rows.len() > EXPERIMENTS_MAX {
        return Err(D::Error::custom(format!("must have at most {EXPERIMENTS_MAX} rows")));
    }
    let mut all: Vec<Experiment> = Vec::with_capacity(rows.len());
    for (number, row) in (1..).zip(rows) {
        let experiment = read_row(row).map_err(|mistake| D::Error::custom(format!("row {number} {mistake}")))?;
        if all.iter().any(|other| other.name == experiment.name) {
            return Err(D::Error::custom(format!("row {number} has the name of another row; change one")));
        }
        all.push(experiment);
    }
    Ok(all)
}

fn read_row(ExperimentRow { name, models, profiles }: ExperimentRow) -> Result<Experiment, String> {
    match (models.is_empty(), profiles.is_empty()) {
        (false, true) => Experiment::new(&name, Subject::Models, &models),
        (true, false) => Experiment::new(&name, Subject::Profiles, &profiles),
        _ => Err("needs arms: set either models or profiles".to_owned()),
    }
}
