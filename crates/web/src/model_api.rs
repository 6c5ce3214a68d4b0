//! The door of programs that ask over HTTP as they ask a model: endpoints that clients of OpenAI and of Ollama know.
//!
//! The messages that a client sends are the whole conversation. Each request is a turn in a place of its own, below that of the key's
//! holder, so requests of one key run side by side; limits, the ledger and the journal know the holder as a person. The answer comes
//! back as the events of the turn. Nobody waits for it elsewhere: what is posted here is gone, a client that goes away cancels its
//! turn, and what an earlier life of the process left is dropped.

mod asking;
mod body;
mod failure;
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
use domain::given::Conversation;
use domain::ids::{Door, MessageId, Person};
use domain::model::{Row, ToolMode};
use domain::outgoing::Capabilities;
use domain::turn_event::NoAnswer;
use ports::{
    Clock, Dice, EmbeddingAsk, Intake, Metering, ModelsInForce, NotEmbedded, PostError, PostReply, PostRequest,
    PostResult, Poster, Store, TurnEventLog,
};

/// The name of this door in ids and keys.
pub const DOOR: Door = HOLDERS;
/// Our own account at this door.
const US: &str = "staffai";
/// The name under which clients ask for whichever model the bot answers with.
const OWN_MODEL: &str = "staffai";
/// The version that clients add to a model's name.
const LATEST: &str = ":latest";
/// The longest answer in one piece, in Unicode scalar values: more than any model writes.
const TEXT_LIMIT: usize = 2_000_000;

/// What the door is made of.
pub struct Parts {
    /// The way in.
    pub intake: Arc<dyn Intake>,
    /// Where answers are read.
    pub events: Arc<dyn TurnEventLog>,
    /// The models that clients may name.
    pub models: Arc<dyn ModelsInForce>,
    /// Work of models beside turns.
    pub meter: Arc<dyn Metering>,
    /// Where responses are kept that their askers may go on from.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Tells this process from others on the same store.
    pub dice: Arc<dyn Dice>,
    /// Bounds on requests.
    pub bounds: Bounds,
}

/// Bounds on the requests of programs.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The longest that a request may take: longer than any turn.
    pub answer: Duration,
    /// The most requests of one key at once.
    pub at_once: usize,
}

/// The door.
pub struct ModelApi {
    parts: Parts,
    room: Arc<Room>,
    responses: Responses,
    sockets: Arc<Sockets>,
    last_id: Mutex<u64>,
    /// Stands in each id.
    tag: u32,
}

/// All routes. The caller that mounts them authorises requests and says who asks.
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

/// The answer to a request that was not let in.
pub fn refused(path: &str, status: StatusCode, why: &str) -> Response {
    refusal(path, Failure::NotLetIn(status, why.to_owned()))
}

/// Whether the clients of a path know the words of this door.
pub fn speaks(path: &str) -> bool {
    let below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    below("/v1") || below("/api") && !below("/api/v1")
}

/// A failure in the words that the clients of this path know.
fn refusal(path: &str, failure: Failure) -> Response {
    if openai::speaks(path) {
        openai::Refusal(failure).into_response()
    } else {
        ollama::Refusal(failure).into_response()
    }
}

impl ModelApi {
    /// A door of these parts.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a draw is in [0, 1)")]
    pub fn new(parts: Parts) -> Self {
        let tag = (parts.dice.roll() * f64::from(u32::MAX)) as u32;
        let responses = Responses::new(Arc::clone(&parts.store));
        let room = Room::new(parts.bounds.at_once);
        Self { parts, room, responses, sockets: Arc::default(), last_id: Mutex::new(0), tag }
    }

    /// Rises over restarts too, and differs between processes: the journal remembers ids.
    fn next_id(&self) -> String {
        let mut last = self.last_id.lock();
        *last = (self.parts.clock.now().0 << 12).max(*last + 1);
        format!("{last}-{:08x}", self.tag)
    }

    /// The rows that a caller may name, the default one first.
    fn rows(&self, caller: &Caller) -> Vec<Row> {
        self.parts.models.models().rows().iter().filter(|row| caller.may_ask(&row.key)).cloned().collect()
    }

    /// The row for the name that a client asks for.
    fn row(&self, caller: &Caller, name: Option<&str>) -> Result<Row, Failure> {
        let name = name.filter(|name| !name.is_empty()).unwrap_or(OWN_MODEL);
        let rows = self.rows(caller);
        let find = |name: &str| rows.iter().find(|row| name == OWN_MODEL || row.key == name);
        // Clients of Ollama add the version to every name.
        let found = find(name).or_else(|| find(name.strip_suffix(LATEST)?));
        found.cloned().ok_or_else(|| Failure::NoModel(name.to_owned()))
    }

    /// Whether a caller's key opens this door.
    fn opens(caller: &Caller) -> Result<(), Failure> {
        if caller.opens(&DOOR) {
            return Ok(());
        }
        let why = "this key does not open this door; staffai key add --door api makes one that does";
        Err(Failure::NotLetIn(StatusCode::FORBIDDEN, why.to_owned()))
    }

    /// Vectors, within the limits of a caller.
    async fn embed(&self, caller: &Caller, row: String, request: EmbeddingRequest) -> Result<Embeddings, Failure> {
        let (person, message) = (Person::new(DOOR, caller.name()), MessageId::new(DOOR, self.next_id()));
        let made = self.parts.meter.embed(EmbeddingAsk { person, message, row, request }).await;
        made.map_err(|not| match not {
            NotEmbedded::OverLimit(wait) => Failure::OverLimit("a limit of this key is used up".to_owned(), wait),
            NotEmbedded::NotCounted => Failure::Busy("not now; try again in a moment".to_owned()),
            NotEmbedded::TooMany(most) => {
                Failure::bad("input", format!("the vectors of this model are long; send at most {most} texts"))
            }
            NotEmbedded::Model(error) => Failure::of(NoAnswer::Ended(Ending::Model(error.kind)), error.retry_after),
        })
    }

    /// The row that a conversation asks for. From now on the conversation names it. Notes a temperature that the row does not send.
    fn settle(
        &self,
        caller: &Caller,
        conversation: &mut Conversation,
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

/// The way out: answers are read as events, so there is nothing to be done.
pub struct Answers;

#[async_trait]
impl Poster for Answers {
    fn capabilities(&self) -> Capabilities {
        Capabilities::text_only(TEXT_LIMIT)
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
