//! The first setup from the page: the questions, tests and file of `staffai init`.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use secrecy::ExposeSecret;
use tokio::task::spawn_blocking;

use crate::app::commands::check;
use crate::app::commands::init::{self, QUESTIONS, Question};
use crate::app::commands::reading::Reading;
use crate::app::{configured, files};
use playground::setup::{Finding, Outcome, Part, Setup, Typed};
use settings::sources::ENV_FILE;
use settings::{Examined, dotenv};
use telemetry::Redaction;

/// The number of questions about Discord; the others are about the model.
const OF_DISCORD: usize = 1;

/// Tests and writes settings of `staffai run`, which the playground itself does not use.
pub(super) struct FirstSetup {
    reading: Reading,
    /// The secrets that the log of the playground masks.
    redaction: Redaction,
}

impl FirstSetup {
    /// Creates it for the files and the log of the playground.
    pub(super) fn new(playground: &Reading) -> Self {
        Self { reading: playground.of_service(), redaction: playground.redaction.clone() }
    }
}

/// Reads the file: its text, and its variables.
async fn file() -> Result<(String, BTreeMap<String, String>), String> {
    let read = spawn_blocking(|| files::read(Path::new(ENV_FILE))).await.map_err(|error| error.to_string())?;
    let text = read?.unwrap_or_default();
    let values = dotenv::parse(&text, &BTreeMap::new()).values;
    Ok((text, values.into_iter().map(|(name, (value, _))| (name, value)).collect()))
}

#[async_trait]
impl Setup for FirstSetup {
    async fn set(&self) -> Result<Vec<String>, String> {
        let (_, values) = file().await?;
        let set = |question: &&Question| values.get(question.variable).is_some_and(|value| !value.is_empty());
        Ok(QUESTIONS.iter().filter(set).map(|question| question.variable.to_owned()).collect())
    }

    async fn set_up(&self, typed: Typed) -> Result<Outcome, String> {
        self.redaction.add(&typed.values);
        let (text, before) = file().await?;
        let questions = match typed.part {
            Part::Discord => &QUESTIONS[..OF_DISCORD],
            Part::Model => &QUESTIONS[OF_DISCORD..],
        };
        let mut answers = Vec::with_capacity(questions.len());
        for (question, value) in questions.iter().zip(&typed.values) {
            let value = value.expose_secret().trim();
            let kept = before.get(question.variable).filter(|_| value.is_empty());
            let answer = kept.map_or(value, String::as_str).to_owned();
            question.check(&answer)?;
            answers.push((question, answer));
        }
        let reading = self.reading.clone();
        let examining = spawn_blocking(move || (init::examined(&reading, &answers), answers));
        let (Examined { loaded, problems, .. }, answers) = examining.await.map_err(|error| error.to_string())?;
        let Some(loaded) = loaded.filter(|_| problems.is_empty()) else {
            return Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        };
        let report = match typed.part {
            Part::Discord => check::of_discord(&loaded).await,
            Part::Model => check::of_model(&loaded).await,
        };
        let mut secrets = configured::secrets(&loaded.settings);
        secrets.extend(typed.values);
        let finding = |(part, status, text)| Finding { part, status, text };
        let findings = report.rows(&secrets).into_iter().map(finding).collect();
        let good = report.wrong() == 0;
        if good {
            spawn_blocking(move || init::write(&text, &answers))
                .await
                .map_err(|error| error.to_string())?
                .map_err(|why| why.to_string())?;
        }
        Ok(Outcome { findings, written: good })
    }
}
