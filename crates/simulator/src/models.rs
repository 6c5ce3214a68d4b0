//! Two models. They answer a question as its kind says, and record which questions they can read.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::chance::{Chance, Stream};
use super::history::{Kind, Number, Seen, token, tokens};
use super::outside::{Answer, Way};
use super::servers::{LOOK, PAY};
use super::swarm::Port;
use super::world::World;
use domain::completion::{Completion, Finish, Request, Role, ToolCall, Usage};
use domain::hosted::HostedUse;
use domain::model::Row;
use ports::{Delta, DeltaSink, ModelError, ModelErrorKind, Models};

/// The number of parts of a long answer; each is a message of its own.
pub const LONG_PARTS: u64 = 4;

/// The models.
pub struct SimulatedModels {
    world: Arc<World>,
    rows: Vec<Row>,
    chance: Chance,
}

impl SimulatedModels {
    /// Creates two rows, the second as the fallback of the first.
    #[must_use]
    pub fn new(world: &Arc<World>, seed: u64) -> Self {
        let timeout = Duration::from_secs(60);
        let stream = world.swarm.streams;
        let second = Row { stream, schema_with_tools: true, ..Row::new("second", timeout) };
        let first = Row { fallback: vec!["second".to_owned()], key: "first".to_owned(), ..second.clone() };
        Self {
            world: Arc::clone(world),
            rows: vec![first, second],
            // Each process has its own stream, so that it does not repeat the answers of the one before.
            chance: Chance::new(seed ^ world.elapsed(), Stream::Ports),
        }
    }

    async fn answer(&self, request: &Request, heard: Option<DeltaSink>) -> Result<Completion, ModelError> {
        let failed = |kind| ModelError::new(kind, "the model failed");
        let number = question(request);
        let users = request.messages.iter().filter(|item| item.role != Role::System);
        let all: Vec<Number> = users.flat_map(|item| tokens(&item.content)).collect();
        if let Some(number) = number {
            self.world.record(Seen::Prompted { number, all });
        }
        let fault = match self.world.enter(Port::Model).await {
            Way::Through(fault) => fault,
            Way::Refused => {
                let kinds = [ModelErrorKind::Provider, ModelErrorKind::Connection, ModelErrorKind::RateLimited];
                return Err(failed(kinds[usize::try_from(self.chance.below(3)).unwrap_or(0)]));
            }
            Way::TimedOut => return Err(failed(ModelErrorKind::Timeout)),
        };
        tokio::time::sleep(self.chance.millis(self.world.swarm.thinking)).await;
        let kind = number.and_then(|number| self.world.platform.kind_of(number));
        let completion = match number {
            Some(number) => completion(request, number, kind.unwrap_or(Kind::Plain)),
            // The bot asks for its status line.
            None => said(json!({ "type": "text", "response": "resting", "data": "" }).to_string()),
        };
        if let Some(heard) = heard {
            for piece in completion.content.as_bytes().chunks(16).filter_map(|piece| str::from_utf8(piece).ok()) {
                heard(Delta::Text(piece));
                tokio::time::sleep(self.chance.millis(self.world.swarm.thinking / 8 + 1)).await;
            }
        }
        match self.world.leave(fault).await {
            Answer::Arrives => Ok(completion),
            Answer::Lost => Err(failed(ModelErrorKind::Connection)),
        }
    }
}

/// Returns the question of a request: the newest one of the member.
fn question(request: &Request) -> Option<Number> {
    let users = request.messages.iter().filter(|item| item.role == Role::User);
    users.rev().find_map(|item| tokens(&item.content).last().copied())
}

fn completion(request: &Request, number: Number, kind: Kind) -> Completion {
    let called = request.messages.iter().any(|item| {
        item.calls.iter().any(|call| tokens(&call.arguments).contains(&number))
            // A row without the model's own form of calls gets them as text.
            || (item.content.contains("\"tool\"") && tokens(&item.content).contains(&number))
            || item.raw.as_ref().is_some_and(|raw| tokens(&raw.to_value()["called"].to_string()).contains(&number))
    });
    let wanted = match kind {
        Kind::Look if !called => Some(LOOK),
        Kind::Pay if !called => Some(PAY),
        Kind::Look | Kind::Pay | Kind::Plain | Kind::Long => None,
    };
    let tool = wanted.and_then(|wanted| request.tools.iter().find(|tool| tool.name.contains(wanted)));
    if let Some(tool) = tool {
        let arguments = json!({ "about": token(number) }).to_string();
        let call = ToolCall { id: format!("call-{number}"), name: tool.name.clone(), arguments };
        let raw = json!({ "called": token(number) }).into();
        return Completion { finish: Finish::ToolCalls, calls: vec![call], raw, ..said(String::new()) };
    }
    let text = match kind {
        // No two answers have a message in common.
        Kind::Long => {
            let words = format!("w{number:03} ").repeat(16);
            (0..LONG_PARTS).map(|part| format!("{} {words}", marker(number, part))).collect()
        }
        Kind::Plain | Kind::Look | Kind::Pay => marker(number, 0),
    };
    said(json!({ "type": "text", "response": text, "data": "" }).to_string())
}

/// The text that occurs once in the answer to a question.
#[must_use]
pub fn marker(number: Number, part: u64) -> String {
    format!("{}ans-{part}!", token(number))
}

fn said(content: String) -> Completion {
    let usage = Usage { prompt: 20, completion: 10, ..Usage::default() };
    Completion {
        content,
        refusal: None,
        calls: Vec::new(),
        finish: Finish::Stop,
        hosted: HostedUse::default(),
        usage,
        raw: json!({}).into(),
    }
}

#[async_trait]
impl Models for SimulatedModels {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    async fn complete(&self, _row: &str, request: &Request) -> Result<Completion, ModelError> {
        let late = || ModelError::new(ModelErrorKind::Timeout, "no answer");
        tokio::time::timeout(Duration::from_secs(60), self.answer(request, None)).await.map_err(|_| late())?
    }

    async fn stream(&self, _row: &str, request: &Request, heard: DeltaSink) -> Result<Completion, ModelError> {
        let late = || ModelError::new(ModelErrorKind::Timeout, "no answer");
        tokio::time::timeout(Duration::from_secs(60), self.answer(request, Some(heard))).await.map_err(|_| late())?
    }
}
