//! `staffai tools`: lists the catalogue and its permissions, and calls one tool by hand. With the address of a server,
//! no configuration is needed, so any server can be tested.

mod configured;
pub(crate) mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use tokio::time::Instant;

use self::configured::Catalogued;
use crate::app::servers;
use crate::app::{Cli, Options, exit};
use domain::clean;
use domain::tool::catalogue::Catalogue;
use domain::tool::{CallError, Effect, ServerName, ToolRequest, ToolResult, schema};
use ports::tools::{Endpoint, HttpProtocol, Listing, ServerEntry, Transport};

/// The timeout of the call if none is configured.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Lists all tools, one per line.
    List {
        /// Only tools of this category, such as search or a kind in mcp.json.
        #[arg(long, value_name = "WORD")]
        category: Option<String>,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        options: Options,
    },
    /// Shows all details of one tool.
    Show {
        /// The name of the tool.
        name: String,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        options: Options,
    },
    /// Calls one tool and prints its result.
    Call {
        /// The name of the tool.
        name: String,
        /// The arguments, as a JSON object.
        #[arg(default_value = "{}")]
        arguments: String,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        options: Options,
    },
}

/// The server, and the member whose permissions apply.
#[derive(Debug, Clone, Args)]
pub(crate) struct Of {
    /// The address of a server, instead of the configured ones; its tools keep their own names.
    #[arg(long, value_name = "URL", conflicts_with = "member")]
    server: Option<String>,
    /// The id of a member whose permissions are checked. Default: no check.
    #[arg(long = "as", value_name = "ID")]
    member: Option<String>,
    /// The id of a role of the member. Can be repeated.
    #[arg(long, value_name = "ID", requires = "member")]
    role: Vec<String>,
    /// The id of the member's channel.
    #[arg(long, value_name = "ID", requires = "member")]
    channel: Option<String>,
    /// The door of the member.
    #[arg(long, value_name = "NAME", requires = "member", default_value = "discord")]
    door: String,
}

impl Action {
    pub(crate) fn options(&self) -> &Options {
        match self {
            Self::List { options, .. } | Self::Show { options, .. } | Self::Call { options, .. } => options,
        }
    }

    const fn of(&self) -> &Of {
        match self {
            Self::List { of, .. } | Self::Show { of, .. } | Self::Call { of, .. } => of,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(cli: &Cli, action: &Action) -> u8 {
    let arguments = match action {
        Action::Call { arguments, .. } => arguments.as_str(),
        Action::List { .. } | Action::Show { .. } => "{}",
    };
    let arguments = match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("the arguments are no JSON object: {error}; write them like '{{\"text\": \"hello\"}}'");
            return exit::USAGE;
        }
    };
    let of = action.of();
    if let Some(url) = &of.server {
        return alone(url, action, arguments).await;
    }
    let catalogued = match Catalogued::read(cli, of).await {
        Ok(catalogued) => catalogued,
        Err(code) => return code,
    };
    let code = match action {
        Action::List { category, .. } => catalogued.list(category.as_deref()),
        Action::Show { name, .. } => catalogued.show(name),
        Action::Call { name, .. } => catalogued.call(name, arguments).await,
    };
    catalogued.close().await;
    code
}

/// Connects to one server without a configuration.
async fn alone(url: &str, action: &Action, arguments: Map<String, Value>) -> u8 {
    let endpoint =
        Endpoint { url: url.to_owned(), protocol: HttpProtocol::Either, headers: BTreeMap::new(), allow_http: false };
    let entry = ServerEntry::new(ServerName::new("server"), Transport::Http(endpoint));
    let tried = servers::try_one(&entry, None).await;
    let code = match (&tried.outcome, action) {
        (Err(mistake), _) => {
            eprintln!("{url}: {}", harmless(mistake));
            exit::NEGATIVE
        }
        (Ok((_, listing)), Action::List { .. }) => {
            for tool in &listing.tools {
                say!("{}: {}", tool.name, first_line(&tool.description));
            }
            listing.warnings.iter().for_each(|warning| eprintln!("warning: {}", harmless(warning)));
            exit::FINE
        }
        (Ok((_, listing)), Action::Show { name, .. }) => match listing.tools.iter().find(|tool| *tool.name == **name) {
            Some(tool) => {
                say!("{}\n{}", tool.name, harmless(&tool.description));
                say!("{}", pretty(&tool.input_schema.to_value()));
                exit::FINE
            }
            None => unknown(name, listing.tools.iter().map(|tool| &*tool.name)),
        },
        (Ok((server, listing)), Action::Call { name, .. }) => match fits(&entry, listing, name, &arguments) {
            Ok(()) => {
                let request = ToolRequest::new(name, arguments, Effect::Changes, CALL_TIMEOUT);
                let begun = Instant::now();
                told(&server.call(&request, None).await, begun.elapsed())
            }
            Err(code) => code,
        },
    };
    servers::close(&[tried]).await;
    code
}

/// True if a server offers this tool, and the arguments are valid for it.
fn fits(entry: &ServerEntry, listing: &Listing, name: &str, arguments: &Map<String, Value>) -> Result<(), u8> {
    let Some(tool) = listing.tools.iter().find(|tool| *tool.name == *name) else {
        return Err(unknown(name, listing.tools.iter().map(|tool| &*tool.name)));
    };
    let offer = entry.offer(vec![Arc::new(tool.clone())]);
    let offered = Catalogue::new(&[offer], &Catalogue::default(), schema::of);
    let checked = offered.entries().iter().try_for_each(|tool| tool.check(&Value::Object(arguments.clone())));
    checked.map_err(|mistake| misfit(&mistake, name))
}

/// Prints the mistake in the arguments of a call.
fn misfit(mistake: &str, name: &str) -> u8 {
    let mistake = harmless(mistake.strip_prefix("the arguments: ").unwrap_or(mistake));
    eprintln!("invalid arguments: {mistake}; `staffai tools show {name}` shows the definition of the tool");
    exit::USAGE
}

/// Prints the result of a call.
fn told(result: &Result<ToolResult, CallError>, took: Duration) -> u8 {
    let took = took.as_millis();
    match result {
        Ok(result) => {
            say!("{}", harmless(&result.to_text()));
            eprintln!("{} after {took} ms", if result.is_error { "the tool failed" } else { "done" });
            if result.is_error { exit::NEGATIVE } else { exit::FINE }
        }
        Err(error) => {
            eprintln!("{}: {} (after {took} ms)", error.kind.as_str(), harmless(&error.message));
            exit::NEGATIVE
        }
    }
}

/// Prints that the tool does not exist, and similar names.
fn unknown<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> u8 {
    let mut near: Vec<&str> = all.filter(|known| known.contains(name) || known.ends_with(name)).take(5).collect();
    near.sort_unstable();
    let hint =
        if near.is_empty() { "see `staffai tools list`".to_owned() } else { format!("there is {}", near.join(", ")) };
    eprintln!("there is no tool {}; {hint}", harmless(name));
    exit::NEGATIVE
}

fn first_line(text: &str) -> String {
    harmless(text.trim().lines().next().unwrap_or_default())
}

fn pretty(schema: &Value) -> String {
    harmless(&serde_json::to_string_pretty(schema).unwrap_or_default())
}

/// Returns text from outside, with control and invisible characters escaped for the terminal.
pub(crate) fn harmless(text: &str) -> String {
    clean::escaped(&text.replace("\r\n", "\n"))
}
