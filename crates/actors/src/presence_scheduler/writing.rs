//! Writes one status line with a model: one spare permit, one attempt for each row, and the row's fallbacks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Written;
use crate::messages::llm_dispatcher::{Lease, LlmDispatcherMsg, NoModel, Priority, Report, Summary};
use crate::runtime::handle::Handle;
use crate::services::running::Running;
use domain::completion::{Completion, Request};
use domain::happening::CallPurpose;
use domain::ledger;
use domain::presence::{self, ActivityKind};
use domain::reply::{Schema, salvage};
use domain::turn::Effort;

/// The timeout of the dispatcher's reply; the request is not queued.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of rows tried for one line.
const ROWS_MAX: usize = 8;
/// The largest completion that is parsed for a line, in bytes: parsing blocks the task of the scheduler.
const CONTENT_BYTES_MAX: usize = 4 * 1024;

/// Writes a line of this kind that differs from the earlier ones.
pub(super) async fn write(
    running: &Running,
    dispatcher: &Handle<LlmDispatcherMsg>,
    kind: ActivityKind,
    earlier: &[Arc<str>],
) -> (Written, Effort) {
    let mut effort = Effort::default();
    let messages = presence::transcript(&running.prompts, kind, earlier);
    let request = Request { messages, form: Some(running.schema.form()), ..Request::default() };
    let mut tried: Vec<String> = Vec::new();
    while tried.len() < ROWS_MAX {
        let lease = match permit(dispatcher, &tried).await {
            Ok(lease) => lease,
            Err(NoModel::Busy) => return (Written::Busy, effort),
            Err(NoModel::Exhausted | NoModel::Open(_)) => return (Written::Nothing, effort),
        };
        let row = lease.row.key.clone();
        let begun = Instant::now();
        let result = running.models.complete(&row, &request).await;
        drop(lease);
        let summary = result.as_ref().map(Summary::from).map_err(Clone::clone);
        let (row_asked, took) = (row.clone(), begun.elapsed());
        let report = Report {
            turn: None,
            purpose: CallPurpose::StatusLine,
            person: None,
            row: row_asked,
            tries: 1,
            took,
            streamed: None,
            result: summary,
        };
        // A dispatcher that restarts loses the counts of this row; a full one uses the row's other reports.
        dispatcher.tell(LlmDispatcherMsg::Report(report));
        match result {
            Ok(completion) => {
                effort.usage += completion.usage;
                ledger::charge(&mut effort, running.price(&row), completion.usage);
                let line = words(&running.schema, &completion).and_then(|words| presence::line(kind, &words));
                return (line.map_or(Written::Nothing, Written::Line), effort);
            }
            Err(_) => tried.push(row),
        }
    }
    (Written::Nothing, effort)
}

async fn permit(dispatcher: &Handle<LlmDispatcherMsg>, tried: &[String]) -> Result<Lease, NoModel> {
    let tried = tried.to_vec();
    let ask =
        |reply| LlmDispatcherMsg::Acquire { row: None, among: Vec::new(), tried, priority: Priority::Spare, reply };
    // A dispatcher that is down or overloaded has no spare permits.
    dispatcher.call(ask, ACQUIRE_TIMEOUT).await.unwrap_or(Err(NoModel::Busy))
}

/// Returns the text of the reply, or the readable part of an answer in another form.
fn words(schema: &Schema, completion: &Completion) -> Option<String> {
    if completion.refusal.is_some() || completion.content.len() > CONTENT_BYTES_MAX {
        return None;
    }
    let reply = schema.read(&completion.content).ok().map(|reply| reply.response);
    reply.or_else(|| salvage::plain_text(&completion.content))
}
