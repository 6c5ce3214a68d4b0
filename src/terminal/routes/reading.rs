//! A reader of the events of a session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use serde::Deserialize;

use super::problem::refused;
use super::submit::{Leaving, Stop};
use super::{Parts, waiting};
use crate::domain::api_key::Caller;
use crate::domain::ids::{Place, Timestamp};
use crate::domain::turn_event::{TurnEvent, TurnUpdate};
use crate::ports::{Reading, TurnEventLog, TurnEventReader};
use crate::terminal::sessions::Sessions;
use crate::terminal::wire::{Event, Update};

/// The header in which a client that comes back names the last event that it has.
const LAST_EVENT_ID: &str = "last-event-id";
/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The most answers of an earlier life that a reader who missed something is told again.
const AGAIN_MAX: usize = 10;

/// Where a reader was, and what becomes of open turns when it goes away.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    /// The number of the last event that it has.
    #[serde(default)]
    after: u64,
    /// The turns that it reads and that are open are cancelled.
    #[serde(default)]
    cancel_when_gone: bool,
}

pub(super) async fn read_along(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    (stop, Path(session)): (Stop, Path<String>),
    wanted: Result<Query<Wanted>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let Ok(Query(Wanted { after, cancel_when_gone })) = wanted else {
        return refused(StatusCode::BAD_REQUEST, "after is a number, and cancel_when_gone true or false");
    };
    // A browser that connects again names the last event that it has.
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.unwrap_or(after);
    let unknown = || refused(StatusCode::NOT_FOUND, "there is no such session; say something first");
    let Some(found) = parts.sessions.find(&caller, &session).await else { return unknown() };
    // In this life of the process nothing may have happened in it yet.
    parts.events.open(&found.place);
    let Some(reader) = TurnEventReader::new(Arc::clone(&parts.events), found.place.clone(), after) else {
        return unknown();
    };
    let leaving = cancel_when_gone.then(|| Leaving::cancels(&parts.intake, Vec::new(), stop));
    let Parts { sessions, events, .. } = parts;
    let along = Along { sessions, events, place: found.place, reader, leaving, again: VecDeque::new() };
    Sse::new(told(along)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// A reader, and what it still has to be told.
struct Along {
    sessions: Arc<Sessions>,
    events: Arc<dyn TurnEventLog>,
    place: Place,
    reader: TurnEventReader,
    leaving: Option<Leaving>,
    /// Events that come before what is read next.
    again: VecDeque<Event>,
}

impl Along {
    async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.again.pop_front() {
            return Some(event);
        }
        let event = match self.reader.next().await {
            Some(Reading::Event(event)) => written(event, self.sessions.now()).await?,
            None => {
                // A reader that is cut did not go.
                self.leaving.iter_mut().for_each(Leaving::stays);
                return None;
            }
            Some(Reading::Missed(number)) => {
                self.again = self.answers(number).await;
                Event::missed(number)
            }
        };
        if let Some(leaving) = &mut self.leaving {
            match event.update {
                Update::Accepted => leaving.add(&event.turn),
                Update::Done => leaving.over(&event.turn),
                _ => {}
            }
        }
        Some(event)
    }

    /// The last answers that the stream does not tell of, for a reader who missed events: among them may be the one that it waited for. They have the number of what
    /// was missed last, so whoever comes back with it misses nothing.
    async fn answers(&self, number: u64) -> VecDeque<Event> {
        let lines = self.sessions.transcript(&self.place).await;
        let mut answered: Vec<(&str, String)> = Vec::new();
        for (turn, text) in lines.iter().filter_map(|line| line.answer()) {
            match answered.last_mut() {
                // A long answer is several messages.
                Some((known, whole)) if *known == turn => {
                    whole.push('\n');
                    whole.push_str(text);
                }
                _ => answered.push((turn, text.to_owned())),
            }
        }
        // What happened in this life of the process is read anyway.
        let told = waiting::turns(&*self.events, &self.place, number);
        answered.retain(|(turn, _)| !told.contains(*turn));
        let skipped = answered.len().saturating_sub(AGAIN_MAX);
        let told = |(turn, text): (&str, String)| {
            let event = |update| Event { number, turn: turn.to_owned(), update };
            [event(Update::Final { text }), event(Update::Done)]
        };
        answered.into_iter().skip(skipped).flat_map(told).collect()
    }
}

/// The events that the reader reads, in order, until the stream ends or the reader is cut.
fn told(along: Along) -> impl Stream<Item = Result<SseEvent, axum::Error>> + Send {
    stream::unfold(along, |mut along| async {
        let event = along.next().await?;
        let data = SseEvent::default().id(event.number.to_string()).json_data(&event);
        Some((data, along))
    })
}

/// The event as it is sent. A whole answer may be long, and is laid out on a thread for blocking work.
async fn written(event: Arc<TurnEvent>, now: Timestamp) -> Option<Event> {
    match event.update {
        TurnUpdate::Final { .. } | TurnUpdate::Apology { .. } => {
            tokio::task::spawn_blocking(move || Event::of(&event, now)).await.ok()
        }
        _ => Some(Event::of(&event, now)),
    }
}
