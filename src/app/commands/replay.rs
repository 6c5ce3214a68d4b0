//! `staffai replay`: asks questions of two model rows or prompts, and prints both answers of each with their time,
//! tokens and cost. Questions come from a file or from the recorded set. No tools are offered, and nothing is stored.

mod asking;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use self::asking::{Candidate, Replayed};
use crate::app::commands::operating::{self, Failed};
use crate::app::commands::reading::{self, Reading};
use crate::app::commands::tools::harmless;
use crate::app::drain::STORE_TIMEOUT;
use crate::app::{Cli, exit, files, rows, setting_files};
use actors::services::recorded;
use domain::notice::report::{dollars, grouped};
use domain::recorded::{QUESTION_CHARS, RECORDED_MAX};
use llm::client::Client;
use ports::Models;
use settings::Loaded;

/// The options of a replay.
#[derive(Debug, Clone, Args)]
pub(crate) struct Of {
    /// A file of questions, one JSON object per line, such as `{"question": "..."}`. Default: the recorded questions.
    file: Option<PathBuf>,
    /// The model row to try. Default: the default row.
    #[arg(long, value_name = "ROW")]
    model: Option<String>,
    /// The profile of prompts to try. Default: the general prompts.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The model row to compare with. Default: the default row.
    #[arg(long, value_name = "ROW")]
    base_model: Option<String>,
    /// The profile of prompts to compare with. Default: the general prompts.
    #[arg(long, value_name = "NAME")]
    base_profile: Option<String>,
    /// The maximum number of questions.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    most: usize,
}

/// A line of a file of questions; other fields are ignored.
#[derive(Deserialize)]
struct QuestionLine {
    question: String,
}

/// Asks the questions and prints the answers.
pub(crate) async fn run(cli: &Cli, of: &Of) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    match replay(&loaded, of).await {
        Ok(code) => code,
        Err((why, code)) => {
            eprintln!("{why}");
            code
        }
    }
}

async fn replay(loaded: &Loaded, of: &Of) -> Result<u8, Failed> {
    let usage = |mistakes: Vec<String>| (mistakes.join("\n"), exit::USAGE);
    let settings = &loaded.settings;
    let prompts = setting_files::prompts(settings).map_err(usage)?;
    let schema = setting_files::schema(settings).map_err(|mistake| usage(vec![mistake]))?;
    let (registry, _) = rows::configured(settings, &reading::lookup(loaded)).map_err(usage)?;
    let client = Client::new(registry).map_err(|mistake| usage(vec![mistake]))?;
    let named = [(&of.base_model, &of.base_profile), (&of.model, &of.profile)];
    let mut candidates = Vec::with_capacity(named.len());
    for (row, profile) in named {
        candidates.push(
            Candidate::find(client.rows(), &prompts, row.as_deref(), profile.as_deref())
                .map_err(|mistake| usage(vec![mistake]))?,
        );
    }
    let [base, tried] = &candidates[..] else { return Ok(exit::USAGE) };
    if base.label() == tried.label() {
        return Err(usage(vec!["both sides are the same; name another --model or --profile".to_owned()]));
    }
    let questions = questions(loaded, of).await?;
    if questions.is_empty() {
        return Err(("there are no questions; name a file, or set replay.channels".to_owned(), exit::NEGATIVE));
    }
    let (mut sums, mut same) = ([Sums::default(), Sums::default()], 0);
    for (number, question) in (1..).zip(&questions) {
        let ask = |candidate| asking::ask(&client, &prompts, Arc::clone(&schema), candidate, question);
        let (before, after) = tokio::join!(ask(base), ask(tried));
        say!("{number}. {}", harmless(question));
        for ((candidate, answer), sums) in [(base, &before), (tried, &after)].into_iter().zip(&mut sums) {
            say!("   {}: {}", candidate.label(), harmless(&shown(answer)));
            sums.add(answer);
        }
        same += usize::from(before.answer.is_ok() && before.answer == after.answer);
    }
    say!("of {} questions, {same} have the same answer", questions.len());
    for (candidate, sums) in [base, tried].into_iter().zip(&mut sums) {
        say!("{}: {}", candidate.label(), sums.shown());
    }
    let failed = sums.iter().any(|sums| sums.failed > 0);
    Ok(if failed { exit::NEGATIVE } else { exit::FINE })
}

/// Reads the questions: of the file, of the running service, or of the store.
async fn questions(loaded: &Loaded, of: &Of) -> Result<Vec<String>, Failed> {
    let most = of.most.min(RECORDED_MAX);
    let text = match &of.file {
        Some(path) => {
            let text = files::read(path).map_err(|mistake| (mistake, exit::USAGE))?;
            text.ok_or_else(|| (format!("{}: does not exist", path.display()), exit::USAGE))?
        }
        None if operating::service_runs(loaded).await => {
            operating::ask_service(loaded, "recorded questions", "/api/v1/recorded", &[]).await?.text().await?
        }
        None => {
            let store = operating::open_store(&loaded.settings).await?;
            let questions = recorded::questions(&*store).await;
            store.close(STORE_TIMEOUT).await;
            return Ok(questions.into_iter().take(most).collect());
        }
    };
    read(&text, most).map_err(|mistake| (mistake, exit::USAGE))
}

/// Parses the lines of a file of questions.
fn read(text: &str, most: usize) -> Result<Vec<String>, String> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).take(most);
    let question = |(number, line): (usize, &str)| {
        let QuestionLine { question } = serde_json::from_str(line).map_err(|error| {
            format!("line {number}: {error}; write one JSON object, such as {{\"question\": \"...\"}}")
        })?;
        Ok(question.chars().take(QUESTION_CHARS).collect())
    };
    lines.map(question).collect()
}

/// Returns an answer in one line.
fn shown(Replayed { answer, took, effort, repairs }: &Replayed) -> String {
    let cost = if effort.micros > 0 { format!(", {}", dollars(effort.micros)) } else { String::new() };
    let repaired = if *repairs > 0 { ", repaired" } else { "" };
    let (tokens_in, tokens_out) = (grouped(effort.usage.prompt), grouped(effort.usage.completion));
    let figures = format!("{} s, {tokens_in} + {tokens_out} tokens{cost}{repaired}", seconds(*took));
    match answer {
        Ok(text) => format!("({figures}) {}", text.split_whitespace().collect::<Vec<_>>().join(" ")),
        Err(why) => format!("({figures}) no answer: {why}"),
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1}", took.as_secs_f64())
}

/// The sums of one side.
#[derive(Default)]
struct Sums {
    took: Vec<Duration>,
    failed: usize,
    repaired: usize,
    tokens: u64,
    micros: u64,
}

impl Sums {
    fn add(&mut self, Replayed { answer, took, effort, repairs }: &Replayed) {
        self.took.push(*took);
        self.failed += usize::from(answer.is_err());
        self.repaired += usize::from(*repairs > 0);
        self.tokens = self.tokens.saturating_add(effort.usage.total());
        self.micros = self.micros.saturating_add(effort.micros);
    }

    fn shown(&mut self) -> String {
        self.took.sort_unstable();
        let half = self.took.get(self.took.len() / 2).copied().unwrap_or_default();
        let (failed, repaired) = (self.failed, self.repaired);
        let (tokens, cost) = (grouped(self.tokens), dollars(self.micros));
        format!(
            "{failed} without an answer, {repaired} repaired, half within {} s, {tokens} tokens, {cost}",
            seconds(half)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_json_lines_and_a_mistake_names_its_line() {
        let text = "{\"question\": \"a\", \"note\": 1}\n\n{\"question\": \"b\"}\n{\"question\": \"c\"}";
        assert_eq!(read(text, 2).unwrap(), ["a", "b"]);
        let mistake = read("{\"question\": \"a\"}\nwhat?", 9).unwrap_err();
        assert!(mistake.starts_with("line 2: ") && mistake.contains("such as"), "{mistake}");
    }
}
