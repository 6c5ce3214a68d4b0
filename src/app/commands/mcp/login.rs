//! `staffai mcp login`: logs the operator in at a tool server.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use reqwest::Url;

use super::{logins, wrong};
use crate::app::commands::reading;
use crate::app::commands::reading::Reading;
use crate::app::commands::tools::harmless;
use crate::app::servers::{self, Tried};
use crate::app::system::random_bits;
use crate::app::{Cli, exit, setting_files};
use mcp::oauth::flow::{self, Chance, Client, Made, Trust};
use ports::tools::Transport;

/// The timeout for the person to log in.
const PERSON_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The operator's options for a login.
#[derive(Default)]
pub(super) struct Wish<'a> {
    /// The client that is already registered there.
    pub known: Option<Client>,
    /// The variable that holds the client's secret.
    pub secret: Option<&'a str>,
    /// The origins that are allowed besides the authorization server's.
    pub origins: &'a [String],
    /// The scopes that are requested besides the server's.
    pub scopes: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(cli: &Cli, name: &str, wish: Wish<'_>) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let lookup = reading::lookup(&loaded);
    let origins: Result<Vec<String>, String> = wish.origins.iter().map(|origin| origin_of(origin)).collect();
    let origins = match origins {
        Ok(origins) => origins,
        Err(mistake) => return wrong(&mistake, exit::USAGE),
    };
    let mut known = wish.known;
    if let (Some(client), Some(variable)) = (&mut known, wish.secret) {
        client.secret = lookup(variable);
        if client.secret.is_none() {
            return wrong(
                &format!("the variable {} of --client-secret-env is not set", harmless(variable)),
                exit::USAGE,
            );
        }
    }
    let entries = match setting_files::servers(&loaded.settings, &lookup) {
        Ok((configured, _)) => configured.servers.entries,
        Err(mistake) => return wrong(&mistake, exit::USAGE),
    };
    let Some(entry) = entries.iter().find(|entry| entry.name.as_str() == name) else {
        let known: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        return wrong(
            &format!("there is no tool server {}; there are {}", harmless(name), known.join(", ")),
            exit::USAGE,
        );
    };
    let Transport::Http(endpoint) = &entry.transport else {
        return wrong(
            &format!("{name} is a program on this machine and wants no login; its keys stand in env"),
            exit::USAGE,
        );
    };
    let chance = Chance { verifier: random_bits(), state: random_bits() };
    let trust = Trust { origins: &origins, ask: &confirmed };
    let begun = match flow::begin(endpoint, &chance, known, &trust, &wish.scopes).await {
        Ok(begun) => begun,
        Err(mistake) => return wrong(&format!("{name}: {}", harmless(&mistake)), exit::NEGATIVE),
    };
    say!("Open this address in a browser on this machine, and log in there:\n\n{}\n", harmless(begun.url()));
    let logins = logins(&loaded.settings);
    match begun.finish(&logins, &entry.name, PERSON_TIMEOUT).await {
        Ok(made) => tell_end(made),
        Err(mistake) => return wrong(&format!("{name}: {}", harmless(&mistake)), exit::NEGATIVE),
    }
    let tried = servers::try_one(entry, Some(&logins)).await;
    let Tried { outcome, .. } = &tried;
    let code = match outcome {
        Ok((_, listing)) => {
            say!(
                "{name} works, with {} tools; a running bot takes the login when it connects next",
                listing.tools.len()
            );
            exit::FINE
        }
        Err(mistake) => wrong(&format!("{name}: logged in, and still: {}", harmless(mistake)), exit::NEGATIVE),
    };
    servers::close(&[tried]).await;
    code
}

/// Prints a warning if a login cannot be renewed.
fn tell_end(made: Made) {
    match made {
        Made { renewable: true, .. } => {}
        Made { lasts: Some(seconds), .. } => {
            say!(
                "This login gave no refresh token: it ends in {} minutes, and then you have to log in again",
                seconds / 60
            );
        }
        Made { lasts: None, .. } => {
            say!("This login gave no refresh token: when it ends, you have to log in again");
        }
    }
}

/// Asks the operator to confirm an origin that an authorization server names. False without a terminal.
fn confirmed(issuer: &str, key: &str, origin: &str) -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    let (issuer, key, origin) = (harmless(issuer), harmless(key), harmless(origin));
    eprint!(
        "The authorization server {issuer} has its {key} on another origin, {origin}. Send the login there? [y/N] "
    );
    let mut answer = String::new();
    let asked = std::io::stderr().flush().and_then(|()| std::io::stdin().read_line(&mut answer));
    asked.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Returns an origin in the form for comparison.
fn origin_of(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| format!("--allow-origin {} is no origin; write https://host", harmless(text)))?;
    Ok(url.origin().ascii_serialization())
}
