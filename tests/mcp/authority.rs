//! Logins at authorization servers of the tests, over sockets: strict ones, and ones that redirect elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::tool::ServerName;
use http::{HeaderMap, StatusCode, Uri};
use mcp::oauth::Logins;
use mcp::oauth::flow::{self, Chance, Client, Made, Trust};
use parking_lot::Mutex;
use ports::ToolServers;
use secrecy::SecretString;
use serde_json::{Value, json};
use staffai::app::system::SystemClock;
use tempfile::TempDir;

use crate::support::{CONNECT, endpoint, http, servers, text};
use crate::web::well;

const CHANCE: Chance = Chance { verifier: [7; 32], state: [9; 16] };

/// A tool server with its own authorization server, which rejects everything that is not conformant.
struct Strict {
    url: String,
    state: Arc<Seen>,
    dir: TempDir,
}

/// Returns the metadata of an authorization server, by its own address.
type Describe = Box<dyn Fn(&str) -> Value + Send + Sync>;

struct Seen {
    url: String,
    describe: Describe,
    registered: Mutex<Vec<Value>>,
    forms: Mutex<Vec<(Option<String>, String)>>,
    authorized: Mutex<Vec<String>>,
    given: AtomicUsize,
    reused: AtomicUsize,
}

impl Strict {
    async fn start(describe: impl Fn(&str) -> Value + Send + Sync + 'static) -> Self {
        // Another test may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Seen {
            url: url.clone(),
            describe: Box::new(describe),
            registered: Mutex::default(),
            forms: Mutex::default(),
            authorized: Mutex::default(),
            given: AtomicUsize::new(0),
            reused: AtomicUsize::new(0),
        });
        let app = Router::new().fallback(serve).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, state, dir: TempDir::new().unwrap() }
    }

    fn server(&self) -> String {
        format!("{}/mcp", self.url)
    }

    fn logins(&self) -> Logins {
        Logins::below(self.dir.path(), Arc::new(SystemClock))
    }

    async fn log_in(&self, known: Option<Client>, trust: &Trust<'_>) -> Result<Made, String> {
        let begun = flow::begin(&endpoint(&self.server()), &CHANCE, known, trust, &[]).await?;
        let address = begun.url().to_owned();
        let browser = tokio::spawn(async move { reqwest::get(address).await.unwrap().text().await.unwrap() });
        let made = begun.finish(&self.logins(), &ServerName::new("server"), CONNECT).await;
        browser.abort();
        made
    }
}

/// The metadata of an honest server.
fn metadata(url: &str) -> Value {
    json!({
        "issuer": url, "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
        "registration_endpoint": format!("{url}/register"), "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["tools", "offline_access"], "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    })
}

async fn serve(State(seen): State<Arc<Seen>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let query = |name: &str| {
        let url = reqwest::Url::parse(&format!("http://x/?{}", uri.query().unwrap_or_default())).unwrap();
        url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let url = &seen.url;
    match uri.path() {
        "/mcp" if headers.contains_key("authorization") => well(&message, "one"),
        "/mcp" => (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer error=\"invalid_token\"")]).into_response(),
        "/.well-known/oauth-protected-resource/mcp" => {
            axum::Json(json!({"resource": format!("{url}/"), "authorization_servers": [url]})).into_response()
        }
        "/.well-known/oauth-authorization-server" => match (seen.describe)(url) {
            Value::Null => StatusCode::NOT_FOUND.into_response(),
            document => axum::Json(document).into_response(),
        },
        "/register" => {
            if message.as_object().is_none_or(|given| given.values().any(Value::is_null)) {
                return (StatusCode::BAD_REQUEST, r#"{"error":"invalid_client_metadata"}"#).into_response();
            }
            seen.registered.lock().push(message.clone());
            let client = json!({"client_id": "c 1", "client_secret": "s:1",
                "token_endpoint_auth_method": message["token_endpoint_auth_method"]});
            (StatusCode::CREATED, axum::Json(client)).into_response()
        }
        "/authorize" => {
            seen.authorized.lock().push(uri.query().unwrap_or_default().to_owned());
            let target = format!("{}?code=k&state={}", query("redirect_uri").unwrap(), query("state").unwrap());
            (StatusCode::FOUND, [("location", target)]).into_response()
        }
        "/token" => {
            let header = headers.get("authorization").map(|header| header.to_str().unwrap().to_owned());
            let form = String::from_utf8(body.to_vec()).unwrap();
            // Time for others to send the same refresh token.
            tokio::time::sleep(Duration::from_millis(60)).await;
            let number = seen.given.load(Ordering::SeqCst);
            let refreshes = form.contains("grant_type=refresh_token");
            seen.forms.lock().push((header, form.clone()));
            if refreshes && !form.contains(&format!("refresh_token=r{number}&")) {
                seen.reused.fetch_add(1, Ordering::SeqCst);
                return (StatusCode::BAD_REQUEST, r#"{"error":"invalid_grant"}"#).into_response();
            }
            let number = seen.given.fetch_add(1, Ordering::SeqCst) + 1;
            let tokens = json!({"access_token": format!("a{number}"), "token_type": "Bearer", "expires_in": 5,
                "refresh_token": format!("r{number}")});
            axum::Json(tokens).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

#[tokio::test]
async fn a_strict_authorization_server_gets_what_the_standards_have() {
    let strict = Strict::start(metadata).await;
    let made = strict.log_in(None, &Trust::NONE).await.unwrap();
    assert!(made.renewable);
    let registered = strict.state.registered.lock()[0].clone();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(
        (&registered["scope"], &registered["token_endpoint_auth_method"]),
        (&json!("offline_access"), &json!("client_secret_basic"))
    );
    let asked = strict.state.authorized.lock()[0].clone();
    let published = format!("resource={}", utf8(&format!("{}/", strict.url)));
    for part in ["scope=offline_access", "prompt=consent", &published] {
        assert!(asked.contains(part), "{part} in {asked}");
    }
    let (header, form) = strict.state.forms.lock()[0].clone();
    assert_eq!(header.unwrap(), format!("Basic {}", STANDARD.encode("c%201:s%3A1")));
    assert!(!form.contains("client_secret") && form.contains(&published), "{form}");
}

fn utf8(text: &str) -> String {
    let mut url = reqwest::Url::parse("http://x/").unwrap();
    url.query_pairs_mut().append_pair("k", text);
    url.query().unwrap().trim_start_matches("k=").to_owned()
}

#[tokio::test]
async fn a_client_with_a_secret_is_used_as_it_is_registered() {
    for (methods, in_header) in [(json!(["client_secret_basic"]), true), (json!(["client_secret_post"]), false)] {
        let strict = Strict::start(move |url| {
            let mut document = metadata(url);
            document["token_endpoint_auth_methods_supported"] = methods.clone();
            document.as_object_mut().unwrap().remove("registration_endpoint");
            document
        })
        .await;
        let known = Client { id: "own".to_owned(), secret: Some(SecretString::from("key")), port: 0 };
        strict.log_in(Some(known), &Trust::NONE).await.unwrap();
        let (header, form) = strict.state.forms.lock()[0].clone();
        assert_eq!((header.is_some(), form.contains("client_secret=key")), (in_header, !in_header), "{form}");
    }
}

#[tokio::test]
async fn a_server_of_the_first_revision_needs_no_description() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let strict = Strict::start(|_| Value::Null).await;
    // Its tool server has no metadata of a protected resource, and it has none itself.
    let (target, own) = (strict.url.clone(), url.clone());
    let app = Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: Bytes| {
        let target = format!("{target}{}", uri.path());
        let known = !uri.path().starts_with("/.well-known");
        async move {
            if !known {
                return StatusCode::NOT_FOUND.into_response();
            }
            let answer = reqwest::Client::new().post(target).headers(headers).body(body).send().await.unwrap();
            (StatusCode::from_u16(answer.status().as_u16()).unwrap(), answer.bytes().await.unwrap()).into_response()
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    let begun = flow::begin(&endpoint(&format!("{own}/mcp")), &CHANCE, None, &Trust::NONE, &[]).await.unwrap();
    assert!(begun.url().starts_with(&format!("{url}/authorize?")), "{}", begun.url());
    assert_eq!(strict.state.registered.lock().len(), 1);
}

#[tokio::test]
async fn five_processes_renew_a_login_one_after_the_other() {
    let strict = Strict::start(metadata).await;
    strict.log_in(None, &Trust::NONE).await.unwrap();
    let connects = (0..5).map(|_| async {
        let servers = servers().with_logins(strict.logins());
        let server = servers.connect(&http(endpoint(&strict.server())), CONNECT).await.unwrap();
        text(&server, "echo", json!({"text": "in"})).await
    });
    let answers = futures_util::future::join_all(connects).await;
    assert!(answers.iter().all(|answer| answer == "in"), "{answers:?}");
    let seen = &strict.state;
    println!("five connections renewed {} times", seen.given.load(Ordering::SeqCst) - 1);
    assert_eq!(seen.reused.load(Ordering::SeqCst), 0, "no refresh token is used twice");
    assert!(seen.given.load(Ordering::SeqCst) > 1);
}

#[tokio::test]
async fn endpoints_on_another_origin_get_nothing_unless_the_operator_confirms_them() {
    let other = Strict::start(metadata).await;
    let elsewhere = other.url.clone();
    for key in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
        let (target, named) = (elsewhere.clone(), key.to_owned());
        let strict = Strict::start(move |url| {
            let mut document = metadata(url);
            let path = document[&named].as_str().unwrap().trim_start_matches(url).to_owned();
            document[&named] = format!("{target}{path}").into();
            document
        })
        .await;
        let error = strict.log_in(None, &Trust::NONE).await.unwrap_err();
        assert!(error.contains(key) && error.contains(&format!("--allow-origin {elsewhere}")), "{error}");
        let asked = Mutex::new(Vec::new());
        let confirms = |issuer: &str, key: &str, origin: &str| {
            asked.lock().push([issuer.to_owned(), key.to_owned(), origin.to_owned()]);
            true
        };
        strict.log_in(None, &Trust { origins: &[], ask: &confirms }).await.unwrap();
        assert_eq!(*asked.lock(), [[strict.url.clone(), key.to_owned(), elsewhere.clone()]]);
        let origins = [elsewhere.clone()];
        strict.log_in(None, &Trust { origins: &origins, ask: &|_, _, _| panic!("it was named before") }).await.unwrap();
    }
}

#[tokio::test]
async fn a_login_is_not_led_to_other_networks() {
    // This may be the first test of its process that makes a client.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for inside in ["http://10.255.255.1:9", "https://192.168.77.1", "http://169.254.169.254", "https://[fd00::1]"] {
        let issuer = inside.to_owned();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let own = url.clone();
        let app = Router::new().fallback(move |uri: Uri| {
            let document = json!({"resource": format!("{own}/mcp"), "authorization_servers": [issuer]});
            async move {
                if uri.path().starts_with("/.well-known/oauth-protected-resource") {
                    axum::Json(document).into_response()
                } else {
                    StatusCode::UNAUTHORIZED.into_response()
                }
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        let open = ports::tools::Endpoint { allow_http: true, ..endpoint(&format!("{url}/mcp")) };
        let refused = flow::begin(&open, &CHANCE, None, &Trust::NONE, &[]).await.err().unwrap();
        assert!(refused.contains("private network") && refused.contains("--allow-origin"), "{refused}");
    }
}
