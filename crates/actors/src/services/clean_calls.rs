//! Connects a tool that calls a model to the task of its turn: only the task has the permissions, the account and the
//! deadline of the turn.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use domain::ids::TurnId;
use domain::model::Row;
use domain::tool::OnBehalf;
use ports::{CleanCalls, CleanQuestion};

/// A request of a tool to the task of its turn.
pub enum CleanRequest {
    /// Requests the rows that may be used.
    Rows(oneshot::Sender<Vec<Row>>),
    /// Requests the answer to a question.
    Answer(CleanQuestion, oneshot::Sender<Result<String, String>>),
}

/// One call of a tool: the turn, and the number of the call in the turn.
type Call = (TurnId, usize);

/// The running calls whose tools may call models; bounded by the limit of concurrent tool calls.
#[derive(Default)]
pub struct OpenCalls(Mutex<HashMap<Call, mpsc::Sender<CleanRequest>>>);

/// The receiving end of the requests of one call. Dropping it closes the call.
pub struct CleanDesk {
    calls: Arc<OpenCalls>,
    call: Call,
    wanted: mpsc::Receiver<CleanRequest>,
}

impl OpenCalls {
    /// Opens the channel for the requests of this call.
    #[must_use]
    pub fn open(self: &Arc<Self>, turn: &TurnId, number: usize) -> CleanDesk {
        let (sender, wanted) = mpsc::channel(1);
        let call = (turn.clone(), number);
        self.0.lock().insert(call.clone(), sender);
        CleanDesk { calls: Arc::clone(self), call, wanted }
    }

    async fn ask<T>(
        &self,
        asked: &OnBehalf,
        want: impl FnOnce(oneshot::Sender<T>) -> CleanRequest,
    ) -> Result<T, String> {
        const OVER: &str = "the turn of this call is over";
        let desk = self.0.lock().get(&(asked.turn.clone(), asked.call)).cloned();
        let (reply, answer) = oneshot::channel();
        desk.ok_or(OVER)?.send(want(reply)).await.map_err(|_| OVER)?;
        answer.await.map_err(|_| OVER.to_owned())
    }
}

impl CleanDesk {
    /// Returns the next request of the tool; `None` if there are no more.
    pub async fn next(&mut self) -> Option<CleanRequest> {
        self.wanted.recv().await
    }
}

impl Drop for CleanDesk {
    fn drop(&mut self) {
        self.calls.0.lock().remove(&self.call);
    }
}

#[async_trait]
impl CleanCalls for OpenCalls {
    async fn rows(&self, asked: &OnBehalf) -> Result<Vec<Row>, String> {
        self.ask(asked, CleanRequest::Rows).await
    }

    async fn ask(&self, asked: &OnBehalf, question: CleanQuestion) -> Result<String, String> {
        self.ask(asked, |reply| CleanRequest::Answer(question, reply)).await?
    }
}
