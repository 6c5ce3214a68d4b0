//! Streams the events of a session.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::problem::refused;
use super::submit::{Leaving, Stop};
use super::{Parts, waiting};
use crate::sessions::Sessions;
use crate::wire::{Event, Update};
use domain::api_key::{Caller, Proven};
use domain::ids::{Place, Timestamp};
use domain::turn_event::{TurnEvent, TurnUpdate};
use ports::{Reading, TurnEventLog, TurnEventReader};

/// The header in which a reconnecting client names its last event.
const LAST_EVENT_ID: &str = "last-event-id";
/// Interval of keep-alive comments in a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Maximum number of cached serialized answers.
const LAID_OUT_MAX: usize = 64;
/// Maximum number of answers of an earlier process that are sent again to a reader who missed events.
const AGAIN_MAX: usize = 10;

/// The reader's position, and the handling of open turns when it disconnects.
#[derive(Debug, Deserialize)]
pub(super) struct ReadPosition {
    /// The number of its last event.
    #[serde(default)]
    after: u64,
    /// True to cancel the open turns that it reads.
    #[serde(default)]
    cancel_when_gone: bool,
}

pub(super) async fn read_along(
    State(parts): State<Parts>,
    (Extension(caller), Extension(proven), Extension(answers)): (
        Extension<Caller>,
        Extension<Proven>,
        Extension<Answers>,
    ),
    (stop, Path(session)): (Stop, Path<String>),
    wanted: Result<Query<ReadPosition>, QueryRejection>,
    (method, headers): (Method, HeaderMap),
) -> Response {
    let Ok(Query(ReadPosition { after, cancel_when_gone })) = wanted else {
        return refused(StatusCode::BAD_REQUEST, "after must be a number, and cancel_when_gone true or false");
    };
    // Any page can make a browser send a GET, so cancellation needs a proof.
    if cancel_when_gone && method != Method::POST && !proven.0 {
        let why = "cancel_when_gone needs a bearer key with GET; without one, send the same as POST";
        return refused(StatusCode::FORBIDDEN, why);
    }
    // Reconnecting browsers name their last event in a header.
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.unwrap_or(after);
    let unknown = || refused(StatusCode::NOT_FOUND, "there is no such session; say something first");
    let Some(found) = parts.sessions.find(&caller, &session).await else { return unknown() };
    // The session may have no events in this process yet.
    parts.events.open(&found.place);
    let Some(reader) = TurnEventReader::new(Arc::clone(&parts.events), found.place.clone(), after) else {
        return unknown();
    };
    let leaving = cancel_when_gone.then(|| Leaving::cancels(&parts.intake, Vec::new(), stop));
    let Parts { sessions, events, .. } = parts;
    let along = Along { sessions, events, answers, place: found.place, reader, leaving, again: VecDeque::new() };
    Sse::new(told(along)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// A reader and its pending events.
struct Along {
    sessions: Arc<Sessions>,
    events: Arc<dyn TurnEventLog>,
    answers: Answers,
    place: Place,
    reader: TurnEventReader,
    leaving: Option<Leaving>,
    /// Events to send before reading on.
    again: VecDeque<Event>,
}

impl Along {
    /// Returns the next event: its number, and its JSON.
    async fn next(&mut self) -> Option<(u64, Arc<str>)> {
        if let Some(event) = self.again.pop_front() {
            return Some((event.number, json(&event)));
        }
        let event = match self.reader.next().await {
            Some(Reading::Event(event)) => match event.update {
                TurnUpdate::Final { .. } | TurnUpdate::Apology { .. } => {
                    let number = event.number;
                    return Some((number, self.answers.laid_out(event, self.sessions.now()).await?));
                }
                _ => self.shortened(Event::of(&event, self.sessions.now())).await,
            },
            None => {
                // A reader that the service cuts off did not disconnect.
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
                Update::Done { .. } => leaving.over(&event.turn),
                _ => {}
            }
        }
        Some((event.number, json(&event)))
    }

    /// Truncates a tool call's text to the preview length of this session.
    async fn shortened(&self, mut event: Event) -> Event {
        if let Update::Tool { text, .. } = &mut event.update
            && let Some(whole) = text.take()
        {
            let most = self.sessions.preview(&self.place).await;
            *text = match whole.char_indices().nth(most) {
                _ if most == 0 => None,
                Some((end, _)) => Some(format!("{}…", &whole[..end])),
                None => Some(whole),
            };
        }
        event
    }

    /// Returns the last answers that the stream no longer contains, for a reader who missed events and may await one of
    /// them. They have the number of the last missed event, so that a reader who resumes there misses nothing.
    async fn answers(&self, number: u64) -> VecDeque<Event> {
        let lines = self.sessions.transcript(&self.place).await;
        let mut answered = waiting::answers(&lines);
        // Turns of this process are in the stream.
        let told = waiting::turns(&*self.events, &self.place, number);
        answered.retain(|(turn, ..)| !told.contains(*turn));
        let skipped = answered.len().saturating_sub(AGAIN_MAX);
        let told = |(turn, text, apology): (&str, String, bool)| {
            let event = |update| Event { number, turn: turn.to_owned(), update };
            let end = if apology { Update::Apology { text } } else { Update::Final { text } };
            [event(end), event(Update::DONE)]
        };
        answered.into_iter().skip(skipped).flat_map(told).collect()
    }
}

/// Returns the reader's events in order, until the stream ends or the reader is cut off.
fn told(along: Along) -> impl Stream<Item = Result<SseEvent, Infallible>> + Send {
    stream::unfold(along, |mut along| async {
        let (number, event) = along.next().await?;
        Some((Ok(SseEvent::default().id(number.to_string()).data(event)), along))
    })
}

fn json(event: &Event) -> Arc<str> {
    // Plain data with string keys always serializes.
    serde_json::to_string(event).unwrap_or_default().into()
}

/// A cache of serialized answers: a long answer is serialized once for all readers.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<VecDeque<LaidOut>>>);

struct LaidOut {
    event: Weak<TurnEvent>,
    /// The first reader serializes it, on a thread for blocking work. `None` for an answer with a countdown, which
    /// differs for each reader.
    text: Arc<OnceCell<Option<Arc<str>>>>,
}

impl Answers {
    async fn laid_out(&self, event: Arc<TurnEvent>, now: Timestamp) -> Option<Arc<str>> {
        let cell = self.cell(&event);
        let lay = {
            let event = Arc::clone(&event);
            move || {
                let (event, lasting) = Event::laid_out(&event, now);
                lasting.then(|| json(&event))
            }
        };
        if let Some(text) = cell.get_or_try_init(|| tokio::task::spawn_blocking(lay)).await.ok()? {
            return Some(Arc::clone(text));
        }
        tokio::task::spawn_blocking(move || json(&Event::of(&event, now))).await.ok()
    }

    fn cell(&self, event: &Arc<TurnEvent>) -> Arc<OnceCell<Option<Arc<str>>>> {
        let mut kept = self.0.lock();
        // Answers without readers are evicted.
        kept.retain(|known| known.event.strong_count() > 0);
        if let Some(known) = kept.iter().find(|known| known.event.as_ptr() == Arc::as_ptr(event)) {
            return Arc::clone(&known.text);
        }
        if kept.len() == LAID_OUT_MAX {
            kept.pop_front();
        }
        let text = Arc::default();
        kept.push_back(LaidOut { event: Arc::downgrade(event), text: Arc::clone(&text) });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DOOR;
    use domain::ids::{MessageId, TurnId};
    use domain::outgoing::Part;
    use domain::turn::Effort;

    fn answer(text: &str) -> Arc<TurnEvent> {
        let parts = [Part::Text { text: text.to_owned() }].as_slice().into();
        let update = TurnUpdate::Final { parts, effort: Effort::default() };
        Arc::new(TurnEvent { number: 1, turn: TurnId::of(&MessageId::new(DOOR, "9")), update })
    }

    #[tokio::test]
    async fn an_answer_is_laid_out_once_unless_it_counts_down_to_a_moment() {
        let answers = Answers::default();
        let read = async |event: &Arc<TurnEvent>, second: u64| {
            answers.laid_out(Arc::clone(event), Timestamp(second * 1_000)).await.unwrap()
        };
        let (plain, counting) = (answer("hello"), answer("again <t:60:R>"));
        assert!(Arc::ptr_eq(&read(&plain, 1).await, &read(&plain, 50).await));
        assert!(read(&counting, 10).await.contains("again in 50 s"));
        assert!(read(&counting, 50).await.contains("again in 10 s"), "not what the first reader was told");
    }
}
