//! Where a tool that has a model asked meets the task of the turn that called it: only the task knows the rights, the account and the
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

/// What a tool wants of the task of its turn.
pub enum Wanted {
    /// The rows that may be asked.
    Rows(oneshot::Sender<Vec<Row>>),
    /// The answer to a question.
    Answer(CleanQuestion, oneshot::Sender<Result<String, String>>),
}

/// One call of a tool: the turn, and the number of the call in it.
type Call = (TurnId, usize);

/// The calls under way whose tools may have models asked; no more than calls of tools run at a time.
#[derive(Default)]
pub struct OpenCalls(Mutex<HashMap<Call, mpsc::Sender<Wanted>>>);

/// The end of a call at which its turn hears what the tool wants. Dropping it closes the call.
pub struct Desk {
    calls: Arc<OpenCalls>,
    call: Call,
    wanted: mpsc::Receiver<Wanted>,
}

impl OpenCalls {
    /// From now on the tool of this call is heard.
    #[must_use]
    pub fn open(self: &Arc<Self>, turn: &TurnId, number: usize) -> Desk {
        let (sender, wanted) = mpsc::channel(1);
        let call = (turn.clone(), number);
        self.0.lock().insert(call.clone(), sender);
        Desk { calls: Arc::clone(self), call, wanted }
    }

    async fn ask<T>(&self, asked: &OnBehalf, want: impl FnOnce(oneshot::Sender<T>) -> Wanted) -> Result<T, String> {
        const OVER: &str = "the turn of this call is over";
        let desk = self.0.lock().get(&(asked.turn.clone(), asked.call)).cloned();
        let (reply, answer) = oneshot::channel();
        desk.ok_or(OVER)?.send(want(reply)).await.map_err(|_| OVER)?;
        answer.await.map_err(|_| OVER.to_owned())
    }
}

impl Desk {
    /// What the tool wants next; none when it wants nothing more.
    pub async fn next(&mut self) -> Option<Wanted> {
        self.wanted.recv().await
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.calls.0.lock().remove(&self.call);
    }
}

#[async_trait]
impl CleanCalls for OpenCalls {
    async fn rows(&self, asked: &OnBehalf) -> Result<Vec<Row>, String> {
        self.ask(asked, Wanted::Rows).await
    }

    async fn ask(&self, asked: &OnBehalf, question: CleanQuestion) -> Result<String, String> {
        self.ask(asked, |reply| Wanted::Answer(question, reply)).await?
    }
}
