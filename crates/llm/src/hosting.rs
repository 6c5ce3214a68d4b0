//! Tools that the provider runs itself, on the wires that have them: which ones a request may name, with the addresses
//! and credentials of tool servers, and which ones are left out for a while because the provider failed with them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use domain::completion::Request;
use domain::hosted::{HostedKind, HostedTool, WEB_SEARCH};
use domain::tool::ServerName;
use ports::tools::{Endpoint, ServerEntry, Transport};
use ports::{ModelError, ModelErrorKind};
use telemetry::events::LLM_PLAIN;

#[cfg(test)]
mod tests;

/// The time for which a tool is omitted after the provider failed with it.
const LEFT_OUT_FOR: Duration = Duration::from_secs(600);

/// The tool servers that a provider can reach: those with an address.
pub type HostableServers = HashMap<ServerName, HostableServer>;

/// A tool server that a provider can connect to.
pub struct HostableServer {
    pub url: String,
    pub description: Option<String>,
    /// Its bearer token.
    pub token: Option<SecretString>,
    pub headers: BTreeMap<String, SecretString>,
}

/// Returns the servers with an address whose calls require no approval. They keep only configured credentials: a login
/// stays in this process, and the provider fails with a server that requires one.
pub fn hostable(entries: &[ServerEntry]) -> HostableServers {
    let of = |entry: &ServerEntry| match &entry.transport {
        Transport::Http(endpoint) if !entry.always_ask => {
            Some((entry.name.clone(), HostableServer::of(endpoint, entry.description.clone())))
        }
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

impl HostableServer {
    fn of(endpoint: &Endpoint, description: Option<String>) -> Self {
        let mut headers = endpoint.headers.clone();
        let bearer = headers.iter().find_map(|(name, value)| {
            let token = bearer_token(value.expose_secret()).filter(|_| name.eq_ignore_ascii_case("authorization"))?;
            Some((name.clone(), SecretString::from(token)))
        });
        let token = bearer.map(|(name, token)| {
            headers.remove(&name);
            token
        });
        Self { url: endpoint.url.clone(), description, token, headers }
    }
}

/// A hosted tool of one request, with the data that only the wire needs.
#[derive(Clone, Copy)]
pub enum Hosted<'a> {
    WebSearch,
    /// A tool server, with the tools that the caller may use.
    Server {
        label: &'a str,
        server: &'a HostableServer,
        tools: &'a [String],
    },
}

impl Hosted<'_> {
    /// Returns its name in logs and errors.
    fn name(&self) -> &str {
        match self {
            Self::WebSearch => WEB_SEARCH,
            Self::Server { label, .. } => label,
        }
    }
}

/// The hosted tools of one request, and the functions that they replace.
#[derive(Default)]
pub struct Hosting<'a> {
    pub tools: Vec<Hosted<'a>>,
    replaced: Vec<&'a str>,
}

impl<'a> Hosting<'a> {
    /// True if a hosted tool takes the place of this function.
    pub fn replaces(&self, function: &str) -> bool {
        self.replaced.contains(&function)
    }

    /// Returns the names of the tools that an error is about, if the provider failed with any.
    pub fn failed(&self, error: &ModelError) -> Vec<String> {
        let about_request = matches!(error.kind, ModelErrorKind::BadRequest | ModelErrorKind::Unsupported);
        let words = error.message.to_lowercase();
        // A status such as 404 may be that of the server, if the words say so.
        let of_server = error.kind == ModelErrorKind::Refused && words.contains("mcp server");
        let fits = about_request || of_server || error.kind == ModelErrorKind::Provider;
        let about_servers =
            fits && ["mcp", "status 424", "server_url", "server_label"].iter().any(|sign| words.contains(sign));
        let about_tools = words.contains("hosted tool") || words.contains("tools[") || words.contains(WEB_SEARCH);
        if self.tools.is_empty() || !(about_servers || about_request && about_tools) {
            return Vec::new();
        }
        let named = |tool: &&Hosted<'a>| words.contains(&tool.name().to_lowercase());
        let of_kind = |tool: &&Hosted<'a>| matches!(tool, Hosted::Server { .. }) == about_servers;
        let names = |chosen: &dyn Fn(&&Hosted<'a>) -> bool| -> Vec<String> {
            self.tools.iter().filter(|tool| chosen(tool)).map(|tool| tool.name().to_owned()).collect()
        };
        let choices: [&dyn Fn(&&Hosted<'a>) -> bool; 3] = [&named, &of_kind, &|_| true];
        choices.into_iter().map(names).find(|found| !found.is_empty()).unwrap_or_default()
    }
}

/// The hosted tools of one row.
#[derive(Default)]
pub struct HostedTools {
    servers: Arc<HostableServers>,
    left_out_until: Mutex<HashMap<String, Instant>>,
}

impl HostedTools {
    pub fn new(servers: Arc<HostableServers>) -> Self {
        Self { servers, left_out_until: Mutex::default() }
    }

    /// Returns the hosted tools that a request names now. Without one, its functions are offered.
    pub fn of<'a>(&'a self, request: &'a Request) -> Hosting<'a> {
        let now = Instant::now();
        let left_out = self.left_out_until.lock();
        let mut hosting = Hosting::default();
        for HostedTool { kind, replaces } in &request.hosted {
            let tool = match kind {
                HostedKind::WebSearch => Hosted::WebSearch,
                HostedKind::Server { name, tools } => match self.servers.get(name) {
                    Some(server) => Hosted::Server { label: name.as_str(), server, tools },
                    None => continue,
                },
            };
            if left_out.get(tool.name()).is_none_or(|until| *until <= now) {
                hosting.tools.push(tool);
                hosting.replaced.extend(replaces.iter().map(String::as_str));
            }
        }
        hosting
    }

    /// Leaves tools out for a while.
    pub fn leave_out(&self, model: &str, tools: Vec<String>, error: &ModelError) {
        let until = Instant::now() + LEFT_OUT_FOR;
        for tool in tools {
            let (reason, text) = (&error.safe_message, error.quoted());
            tracing::warn!(
                event = LLM_PLAIN,
                model,
                without = tool,
                reason,
                text,
                "the provider failed with a tool that it runs itself; the bot runs its functions for a while"
            );
            // The names are those of configured servers, so there are few.
            self.left_out_until.lock().insert(tool, until);
        }
    }
}

fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}
