//! Clean calls: a tool requests a model call on behalf of the turn, without access to the conversation. They take the
//! path of the turn itself, so the turn's rules, limits, account and deadline apply. Their text is never shown as an
//! answer, remembered, or presented for approval. Pictures from tools in clean calls are posted with the answer, like
//! those of the turn's own calls.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::{DialogueEnd, TurnTask, Work};
use crate::messages::deadline::Deadline;
use crate::services::clean_calls::CleanRequest;
use domain::completion::{Item, Role};
use domain::dialogue::Dialogue;
use domain::history::History;
use domain::model::{Row, ToolMode};
use domain::preferences;
use domain::tool::catalogue::{Catalogue, CatalogueEntry};
use domain::tool::choice::LaneTools;
use domain::tool::round::CallAllowance;
use domain::tool::selection::Index;
use domain::tool::turn_tools::{Available, TurnTools};
use domain::tool::view::View;
use domain::tool::{Source, ToolKind};
use domain::turn::{GatePolicy, HistoryScope, Outcome, Policy, ReplyContract, Turn};
use ports::{CleanQuestion, ProgressSink};

/// The maximum nesting depth of clean calls.
const DEPTH_MAX: u32 = 2;

/// The prompt for a model that receives tools for a task.
const TASK: &str =
    "Do the task with the tools that you have, and answer with what came of it. You cannot ask questions.";

/// True for a tool of this program that delegates work to other models.
fn delegates(entry: &CatalogueEntry) -> bool {
    entry.tool.source == Source::BuiltIn && entry.tool.kind == ToolKind::Llm
}

impl TurnTask<'_> {
    /// Runs a call, and serves the model calls that its tool requests.
    pub(super) async fn serving<T>(
        &self,
        number: usize,
        within: Duration,
        progress: Option<ProgressSink>,
        call: impl Future<Output = T>,
    ) -> T {
        let mut desk = self.parts.tools.clean_calls.open(&self.turn.id, number);
        // The deadline of the call is fixed: text that a model writes in it does not extend it.
        let until = Deadline::fixed((Instant::now() + within).min(self.deadline.at()));
        let mut call = pin!(call);
        loop {
            let wanted = tokio::select! {
                biased;
                done = &mut call => return done,
                Some(wanted) = desk.next() => wanted,
            };
            tokio::select! {
                biased;
                done = &mut call => return done,
                () = self.give(wanted, until.clone(), progress.clone()) => {}
            }
        }
    }

    async fn give(&self, wanted: CleanRequest, until: Deadline, watcher: Option<ProgressSink>) {
        // The reply of a tool that was given up is dropped.
        match wanted {
            CleanRequest::Rows(reply) => drop(reply.send(self.rows().cloned().collect())),
            CleanRequest::Answer(question, reply) => {
                drop(reply.send(self.clean_call(question, until, watcher).await));
            }
        }
    }

    /// Returns the rows that the operator provides for clean calls and that the member may use.
    fn rows(&self) -> impl Iterator<Item = &Row> {
        let settings = &self.running.settings;
        let (given, among) = (&settings.agents.models, &self.turn.policy.among);
        let theirs = if among.is_empty() { &settings.members.models } else { among };
        let rows = preferences::allowed(self.running.models.rows(), theirs);
        rows.into_iter().filter(|row| given.iter().any(|key| *key == row.key || key == "*"))
    }

    /// True if a row currently accepts tools.
    fn takes_tools(&self, row: &str) -> bool {
        let models = &self.running.models;
        let is_off = |known: &Row| known.key == row && known.tools == ToolMode::Off;
        !models.rows().iter().any(is_off) && models.takes_tools(row)
    }

    /// Returns the answer to a question, or the reason why there is none.
    fn clean_call(
        &self,
        question: CleanQuestion,
        until: Deadline,
        watcher: Option<ProgressSink>,
    ) -> BoxFuture<'_, Result<String, String>> {
        let asked = async move {
            let CleanQuestion { row, text, tools } = question;
            if !self.rows().any(|known| known.key == row) {
                let keys: Vec<&str> = self.rows().map(|row| row.key.as_str()).collect();
                return Err(match keys.as_slice() {
                    [] => "there is no other model to ask".to_owned(),
                    keys => format!("there is no model {row:?} to ask; there are: {}", keys.join(", ")),
                });
            }
            if self.depth >= DEPTH_MAX {
                return Err("a model that was asked like this asks no further one".to_owned());
            }
            if !tools.is_empty() && !self.takes_tools(&row) {
                return Err(format!("{row} takes no tools; llm_list names the models that do"));
            }
            let offered = self.offered_alone(&tools, &text).await?;
            let mut transcript = vec![Item::new(Role::User, text.clone())];
            if offered.is_some() {
                transcript.insert(0, Item::new(Role::System, TASK));
            }
            let turn = apart(self.turn, &row, text);
            let task = TurnTask {
                turn: &turn,
                tally: &self.tally.beside(),
                deadline: &until,
                tools: self.tools.clone(),
                depth: self.depth + 1,
                watcher,
                facts: OnceCell::new(),
                ..*self
            };
            let schema = Arc::clone(&self.running.schema);
            let dialogue = Dialogue::new(transcript.into(), ReplyContract::Plain, schema, offered);
            let nothing = (History::default(), self.parts.facts.forgotten().now());
            match task.work(dialogue, Work::Asking, nothing).await {
                DialogueEnd::Answer(answer) => match (answer.outcome, answer.exchange) {
                    (Outcome::Apologised(why), _) => Err(format!("{row} gave no answer: {}", why.as_str())),
                    (_, exchange) => Ok(exchange.map(|exchange| exchange.answered).unwrap_or_default()),
                },
                DialogueEnd::Wait(_) => Err(format!("{row} gave no answer")),
            }
        };
        asked.boxed()
    }

    /// Returns the tools of these names that the caller may see; `None` if there are no names. The innermost call gets
    /// no tool that requests further model calls.
    async fn offered_alone(&self, names: &[String], question: &str) -> Result<Option<TurnTools>, String> {
        if names.is_empty() {
            return Ok(None);
        }
        let innermost = self.depth + 1 >= DEPTH_MAX;
        let may = |entry: &CatalogueEntry| self.tools.access.sees(entry) && !(innermost && delegates(entry));
        let all = &self.tools.set.catalogue;
        if let Some(unknown) = names.iter().find(|name| !all.get(name).is_some_and(|entry| may(entry))) {
            return Err(format!("there is no tool {unknown:?} to give: name tools that you have yourself"));
        }
        let catalogue = Arc::new(Catalogue::of(names.iter().filter_map(|name| all.get(name)).cloned()));
        let settings = &self.running.settings.tools;
        let available = Available {
            index: Arc::new(Index::new(&catalogue)),
            view: Arc::new(View::of(&catalogue, &[])),
            catalogue,
            access: Arc::clone(&self.tools.access),
            outlined: self.outlined().await,
            lane: LaneTools::default(),
            built_in_always: true,
            prompt_bytes: self.running.settings.tools.prompt_bytes,
        };
        let left = settings.max_calls.saturating_sub(self.tools.called());
        match TurnTools::new(available, CallAllowance::new(settings.max_rounds, left), question) {
            None => Err("no more tool calls are allowed in this answer".to_owned()),
            tools => Ok(tools),
        }
    }
}

/// Returns the turn in a form that asks one row separately.
fn apart(turn: &Turn, row: &str, text: String) -> Turn {
    let Turn { policy, .. } = turn.clone();
    let (reply, history, gates) = (ReplyContract::Plain, HistoryScope::Given, GatePolicy::Deny);
    let (model, among) = (Some(row.to_owned()), vec![row.to_owned()]);
    Turn { policy: Policy { reply, history, model, among, gates, ..policy }, text, given: None, ..turn.clone() }
}
