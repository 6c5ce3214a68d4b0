//! `staffai mcp login`: lets a person log in at a tool server.

use std::time::Duration;

use super::{logins, wrong};
use crate::app::commands::{self, Reading};
use crate::app::servers::{self, Tried};
use crate::app::system::random_bits;
use crate::app::tools::harmless;
use crate::app::{Cli, exit, reload};
use crate::mcp::oauth::flow::{self, Chance, Client};
use crate::ports::tools::Transport;

/// How long a person may take.
const PERSON_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Does it.
pub(super) async fn run(cli: &Cli, name: &str, known: Option<Client>) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let lookup = commands::lookup(&loaded);
    let entries = match reload::servers(&loaded.settings, &lookup) {
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
    let begun = match flow::begin(endpoint, &chance, known).await {
        Ok(begun) => begun,
        Err(mistake) => return wrong(&format!("{name}: {}", harmless(&mistake)), exit::NEGATIVE),
    };
    say!("Open this address in a browser on this machine, and log in there:\n\n{}\n", harmless(begun.url()));
    let logins = logins(&loaded.settings);
    if let Err(mistake) = begun.finish(&logins, &entry.name, PERSON_WITHIN).await {
        return wrong(&format!("{name}: {}", harmless(&mistake)), exit::NEGATIVE);
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
