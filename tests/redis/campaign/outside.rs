//! The services around the bot, each behind a line that can break, and the bot as a process.

use std::net::{SocketAddr, TcpListener as BlockingListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::StreamExt;
use playground::demo_model::DemoModel;
use playground::guild::Member;
use playground::guild::ids::{ChannelId, UserId};
use playground::limits::Budgets;
use playground::service::{Options, Service};
use ports::Clock;
use serde_json::{Value, json};
use staffai::app::system::SystemClock;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::proxy::Proxy;
use crate::rows::Process;
use crate::server::Server;

/// The number of members who ask.
const MEMBERS: u64 = 12;

/// The number of the bot's address.
const NUMBER: u8 = 40;

/// The heartbeat of the gateway: a process that is stopped for twice as long loses its connection.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The services, and the lines to them.
pub struct Outside {
    pub service: Service,
    pub server: Server,
    pub requests: Proxy,
    pub store: Proxy,
    pub model: Proxy,
    pub tools: Proxy,
    pub nats_line: Proxy,
    pub members: Vec<UserId>,
    pub channels: Vec<ChannelId>,
    nats: Option<Child>,
    nats_port: u16,
    /// The number of lives so far, each with a folder of its own.
    lives: usize,
    dir: TempDir,
    demo: DemoModel,
    provider: JoinHandle<()>,
}

impl Outside {
    pub async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let plenty = (100_000, Duration::from_secs(1));
        let budgets = Budgets {
            writes: plenty,
            reads: plenty,
            deletes: plenty,
            typing: plenty,
            roles: plenty,
            others: plenty,
            global: plenty,
        };
        let options = Options {
            identify_period: Duration::ZERO,
            session_starts: 1_000_000,
            heartbeat: HEARTBEAT,
            budgets,
            ..Options::new(Arc::new(|| SystemClock.now().0))
        };
        let service = Service::start(options).await.unwrap();
        let guild = service.guilds()[0].id;
        let members: Vec<UserId> = (0..MEMBERS).map(|number| UserId(800_000_000_000_000_000 + number)).collect();
        for (number, id) in members.iter().enumerate() {
            let member = Member { id: *id, name: format!("member-{number}"), roles: Vec::new(), bot: false };
            assert!(service.put_member(guild, member));
        }
        let channels = service.channels().iter().map(|channel| channel.id).collect();
        let (server, demo) = (Server::start(), DemoModel::start(Duration::from_millis(20)).await.unwrap());
        let nats_port = BlockingListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let nats_address = SocketAddr::from(([127, 0, 0, 1], nats_port));
        let mut outside = Self {
            requests: Proxy::to(address_of(&service.api_url())).await,
            store: Proxy::to(server.address()).await,
            model: Proxy::to(address_of(demo.base_url().trim_end_matches("/v1"))).await,
            tools: Proxy::to(tool_server().await).await,
            nats_line: Proxy::to(nats_address).await,
            nats: None,
            nats_port,
            provider: provider(format!("nats://{nats_address}")),
            lives: 0,
            dir: TempDir::new().unwrap(),
            service,
            server,
            members,
            channels,
            demo,
        };
        outside.nats_starts();
        outside
    }

    /// Starts the next life of the bot.
    pub fn start(&mut self) -> Process {
        self.lives += 1;
        let (folder, data) = (self.folder(self.lives), self.dir.path().join("data"));
        let servers = json!({"mcpServers": {"docs": {"url": format!("http://{}/mcp", self.tools.address())}}});
        let tools = self.dir.path().join("mcp.json");
        std::fs::write(&tools, servers.to_string()).unwrap();
        let variables = [
            ("DISCORD_BOT_TOKEN", self.service.token().to_owned()),
            ("DISCORD_API_URL", format!("http://{}", self.requests.address())),
            ("DISCORD_REQUESTS_PER_SECOND", "0".to_owned()),
            ("LITELLM_API_URL", format!("http://{}/v1", self.model.address())),
            ("LITELLM_MODEL", "staffai-demo".to_owned()),
            ("RESPONSE_CHANCE", "0".to_owned()),
            ("RATE_LIMIT_COUNT", "100000".to_owned()),
            ("TOKEN_RATE_LIMIT_COUNT", "100000000".to_owned()),
            ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0".to_owned()),
            ("STAFFAI_LLM__TIMEOUT", "2s".to_owned()),
            ("STAFFAI_LLM__REST", "1s".to_owned()),
            ("STAFFAI_TURN__DEADLINE", "10s".to_owned()),
            ("STAFFAI_TURN__LANE", "1000".to_owned()),
            ("STAFFAI_CATCH_UP__PER_CHANNEL", "1000".to_owned()),
            ("STAFFAI_DATA_DIR", data.display().to_string()),
            ("STAFFAI_MCP_CONFIG", tools.display().to_string()),
            ("STAFFAI_NATS_URL", format!("nats://{}", self.nats_line.address())),
            ("REDIS_URL", format!("redis://{}/0", self.store.address())),
        ];
        Process::start(&folder, NUMBER, &variables)
    }

    fn folder(&self, life: usize) -> PathBuf {
        self.dir.path().join(format!("life-{life}"))
    }

    /// Returns the log of the current life.
    pub fn log(&self) -> String {
        self.log_of(self.lives)
    }

    fn log_of(&self, life: usize) -> String {
        std::fs::read_to_string(self.folder(life).join("log")).unwrap_or_default()
    }

    /// Returns the lines with a text in the logs of all lives.
    pub fn lines(&self, text: &str) -> Vec<String> {
        let logs = (1..=self.lives).map(|life| self.log_of(life));
        logs.flat_map(|log| log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    pub fn nats_starts(&mut self) {
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", &self.nats_port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.nats = Some(child.expect("nats-server is missing; ./test installs it"));
    }

    pub fn nats_ends(&mut self) {
        if let Some(mut child) = self.nats.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub async fn end(mut self) {
        self.provider.abort();
        self.nats_ends();
        self.service.stop().await;
        self.demo.stop().await;
    }
}

fn address_of(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Starts a tool server with the tool `look_up`, and returns its address.
async fn tool_server() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |Json(asked): Json<Value>| async move { tool_answer(&asked).await };
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", post(answer))).await });
    address
}

async fn tool_answer(asked: &Value) -> Response {
    let result = match asked["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "docs", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "look_up", "description": "Looks up a name.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        }]}),
        "tools/call" => {
            tokio::time::sleep(Duration::from_millis(30)).await;
            json!({"content": [{"type": "text", "text": "the tide turns at noon"}]})
        }
        _ if asked["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32_601, "message": "Method not found"});
            return Json(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).into_response()
}

/// Starts a provider of the tool `letters` over NATS, directly at the server. It outlives outages.
fn provider(url: String) -> JoinHandle<()> {
    tokio::spawn(async move {
        let options = async_nats::ConnectOptions::new().retry_on_initial_connect().max_reconnects(None);
        let client = options.connect(&url).await.unwrap();
        let mut calls = client.subscribe("staffai.tools.call.desk").await.unwrap();
        let mut asked = client.subscribe("staffai.tools.discover").await.unwrap();
        let input = json!({"type": "object", "properties": {"word": {"type": "string"}}});
        let tool = json!({"name": "letters", "inputSchema": input, "annotations": {"readOnlyHint": true}});
        let told = json!({"provider": "desk", "instance": "1", "tools": [tool]}).to_string();
        let mut heartbeat = tokio::time::interval(Duration::from_secs(1));
        loop {
            // Messages are lost while the server is away, and the next ones are not.
            let _ = tokio::select! {
                Some(call) = calls.next() => {
                    let result = json!({"content": [{"type": "text", "text": "6"}]}).to_string();
                    let Some(reply) = call.reply else { continue };
                    client.publish(reply, result.into()).await
                }
                Some(_) = asked.next() => client.publish("staffai.tools.announce", told.clone().into()).await,
                _ = heartbeat.tick() => client.publish("staffai.tools.heartbeat", told.clone().into()).await,
            };
        }
    })
}
