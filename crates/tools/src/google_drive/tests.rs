//! The tools against a local service with Drive's interface, its search queries, and a token endpoint that verifies
//! what it receives.

use std::collections::{BTreeMap, HashMap};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use domain::ids::Timestamp;
use domain::tool::Effect;

const KEY: &str = include_str!("key_for_tests.pem");
const NOW: u64 = 1_700_000_000;
const EMAIL: &str = "bot@project.iam.gserviceaccount.com";

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp(NOW * 1_000)
    }
}

#[derive(Clone, Default)]
struct Stored {
    name: String,
    kind: String,
    folder: String,
    content: Vec<u8>,
    trashed: bool,
}

/// The service's state, and the answers that it gives instead of its own.
#[derive(Default)]
struct Service {
    files: Mutex<BTreeMap<String, Stored>>,
    /// The number of tokens it gave; the last one is valid.
    tokens: Mutex<usize>,
    refusals: Mutex<Vec<(StatusCode, Value)>>,
    requests: Mutex<usize>,
}

type Shared = State<Arc<Service>>;
type Parameters = Query<HashMap<String, String>>;

impl Service {
    fn put(&self, id: &str, name: &str, kind: &str, folder: &str, content: &str) {
        let (name, kind, folder) = (name.to_owned(), kind.to_owned(), folder.to_owned());
        let stored = Stored { name, kind, folder, content: content.as_bytes().to_vec(), trashed: false };
        self.files.lock().insert(id.to_owned(), stored);
    }

    fn content(&self, id: &str) -> String {
        String::from_utf8(self.files.lock()[id].content.clone()).unwrap()
    }

    fn described(&self, id: &str) -> Response {
        match self.files.lock().get(id) {
            Some(file) => axum::Json(describe(id, file)).into_response(),
            None => {
                let message = format!("File not found: {id}.");
                (StatusCode::NOT_FOUND, axum::Json(json!({"error": {"code": 404, "message": message}}))).into_response()
            }
        }
    }

    /// Returns the answer to a request that does not get through.
    fn stops(&self, headers: &HeaderMap) -> Option<Response> {
        *self.requests.lock() += 1;
        let valid = format!("Bearer token-{}", self.tokens.lock());
        if headers.get("authorization").is_none_or(|sent| sent != valid.as_str()) {
            let body = json!({"error": {"code": 401, "message": "Invalid Credentials"}});
            return Some((StatusCode::UNAUTHORIZED, axum::Json(body)).into_response());
        }
        self.refusals.lock().pop().map(|(status, body)| (status, axum::Json(body)).into_response())
    }
}

fn describe(id: &str, file: &Stored) -> Value {
    json!({
        "id": id, "name": file.name, "mimeType": file.kind, "modifiedTime": "2026-01-02T03:04:05.000Z",
        "parents": [file.folder], "trashed": file.trashed, "webViewLink": format!("https://drive.google.com/file/d/{id}"),
    })
}

/// Reads the values of a query in the order in which it has them: single quotes, with `\` before `'` and `\`.
fn values(query: &str) -> Vec<String> {
    let (mut values, mut value, mut escaped) = (Vec::new(), None::<String>, false);
    for c in query.chars() {
        match &mut value {
            Some(_) if c == '\\' && !escaped => escaped = true,
            Some(text) if escaped => {
                escaped = false;
                text.push(c);
            }
            Some(_) if c == '\'' => values.extend(value.take()),
            Some(text) => text.push(c),
            None if c == '\'' => value = Some(String::new()),
            None => {}
        }
    }
    values
}

async fn list(State(service): Shared, Query(sent): Parameters, headers: HeaderMap) -> Response {
    if let Some(stopped) = service.stops(&headers) {
        return stopped;
    }
    let query = &sent["q"];
    let mut values = values(query).into_iter();
    let words = query.contains("contains").then(|| (values.next(), values.next()).0.unwrap());
    let folder = query.contains("in parents").then(|| values.next().unwrap());
    let files = service.files.lock();
    let found = files.iter().filter(|(_, file)| {
        let content = String::from_utf8_lossy(&file.content);
        !file.trashed
            && words.as_ref().is_none_or(|words| file.name.contains(words) || content.contains(words))
            && folder.as_ref().is_none_or(|folder| file.folder == *folder)
    });
    let found = found.map(|(id, file)| describe(id, file)).take(sent["pageSize"].parse().unwrap());
    axum::Json(json!({"files": found.collect::<Vec<_>>()})).into_response()
}

async fn file(State(service): Shared, Path(id): Path<String>, Query(sent): Parameters, headers: HeaderMap) -> Response {
    if let Some(stopped) = service.stops(&headers) {
        return stopped;
    }
    match sent.get("alt").map(String::as_str) {
        Some("media") => service.files.lock()[&id].content.clone().into_response(),
        _ => service.described(&id),
    }
}

async fn export(
    State(service): Shared,
    Path(id): Path<String>,
    Query(sent): Parameters,
    headers: HeaderMap,
) -> Response {
    service
        .stops(&headers)
        .unwrap_or_else(|| format!("{} as {}", service.content(&id), sent["mimeType"]).into_response())
}

async fn create(State(service): Shared, headers: HeaderMap, body: String) -> Response {
    if let Some(stopped) = service.stops(&headers) {
        return stopped;
    }
    let boundary = headers["content-type"].to_str().unwrap().split_once("boundary=").unwrap().1;
    let parts: Vec<&str> = body.split(&format!("--{boundary}")).collect();
    let content = |part: &str| part.split_once("\r\n\r\n").unwrap().1.strip_suffix("\r\n").unwrap().to_owned();
    let [_, described, text, end] = parts[..] else { panic!("{body}") };
    assert_eq!(end, "--\r\n");
    let described: Value = serde_json::from_str(&content(described)).unwrap();
    let folder = described["parents"][0].as_str().unwrap_or("root");
    let id = format!("new-{}", service.files.lock().len());
    service.put(&id, described["name"].as_str().unwrap(), "text/plain", folder, &content(text));
    service.described(&id)
}

async fn replace(State(service): Shared, Path(id): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(stopped) = service.stops(&headers) {
        return stopped;
    }
    service.files.lock().get_mut(&id).unwrap().content = body.to_vec();
    service.described(&id)
}

async fn change(State(service): Shared, Path(id): Path<String>, headers: HeaderMap, body: String) -> Response {
    if let Some(stopped) = service.stops(&headers) {
        return stopped;
    }
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!({"trashed": true}));
    service.files.lock().get_mut(&id).unwrap().trashed = true;
    service.described(&id)
}

/// Gives a token for a valid signature of the account or for the person's refresh token.
async fn token(State(service): Shared, headers: HeaderMap, body: String) -> Response {
    let form = Url::parse(&format!("http://form/?{body}")).unwrap();
    let form: HashMap<_, _> = form.query_pairs().into_owned().collect();
    let refused = || {
        let body = json!({"error": "invalid_grant", "error_description": "Bad Request"});
        (StatusCode::BAD_REQUEST, axum::Json(body)).into_response()
    };
    let by_key = form.get("assertion").is_some_and(|assertion| {
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        let audience = format!("http://{}/token", headers["host"].to_str().unwrap());
        let expected = json!({"iss": EMAIL, "scope": "https://www.googleapis.com/auth/drive", "aud": audience, "iat": NOW, "exp": NOW + 3_600});
        let der = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public().as_ref());
        claims == expected && public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).is_ok()
    });
    let by_person = form.get("refresh_token").is_some_and(|token| token == "1//refresh+&=");
    if !by_key && !by_person {
        return refused();
    }
    let mut tokens = service.tokens.lock();
    *tokens += 1;
    axum::Json(json!({"access_token": format!("token-{tokens}"), "expires_in": 3_599, "token_type": "Bearer"}))
        .into_response()
}

async fn start() -> (Arc<Service>, String) {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let service = Arc::new(Service::default());
    let routes = Router::new()
        .route("/token", post(token))
        .route("/drive/v3/files", get(list))
        .route("/drive/v3/files/{id}", get(file).patch(change))
        .route("/drive/v3/files/{id}/export", get(export))
        .route("/upload/drive/v3/files", post(create))
        .route("/upload/drive/v3/files/{id}", patch(replace))
        .with_state(Arc::clone(&service));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (service, address)
}

fn account(address: &str) -> Value {
    json!({"type": "service_account", "client_email": EMAIL, "private_key": KEY, "token_uri": format!("{address}/token")})
}

fn options(address: &str, folder: Option<&str>, credentials: &Value) -> Options {
    Options {
        credentials: Credentials::parse(&SecretString::from(credentials.to_string())).unwrap(),
        folder: folder.map(str::to_owned),
        changes: true,
        url: address.parse().unwrap(),
        here: true,
        bytes: 60,
        timeout: Duration::from_secs(5),
    }
}

struct Tools(Vec<Box<dyn BuiltInTool>>);

impl Tools {
    fn of(options: Options) -> Self {
        Self(super::tools(options, Arc::new(Fixed)))
    }

    async fn ask(&self, name: &str, arguments: Value) -> Result<(String, bool), CallErrorKind> {
        let tool = self.0.iter().find(|tool| &*tool.tool().name == format!("google_drive_{name}").as_str()).unwrap();
        assert!(jsonschema::is_valid(&tool.tool().input_schema.to_value(), &arguments), "{name} {arguments}");
        let Value::Object(arguments) = arguments else { unreachable!() };
        let request = ToolRequest::new(&tool.tool().name, arguments, Effect::Changes, Duration::from_secs(5));
        tool.call(&request).await.map(|result| (result.to_text(), result.is_error)).map_err(|error| error.kind)
    }

    async fn told(&self, name: &str, arguments: Value) -> String {
        let (text, failed) = self.ask(name, arguments).await.unwrap();
        assert!(!failed, "{text}");
        text
    }

    async fn refused(&self, name: &str, arguments: Value) -> String {
        let (text, failed) = self.ask(name, arguments).await.unwrap();
        assert!(failed, "{text}");
        text
    }
}

#[tokio::test]
async fn files_are_found_read_created_extended_and_deleted() {
    let (service, address) = start().await;
    service.put("a", "Minutes", "application/vnd.google-apps.document", "F", "it's agreed");
    service.put("b", "photo", "image/png", "F", "PNG");
    let tools = Tools::of(options(&address, None, &account(&address)));

    let found = tools.told("search", json!({"query": "it's"})).await;
    assert_eq!(
        found,
        "Minutes (application/vnd.google-apps.document, 2026-01-02T03:04:05.000Z) id a https://drive.google.com/file/d/a"
    );
    assert_eq!(tools.told("search", json!({"query": "zebra"})).await, "Nothing was found.");
    assert!(tools.told("read", json!({"id": "a"})).await.ends_with("\n\nit's agreed as text/plain"));
    assert!(tools.refused("read", json!({"id": "b"})).await.contains("its type is image/png, which has no text"));
    assert!(tools.refused("append", json!({"id": "a", "text": "x"})).await.contains("text files only"));

    let created = tools.told("create", json!({"name": "list.txt", "text": "milk --part"})).await;
    assert!(created.starts_with("Created: list.txt (text/plain"), "{created}");
    tools.told("append", json!({"id": "new-2", "text": "eggs"})).await;
    assert_eq!(service.content("new-2"), "milk --part\neggs");
    tools.told("append", json!({"id": "new-2", "text": "w".repeat(100)})).await;
    let cut = tools.told("read", json!({"id": "new-2"})).await;
    assert!(cut.ends_with("www\n(the rest is cut)") && cut.split_once("\n\n").unwrap().1.len() == 60 + 18, "{cut}");
    tools.told("delete", json!({"id": "new-2"})).await;
    assert!(service.files.lock()["new-2"].trashed);
    assert!(tools.refused("read", json!({"id": "new-2"})).await.contains("no such file"));
    assert!(tools.refused("read", json!({"id": "zz"})).await.contains("status 404: File not found: zz."));
    assert_eq!(*service.tokens.lock(), 1, "one token serves all calls");
}

#[tokio::test]
async fn files_outside_of_the_folder_are_out_of_reach() {
    let (service, address) = start().await;
    service.put("in", "plan", "text/plain", "F", "in");
    service.put("out", "plan", "text/plain", "OTHER", "out");
    let tools = Tools::of(options(&address, Some("F"), &account(&address)));
    let found = tools.told("search", json!({"query": "plan"})).await;
    assert!(found.contains("id in ") && !found.contains("id out "), "{found}");
    // A query that leaves its quotes would list the other folder.
    let escaping = tools.told("search", json!({"query": "plan') or trashed = false or (name contains 'plan"})).await;
    assert_eq!(escaping, "Nothing was found.");
    for (name, arguments) in [
        ("read", json!({"id": "out"})),
        ("append", json!({"id": "out", "text": "x"})),
        ("delete", json!({"id": "out"})),
    ] {
        assert!(tools.refused(name, arguments).await.contains("no such file in the folder"), "{name}");
    }
    assert_eq!((service.content("out").as_str(), service.files.lock()["out"].trashed), ("out", false));
    service.put("sub", "old", "application/vnd.google-apps.folder", "F", "");
    assert!(tools.refused("delete", json!({"id": "sub"})).await.contains("only files are deleted"));
    assert!(!service.files.lock()["sub"].trashed);
    service.files.lock().remove("sub");
    let created = tools.told("create", json!({"name": "n", "text": "t"})).await;
    assert!(created.contains("new-2") && service.files.lock()["new-2"].folder == "F");
}

#[tokio::test]
async fn concurrent_appends_lose_nothing() {
    let (service, address) = start().await;
    service.put("log", "log", "text/plain", "F", "");
    let tools = Tools::of(options(&address, None, &account(&address)));
    let appends = (0..20).map(|number| tools.told("append", json!({"id": "log", "text": format!("line {number}")})));
    futures_util::future::join_all(appends).await;
    let content = service.content("log");
    let mut lines: Vec<&str> = content.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 20, "{content}");
}

#[tokio::test]
async fn a_rejected_token_is_replaced_once_and_a_refusal_is_told() {
    let (service, address) = start().await;
    service.put("a", "a", "text/plain", "F", "text");
    let person = json!({
        "type": "authorized_user", "client_id": "id", "client_secret": "secret", "refresh_token": "1//refresh+&=",
        "token_uri": format!("{address}/token"),
    });
    let tools = Tools::of(options(&address, None, &person));
    tools.told("read", json!({"id": "a"})).await;
    // The service revokes the token.
    *service.tokens.lock() += 1;
    tools.told("read", json!({"id": "a"})).await;
    assert_eq!(*service.tokens.lock(), 3);

    let full = json!({"error": {"code": 403, "message": "The user's Drive storage quota has been exceeded."}});
    service.refusals.lock().push((StatusCode::FORBIDDEN, full));
    let refused = tools.refused("create", json!({"name": "n", "text": "t"})).await;
    assert_eq!(refused, "Google Drive: status 403: The user's Drive storage quota has been exceeded.");
    // A change that the service may have made is not reported as a refusal.
    service.refusals.lock().push((StatusCode::BAD_GATEWAY, json!("bad gateway")));
    assert_eq!(tools.ask("create", json!({"name": "n", "text": "t"})).await, Err(CallErrorKind::Lost));
    service.refusals.lock().push((StatusCode::BAD_GATEWAY, json!("bad gateway")));
    assert!(tools.refused("read", json!({"id": "a"})).await.contains("status 502"));
    let many = json!({"files": vec![0; 20_000]});
    for (answer, why) in [(many, "has too many values"), (json!({"files": 1}), "is not as documented")] {
        service.refusals.lock().push((StatusCode::OK, answer));
        let refused = tools.refused("search", json!({"query": "a"})).await;
        assert_eq!(refused, format!("Google Drive: its answer {why}"));
    }

    let wrong = json!({
        "type": "authorized_user", "client_id": "id", "client_secret": "secret", "refresh_token": "revoked",
        "token_uri": format!("{address}/token"),
    });
    let tools = Tools::of(options(&address, None, &wrong));
    let before = *service.requests.lock();
    assert!(tools.refused("read", json!({"id": "a"})).await.contains("no token: status 400: Bad Request"));
    assert_eq!(*service.requests.lock(), before, "nothing is requested without a token");
}

#[tokio::test]
async fn only_the_allowed_tools_are_offered_and_each_says_what_it_does() {
    let (_, address) = start().await;
    let offered = |changes: bool| {
        let tools = super::tools(Options { changes, ..options(&address, None, &account(&address)) }, Arc::new(Fixed));
        let told = |tool: &dyn BuiltInTool| {
            let Tool { name, annotations, kind, .. } = tool.tool();
            assert_eq!(kind, ToolKind::Drive);
            (name.to_string(), annotations.read_only, annotations.destructive)
        };
        tools.iter().map(|tool| told(&**tool)).collect::<Vec<_>>()
    };
    let reading = [("google_drive_search", true, false), ("google_drive_read", true, false)];
    let changing = [
        ("google_drive_create", false, true),
        ("google_drive_append", false, true),
        ("google_drive_delete", false, true),
    ];
    let told = |rows: &[(&str, bool, bool)]| {
        rows.iter()
            .map(|(name, reads, destroys)| ((*name).to_owned(), Some(*reads), Some(*destroys)))
            .collect::<Vec<_>>()
    };
    assert_eq!(offered(false), told(&reading));
    assert_eq!(offered(true), told(&[&reading[..], &changing[..]].concat()));
}

#[tokio::test]
async fn credentials_are_refused_with_their_fix_and_never_shown() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parse = |json: &str| Credentials::parse(&SecretString::from(json)).map(drop).unwrap_err();
    for (json, words) in [
        ("secret-text", "not JSON"),
        ("{}", "service_account or authorized_user"),
        (r#"{"type": "service_account", "client_email": "a"}"#, "client_email and private_key"),
        (r#"{"type": "service_account", "client_email": "a", "private_key": "secret-text"}"#, "PEM"),
        (r#"{"type": "authorized_user", "client_id": "a"}"#, "refresh_token"),
    ] {
        let told = parse(json);
        assert!(told.contains(words) && !told.contains("secret-text"), "{told}");
    }
    let mut plain = account("http://oauth.example");
    assert!(parse(&plain.to_string()).contains("https"));
    plain["token_uri"] = json!("https://oauth.example/token");
    let shown = format!("{:?}", Credentials::parse(&SecretString::from(plain.to_string())).unwrap());
    assert!(shown.contains("oauth.example") && !shown.contains("PRIVATE"), "{shown}");
}

#[tokio::test]
async fn a_check_tells_whether_the_folder_exists() {
    let (service, address) = start().await;
    service.put("F", "folder", "application/vnd.google-apps.folder", "root", "");
    let tried = |folder| try_out(options(&address, folder, &account(&address)), Arc::new(Fixed));
    assert_eq!(tried(Some("F")).await, Ok(()));
    assert_eq!(tried(None).await, Ok(()));
    assert_eq!(tried(Some("G")).await, Err("status 404: File not found: G.".to_owned()));
}
