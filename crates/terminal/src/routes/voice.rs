//! Speech over a WebSocket: the events of a session's turns as sentences with their audio, and what the speaker says.
//!
//! Speech is one more reader of the events of turns, beside streams and drafts.

mod pictures;
mod socket;
mod vtuber;
mod wire;

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use tokio::sync::Semaphore;

use self::socket::{MESSAGE_MAX, Opening, VoiceSocket};
use self::vtuber::Vtuber;
use super::Parts;
use super::problem::{refused, status_of};
use super::submit::Stop;
use domain::api_key::Caller;
use ports::shares::Shares;
use web::client_socket::Upgrade;

/// Maximum number of sockets. One key has at most half of them.
const SOCKETS_MAX: usize = 128;

#[derive(Clone)]
pub(super) struct Sockets(Shares<String>);

impl Default for Sockets {
    fn default() -> Self {
        Self(Shares::new(Arc::new(Semaphore::new(SOCKETS_MAX))))
    }
}

/// The session, and the reader's position.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    /// The session's name or number. It is created if there is none.
    session: String,
    /// The number of the last event that the client has; without it, it gets new ones only.
    #[serde(default)]
    after: Option<u64>,
    /// The last sentence of that turn whose audio the client has; later ones are sent again.
    #[serde(default)]
    sentence: Option<usize>,
    /// The language of the speaker, for announcements of tools.
    #[serde(default)]
    language: Option<String>,
}

pub(super) async fn open(
    State(parts): State<Parts>,
    (Extension(caller), Extension(sockets)): (Extension<Caller>, Extension<Sockets>),
    stop: Stop,
    wanted: Result<Query<Wanted>, QueryRejection>,
    upgrade: Option<Upgrade>,
) -> Response {
    let Ok(Query(wanted)) = wanted else {
        return refused(StatusCode::BAD_REQUEST, "session is required; after and sentence must be numbers");
    };
    let opening = Opening {
        position: wanted.after.map(|after| (after, wanted.sentence)),
        language: wanted.language,
        vtuber: None,
    };
    upgraded(parts, (caller, sockets, stop), upgrade, (&wanted.session, MESSAGE_MAX), opening).await
}

/// The session of a client with the message names of Open-LLM-VTuber's front end.
#[derive(Debug, Deserialize)]
pub(super) struct WantedByVtuber {
    /// The session's name or number; that front end names none.
    #[serde(default = "usual_session")]
    session: String,
    /// The language of the speaker, for announcements of tools.
    #[serde(default)]
    language: Option<String>,
}

fn usual_session() -> String {
    "vtuber".to_owned()
}

/// Opens a socket with the message names of Open-LLM-VTuber's front end.
pub(super) async fn open_vtuber(
    State(parts): State<Parts>,
    (Extension(caller), Extension(sockets)): (Extension<Caller>, Extension<Sockets>),
    stop: Stop,
    wanted: Result<Query<WantedByVtuber>, QueryRejection>,
    upgrade: Option<Upgrade>,
) -> Response {
    let Ok(Query(WantedByVtuber { session, language })) = wanted else {
        return refused(StatusCode::BAD_REQUEST, "session and language must be given once each");
    };
    let opening = Opening { language, vtuber: Some(Vtuber::new(session.clone())), ..Opening::default() };
    upgraded(parts, (caller, sockets, stop), upgrade, (&session, vtuber::MESSAGE_MAX), opening).await
}

async fn upgraded(
    parts: Parts,
    (caller, sockets, stop): (Caller, Sockets, Stop),
    upgrade: Option<Upgrade>,
    (session, message_max): (&str, usize),
    opening: Opening,
) -> Response {
    let Some(upgrade) = upgrade else {
        return refused(StatusCode::UPGRADE_REQUIRED, "this endpoint is a WebSocket");
    };
    let Some(socket_place) = sockets.0.take(Some(&caller.name().to_owned())) else {
        return refused(StatusCode::TOO_MANY_REQUESTS, "too many sockets are open; close one");
    };
    let place = match parts.sessions.open(&caller, session).await {
        Ok(found) => found.place,
        Err(why) => return refused(status_of(why), &why.to_string()),
    };
    for evicted in parts.sessions.take_evicted() {
        parts.events.close(&evicted);
    }
    parts.events.open(&place);
    // Cancelled at shutdown.
    let ended = stop.map(|Extension(stop)| stop).unwrap_or_default();
    upgrade.open(message_max, move |socket| async move {
        if let Some(talk) = VoiceSocket::new(socket, parts, (caller, place), opening) {
            talk.serve(ended).await;
        }
        drop(socket_place);
    })
}
