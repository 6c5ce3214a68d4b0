//! `agent_call`: sends a question to another staffai server over its API. Servers are rows of the settings; a model
//! names a row and never an address.
//!
//! - Bounded recursion: each call carries the lineage of its turn, signed with this server's key at the callee, and a
//!   share of the remaining budget. The callee rejects a lineage that already contains it, is too deep, or has no
//!   budget left.
//! - One session per member and place at each callee; it continues over calls, turns and restarts.
//! - The callee's draft is reported as progress. If a call is cancelled or times out, the callee's turn is cancelled.

mod peer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

pub use self::peer::Row;
use self::peer::{Peer, Question};
use super::{BuiltInTool, arguments, reads, told};
use domain::hex::hex;
use domain::ids::{TurnId, millis};
use domain::lineage::{ChainBudget, ChainExhausted, Lineage, Message};
use domain::tool::{Annotations, CallError, OnBehalf, Tool, ToolKind, ToolRequest, ToolResult};
use ports::{Clock, ProgressSink};

/// Maximum length of a question, in bytes.
const TEXT_MAX: usize = 16 * 1024;
/// The number of turns whose remaining budgets are kept; the oldest is evicted first.
const TURNS_MAX: usize = 1_024;
/// Bytes of the hash that names a session.
const SESSION_BYTES: usize = 16;

/// Timeout of a health check.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that a server accepts the configured key.
///
/// # Errors
/// The reason why it does not, in the server's words if it gave any.
pub async fn try_out(row: Row) -> Result<(), String> {
    let peer = Peer::new(row);
    let late = |_| Err(format!("{} did not answer within {} s", peer.name(), TRY_TIMEOUT.as_secs()));
    timeout(TRY_TIMEOUT, peer.health()).await.unwrap_or_else(late)
}

/// The `agent_call` tool.
pub struct AgentCall {
    us: String,
    budget: ChainBudget,
    peers: Vec<Peer>,
    clock: Arc<dyn Clock>,
    left: Mutex<VecDeque<(TurnId, ChainBudget)>>,
}

#[derive(Deserialize)]
struct Arguments {
    agent: String,
    text: String,
}

impl AgentCall {
    /// Creates the tool for the server named `us`. `budget` is that of a turn that begins here; its time is the timeout
    /// of each call.
    #[must_use]
    pub fn new(us: String, budget: ChainBudget, rows: Vec<Row>, clock: Arc<dyn Clock>) -> Self {
        Self { us, budget, peers: rows.into_iter().map(Peer::new).collect(), clock, left: Mutex::default() }
    }

    async fn ask(
        &self,
        request: &ToolRequest,
        progress: Option<ProgressSink>,
    ) -> Result<Result<String, String>, CallError> {
        let Arguments { agent, text } = arguments(request)?;
        let Some(peer) = self.peers.iter().find(|peer| peer.name() == agent) else {
            let known: Vec<&str> = self.peers.iter().map(Peer::name).collect();
            return Ok(Err(format!("there is no agent {agent:?}; there are {}", known.join(", "))));
        };
        let Some(asked) = &request.on_behalf else {
            return Ok(Err("other agents can be asked only on behalf of a member".to_owned()));
        };
        if text.trim().is_empty() || text.len() > TEXT_MAX {
            return Ok(Err(format!("the text must have 1 to {TEXT_MAX} bytes")));
        }
        let within = request.deadline.min(peer.timeout());
        let lineage = match self.given_on(asked, millis(within)) {
            Ok(lineage) => lineage,
            Err(spent) => return Ok(Err(spent.to_string())),
        };
        let session = session(asked);
        let signed = lineage.signed(&peer.key(), Message { session: &session, text: &text });
        let question = Question { session: &session, text: &text, signed: &signed };
        let answered = timeout(within, peer.ask(question, progress)).await;
        Ok(answered
            .unwrap_or_else(|_| Err(format!("{agent} did not answer within {} s", within.as_secs_f32().round()))))
    }

    /// Returns the lineage of a call for this turn, with its share of the remaining budget.
    fn given_on(&self, asked: &OnBehalf, ms: u64) -> Result<Lineage, ChainExhausted> {
        let now = self.clock.now();
        let begun = asked.lineage.as_deref();
        let ms = begun.map_or(ms, |lineage| lineage.left_ms(now).min(ms));
        let lineage = begun.cloned().unwrap_or_else(|| Lineage::begin(&self.us, &asked.turn, self.budget, now));
        let turns = &mut *self.left.lock();
        if !turns.iter().any(|(turn, _)| *turn == asked.turn) {
            if turns.len() == TURNS_MAX {
                turns.pop_front();
            }
            // A chain that began elsewhere gets no more here than one that begins here.
            let ChainBudget { hops, calls, tokens, ms } = lineage.budget;
            let hops = hops.min(self.budget.hops);
            let budget =
                ChainBudget { hops, calls: calls.min(self.budget.calls), tokens: tokens.min(self.budget.tokens), ms };
            turns.push_back((asked.turn.clone(), budget));
        }
        let left = turns.iter_mut().find(|(turn, _)| *turn == asked.turn).map(|(_, left)| left);
        let share = left.ok_or(ChainExhausted::Calls)?.share(asked.tokens, ms)?;
        Ok(lineage.through(&self.us, share, now))
    }
}

/// The callee's session for one member in one place. The callee separates the sessions of different keys.
fn session(asked: &OnBehalf) -> String {
    let digest = Sha256::digest(format!("{}\0{}", asked.place, asked.person));
    format!("agent-{}", hex(&digest[..SESSION_BYTES]))
}

#[async_trait]
impl BuiltInTool for AgentCall {
    fn tool(&self) -> Tool {
        let about: Vec<String> = self.peers.iter().map(Peer::about).collect();
        let names: Vec<&str> = self.peers.iter().map(Peer::name).collect();
        let description = format!(
            "Ask another agent and get its answer. It remembers your earlier conversation. Agents:\n{}",
            about.join("\n")
        );
        let schema = json!({"type": "object", "required": ["agent", "text"], "additionalProperties": false, "properties": {
            "agent": {"type": "string", "enum": names, "description": "Who is asked"},
            "text": {"type": "string", "description": "The question or task, with all that is needed to answer it"},
        }});
        let annotations = Annotations {
            read_only: Some(false),
            destructive: Some(false),
            idempotent: Some(false),
            open_world: Some(true),
        };
        Tool { annotations, kind: ToolKind::Llm, ..reads("agent_call", &description, schema) }
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        self.call_showing(request, None).await
    }

    async fn call_showing(
        &self,
        request: &ToolRequest,
        progress: Option<ProgressSink>,
    ) -> Result<ToolResult, CallError> {
        Ok(told(self.ask(request, progress).await?))
    }
}
