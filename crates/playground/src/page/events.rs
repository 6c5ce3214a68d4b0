//! Streams events to the page.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Desk;
use super::api::ApiError;
use crate::change::Change;
use crate::service::Service;

/// Interval of checking the bot's presence.
const LOOK: Duration = Duration::from_millis(500);
/// Interval of keep-alive comments in a silent stream.
const ALIVE: Duration = Duration::from_secs(15);

/// One open stream.
struct Watch {
    changes: Receiver<Change>,
    service: Service,
    presence: Option<Value>,
    look: Interval,
    begun: bool,
    closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

/// `GET /playground/events`: Server-Sent Events. `ready` comes first: a state read after it misses nothing. `change`
/// carries a change, `presence` the bot's presence; `resync` reports that the reader was too slow and missed changes,
/// so that the state must be read again.
pub async fn stream(State(desk): State<Desk>, closing: Option<Extension<CancellationToken>>) -> Response {
    let Ok(permit) = desk.streams.try_acquire_owned() else {
        return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open").into_response();
    };
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watch = Watch {
        changes: desk.service.subscribe(),
        presence: desk.service.shown(),
        service: desk.service,
        look,
        begun: false,
        // Without a listener that stops, only the client ends the stream.
        closing: closing.map(|Extension(closing)| closing).unwrap_or_default(),
        _permit: permit,
    };
    let events = stream::unfold(watch, async |mut watch| {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

impl Watch {
    async fn next(&mut self) -> Option<Event> {
        if !self.begun {
            self.begun = true;
            return Some(Event::default().event("ready").data("{}"));
        }
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return None,
                change = self.changes.recv() => return match change {
                    Ok(change) => Some(written("change", &change)),
                    Err(RecvError::Lagged(missed)) => Some(Event::default().event("resync").data(missed.to_string())),
                    Err(RecvError::Closed) => None,
                },
                _ = self.look.tick() => {
                    let presence = self.service.shown();
                    if presence != self.presence {
                        self.presence.clone_from(&presence);
                        return Some(written("presence", &presence));
                    }
                }
            }
        }
    }
}

fn written(name: &str, data: &impl serde::Serialize) -> Event {
    // If serialization fails, reading the state again gives the same result.
    let resync = Event::default().event("resync").data("0");
    Event::default().event(name).json_data(data).unwrap_or(resync)
}
