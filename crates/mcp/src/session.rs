//! One session with a server: its handshake, and requests with deadlines. Abandoned requests are cancelled at the
//! server.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientConfig, ClientRequest, CustomRequest, ElicitationCapability,
    ErrorCode, ExtensionCapabilities, FormElicitationCapability, GetExtensions, Implementation, JsonObject,
    ProtocolVersion, RequestId, RequestMetaObject, SubscriptionFilter, TASKS_EXTENSION_ID, UrlElicitationCapability,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions, RoleClient, ServiceError,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::exchange::{Awaited, Exchanges, Payload, Want};
use super::failure::{Failure, MESSAGE_MAX, one_line};
use super::process::Life;
use domain::tool::TraceParent;
use ports::tools::ServerInfo;

const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout of the acknowledgement of a subscription to changes.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before subscribing again after the server ended a subscription.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);
/// The most revisions read from a server.
const VERSIONS_MAX: usize = 20;
const NAME_BYTES: usize = 80;

pub(super) struct Session {
    peer: Peer<RoleClient>,
    exchanges: Arc<Exchanges>,
    ended: watch::Receiver<Option<String>>,
    end: DropGuard,
    pub info: ServerInfo,
    /// The server's features besides tools.
    pub features: Features,
    /// True if it uses a revision without a handshake, which has another request in place of the ping.
    pub modern: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct Features {
    pub tools: bool,
    pub resources: bool,
    pub templates: bool,
    pub prompts: bool,
}

/// The client's introduction. Requests of servers never reach it: see `inquiry.rs`.
struct Handler(ProtocolVersion);

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("staffai", env!("CARGO_PKG_VERSION"));
        let mut info = ClientConfig::new(ClientCapabilities::default(), own);
        info.protocol_version = self.0.clone();
        info
    }
}

/// Returns the features of this client for calls of tools.
fn of_calls() -> ClientCapabilities {
    let mut features = ClientCapabilities::default();
    let mut extensions = ExtensionCapabilities::new();
    extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
    features.extensions = Some(extensions);
    let elicitation = ElicitationCapability::new().with_form(FormElicitationCapability::default());
    features.elicitation = Some(elicitation.with_url(UrlElicitationCapability::default()));
    features
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Handshake {
    /// The server is asked for its generation.
    Either,
    /// The older generation, with this revision or its latest one.
    Older(Option<ProtocolVersion>),
    Newer,
}

impl Handshake {
    /// The older generation with its latest revision.
    pub(super) const OLDER: Self = Self::Older(None);
}

impl Session {
    /// Performs the handshake. `life` is the child process, if any.
    ///
    /// # Errors
    /// The server refuses, exits, or violates the protocol.
    pub(super) async fn begin<T: Transport<RoleClient> + 'static>(
        transport: T,
        handshake: Handshake,
        exchanges: Arc<Exchanges>,
        life: Option<Life>,
    ) -> Result<Self, Failure> {
        let newer = vec![ProtocolVersion::V_2026_07_28];
        let handler = Handler(match &handshake {
            Handshake::Older(Some(version)) => version.clone(),
            _ => ProtocolVersion::LATEST_WITH_INITIALIZE,
        });
        let mode = match handshake {
            Handshake::Older(_) => ClientLifecycleMode::Initialize,
            Handshake::Newer => ClientLifecycleMode::Discover { preferred_versions: newer },
            Handshake::Either => ClientLifecycleMode::Auto {
                preferred_versions: newer,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let begun = tokio::select! {
            begun = handler.serve_with_lifecycle(transport, mode) => begun,
            reason = exchanges.inquiries.until_shut() => return Err(Failure::Lost(reason)),
        };
        let running = match begun {
            Ok(running) => running,
            Err(error) => return Err(not_begun(error, &exchanges, life).await),
        };
        let peer = running.peer().clone();
        let stop = running.cancellation_token();
        let end = CancellationToken::new();
        let (tell, ended) = watch::channel(None);
        let (told, guarded) = (end.clone(), Arc::clone(&exchanges));
        tokio::spawn(async move {
            let waiting = running.waiting();
            let mut waiting = std::pin::pin!(waiting);
            tokio::select! {
                _ = &mut waiting => {}
                () = told.cancelled() => {
                    stop.cancel();
                    // The transport closes within its own deadlines.
                    let _ = waiting.await;
                }
                _ = guarded.inquiries.until_shut() => {
                    stop.cancel();
                    if let Some(life) = &life {
                        life.kill();
                    }
                    let _ = waiting.await;
                }
            }
            let why = match (guarded.inquiries.reason(), life) {
                (Some(reason), _) => reason,
                (None, Some(mut life)) => {
                    timeout(CANCEL_TIMEOUT, life.ended()).await.unwrap_or_else(|_| "it closed its output".into())
                }
                (None, None) => "the connection was closed".to_owned(),
            };
            tell.send_replace(Some(why));
        });
        let (mut info, features) = described(&peer);
        let modern = peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
        if modern && info.announces_changes {
            info.announces_changes = listen(&peer, &exchanges, end.clone()).await;
        }
        Ok(Self { peer, exchanges, ended, end: end.drop_guard(), info, features, modern })
    }

    /// Waits for the end of the session; returns the reason.
    pub(super) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await;
        ended.ok().and_then(|why| why.clone()).unwrap_or_else(|| "the connection was closed".to_owned())
    }

    /// Ends the session and waits for its end.
    pub(super) async fn close(&self, within: Duration) {
        // The token behind the guard belongs to the session.
        self.cancel();
        // A transport that does not end in time is dropped together with its process group.
        let _ = timeout(within, self.ended()).await;
    }

    fn cancel(&self) {
        self.end.token().cancel();
    }

    /// Sends one request; cancels it after the timeout or if the future is dropped.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Option<Value>,
        awaited: Awaited,
        trace: Option<&TraceParent>,
        within: Duration,
    ) -> Result<Payload, Failure> {
        let asked = timeout(within, self.ask(method, params, awaited, trace));
        asked.await.unwrap_or(Err(Failure::Timeout(within)))
    }

    async fn ask(
        &self,
        method: &str,
        params: Option<Value>,
        awaited: Awaited,
        trace: Option<&TraceParent>,
    ) -> Result<Payload, Failure> {
        let mut request = ClientRequest::CustomRequest(CustomRequest::new(method, params));
        request.extensions_mut().insert(awaited.clone());
        let mut options = PeerRequestOptions::no_options();
        let mut meta = RequestMetaObject::new();
        if let Some(TraceParent(parent)) = trace {
            meta.set_traceparent(parent.clone());
        }
        // Only calls are answered and awaited. Servers of the older generation would ask on a connection that a
        // restart of this program ends.
        if self.modern && matches!(awaited.want, Want::Call(_) | Want::Task(_) | Want::Ack) {
            meta.set_client_capabilities(of_calls());
        }
        options = options.with_meta(meta);
        let handle = self.peer.send_cancellable_request(request, options).await;
        let handle = handle.map_err(|error| self.unanswered(&error))?;
        let mut waiting = Waiting { session: self, id: Some(handle.id.clone()) };
        let outcome = handle.await_response().await;
        waiting.id = None;
        match (awaited.take(), outcome) {
            (Some(read), _) => read,
            (None, Err(error)) => Err(self.unanswered(&error)),
            (None, Ok(_)) => Err(Failure::Malformed("the answer was lost".to_owned())),
        }
    }

    fn unanswered(&self, error: &ServiceError) -> Failure {
        match error {
            ServiceError::McpError(error) => {
                Failure::Rpc { code: error.code.0, message: one_line(&error.message, MESSAGE_MAX) }
            }
            ServiceError::TransportSend(_) => self.exchanges.last_failure().unwrap_or_else(|| self.lost()),
            ServiceError::Cancelled { .. } => Failure::Lost("the server cancelled the call".to_owned()),
            _ => self.lost(),
        }
    }

    fn lost(&self) -> Failure {
        Failure::Lost(self.ended.borrow().clone().unwrap_or_else(|| "the connection was closed".to_owned()))
    }

    /// Pings the server; an error answer also counts as a sign of life.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn ping(&self, awaited: Awaited, within: Duration) -> Result<(), Failure> {
        let method = if self.modern { "server/discover" } else { "ping" };
        match self.request(method, None, awaited, None, within).await {
            Ok(_) | Err(Failure::Rpc { .. }) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

/// A pending request. If it is dropped before its answer, it is cancelled at the server.
struct Waiting<'s> {
    session: &'s Session,
    id: Option<RequestId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.session.exchanges.forget(&id);
        // When the runtime ends, the connection ends too.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.session.peer.clone();
        runtime.spawn(async move {
            let reason = Some("the caller stopped waiting".to_owned());
            let params = CancelledNotificationParam::new(Some(id), reason);
            // A cancellation that fails is not repeated.
            let _ = timeout(CANCEL_TIMEOUT, peer.notify_cancelled(params)).await;
        });
    }
}

fn described(peer: &Peer<RoleClient>) -> (ServerInfo, Features) {
    let Some(about) = peer.peer_info() else { return Default::default() };
    let own = about.server_info.as_ref();
    let text = |text: &str| one_line(text, NAME_BYTES);
    let info = ServerInfo {
        name: own.map(|own| text(&own.name)).unwrap_or_default(),
        version: own.map(|own| text(&own.version)).unwrap_or_default(),
        protocol: text(about.protocol_version.as_str()),
        announces_changes: about.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true)),
    };
    let has = &about.capabilities;
    let features = Features {
        tools: has.tools.is_some(),
        resources: has.resources.is_some(),
        templates: has.resources.is_some(),
        prompts: has.prompts.is_some(),
    };
    (info, features)
}

/// Keeps a subscription to changes at a server of the newer generation until the session ends. Returns false if the
/// server refuses.
async fn listen(peer: &Peer<RoleClient>, exchanges: &Arc<Exchanges>, end: CancellationToken) -> bool {
    let filter = || SubscriptionFilter::builder().tools_list_changed().build();
    let Ok(Ok(mut first)) = timeout(LISTEN_TIMEOUT, peer.listen(filter())).await else { return false };
    let (peer, exchanges) = (peer.clone(), Arc::clone(exchanges));
    tokio::spawn(async move {
        let listening = async move {
            loop {
                // Notifications are counted on arrival; only the end is awaited here.
                while let Ok(Some(_)) = first.next().await {}
                loop {
                    tokio::time::sleep(LISTEN_AGAIN).await;
                    if let Ok(Ok(again)) = timeout(LISTEN_TIMEOUT, peer.listen(filter())).await {
                        first = again;
                        break;
                    }
                }
                // Changes in the meantime were not reported.
                exchanges.changed();
            }
        };
        tokio::select! {
            () = end.cancelled() => {}
            () = listening => {}
        }
    });
    true
}

/// Classifies the failure of a handshake.
async fn not_begun(error: ClientInitializeError, exchanges: &Exchanges, life: Option<Life>) -> Failure {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            Box::pin(not_begun(*fallback, exchanges, life)).await
        }
        ClientInitializeError::JsonRpcError(error) if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
            Failure::Versions(supported(error.data.as_ref()))
        }
        ClientInitializeError::JsonRpcError(error) => {
            Failure::Rpc { code: error.code.0, message: one_line(&error.message, MESSAGE_MAX) }
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            Failure::Versions(named(server_supported.iter().map(ProtocolVersion::as_str)))
        }
        ClientInitializeError::TransportError { .. } | ClientInitializeError::ConnectionClosed(_) => {
            if let Some(mut life) = life {
                let ended = timeout(CANCEL_TIMEOUT, life.ended()).await;
                return ended.map_or_else(|_| Failure::Malformed("it closed its output".to_owned()), Failure::Exited);
            }
            exchanges.last_failure().unwrap_or_else(|| Failure::Lost("it closed the connection".to_owned()))
        }
        _ => Failure::Malformed("its handshake violates the protocol".to_owned()),
    }
}

/// Returns the revisions that an error names (`data.supported`).
pub(super) fn supported(data: Option<&Value>) -> Vec<String> {
    let list = data.and_then(|data| data.get("supported")).and_then(Value::as_array);
    named(list.into_iter().flatten().filter_map(Value::as_str))
}

fn named<'a>(versions: impl Iterator<Item = &'a str>) -> Vec<String> {
    versions.take(VERSIONS_MAX).map(|version| one_line(version, NAME_BYTES)).collect()
}
