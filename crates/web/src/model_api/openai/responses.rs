//! OpenAI's Responses API: a client continues a conversation by naming the previous response.

mod near;
mod reading;
mod socket;
mod writing;

#[cfg(test)]
mod fuzz;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream::{self, Stream};
use serde_json::{Number, Value};

use self::near::Near;
use self::reading::{CompactRequest, CreateRequest, Echo, InputMessages, Recalled, ResponseRequest};
use self::writing::Writer;
use super::reading::MESSAGES_MAX;
use super::{KEEP_ALIVE, OpenAiFailure};
use crate::model_api::asking::{Answered, Asking, Progress};
use crate::model_api::failure::Failure;
use crate::model_api::ignored::Ignored;
use crate::model_api::kept::StoredResponse;
use crate::model_api::pictures::TEXT_MAX;
use crate::model_api::room::RoomReservation;
use crate::model_api::{ModelApi, body};
use domain::api_key::{Caller, HOLDERS};
use domain::completion::{Role, Sampling, ToolChoice, WrittenJson};
use domain::given::{GivenConversation, Message};
use domain::ids::{Person, Timestamp};
use domain::model::Row;

/// The providers' default temperature.
const USUAL_TEMPERATURE: u64 = 1;
/// The instruction to compact a conversation.
const COMPACT: &str = "Write a summary of this conversation for a reader who will go on with it and sees nothing else of it. Keep \
    names, numbers, decisions, open questions and results of tools. Write the summary alone.";

pub(super) fn routes() -> Router<Arc<ModelApi>> {
    Router::new()
        .route("/v1/responses", post(create).get(socket::open))
        .route("/v1/responses/compact", post(compact))
        .route("/v1/responses/{id}", get(retrieve).delete(delete))
}

async fn create(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OpenAiFailure> {
    let (request, mut room) = body::read_conversation::<CreateRequest>(&api.room, &caller, &headers, body).await?;
    let prepared = prepare(&api, &caller, request, &mut room, None).await?;
    let (stream, ignored) = (prepared.stream, prepared.ignored.clone());
    let Begun { mut asking, writer, shelf, .. } = prepared.begin(&api, &caller, room).await?;
    if !stream {
        let answered = asking.whole().await?;
        let response = writer.whole(&answered);
        if let Some(shelf) = shelf {
            shelf.keep(&writer, &answered, &response).await;
        }
        return Ok(ignored.warn(Json(response).into_response()));
    }
    asking.begin().await?;
    let events = streamed(asking, writer, shelf);
    Ok(ignored.warn(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()))
}

struct Prepared {
    conversation: GivenConversation,
    row: Row,
    echo: Echo,
    previous: Option<String>,
    stream: bool,
    store: bool,
    ignored: Ignored,
    /// The messages of this request; empty if the response is not stored.
    said: Vec<Message>,
    /// All messages so far, if the connection caches them.
    all: Option<Vec<Message>>,
}

/// A response in progress.
struct Begun {
    asking: Asking,
    writer: Writer,
    shelf: Option<Shelf>,
    all: Option<Vec<Message>>,
}

/// Parses a request and loads the earlier messages: `near` is the connection's cache of its last response.
async fn prepare(
    api: &ModelApi,
    caller: &Caller,
    mut request: CreateRequest,
    room: &mut RoomReservation,
    near: Option<&Near>,
) -> Result<Prepared, Failure> {
    room.grow(recall(api, &holder(caller), &mut request).await?).await?;
    let ResponseRequest { mut conversation, files, previous, stream, store, mut ignored, mut echo } = request.read()?;
    let row = api.settle(caller, &mut conversation, stream, &mut ignored)?;
    api.enclose(caller, &mut conversation.messages, files, room).await?;
    echo.temperature = Some(temperature(&row, &conversation.sampling));
    let said = if store { conversation.messages.clone() } else { Vec::new() };
    if let Some(previous) = &previous {
        let near = near.map(|near| near.said(previous)).transpose()?.flatten();
        let (mut before, bytes) = match near {
            Some(near) => near,
            None => api.responses.said(&holder(caller), previous).await?,
        };
        room.grow(bytes).await?;
        before.append(&mut conversation.messages);
        conversation.messages = before;
    }
    let all = near.map(|_| conversation.messages.clone());
    if let Some(instructions) = &echo.instructions {
        conversation.messages.insert(0, Message::new(Role::System, instructions.clone()));
    }
    Ok(Prepared { conversation, row, echo, previous, stream, store, ignored, said, all })
}

impl Prepared {
    fn writer(self, api: &ModelApi, id: &str) -> Writer {
        let (created, clock) = (api.parts.clock.now().0 / 1_000, Arc::clone(&api.parts.clock));
        let (id, model, echo) = (format!("resp_{id}"), self.row.key, self.echo);
        Writer { id, created, model, echo, sequence: 0, text: String::new(), begun: false, clock }
    }

    async fn begin(mut self, api: &Arc<ModelApi>, caller: &Caller, room: RoomReservation) -> Result<Begun, Failure> {
        let asking = api.ask(caller, std::mem::take(&mut self.conversation), room).await?;
        let (holder, previous) = (holder(caller), self.previous.take());
        let (person, at) = (Person::new(HOLDERS, caller.name()), api.parts.clock.now());
        let said = std::mem::take(&mut self.said);
        let shelf = self.store.then(|| Shelf { api: Arc::clone(api), person, holder, previous, said, at });
        let all = self.all.take();
        let writer = self.writer(api, asking.id());
        Ok(Begun { asking, writer, shelf, all })
    }
}

/// Returns the sampling temperature, as far as it is known here.
fn temperature(row: &Row, sampling: &Sampling) -> Number {
    let own = || row.temperature.and_then(Number::from_f64);
    let sent = if row.fixed_temperature { None } else { sampling.temperature.clone().or_else(own) };
    sent.unwrap_or_else(|| USUAL_TEMPERATURE.into())
}

/// Asks a row for a summary, which a client may send in place of the conversation.
async fn compact(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, OpenAiFailure> {
    let (mut request, mut room) = body::read_conversation::<CompactRequest>(&api.room, &caller, &headers, body).await?;
    let InputMessages { mut messages, files } = request.messages()?;
    api.enclose(&caller, &mut messages, files, &mut room).await?;
    if let Some(previous) = &request.previous_response_id {
        let (mut before, bytes) = api.responses.said(&holder(&caller), previous).await?;
        room.grow(bytes).await?;
        before.append(&mut messages);
        messages = before;
    }
    if let Some(instructions) = request.instructions {
        messages.insert(0, Message::new(Role::System, instructions));
    }
    messages.push(Message::new(Role::User, COMPACT));
    let choice = ToolChoice::None;
    let mut conversation = GivenConversation { messages, choice, model: request.model, ..GivenConversation::default() };
    api.settle(&caller, &mut conversation, false, &mut Ignored::default())?;
    let created = api.parts.clock.now().0 / 1_000;
    let mut asking = api.ask(&caller, conversation, room).await?;
    let answered = asking.whole().await?;
    if answered.text.is_empty() {
        return Err(Failure::Model("the model returned no summary".to_owned()).into());
    }
    Ok(Json(writing::compaction(&format!("resp_{}", asking.id()), created, &answered)))
}

async fn retrieve(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<WrittenJson>, OpenAiFailure> {
    let kept = api.responses.get(&holder(&caller), &id).await;
    Ok(Json(kept.ok_or_else(|| api.responses.missing(id))?.response))
}

async fn delete(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiFailure> {
    if !api.responses.remove(&holder(&caller), &id).await {
        return Err(api.responses.missing(id).into());
    }
    Ok(Json(writing::deleted(&id)))
}

/// Replaces item references by the referenced content, and returns its size in bytes. References are short and their
/// content is long, so both are bounded before anything is copied; each response is read once.
async fn recall(api: &ModelApi, holder: &str, request: &mut CreateRequest) -> Result<usize, Failure> {
    let (mut bytes, mut read): (usize, HashMap<String, Message>) = (0, HashMap::new());
    for (count, item) in request.references().enumerate() {
        if count == MESSAGES_MAX {
            return Err(Failure::bad("input", format!("send 1 to {MESSAGES_MAX} items")));
        }
        let id = item.id.clone().unwrap_or_default();
        let missing = || api.responses.missing(id.clone());
        let (response, call) = part_of(&id).ok_or_else(missing)?;
        let said = match read.entry(response) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let mut kept = api.responses.get(holder, place.key()).await.ok_or_else(missing)?;
                place.insert(kept.said.pop().ok_or_else(missing)?)
            }
        };
        let part = Recalled::of(said, call).ok_or_else(missing)?;
        bytes += part.bytes();
        if bytes > TEXT_MAX {
            return Err(Failure::TooLarge(TEXT_MAX));
        }
        item.recall(part);
    }
    Ok(bytes)
}

/// Splits an item's id into the id of its response and the number of a call in it.
fn part_of(item: &str) -> Option<(String, Option<usize>)> {
    if let Some(response) = item.strip_prefix("msg_") {
        return Some((format!("resp_{response}"), None));
    }
    let (response, number) = item.strip_prefix("fc_")?.rsplit_once('-')?;
    Some((format!("resp_{response}"), Some(number.parse().ok()?)))
}

/// Returns the owner of responses: a new key of the same name cannot continue those of the old one.
fn holder(caller: &Caller) -> String {
    match caller {
        Caller::Local => caller.name().to_owned(),
        Caller::Key(key) => format!("{}:{}", key.name, key.made_at),
    }
}

/// The destination of a response when it is complete.
struct Shelf {
    api: Arc<ModelApi>,
    person: Person,
    holder: String,
    previous: Option<String>,
    said: Vec<Message>,
    /// The time of the request.
    at: Timestamp,
}

impl Shelf {
    async fn keep(self, writer: &Writer, answered: &Answered, response: &Value) {
        let Self { api, person, holder, previous, mut said, at } = self;
        said.push(writer.said(answered));
        let mut response = response.clone();
        // Clients send these with every request, and they would use up the quota of stored conversations.
        (response["instructions"], response["tools"]) = (Value::Null, Value::Array(Vec::new()));
        let kept = StoredResponse { previous, said, at, response: WrittenJson::new(&response) };
        api.responses.keep(&person, &holder, &writer.id, &kept).await;
    }
}

struct Streamed {
    asking: Asking,
    writer: Writer,
    shelf: Option<Shelf>,
    begun: bool,
    over: bool,
}

/// Returns the events of the response. The last one is sent when the response can be continued from.
fn streamed(
    asking: Asking,
    writer: Writer,
    shelf: Option<Shelf>,
) -> impl Stream<Item = Result<Event, axum::Error>> + Send {
    let begin = Streamed { asking, writer, shelf, begun: false, over: false };
    let batches = stream::unfold(begin, |mut at| async {
        if at.over {
            return None;
        }
        let events = if at.begun {
            let progress = at.asking.next().await;
            at.over = !matches!(progress, Progress::Text(_));
            let events = at.writer.events(&progress);
            if let (Progress::Answered(answered), Some(shelf), Some(last)) =
                (&progress, at.shelf.take_if(|_| at.over), events.last())
            {
                shelf.keep(&at.writer, answered, &last["response"]).await;
            }
            events
        } else {
            at.begun = true;
            at.writer.created()
        };
        let told = |event: Value| {
            let kind = event["type"].as_str().unwrap_or_default();
            Event::default().event(kind).json_data(&event)
        };
        Some((stream::iter(events.into_iter().map(told).collect::<Vec<_>>()), at))
    });
    futures_util::StreamExt::flatten(batches)
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn an_item_names_its_response() {
        assert_eq!(part_of("msg_12-ab"), Some(("resp_12-ab".to_owned(), None)));
        assert_eq!(part_of("fc_12-ab-3"), Some(("resp_12-ab".to_owned(), Some(3))));
        for other in ["rs_1", "fc_1", "fc_1-x", ""] {
            assert_eq!(part_of(other), None, "{other}");
        }
    }
}
