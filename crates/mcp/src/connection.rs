//! One connected server: its session, renewed after a loss, and requests to it.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::RwLock;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::address::address;
use super::eras::Eras;
use super::exchange::{Awaited, Exchanges, Payload, Want};
use super::failure::Failure;
use super::http::HttpClient;
use super::legacy::Legacy;
use super::listing::{LIST_BYTES, NODES_MAX, TOOLS_MAX, warn};
use super::oauth::{Login, Logins};
use super::param_headers;
use super::pending;
use super::process;
use super::room::Room;
use super::session::{Features, Handshake, Session};
use super::starting::Child;
use super::stdio::Stdio;
use super::utility;
use domain::tool::begun::{CallReply, Step, TaskReport};
use domain::tool::utility::Utility;
use domain::tool::{CallError, CallErrorKind, ResultLimits, ToolRequest, ToolResult};
use ports::tools::{Endpoint, HttpProtocol, Listing, ServerEntry, ServerInfo, Transport};
use ports::{ProgressSink, ToolServer};

const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of checking that an announced list of resources or prompts is not empty.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The most pages of a list.
const PAGES_MAX: usize = 1_000;
const PING_TIMEOUT: Duration = Duration::from_secs(5);
const RENEW_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(4);
const ARGUMENTS_BYTES: usize = 1024 * 1024;
/// The most concurrent requests of one HTTP connection; more are queued.
const CONCURRENT: usize = 64;
/// The longest backoff before the notification stream is reopened.
const STREAM_PAUSE_MAX: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(super) struct Maker {
    pub entry: ServerEntry,
    /// The program that guards children; `None` starts them without a guardian.
    pub guardian: Option<PathBuf>,
    /// The store of logins, if used.
    pub logins: Option<Logins>,
    /// The memory budget of pending replies, of all sessions of this server together.
    pub room: Room,
    /// The protocol generations of servers.
    pub eras: Eras,
    /// The process being started, if the server is one.
    pub child: Child,
}

impl Maker {
    /// Creates a session, trying the protocol variants that the entry leaves open.
    ///
    /// # Errors
    /// No variant succeeded.
    pub(super) async fn session(&self, changes: &watch::Sender<u64>) -> Result<Session, Failure> {
        let exchanges = || Arc::new(Exchanges::new(self.entry.name.clone(), changes.clone(), self.room.clone()));
        match &self.entry.transport {
            Transport::Stdio(command) => {
                let begin = |handshake| async move {
                    let exchanges = exchanges();
                    let child = process::start(command, self.guardian.as_deref())?;
                    self.child.begins(child.1);
                    let life = child.0.life.clone();
                    let transport = Stdio::new(child, Arc::clone(&exchanges));
                    Session::begin(transport, handshake, exchanges, Some(life)).await
                };
                self.eras.negotiate(&self.entry.name, true, begin).await
            }
            Transport::Provider => Err(Failure::Unreachable("STAFFAI_NATS_URL is not set".to_owned())),
            Transport::Http(endpoint) => {
                let way = Way { maker: self, endpoint, login: self.login(endpoint)? };
                match endpoint.protocol {
                    HttpProtocol::Streamable => streamable(&way, &exchanges).await,
                    HttpProtocol::Sse => sse(&way, exchanges()).await,
                    HttpProtocol::Either => match streamable(&way, &exchanges).await {
                        Err(first) if leaves_open(&first) => sse(&way, exchanges()).await.map_err(|_| first),
                        outcome => outcome,
                    },
                }
            }
        }
    }

    /// Returns the login at this server. An entry with its own key does not use one.
    fn login(&self, endpoint: &Endpoint) -> Result<Option<Arc<Login>>, Failure> {
        let own = endpoint.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        match &self.logins {
            Some(logins) if !own => logins.of(&self.entry.name, &address(endpoint)?),
            _ => Ok(None),
        }
    }
}

/// The parameters of an HTTP connection.
struct Way<'a> {
    maker: &'a Maker,
    endpoint: &'a Endpoint,
    login: Option<Arc<Login>>,
}

/// True if a server with this failure may support the other variant.
fn leaves_open(failure: &Failure) -> bool {
    match failure {
        Failure::Status { status, .. } => matches!(status, 400 | 404 | 405 | 406 | 415),
        Failure::Malformed(_) => true,
        _ => false,
    }
}

async fn streamable(way: &Way<'_>, exchanges: impl Fn() -> Arc<Exchanges>) -> Result<Session, Failure> {
    let Maker { entry, eras, .. } = way.maker;
    eras.negotiate(&entry.name, false, |handshake| streamable_with(way, handshake, exchanges())).await
}

async fn streamable_with(way: &Way<'_>, handshake: Handshake, exchanges: Arc<Exchanges>) -> Result<Session, Failure> {
    let client = HttpClient::new(way.endpoint, way.login.clone(), Arc::clone(&exchanges))?;
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(client.url().as_str()).max_concurrent_requests(CONCURRENT);
    // A call may only be repeated depending on its effect, which the transport cannot determine.
    config.reinit_on_expired_session = false;
    let mut pauses = ExponentialBackoff::default();
    pauses.max_delay = Some(STREAM_PAUSE_MAX);
    config.retry_config = Arc::new(pauses);
    let transport = StreamableHttpClientTransport::with_client(client, config);
    Session::begin(transport, handshake, exchanges, None).await
}

async fn sse(way: &Way<'_>, exchanges: Arc<Exchanges>) -> Result<Session, Failure> {
    let client = HttpClient::new(way.endpoint, way.login.clone(), Arc::clone(&exchanges))?;
    let transport = Legacy::open(client, Arc::clone(&exchanges)).await?;
    Session::begin(transport, Handshake::OLDER, exchanges, None).await
}

pub(super) struct Connection {
    maker: Maker,
    info: ServerInfo,
    session: RwLock<Arc<Session>>,
    renewing: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
    /// The server's own tools whose names collide with utilities.
    own: RwLock<BTreeSet<String>>,
}

impl Connection {
    /// Creates the connection of a started session.
    pub(super) fn new(maker: Maker, session: Session, changes: watch::Sender<u64>) -> Self {
        let info = session.info.clone();
        let (session, renewing, own) =
            (RwLock::new(Arc::new(session)), tokio::sync::Mutex::default(), RwLock::default());
        Self { maker, info, session, renewing, changes, own }
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.read())
    }

    /// Renews the session, unless it was renewed since `lost`.
    async fn renew(&self, lost: &Arc<Session>) -> Result<Arc<Session>, Failure> {
        let _one = self.renewing.lock().await;
        let now = self.session();
        if !Arc::ptr_eq(&now, lost) {
            return Ok(now);
        }
        let renewed = timeout(RENEW_TIMEOUT, self.maker.session(&self.changes)).await;
        let renewed = Arc::new(renewed.unwrap_or(Err(Failure::Timeout(RENEW_TIMEOUT)))?);
        *self.session.write() = Arc::clone(&renewed);
        // A server that lost the session may have restarted with other tools.
        self.changes.send_modify(|count| *count += 1);
        Ok(renewed)
    }

    /// Sends one request; repeats it once if the session was lost and `repeatable` allows it.
    async fn request(&self, ask: &Ask<'_>, deadline: Instant) -> Result<Payload, Failure> {
        let session = self.session();
        match self.try_once(&session, ask, deadline).await {
            Err(Failure::SessionLost) => {
                let renewed = self.renew(&session).await?;
                if !ask.repeatable {
                    return Err(Failure::Lost(
                        "its session was lost; the call may have run and is not repeated, because it may change something"
                            .to_owned(),
                    ));
                }
                self.try_once(&renewed, ask, deadline).await
            }
            outcome => outcome,
        }
    }

    async fn try_once(&self, session: &Session, ask: &Ask<'_>, deadline: Instant) -> Result<Payload, Failure> {
        let awaited = Awaited::new(ask.want, ask.progress.clone());
        let within = deadline.saturating_duration_since(Instant::now());
        let trace = ask.request.and_then(|request| request.trace.as_ref());
        session.request(ask.method, Some(ask.params.clone()), awaited, trace, within).await
    }

    fn failed(&self, failure: &Failure) -> CallError {
        failure.of_call(&self.maker.entry.name)
    }

    async fn pages(&self, listing: &mut Listing) -> Result<(), Failure> {
        let deadline = Instant::now() + LIST_TIMEOUT;
        let (mut seen, mut cursors) = (HashSet::new(), HashSet::new());
        let (mut cursor, mut bytes, mut nodes): (Option<String>, usize, usize) = (None, 0, 0);
        for _ in 0..PAGES_MAX {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({ "cursor": cursor }));
            let ask = Ask {
                method: "tools/list",
                params,
                want: Want::Tools,
                request: None,
                repeatable: true,
                progress: None,
            };
            let page = match self.request(&ask, deadline).await {
                Ok(Payload::Tools(page)) => page,
                Ok(_) => return Err(Failure::Malformed("the answer is not a list of tools".to_owned())),
                // A server without tools may not support the request.
                Err(Failure::Rpc { code: -32_601, .. }) if !self.session().features.tools => return Ok(()),
                Err(failure) => return Err(failure),
            };
            bytes += page.bytes;
            nodes += page.nodes;
            for warning in page.warnings {
                warn(&mut listing.warnings, || warning);
            }
            let whole =
                page.tools.len() <= TOOLS_MAX - listing.tools.len() && bytes <= LIST_BYTES && nodes <= NODES_MAX;
            // A page that exceeds the bound of bytes or values is dropped.
            let within = if bytes <= LIST_BYTES && nodes <= NODES_MAX { TOOLS_MAX - listing.tools.len() } else { 0 };
            let over_http = matches!(self.maker.entry.transport, Transport::Http(_)) && self.session().modern;
            for tool in page.tools.into_iter().take(within) {
                let names = over_http && tool.input_schema.as_str().contains(param_headers::KEY);
                if let Some(why) = names.then(|| param_headers::mistake(&tool.input_schema.to_value())).flatten() {
                    warn(&mut listing.warnings, || format!("the tool {} is omitted: {why}", tool.name));
                    continue;
                }
                if seen.insert(Arc::clone(&tool.name)) {
                    listing.tools.push(tool);
                } else {
                    warn(&mut listing.warnings, || format!("a second tool {} is omitted", tool.name));
                }
            }
            if !whole {
                let server = &self.maker.entry.name;
                warn(&mut listing.warnings, || {
                    format!(
                        "{server} has more than the {TOOLS_MAX} tools, {LIST_BYTES} bytes or {NODES_MAX} values that are read"
                    )
                });
                return Ok(());
            }
            match page.next {
                Some(next) if cursors.insert(next.clone()) => cursor = Some(next),
                Some(_) => {
                    warn(&mut listing.warnings, || "the pages of the list form a cycle".to_owned());
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
        warn(&mut listing.warnings, || format!("the list has more than the {PAGES_MAX} pages that are read"));
        Ok(())
    }

    /// Returns the announced features that are not empty. Many servers announce resources and prompts without having
    /// any.
    async fn present(&self) -> Features {
        let announced = self.session().features;
        let (resources, templates, prompts) = tokio::join!(
            self.has_any(announced.resources, "resources/list", "resources"),
            self.has_any(announced.templates, "resources/templates/list", "resourceTemplates"),
            self.has_any(announced.prompts, "prompts/list", "prompts"),
        );
        Features { resources, templates, prompts, ..announced }
    }

    /// False if the list is not announced, unknown to the server, or empty. An unreadable list counts as announced.
    async fn has_any(&self, announced: bool, method: &'static str, name: &'static str) -> bool {
        if !announced {
            return false;
        }
        let want = Want::Empty(name);
        let ask = Ask { method, params: json!({}), want, request: None, repeatable: true, progress: None };
        match self.request(&ask, Instant::now() + DRAIN_TIMEOUT).await {
            Ok(Payload::Empty(empty)) => !empty,
            Err(Failure::Rpc { code: -32_601, .. }) => false,
            _ => true,
        }
    }

    /// Removes tools that the entry does not allow.
    fn allow(&self, listing: &mut Listing) {
        let denied = &self.maker.entry.denied_tools;
        for name in denied.iter().filter(|name| !listing.tools.iter().any(|tool| *tool.name == ***name)) {
            warn(&mut listing.warnings, || format!("the entry excludes {name}, which the server does not have"));
        }
        listing.tools.retain(|tool| !denied.iter().any(|name| *name == *tool.name));
        let allowed = &self.maker.entry.allowed_tools;
        if allowed.is_empty() {
            return;
        }
        for name in allowed.iter().filter(|name| !listing.tools.iter().any(|tool| *tool.name == ***name)) {
            warn(&mut listing.warnings, || format!("allowed_tools names {name}, which the server does not have"));
        }
        listing.tools.retain(|tool| allowed.iter().any(|name| *name == *tool.name));
    }

    /// Returns the method, the parameters and the expected answer of one step of a call.
    fn wire(&self, request: &ToolRequest) -> (&'static str, Value, Want) {
        let limits = request.limits;
        let call = || json!({"name": request.name, "arguments": request.arguments});
        match (&request.step, self.utility(&request.name)) {
            (_, Some(utility)) => {
                (utility::method(utility), utility::params(utility, &request.arguments), utility::want(utility, limits))
            }
            (Step::First, None) => ("tools/call", call(), Want::Call(limits)),
            (Step::Again { answers, state }, None) => {
                let mut params = call();
                pending::again(&mut params, answers, state.as_ref());
                ("tools/call", params, Want::Call(limits))
            }
            (Step::Poll(task), None) => ("tasks/get", json!({ "taskId": task }), Want::Task(limits)),
            (Step::Answer { task, answers }, None) => {
                ("tasks/update", json!({"taskId": task, "inputResponses": answers}), Want::Ack)
            }
            (Step::Cancel(task), None) => ("tasks/cancel", json!({ "taskId": task }), Want::Ack),
        }
    }

    fn utility(&self, name: &str) -> Option<Utility> {
        let features = self.session().features;
        let own = self.own.read();
        utility::of(features, |utility| own.contains(utility)).into_iter().find(|utility| utility.name() == name)
    }
}

/// One request that may be sent twice.
struct Ask<'a> {
    method: &'static str,
    params: Value,
    want: Want,
    request: Option<&'a ToolRequest>,
    repeatable: bool,
    progress: Option<ProgressSink>,
}

#[async_trait]
impl ToolServer for Connection {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        let mut listing = Listing::default();
        self.pages(&mut listing).await.map_err(|failure| self.failed(&failure))?;
        let own: BTreeSet<String> = listing.tools.iter().map(|tool| tool.name.to_string()).collect();
        let utilities = utility::of(Box::pin(self.present()).await, |name| own.contains(name));
        listing.tools.extend(utilities.into_iter().map(|utility| utility::tool(utility, &self.maker.entry.name)));
        let names = utility::of(Features { tools: true, resources: true, templates: true, prompts: true }, |_| false);
        *self.own.write() =
            names.into_iter().map(|utility| utility.name().to_owned()).filter(|name| own.contains(name)).collect();
        self.allow(&mut listing);
        for tool in &mut listing.tools {
            tool.kind = self.maker.entry.kind;
        }
        Ok(listing)
    }

    async fn call(&self, request: &ToolRequest, progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        self.step(request, progress).await.and_then(CallReply::into_result)
    }

    async fn step(&self, request: &ToolRequest, progress: Option<ProgressSink>) -> Result<CallReply, CallError> {
        let deadline = Instant::now() + request.deadline;
        let allowed = &self.maker.entry.allowed_tools;
        let denied = self.maker.entry.denied_tools.iter().any(|name| **name == *request.name);
        if denied || (!allowed.is_empty() && !allowed.iter().any(|name| **name == *request.name)) {
            let message = format!("{} is not among the allowed_tools of {}", request.name, self.maker.entry.name);
            return Err(CallError::new(CallErrorKind::Forbidden, message));
        }
        let arguments = serde_json::to_vec(&request.arguments).map_or(usize::MAX, |bytes| bytes.len());
        if arguments > ARGUMENTS_BYTES {
            let message = format!("the arguments of {} are longer than {ARGUMENTS_BYTES} bytes", request.name);
            return Err(CallError::new(CallErrorKind::InvalidArguments, message));
        }
        let (method, params, want) = self.wire(request);
        let utility = self.utility(&request.name).is_some();
        let repeatable = utility || request.effect.repeatable() || request.step.repeatable();
        let ask = Ask { method, params, want, request: Some(request), repeatable, progress };
        let asked = timeout(request.deadline, self.request(&ask, deadline)).await;
        match asked.unwrap_or(Err(Failure::Timeout(request.deadline))) {
            Ok(Payload::Result(result)) => Ok(CallReply::Result(result)),
            Ok(Payload::Reply(reply)) => Ok(reply),
            Ok(Payload::Ack) => Ok(CallReply::Task(TaskReport::acknowledged(&request.step))),
            Ok(_) => Err(self.failed(&Failure::Malformed("the answer is not the result of a call".to_owned()))),
            Err(Failure::Timeout(_)) => Err(self.failed(&Failure::Timeout(request.deadline))),
            Err(failure) => Err(self.failed(&failure)),
        }
    }

    async fn ping(&self) -> Result<(), CallError> {
        let session = self.session();
        let awaited = Awaited::new(Want::Data(ResultLimits::default()), None);
        match session.ping(awaited, PING_TIMEOUT).await {
            Err(Failure::SessionLost) => self.renew(&session).await.map(drop).map_err(|failure| self.failed(&failure)),
            outcome => outcome.map_err(|failure| self.failed(&failure)),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn closed(&self) -> String {
        loop {
            let session = self.session();
            let why = session.ended().await;
            if Arc::ptr_eq(&session, &self.session()) {
                return why;
            }
        }
    }

    async fn close(&self) {
        self.session().close(CLOSE_TIMEOUT).await;
    }
}
