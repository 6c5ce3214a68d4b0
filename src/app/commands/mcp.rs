//! `staffai mcp add`: tests a tool server, and adds it to the file of servers if it works. `staffai mcp login`: logs
//! the operator in at a server.

mod login;

use self::login::Wish;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::app::commands::reading;
use crate::app::commands::reading::Reading;
use crate::app::commands::tools::harmless;
use crate::app::servers::{self, Tried};
use crate::app::system::SystemClock;
use crate::app::{Cli, Options, exit, files};
use mcp::config::{self, Configured, Document, File};
use mcp::oauth::Logins;
use mcp::oauth::flow::Client;
use ports::tools::{ServerEntries, ServerEntry};
use settings::Settings;

/// The file, if the settings name none.
const FILE: &str = "mcp.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Tests a server, and adds it to mcp.json if it works.
    Add {
        /// The name of the server here; its tools are named `NAME__tool`.
        name: String,
        /// The address of the server, instead of a program.
        #[arg(long, value_name = "URL", conflicts_with = "program")]
        url: Option<String>,
        /// A header of each request, as NAME=VALUE. ${NAME} inserts a variable.
        #[arg(long, value_name = "NAME=VALUE", requires = "url")]
        header: Vec<String>,
        /// A variable of the program, as NAME=VALUE. ${NAME} inserts a variable of the bot.
        #[arg(long, value_name = "NAME=VALUE", requires = "program")]
        env: Vec<String>,
        /// Allows unencrypted connections to other machines.
        #[arg(long, requires = "url")]
        allow_http: bool,
        /// The server requires a login (OAuth): the entry is written first, and then you log in.
        #[arg(long, requires = "url", conflicts_with = "header")]
        login: bool,
        /// Replaces an existing entry of this name.
        #[arg(long)]
        replace: bool,
        /// The program and its arguments, after --.
        #[arg(last = true, required_unless_present = "url")]
        program: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Logs you in at a server that requires a login (OAuth), and stores the tokens in the data directory.
    Login {
        /// The name of its entry in mcp.json.
        name: String,
        /// The client id at its authorization server, if that does not register clients by itself.
        #[arg(long, value_name = "ID", requires = "port")]
        client_id: Option<String>,
        /// The local port of the browser's redirect. Default: any free port, without a client id.
        #[arg(long, value_name = "PORT", requires = "client_id")]
        port: Option<u16>,
        /// The variable that holds the secret of the client id, if it has one.
        #[arg(long, value_name = "VARIABLE", requires = "client_id")]
        client_secret_env: Option<String>,
        /// A further origin, besides the authorization server's, where its endpoints are allowed. Can be repeated.
        #[arg(long, value_name = "ORIGIN")]
        allow_origin: Vec<String>,
        /// Further scopes to request, besides the server's, separated by blanks. Can be repeated.
        #[arg(long, value_name = "SCOPES")]
        scope: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
}

impl Action {
    pub(crate) fn options(&self) -> &Options {
        match self {
            Self::Add { options, .. } | Self::Login { options, .. } => options,
        }
    }

    /// The operator's options for a login.
    fn wish(&self) -> Wish<'_> {
        let Self::Login { client_id, port, client_secret_env, allow_origin, scope, .. } = self else {
            return Wish::default();
        };
        let scopes = scope.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned).collect();
        let known = client_id.clone().zip(*port).map(|(id, port)| Client { id, secret: None, port });
        Wish { known, secret: client_secret_env.as_deref(), origins: allow_origin, scopes }
    }

    /// Returns the entry for the file.
    fn entry(&self) -> Result<Value, String> {
        let Self::Add { url, header, env, allow_http, program, .. } = self else {
            return Err("a login writes no entry".to_owned());
        };
        let mut entry = Map::new();
        if let Some(url) = url {
            entry.insert("url".to_owned(), json!(url));
            if *allow_http {
                entry.insert("allow_http".to_owned(), json!(true));
            }
        }
        if let Some((command, args)) = program.split_first() {
            entry.insert("command".to_owned(), json!(command));
            entry.insert("args".to_owned(), json!(args));
        }
        for (key, given) in [("headers", header), ("env", env)] {
            let pairs: Option<Map<String, Value>> = given
                .iter()
                .map(|pair| pair.split_once('=').map(|(name, value)| (name.to_owned(), json!(value))))
                .collect();
            let pairs = pairs.ok_or_else(|| format!("{key} are written as NAME=VALUE"))?;
            if !pairs.is_empty() {
                entry.insert(key.to_owned(), pairs.into());
            }
        }
        Ok(entry.into())
    }
}

/// Runs the command.
pub(crate) async fn run(cli: &Cli, action: &Action) -> u8 {
    let (written, replace, logs_in) = match action {
        Action::Add { name, replace, login, .. } => (name, replace, *login),
        Action::Login { name, .. } => return login::run(cli, name, action.wish()).await,
    };
    let name = &config::legal(written);
    if name != written {
        eprintln!("its name here is {name}: names have only letters, digits, -, _ and .");
    }
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let path = loaded.settings.tools.mcp_config.clone().unwrap_or_else(|| PathBuf::from(FILE));
    let entry = match action.entry() {
        Ok(entry) => entry,
        Err(mistake) => return wrong(&mistake, exit::USAGE),
    };
    let text = match files::read(&path) {
        Ok(text) => text.unwrap_or_default(),
        Err(mistake) => return wrong(&mistake, exit::USAGE),
    };
    let shown = path.display().to_string();
    let document = match Document::parse(File { path: &shown, text: &text }) {
        Ok(document) => document,
        Err(mistake) => return wrong(&mistake, exit::USAGE),
    };
    if document.has(name) && !replace {
        return wrong(
            &format!("{shown} has an entry {name} already; choose another name, or add --replace"),
            exit::USAGE,
        );
    }
    let alone = json!({"mcpServers": {name: entry}}).to_string();
    let lookup = reading::lookup(&loaded);
    let Configured { servers, secrets } = match config::read(Some(File { path: &shown, text: &alone }), &[], &*lookup) {
        Ok(configured) => configured,
        Err(mistake) => return wrong(&mistake, exit::USAGE),
    };
    let ServerEntries { entries, off, warnings } = servers;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let Some(server) = entries.first() else {
        let mistake = off.first().and_then(|off| off.mistake.clone()).unwrap_or_default();
        return wrong(&mistake, exit::USAGE);
    };
    let save = || {
        let saved = files::replace(&path, &document.with(name, &entry));
        saved.map_err(|error| wrong(&format!("{shown}: {error}; nothing was written"), exit::NEGATIVE))
    };
    if logs_in {
        if let Err(code) = save() {
            return code;
        }
        say!("{name} is in {shown}; its tools are offered after a login");
        return login::run(cli, name, Wish::default()).await;
    }
    let (tools, took) = match tools_of(server, &secrets).await {
        Ok(known) => known,
        Err(mistake) => return wrong(&format!("{name}: {mistake}; nothing was written"), exit::NEGATIVE),
    };
    if let Err(code) = save() {
        return code;
    }
    say!("{name} works ({took} ms) and is in {shown}; tools: {tools}");
    say!("a running bot uses it within seconds; [[tools.rules]] decide who may use it");
    exit::FINE
}

/// Returns the names of a server's tools and the duration of listing them in milliseconds, or the problem, without
/// these secrets.
async fn tools_of(server: &ServerEntry, secrets: &[SecretString]) -> Result<(String, u128), String> {
    let tried = servers::try_one(server, None).await;
    let Tried { outcome, took, .. } = &tried;
    let hidden = |text: &str| {
        let hide = |text: String, secret: &SecretString| text.replace(secret.expose_secret(), "********");
        secrets.iter().fold(harmless(text), hide)
    };
    let (_, listing) = outcome.as_ref().map_err(|mistake| hidden(mistake))?;
    let names: Vec<&str> = listing.tools.iter().map(|tool| &*tool.name).collect();
    let known = (harmless(&names.join(", ")), took.as_millis());
    servers::close(&[tried]).await;
    Ok(known)
}

/// Returns the stored logins of these settings.
pub(crate) fn logins(settings: &Settings) -> Logins {
    Logins::below(&settings.store.dir, Arc::new(SystemClock))
}

fn wrong(mistake: &str, code: u8) -> u8 {
    eprintln!("{mistake}");
    code
}
