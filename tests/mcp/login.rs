//! Logins at an independent server with a real authorization server.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use domain::tool::{CallErrorKind, ServerName};
use mcp::McpServers;
use mcp::oauth::Logins;
use mcp::oauth::flow::{self, Chance, Client, Trust};
use ports::tools::ConnectErrorKind;
use ports::{ToolServer, ToolServers};
use serde_json::json;
use staffai::app::system::SystemClock;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{CONNECT, call, endpoint, http, python, root, servers, text, try_connect};

/// A tool server that requires a login; stopped when dropped.
struct Guarded {
    child: Child,
    url: String,
    dir: TempDir,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Guarded {
    /// Starts it, with tokens that live for this many seconds.
    async fn start(life: u32) -> Self {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = root().join("tests/mcp/servers/login.py");
        let mut command = Command::new(python("python"));
        command.arg(script).args([port.to_string(), life.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let guarded = Self { child, url: format!("http://127.0.0.1:{port}/mcp"), dir: TempDir::new().unwrap() };
        let until = Instant::now() + Duration::from_secs(60);
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(Instant::now() < until, "the server does not start");
            sleep(Duration::from_millis(50)).await;
        }
        guarded
    }

    fn logins(&self) -> Logins {
        Logins::below(self.dir.path(), Arc::new(SystemClock))
    }

    fn servers(&self) -> McpServers {
        servers().with_logins(self.logins())
    }

    async fn log_in(&self) {
        let chance = Chance { verifier: [7; 32], state: [9; 16] };
        let begun = flow::begin(&endpoint(&self.url), &chance, None, &Trust::NONE, &[]).await.unwrap();
        let browser = tokio::spawn(browses(begun.url().to_owned()));
        begun.finish(&self.logins(), &ServerName::new("server"), CONNECT).await.unwrap();
        assert!(browser.await.unwrap().contains("staffai has received your login"));
    }

    async fn connect(&self) -> Arc<dyn ToolServer> {
        self.servers().connect(&http(endpoint(&self.url)), CONNECT).await.unwrap()
    }
}

/// Returns the final page in a browser.
async fn browses(url: String) -> String {
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn a_person_logs_in_once_and_the_login_is_renewed_when_it_is_refused() {
    let guarded = Guarded::start(3_600).await;
    let refused = try_connect(&http(endpoint(&guarded.url))).await.err().unwrap();
    assert_eq!(refused.kind, ConnectErrorKind::Unauthorized);
    assert!(refused.to_string().contains("staffai mcp login"), "{refused}");
    guarded.log_in().await;
    let server = guarded.connect().await;
    assert_eq!(text(&server, "add", json!({"a": 2, "b": 3})).await, "5");
    assert_eq!(text(&server, "forget_access", json!({})).await, "done");
    assert_eq!(text(&server, "renewals", json!({})).await, "1", "once, and the call ran");
    // Another process uses the renewed login.
    let other = guarded.connect().await;
    assert_eq!(text(&other, "renewals", json!({})).await, "1");
    assert_eq!(text(&other, "forget_all", json!({})).await, "done");
    let error = call(&server, "add", json!({"a": 2, "b": 3})).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Unauthorized, "{error}");
    // A session that lost its login takes up a new one.
    guarded.log_in().await;
    assert_eq!(text(&server, "add", json!({"a": 2, "b": 4})).await, "6");
}

#[tokio::test]
async fn a_token_is_renewed_before_it_runs_out() {
    let guarded = Guarded::start(30).await;
    guarded.log_in().await;
    let server = guarded.connect().await;
    let renewals: u32 = text(&server, "renewals", json!({})).await.parse().unwrap();
    assert!(renewals > 0, "its life is shorter than what is left to it");
}

#[tokio::test]
async fn a_login_is_for_one_address_and_gives_nothing_to_another() {
    let guarded = Guarded::start(3_600).await;
    guarded.log_in().await;
    let other = Guarded::start(3_600).await;
    let tried = guarded.servers().connect(&http(endpoint(&other.url)), CONNECT).await;
    assert_eq!(tried.err().unwrap().kind, ConnectErrorKind::Unauthorized);
    // A client that the authorization server does not know gets no login.
    let known = Some(Client { id: "nobody".to_owned(), secret: None, port: 0 });
    let begun =
        flow::begin(&endpoint(&other.url), &Chance { verifier: [1; 32], state: [2; 16] }, known, &Trust::NONE, &[])
            .await
            .unwrap();
    let browser = browses(begun.url().to_owned()).await;
    assert!(browser.contains("nobody") || browser.contains("lient"), "{browser}");
    assert!(begun.finish(&other.logins(), &ServerName::new("server"), Duration::from_millis(100)).await.is_err());
}

#[tokio::test]
async fn the_command_logs_in_and_check_says_who_wants_a_login() {
    let guarded = Guarded::start(3_600).await;
    let dir = guarded.dir.path();
    let entries = json!({"mcpServers": {"server": {"url": guarded.url}}}).to_string();
    std::fs::write(dir.join("mcp.json"), entries).unwrap();
    let program = |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_staffai"));
        command.args(arguments).current_dir(dir).env("STAFFAI_DATA_DIR", dir).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let list = ["tools", "list"];
    let before = program(&list).output().await.unwrap();
    assert!(String::from_utf8_lossy(&before.stderr).contains("staffai mcp login"), "{before:?}");
    let mut child = program(&["mcp", "login", "server"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let browses = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("http") {
                return browses(line).await;
            }
        }
        panic!("no address");
    };
    let page = timeout(CONNECT, browses).await.unwrap();
    assert!(page.contains("You can close this page"), "{page}");
    let last = lines.next_line().await.unwrap();
    let status = timeout(CONNECT, child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{last:?}");
    let after = program(&list).output().await.unwrap();
    assert!(String::from_utf8_lossy(&after.stdout).contains("server__add"), "{after:?}");
}
