//! One question of a replay.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use domain::attachment::Enclosed;
use domain::dialogue::{Dialogue, Event, Step};
use domain::ending::Ending;
use domain::ids::{Door, Place};
use domain::ledger;
use domain::model::Row;
use domain::prompt::{self, Prompts, Question, Scene};
use domain::reply::Schema;
use domain::turn::{Effort, ReplyContract};
use ports::{ModelErrorKind, Models};

/// The maximum time of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// The door of the questions: one that no member can use.
const DOOR: Door = Door::new("replay");

/// One side of a replay.
pub(super) struct Candidate {
    row: Row,
    profile: Option<String>,
}

/// The answer of one side to one question.
pub(super) struct Replayed {
    /// The text, or the reason for its absence.
    pub answer: Result<String, String>,
    /// The time of all calls.
    pub took: Duration,
    /// Their tokens and cost.
    pub effort: Effort,
    /// The number of repairs.
    pub repairs: u32,
}

impl Candidate {
    /// Returns the side with this row and this profile.
    ///
    /// # Errors
    /// Returns a sentence with the known names if one does not exist.
    pub(super) fn find(
        rows: &[Row],
        prompts: &Prompts,
        row: Option<&str>,
        profile: Option<&str>,
    ) -> Result<Self, String> {
        let found = rows.iter().find(|known| row.is_none_or(|row| known.key == row));
        let keys = || rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>().join(", ");
        let found = found.ok_or_else(|| format!("there is no such model row in force; there are {}", keys()))?;
        if let Some(profile) = profile.filter(|profile| !prompts.profiles.contains_key(*profile)) {
            let known: Vec<&str> = prompts.profiles.keys().map(String::as_str).collect();
            return Err(format!("there is no profile {profile:?}; there are {}", known.join(", ")));
        }
        Ok(Self { row: found.clone(), profile: profile.map(str::to_owned) })
    }

    /// Returns its name in the output.
    pub(super) fn label(&self) -> String {
        match &self.profile {
            Some(profile) => format!("{} ({profile})", self.row.key),
            None => self.row.key.clone(),
        }
    }
}

/// Asks one question, as a member without history would. Repairs are made as in a turn; other rows are not tried.
pub(super) async fn ask(
    models: &dyn Models,
    prompts: &Prompts,
    schema: Arc<Schema>,
    Candidate { row, profile }: &Candidate,
    text: &str,
) -> Replayed {
    let (place, none) = (Place::new(DOOR, "0"), Enclosed::default());
    let question = Question {
        scene: Scene { profile: profile.as_deref(), ..Scene::nobody(&place) },
        contract: ReplyContract::Typed,
        earlier: None,
        history: &[],
        referred: &[],
        quoted: None,
        quoted_files: &none,
        text,
        files: &none,
    };
    let mut dialogue = Dialogue::new(prompt::transcript(prompts, &question), ReplyContract::Typed, schema, None);
    let (begun, mut effort, mut event, mut repairs) = (Instant::now(), Effort::default(), Event::Begin, 0);
    let answer = loop {
        event = match dialogue.next(event) {
            Step::AskModel => {
                let (request, asked) = dialogue.request(row, false, None);
                match timeout(ANSWER_TIMEOUT, models.complete(&row.key, &request)).await {
                    Ok(Ok(completion)) => {
                        ledger::charge(&mut effort, row.price, completion.usage);
                        effort.usage += completion.usage;
                        Event::Completed(completion, asked)
                    }
                    Ok(Err(error)) if error.kind == ModelErrorKind::ContextOverflow => {
                        Event::Failed(Ending::Model(error.kind))
                    }
                    Ok(Err(error)) => break Err(format!("{}: {}", error.kind.as_str(), error.message)),
                    Err(_) => break Err("it took too long".to_owned()),
                }
            }
            Step::Finish(finished) => {
                repairs = finished.repairs;
                let parts = [finished.reply.response, finished.reply.data];
                break Ok(parts.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n"));
            }
            // No tools are offered.
            Step::RunTools(_) => break Err("it called a tool".to_owned()),
            Step::GiveUp(why) => break Err(why.as_str().to_owned()),
        };
    };
    Replayed { answer, took: begun.elapsed(), effort, repairs }
}
