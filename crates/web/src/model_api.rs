//! The model API: endpoints of OpenAI and Ollama, for programs that use the bot as a model.
//!
//! - The messages of a request are the whole conversation. Each request is a turn in a place of its own below that of
//!   the key's holder, so the requests of one key run concurrently. Limits, the ledger and the journal treat the holder
//!   as a member.
//! - The answer is read from the turn's events; posts are discarded.
//! - At most once: a client that disconnects cancels its turn, and turns of an earlier process are dropped.

mod asking;
mod body;
mod failure;
mod files;
mod ignored;
mod kept;
mod ollama;
mod openai;
mod pictures;
mod room;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use parking_lot::Mutex;

use self::failure::Failure;
use self::ignored::Ignored;
use self::kept::Responses;
use self::room::Room;
use self::sockets::Sockets;
use domain::api_key::{Caller, HOLDERS};
use domain::embedding::{EmbeddingRequest, Embeddings};
use domain::ending::Ending;
use domain::given::GivenConversation;
use domain::ids::{Door, MessageId, Person};
use domain::model::{Row, ToolMode};
use domain::outgoing::Capabilities;
use domain::turn_event::NoAnswer;
use ports::{
    Clock, Dice, EmbeddingAsk, FileTexts, Intake, Metering, ModelsInForce, NotEmbedded, PostError, PostReply,
    PostRequest, PostResult, Poster, Store, TurnEventLog,
};

/// The name of this door in ids and keys.
pub const DOOR: Door = HOLDERS;
/// The bot's account at this door.
const US: &str = "staffai";
/// The name by which clients request the bot's default model.
const OWN_MODEL: &str = "staffai";
/// The version that clients append to model names.
const LATEST: &str = ":latest";
/// Maximum length of an answer, in Unicode scalar values: more than any model writes.
const TEXT_LIMIT: usize = 2_000_000;

/// The dependencies of the door.
pub struct Parts {
    /// Accepts the turns.
    pub intake: Arc<dyn Intake>,
    /// The events of turns.
    pub events: Arc<dyn TurnEventLog>,
    /// The models that clients may name.
    pub models: Arc<dyn ModelsInForce>,
    /// Metering of model calls outside of turns.
    pub meter: Arc<dyn Metering>,
    /// Reads files of conversations.
    pub files: Arc<dyn FileTexts>,
    /// The store of responses that clients may continue from.
    pub store: Arc<dyn Store>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of the id prefix that differs between processes on one store.
    pub dice: Arc<dyn Dice>,
    /// Bounds on requests.
    pub bounds: Bounds,
}

/// Bounds on the requests of programs.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Timeout of a request: longer than any turn.
    pub answer: Duration,
    /// Maximum concurrent requests of one key.
    pub at_once: usize,
}

/// The endpoints of OpenAI and Ollama.
pub struct ModelApi {
    parts: Parts,
    room: Arc<Room>,
    responses: Responses,
    sockets: Arc<Sockets>,
    last_id: Mutex<u64>,
    /// A part of each id.
    tag: u32,
}

/// Returns all routes. The caller that mounts them authorizes requests and adds the [`Caller`].
pub fn router(api: Arc<ModelApi>) -> Router {
    let nothing = || any(|uri: Uri| async move { refusal(uri.path(), Failure::NoEndpoint(uri.path().to_owned())) });
    let no_method = |uri: Uri| async move { refusal(uri.path(), Failure::NoMethod(uri.path().to_owned())) };
    let routes = openai::routes().merge(ollama::routes());
    ["/v1", "/v1/", "/v1/{*rest}", "/api", "/api/", "/api/{*rest}"]
        .into_iter()
        .fold(routes, |routes, path| routes.route(path, nothing()))
        .method_not_allowed_fallback(no_method)
        .with_state(api)
}

/// Formats the answer to a request that was not authorized.
pub fn refused(path: &str, status: StatusCode, why: &str) -> Response {
    refusal(path, Failure::NotLetIn(status, why.to_owned()))
}

/// True if the clients of a path expect this door's format.
pub fn speaks(path: &str) -> bool {
    let below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    below("/v1") || below("/api") && !below("/api/v1")
}

fn refusal(path: &str, failure: Failure) -> Response {
    if openai::speaks(path) {
        openai::OpenAiFailure(failure).into_response()
    } else {
        ollama::OllamaFailure(failure).into_response()
    }
}

impl ModelApi {
    /// Creates the door.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a draw is in [0, 1)")]
    pub fn new(parts: Parts) -> Self {
        let tag = (parts.dice.roll() * f64::from(u32::MAX)) as u32;
        let responses = Responses::new(Arc::clone(&parts.store));
        let room = Room::new(parts.bounds.at_once);
        Self { parts, room, responses, sockets: Arc::default(), last_id: Mutex::new(0), tag }
    }

    /// Returns an id that increases over restarts and differs between processes: the journal remembers ids.
    fn next_id(&self) -> String {
        let mut last = self.last_id.lock();
        *last = (self.parts.clock.now().0 << 12).max(*last + 1);
        format!("{last}-{:08x}", self.tag)
    }

    /// Returns the rows that a caller may name, the default one first.
    fn rows(&self, caller: &Caller) -> Vec<Row> {
        self.parts.models.models().rows().iter().filter(|row| caller.may_ask(&row.key)).cloned().collect()
    }

    fn row(&self, caller: &Caller, name: Option<&str>) -> Result<Row, Failure> {
        let name = name.filter(|name| !name.is_empty()).unwrap_or(OWN_MODEL);
        let rows = self.rows(caller);
        let find = |name: &str| rows.iter().find(|row| name == OWN_MODEL || row.key == name);
        // Ollama's clients append the version to every name.
        let found = find(name).or_else(|| find(name.strip_suffix(LATEST)?));
        found.cloned().ok_or_else(|| Failure::NoModel(name.to_owned()))
    }

    /// Checks that a caller's key opens this door.
    fn opens(caller: &Caller) -> Result<(), Failure> {
        if caller.opens(&DOOR) {
            return Ok(());
        }
        let why = "this key does not open this door; staffai key add --door api makes one that does";
        Err(Failure::NotLetIn(StatusCode::FORBIDDEN, why.to_owned()))
    }

    /// Computes embeddings within the limits of a caller.
    async fn embed(&self, caller: &Caller, row: String, request: EmbeddingRequest) -> Result<Embeddings, Failure> {
        let (person, message) = (Person::new(DOOR, caller.name()), MessageId::new(DOOR, self.next_id()));
        let made = self.parts.meter.embed(EmbeddingAsk { person, message, row, request }).await;
        made.map_err(|not| match not {
            NotEmbedded::OverLimit(wait) => Failure::OverLimit("a limit of this key is used up".to_owned(), wait),
            NotEmbedded::NotCounted => Failure::Busy("temporarily unavailable; try again in a moment".to_owned()),
            NotEmbedded::TooMany(most) => {
                Failure::bad("input", format!("the vectors of this model are long; send at most {most} texts"))
            }
            NotEmbedded::Model(error) => Failure::of(NoAnswer::Ended(Ending::Model(error.kind)), error.retry_after),
        })
    }

    /// Returns the row for a conversation, and sets it in the conversation. Records a temperature that the row ignores.
    fn settle(
        &self,
        caller: &Caller,
        conversation: &mut GivenConversation,
        stream: bool,
        ignored: &mut Ignored,
    ) -> Result<Row, Failure> {
        let row = self.row(caller, conversation.model.as_deref())?;
        if row.tools == ToolMode::Off && !conversation.tools.is_empty() {
            let why = format!("the model {:?} takes no tools; leave them out, or ask another model", row.key);
            return Err(Failure::bad("tools", why));
        }
        if row.fixed_temperature && conversation.sampling.temperature.is_some() {
            ignored.add("temperature");
        }
        (conversation.model, conversation.whole) = (Some(row.key.clone()), !stream);
        Ok(row)
    }
}

fn us() -> Person {
    Person::new(DOOR, US)
}

/// The outbound side, which does nothing: answers are read as events.
pub struct Answers;

#[async_trait]
impl Poster for Answers {
    fn capabilities(&self) -> Capabilities {
        Capabilities::replies(TEXT_LIMIT)
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        let result = match request {
            PostRequest::Create { nonce, .. } => PostResult::Message(MessageId::new(DOOR, format!("{nonce}.answer"))),
            PostRequest::Edit { message, .. } => PostResult::Message(message.clone()),
            PostRequest::History { .. } | PostRequest::Fetch { .. } => PostResult::Messages(Vec::new()),
            PostRequest::Roles(_) | PostRequest::AddRole(_) | PostRequest::RemoveRole(_) => PostResult::Absent,
            _ => PostResult::Done,
        };
        Ok(PostReply { result, bucket: None })
    }
}
