//! The state of single turns, by the events of their session.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;

use super::Parts;
use crate::sessions::SessionMessage;
use crate::wire::{Event, Update};
use domain::ending::{Dropped, OverLimit};
use domain::ids::{Place, Timestamp};
use domain::turn_event::{NoAnswer, TurnUpdate};
use ports::{Reading, TurnEventLog, TurnEventReader};

/// The end of a turn for a waiting client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// Answered.
    Complete,
    /// An apology.
    Error,
    /// Ended without an answer.
    Cancelled,
    /// Still in progress; its events continue.
    Timeout,
    /// A limit of the key refused it.
    OverLimit,
}

/// Returns the turns that a place's stream mentions after this number.
pub(super) fn turns(events: &dyn TurnEventLog, place: &Place, mut after: u64) -> HashSet<String> {
    let mut turns = HashSet::new();
    while let Some(batch) = events.read(place, after).filter(|batch| !batch.events.is_empty()) {
        for event in batch.events {
            after = event.number;
            turns.insert(event.turn.id.to_string());
        }
    }
    turns
}

/// Returns the answered turns of a transcript, in order: the message, the text, and true for an apology. A long answer
/// consists of several messages.
pub(super) fn answers(lines: &[SessionMessage]) -> Vec<(&str, String, bool)> {
    let mut answered: Vec<(&str, String, bool)> = Vec::new();
    for (turn, text, apology) in lines.iter().filter_map(SessionMessage::answer) {
        match answered.last_mut() {
            Some((known, whole, _)) if *known == turn => {
                whole.push('\n');
                whole.push_str(text);
            }
            _ => answered.push((turn, text.to_owned(), apology)),
        }
    }
    answered
}

/// Returns the end of an accepted turn whose events the stream lacks: an earlier process ended it, so its answer is in
/// the transcript. `None` if the stream has its events, or if the turn may be open: a stream is bounded, and its oldest
/// events leave it.
pub(super) async fn earlier(parts: &Parts, place: &Place, message: &str) -> Option<(Status, String)> {
    if turns(&*parts.events, place, 0).contains(message) {
        return None;
    }
    let lines = parts.sessions.transcript(place).await;
    let answer = answers(&lines).into_iter().rfind(|(turn, ..)| *turn == message);
    match answer {
        Some((_, text, apology)) => Some((if apology { Status::Error } else { Status::Complete }, text)),
        None if parts.sessions.may_be_open(message).await => None,
        None => Some((Status::Cancelled, String::new())),
    }
}

/// Awaits the end of a turn, and returns its last text; for a refusal by a limit, its notice or else the limit.
pub(super) async fn end(
    events: &Arc<dyn TurnEventLog>,
    place: &Place,
    message: &str,
    within: Duration,
    now: impl Fn() -> Timestamp,
) -> (Status, String) {
    let (mut status, mut text) = (Status::Cancelled, String::new());
    let reading = async {
        let mut after = 0;
        // A reader that missed events is cut off, and resumes after them.
        while let Some(mut reader) = TurnEventReader::new(Arc::clone(events), place.clone(), after) {
            while let Some(reading) = reader.next().await {
                let event = match reading {
                    Reading::Event(event) => event,
                    Reading::Missed(number) => {
                        after = number;
                        continue;
                    }
                };
                after = event.number;
                if event.turn.id != message {
                    continue;
                }
                let limit = refused_by(&event.update);
                match Event::of(&event, now()).update {
                    Update::Final { text: said } => (status, text) = (Status::Complete, said),
                    Update::Apology { text: said } => {
                        (status, text) = (limit.map_or(Status::Error, |_| Status::OverLimit), said);
                    }
                    Update::Done { unanswered: Some(_) } => {
                        // The text so far is retracted.
                        (status, text) = match limit {
                            Some(limit) => (Status::OverLimit, format!("this key is over its {}", limit.as_str())),
                            None => (Status::Cancelled, String::new()),
                        };
                        return;
                    }
                    Update::Done { unanswered: None } => return,
                    _ => {}
                }
            }
        }
    };
    if timeout(within, reading).await.is_err() { (Status::Timeout, text) } else { (status, text) }
}

const fn refused_by(update: &TurnUpdate) -> Option<OverLimit> {
    match update {
        TurnUpdate::Apology { why: NoAnswer::OverLimit(limit), .. }
        | TurnUpdate::Done { unanswered: Some(Dropped::OverLimit(limit)) } => Some(*limit),
        _ => None,
    }
}
