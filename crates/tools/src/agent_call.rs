//! `agent_call`: asks another staffai server, as a program with a key asks one. Servers are rows of the settings; a model names a row and
//! never an address.
//!
//! Each call carries the lineage of its turn, signed with our key at the callee, with a share of what is left of its budget; the callee
//! refuses what went through it before, is too deep, or has nothing left. Whoever asks here has one session at each callee, which goes on
//! over calls, turns and restarts. What the callee writes is shown as progress while it writes; when a call is given up, the callee's
//! turn is cancelled.

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
use domain::lineage::{Budget, Lineage, Message, Spent};
use domain::tool::{Annotations, CallError, OnBehalf, Tool, ToolKind, ToolRequest, ToolResult};
use ports::{Clock, ProgressSink};

/// The longest question, in bytes.
const TEXT_MAX: usize = 16 * 1024;
/// The most turns of which it is remembered what they gave on; the oldest one is forgotten first.
const TURNS_MAX: usize = 1_024;
/// Bytes of the hash that a session is named by.
const SESSION_BYTES: usize = 16;

/// How long a server may take to say how it is.
const TRIED_WITHIN: Duration = Duration::from_secs(10);

/// Whether a server takes our key, in its words where it does not.
///
/// # Errors
/// Why it cannot be asked.
pub async fn try_out(row: Row) -> Result<(), String> {
    let peer = Peer::new(row);
    let late = |_| Err(format!("{} gave no answer within {} s", peer.name(), TRIED_WITHIN.as_secs()));
    timeout(TRIED_WITHIN, peer.health()).await.unwrap_or_else(late)
}

/// The tool.
pub struct AgentCall {
    us: String,
    budget: Budget,
    peers: Vec<Peer>,
    clock: Arc<dyn Clock>,
    left: Mutex<VecDeque<(TurnId, Budget)>>,
}

/// Its arguments.
#[derive(Deserialize)]
struct Arguments {
    agent: String,
    text: String,
}

impl AgentCall {
    /// Asks these servers for the server of this name. A turn that began here has this budget, whose time is that of each call.
    #[must_use]
    pub fn new(us: String, budget: Budget, rows: Vec<Row>, clock: Arc<dyn Clock>) -> Self {
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
            return Ok(Err("other agents are asked for members alone, not by hand".to_owned()));
        };
        if text.trim().is_empty() || text.len() > TEXT_MAX {
            return Ok(Err(format!("the text has 1 to {TEXT_MAX} bytes")));
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
            .unwrap_or_else(|_| Err(format!("{agent} gave no answer within {} s", within.as_secs_f32().round()))))
    }

    /// The lineage of a call for this turn, with its share of what is left.
    fn given_on(&self, asked: &OnBehalf, ms: u64) -> Result<Lineage, Spent> {
        let now = self.clock.now();
        let begun = asked.lineage.as_deref();
        let ms = begun.map_or(ms, |lineage| lineage.left_ms(now).min(ms));
        let lineage = begun.cloned().unwrap_or_else(|| Lineage::begin(&self.us, &asked.turn, self.budget, now));
        let turns = &mut *self.left.lock();
        if !turns.iter().any(|(turn, _)| *turn == asked.turn) {
            if turns.len() == TURNS_MAX {
                turns.pop_front();
            }
            // No chain has more here than one that begins here.
            let Budget { hops, calls, tokens, ms } = lineage.budget;
            let hops = hops.min(self.budget.hops);
            let budget =
                Budget { hops, calls: calls.min(self.budget.calls), tokens: tokens.min(self.budget.tokens), ms };
            turns.push_back((asked.turn.clone(), budget));
        }
        let left = turns.iter_mut().find(|(turn, _)| *turn == asked.turn).map(|(_, left)| left);
        let share = left.ok_or(Spent::Calls)?.share(asked.tokens, ms)?;
        Ok(lineage.through(&self.us, share, now))
    }
}

/// The session at a callee of whoever asks here: that of one person in one place. The callee keeps those of each key apart.
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
            "Ask another agent and get its answer. It remembers what was said between you before. Agents:\n{}",
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
