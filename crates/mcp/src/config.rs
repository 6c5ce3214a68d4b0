//! Parses the file of tool servers (`mcpServers`, the common format of MCP clients) and the list of addresses. An
//! invalid entry disables only that server.

mod comments;
mod document;
mod entry;
mod reuse;
mod variables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use secrecy::SecretString;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use self::comments::without_comments;
pub use self::document::Document;
use self::entry::Draft;
use self::variables::Variables;
use domain::tool::ServerName;
use ports::tools::{Endpoint, HttpProtocol, ServerEntries, ServerEntry, ServerOff, Transport};

/// The most servers.
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

/// The parsed configuration.
#[derive(Debug, Default)]
pub struct Configured {
    /// The servers.
    pub servers: ServerEntries,
    /// Secrets in their entries.
    pub secrets: Vec<SecretString>,
}

/// Looks up a variable by name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<SecretString>;

/// Parses all servers. `urls` are servers given only by address and named after their hosts.
///
/// # Errors
/// The file as a whole is not a file of tool servers.
pub fn read(file: Option<File<'_>>, urls: &[String], lookup: Lookup<'_>) -> Result<Configured, String> {
    let mut reader = Reader {
        variables: Variables::new(lookup),
        names: BTreeSet::new(),
        next: HashMap::new(),
        servers: ServerEntries::default(),
    };
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
    /// The number tried next for a server whose name is in use.
    next: HashMap<String, usize>,
    servers: ServerEntries,
}

impl Reader<'_> {
    fn file(&mut self, file: File<'_>) -> Result<(), String> {
        let text = file.text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Ok(());
        }
        let shape: Shape = serde_json::from_str(&without_comments(text)).map_err(|why| {
            format!(
                r#"{}: is not a file of tool servers ({why}); write {{"mcpServers": {{"name": {{...}}}}}}"#,
                file.path
            )
        })?;
        for (key, value) in shape.0 {
            match value {
                Top::Servers(servers) => {
                    for (name, value) in servers.0 {
                        self.entry(file.path, &name, &value);
                    }
                }
                Top::NoServers => {
                    return Err(format!(r#"{}: {key} must be an object; write {{"name": {{...}}}}"#, file.path));
                }
                Top::LikeServer => self.warn(format!(
                    r#"{}: {key} looks like a server and is ignored: write {{"mcpServers": {{"{key}": {{...}}}}}}"#,
                    file.path
                )),
                Top::Other if key == "$schema" || key == "inputs" => {}
                Top::Other => self.warn(format!("{}: {key} is not known and ignored", file.path)),
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &str, key: &str, value: &Value) {
        let name = legal(key);
        let place = format!("{path}: {key}");
        if name != key {
            self.warn(format!("{place}: is named {name} here, because a name may only contain letters, digits, - _ ."));
        }
        if !self.take(&name) {
            let unique = self.unique(&name);
            return self.off(&unique, Some(format!("{place}: the name is used twice; rename one of the servers")));
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

    /// Adds a server given only by its address.
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

    /// Reserves a name; returns false if it is in use.
    fn take(&mut self, name: &str) -> bool {
        self.names.insert(name.to_owned())
    }

    /// Returns an unused name with this prefix.
    fn unique(&mut self, name: &str) -> String {
        let next = self.next.entry(name.to_owned()).or_insert(2);
        loop {
            let free = format!("{name}-{next}");
            *next += 1;
            if self.names.insert(free.clone()) {
                return free;
            }
        }
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

/// Replaces characters that are invalid in paths, keys and tool names.
#[must_use]
pub fn legal(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = name.trim().chars().map(plain).take(NAME_MAX).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

/// True if this key holds servers; `servers` is used by some editors.
fn holds_servers(key: &str) -> bool {
    matches!(key, "mcpServers" | "mcp_servers" | "servers")
}

/// The file's keys in order. Other programs store more than servers in it.
struct Shape(Vec<(String, Top)>);

/// The value of a key of the file.
enum Top {
    Servers(Servers),
    /// Something else in the place of servers.
    NoServers,
    /// A server's entry in the wrong place.
    LikeServer,
    Other,
}

impl Top {
    fn other(value: &Value) -> Self {
        let like = ["command", "url", "server_url", "serverUrl", "httpUrl"].iter().any(|key| value.get(key).is_some());
        if like { Self::LikeServer } else { Self::Other }
    }
}

/// The servers in the file's order, duplicates included.
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
                    let value = if holds_servers(&key) {
                        map.next_value::<Option<Servers>>()?.map_or(Top::NoServers, Top::Servers)
                    } else {
                        Top::other(&map.next_value::<Value>()?)
                    };
                    keys.push((key, value));
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
