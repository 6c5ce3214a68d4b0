//! `staffai tools`: the tools of one server, and one call by hand. It needs no configuration, so that any server can be tried.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{Options, exit};
use crate::domain::tool::{Effect, ResultLimits, ServerName, ToolRequest};
use crate::mcp::McpServers;
use crate::ports::tools::{Endpoint, HttpProtocol, ServerEntry, Transport};
use crate::ports::{ToolServer, ToolServers};

/// How long the server may take to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long the call may take.
const CALL_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// The tools of a server, one a line.
    List {
        /// Address of the server.
        #[arg(long, value_name = "URL")]
        server: String,
        #[command(flatten)]
        options: Options,
    },
    /// Calls one tool and prints its result.
    Call {
        /// The tool's name at its server.
        name: String,
        /// The arguments, a JSON object.
        #[arg(default_value = "{}")]
        arguments: String,
        /// Address of the server.
        #[arg(long, value_name = "URL")]
        server: String,
        #[command(flatten)]
        options: Options,
    },
}

impl Action {
    pub(super) fn options(&self) -> &Options {
        match self {
            Self::List { options, .. } | Self::Call { options, .. } => options,
        }
    }
}

/// Does it.
pub(super) async fn run(action: &Action) -> u8 {
    match action {
        Action::List { server, .. } => match connect(server).await {
            Ok(server) => list(&*server).await,
            Err(code) => code,
        },
        Action::Call { name, arguments, server, .. } => {
            let arguments = match serde_json::from_str::<Map<String, Value>>(arguments) {
                Ok(arguments) => arguments,
                Err(error) => {
                    eprintln!("the arguments are no JSON object: {error}; write them like '{{\"text\": \"hello\"}}'");
                    return exit::USAGE;
                }
            };
            match connect(server).await {
                Ok(server) => call(&*server, name, arguments).await,
                Err(code) => code,
            }
        }
    }
}

async fn connect(url: &str) -> Result<Arc<dyn ToolServer>, u8> {
    let endpoint =
        Endpoint { url: url.to_owned(), protocol: HttpProtocol::Either, headers: BTreeMap::new(), allow_http: false };
    let entry = ServerEntry::new(ServerName::new("server"), Transport::Http(endpoint));
    McpServers::default().connect(&entry, CONNECT_WITHIN).await.map_err(|error| {
        eprintln!("{url}: {error}");
        exit::NEGATIVE
    })
}

async fn list(server: &dyn ToolServer) -> u8 {
    let listing = server.list().await;
    server.close().await;
    match listing {
        Ok(listing) => {
            for tool in &listing.tools {
                println!("{}: {}", tool.name, harmless(tool.description.lines().next().unwrap_or_default()));
            }
            listing.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            exit::FINE
        }
        Err(error) => {
            eprintln!("{error}");
            exit::NEGATIVE
        }
    }
}

async fn call(server: &dyn ToolServer, name: &str, arguments: Map<String, Value>) -> u8 {
    let request = ToolRequest {
        name: name.into(),
        arguments,
        effect: Effect::Changes,
        deadline: CALL_WITHIN,
        limits: ResultLimits::default(),
        trace: None,
    };
    let begun = Instant::now();
    let result = server.call(&request, None).await;
    let took = begun.elapsed().as_millis();
    server.close().await;
    match result {
        Ok(result) => {
            println!("{}", harmless(&result.to_text()));
            eprintln!("{} after {took} ms", if result.is_error { "the tool failed" } else { "done" });
            if result.is_error { exit::NEGATIVE } else { exit::FINE }
        }
        Err(error) => {
            eprintln!("{}: {error} (after {took} ms)", error.kind.as_str());
            exit::NEGATIVE
        }
    }
}

/// Words from outside without what a terminal would obey.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}
