//! Reads the file of tool servers (`mcpServers`, as the ecosystem writes it) and the list of addresses. A bad entry switches that
//! server off and nothing else.

mod document;
mod entry;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use secrecy::SecretString;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

pub use self::document::Document;
use self::entry::Draft;
use self::variables::Variables;
use crate::domain::tool::ServerName;
use crate::ports::tools::{Endpoint, HttpProtocol, ServerEntries, ServerEntry, ServerOff, Transport};

/// The most servers that are used.
pub const SERVERS_MAX: usize = 100;
/// The longest name of a server, in bytes.
const NAME_MAX: usize = 48;

/// A file of tool servers.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Its path, for messages.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Configured {
    /// The servers.
    pub servers: ServerEntries,
    /// Secrets that their entries hold.
    pub secrets: Vec<SecretString>,
}

/// Values of variables by name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<SecretString>;

/// Reads all servers. `urls` are addresses without more; they are named after their hosts.
///
/// # Errors
/// The file as a whole is none of tool servers.
pub fn read(file: Option<File<'_>>, urls: &[String], lookup: Lookup<'_>) -> Result<Configured, String> {
    let mut reader =
        Reader { variables: Variables::new(lookup), names: BTreeSet::new(), servers: ServerEntries::default() };
    if let Some(file) = file {
        reader.file(file)?;
    }
    for url in urls {
        reader.url(url);
    }
    Ok(reader.done())
}

struct Reader<'a> {
    variables: Variables<'a>,
    names: BTreeSet<String>,
    servers: ServerEntries,
}

impl Reader<'_> {
    fn file(&mut self, file: File<'_>) -> Result<(), String> {
        let text = file.text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Ok(());
        }
        let shape: Shape = serde_json::from_str(text).map_err(|why| {
            format!(r#"{}: is no file of tool servers: {why}; write {{"mcpServers": {{"name": {{...}}}}}}"#, file.path)
        })?;
        for (key, value) in shape.0 {
            match (key.as_str(), value) {
                ("mcpServers" | "mcp_servers", Some(Servers(servers))) => {
                    for (name, value) in servers {
                        self.entry(file.path, &name, &value);
                    }
                }
                ("mcpServers" | "mcp_servers", None) => {
                    return Err(format!(r#"{}: {key} must be an object; write {{"name": {{...}}}}"#, file.path));
                }
                ("$schema", _) => {}
                _ => self.warn(format!("{}: {key} is not known and left alone", file.path)),
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &str, key: &str, value: &Value) {
        let name = legal(key);
        let place = format!("{path}: {key}");
        if name != key {
            self.warn(format!("{place}: is called {name} here, as only letters, digits, - _ . may stand in a name"));
        }
        if !self.take(&name) {
            let unique = self.unique(&name);
            return self.off(&unique, Some(format!("{place}: the name is there twice; rename one of the servers")));
        }
        let draft = Draft::read(value, &mut self.variables);
        for warning in draft.warnings {
            self.warn(format!("{place}: {warning}"));
        }
        match draft.entry {
            Ok(Some(build)) => self.add(build(ServerName::new(name))),
            Ok(None) => self.off(&name, None),
            Err(mistake) => self.off(&name, Some(format!("{place}: {mistake}"))),
        }
    }

    /// A server that is only an address.
    fn url(&mut self, written: &str) {
        let host = written.split_once("://").map_or(written, |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default();
        let name = legal(&host.replace('.', "-"));
        let name = if self.take(&name) { name } else { self.unique(&name) };
        match entry::address(written, &mut self.variables) {
            Ok(url) => {
                let protocol = HttpProtocol::Either;
                let endpoint = Endpoint { url, protocol, headers: BTreeMap::new(), allow_http: false };
                self.add(ServerEntry::new(ServerName::new(name), Transport::Http(endpoint)));
            }
            Err(mistake) => self.off(&name, Some(format!("MCP_SERVERS: {mistake}"))),
        }
    }

    /// Whether a name was free; it is not any more.
    fn take(&mut self, name: &str) -> bool {
        self.names.insert(name.to_owned())
    }

    /// A free name that begins like this one.
    fn unique(&mut self, name: &str) -> String {
        let names = (2..).map(|number| format!("{name}-{number}"));
        // One of the first names is free: fewer are taken.
        let mut free = names.filter(|name| !self.names.contains(name));
        let free = free.next().unwrap_or_default();
        self.names.insert(free.clone());
        free
    }

    fn add(&mut self, entry: ServerEntry) {
        if self.servers.entries.len() == SERVERS_MAX {
            let name = entry.name.as_str().to_owned();
            return self.off(&name, Some(format!("there are {SERVERS_MAX} servers already; remove some")));
        }
        self.servers.entries.push(entry);
    }

    fn off(&mut self, name: &str, mistake: Option<String>) {
        if self.servers.off.len() < SERVERS_MAX {
            self.servers.off.push(ServerOff { name: ServerName::new(name), mistake });
        }
    }

    fn warn(&mut self, warning: String) {
        if self.servers.warnings.len() < SERVERS_MAX {
            self.servers.warnings.push(warning);
        }
    }

    fn done(mut self) -> Configured {
        self.servers.entries.sort_by(|one, other| one.name.cmp(&other.name));
        self.servers.off.sort_by(|one, other| one.name.cmp(&other.name));
        Configured { servers: self.servers, secrets: self.variables.secrets }
    }
}

/// A name as it may stand in paths, keys and names of tools.
fn legal(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = name.trim().chars().map(plain).take(NAME_MAX).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

/// The file: its keys in order. Other programs keep more than servers in it.
struct Shape(Vec<(String, Option<Servers>)>);

/// The servers in the file's order, also those of one name.
struct Servers(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
                let mut keys = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let servers = if matches!(key.as_str(), "mcpServers" | "mcp_servers") {
                        map.next_value::<Option<Servers>>()?
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        None
                    };
                    keys.push((key, servers));
                }
                Ok(Shape(keys))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Servers;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of servers")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Servers, A::Error> {
                let mut servers = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    servers.push(entry);
                }
                Ok(Servers(servers))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests;
