//! Parses one entry of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::reuse;
use super::variables::Variables;
use domain::near;
use domain::tool::{ServerName, ToolKind};
use ports::tools::{Command, Endpoint, HttpProtocol, ServerEntry, Transport};

/// The longest timeout of a call.
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Variables of this process that every child inherits.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
/// The search path of a child if this process has none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Substrings of names of variables and options that hold secrets.
const SECRET_WORDS: [&str; 7] = ["key", "token", "secret", "password", "passwd", "credential", "auth"];

const COMMAND: &str = "command";
const ADDRESSES: [&str; 4] = ["url", "server_url", "serverUrl", HTTP_URL];
/// The address of a server over streamable HTTP in entries whose `url` means one over SSE.
const HTTP_URL: &str = "httpUrl";
/// Allow lists of tools, with the names used by other programs.
const ALLOWS: [&str; 6] = ["allowed_tools", "includeTools", "include_tools", "enabledTools", "enabled_tools", "tools"];
const DENIES: [&str; 4] = ["excludeTools", "exclude_tools", "disabledTools", "disabled_tools"];
/// The least number read as milliseconds in entries of programs that use that unit.
const MILLISECONDS_FROM: u64 = 1_000;
const START_TIMEOUT: &str = "start_timeout";
const TYPES: [&str; 2] = ["type", "transport"];
const KNOWN: [&str; 17] = [
    "environment",
    COMMAND,
    "args",
    "env",
    "cwd",
    "headers",
    "authorization",
    "server_description",
    "require_approval",
    "timeout",
    START_TIMEOUT,
    reuse::KEY,
    "trusted",
    "side_effects",
    "allow_http",
    "kind",
    "category",
];
const SWITCHES: [&str; 2] = ["enabled", "disabled"];
/// Keys whose absence would grant more.
const RESTRICTS: [&str; 4] = ["require_approval", "side_effects", "enabled", "disabled"];

/// The result of parsing an entry.
pub(super) struct Draft {
    /// Builds the named entry; `None` if disabled; or the mistake with its remedy.
    pub entry: Result<Option<Build>, String>,
    pub warnings: Vec<String>,
}

type Build = Box<dyn FnOnce(ServerName) -> ServerEntry>;

impl Draft {
    pub(super) fn read(value: &Value, variables: &mut Variables<'_>) -> Self {
        let Value::Object(map) = value else {
            let mistake = r#"must be an object; write {"command": "...", "args": []} or {"url": "https://..."}"#;
            return Self { entry: Err(mistake.to_owned()), warnings: Vec::new() };
        };
        let mut fields = Fields { map, variables, warnings: Vec::new() };
        let entry = fields.entry();
        Self { entry, warnings: fields.warnings }
    }
}

/// Expands the variables in an address.
///
/// # Errors
/// The address is invalid; the message has the remedy.
pub(super) fn address(written: &str, variables: &mut Variables<'_>) -> Result<String, String> {
    let url = variables.expand(written.trim())?;
    let web = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
    let Some((_, rest)) = web else {
        return Err("the address must begin with https:// (or http:// on this machine)".to_owned());
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("the address has no host or has blanks in it; write https://host/path".to_owned());
    }
    if let Some((login, _)) = host.rsplit_once('@') {
        variables.hide(login);
        return Err("the address contains credentials; put them into headers as Authorization".to_owned());
    }
    Ok(url)
}

struct Fields<'a, 'v> {
    map: &'a Map<String, Value>,
    variables: &'a mut Variables<'v>,
    warnings: Vec<String>,
}

impl Fields<'_, '_> {
    fn entry(&mut self) -> Result<Option<Build>, String> {
        self.unknown()?;
        if self.flag("enabled")? == Some(false) || self.flag("disabled")? == Some(true) {
            return Ok(None);
        }
        let transport = self.transport()?;
        let timeout = self.duration("timeout")?;
        let start_timeout = self.duration(START_TIMEOUT)?;
        let (allowed_tools, denied_tools) = self.tools()?;
        let description = self.text("server_description")?;
        let always_ask = self.approval()?;
        let side_effects = self.flag("side_effects")?;
        let trusted = self.flag("trusted")?.unwrap_or_default();
        let kind = self.kind()?;
        let reuse = reuse::read(self.map.get(reuse::KEY))?;
        Ok(Some(Box::new(move |name| ServerEntry {
            timeout,
            start_timeout,
            allowed_tools,
            denied_tools,
            description,
            always_ask,
            side_effects,
            trusted,
            kind,
            reuse,
            ..ServerEntry::new(name, transport)
        })))
    }

    /// Warns about unknown keys. A misspelled restricting key is an error: ignoring it would allow more than intended.
    fn unknown(&mut self) -> Result<(), String> {
        let known = || KNOWN.into_iter().chain(ADDRESSES).chain(TYPES).chain(SWITCHES).chain(ALLOWS).chain(DENIES);
        let (mut others, mut slips) = (Vec::new(), Vec::new());
        for key in self.map.keys().filter(|key| known().all(|known| known != key.as_str())) {
            // Other programs use other cases for their keys.
            let plainly = snake_case(key);
            match near::nearest(&plainly, known()) {
                Some(meant) if RESTRICTS.contains(&meant) || ALLOWS.contains(&meant) || DENIES.contains(&meant) => {
                    return Err(format!(
                        "{} is not known; did you mean {meant}? The server stays off until that is mended, since more would be allowed \
                         than was meant",
                        plain(key)
                    ));
                }
                Some(meant) => slips.push(format!("{} is not known; did you mean {meant}?", plain(key))),
                None => others.push(plain(key)),
            }
        }
        if !others.is_empty() {
            self.warnings.push(format!("{} is not known and ignored", others.join(", ")));
        }
        self.warnings.extend(slips);
        Ok(())
    }

    fn transport(&mut self) -> Result<Transport, String> {
        let kind = self.first(&TYPES)?;
        let url = self.first(&ADDRESSES)?;
        let command = self.program()?;
        let protocol = match kind.as_deref() {
            None if self.map.contains_key(HTTP_URL) => HttpProtocol::Streamable,
            None | Some("stdio" | "local" | "remote") => HttpProtocol::Either,
            Some("http" | "streamable-http" | "streamable_http" | "streamableHttp") => HttpProtocol::Streamable,
            Some("sse") => HttpProtocol::Sse,
            Some(other) => {
                return Err(format!(
                    "type {} is not one of stdio, http, streamable-http, sse, local, remote",
                    plain(other)
                ));
            }
        };
        let stdio = matches!(kind.as_deref(), Some("stdio" | "local"));
        match (command, url) {
            (Some(_), Some(_)) => Err("has both a command and a url; keep one of them".to_owned()),
            (None, None) => Err("has neither a command nor a url; write one of them".to_owned()),
            (Some(_), None) if kind.is_some() && !stdio => Err("has a command, which goes with type stdio".to_owned()),
            (Some((command, args)), None) => self.command(&command, args).map(Transport::Stdio),
            (None, Some(_)) if stdio => Err("is of type stdio and has no command".to_owned()),
            (None, Some(url)) => self.endpoint(&url, protocol).map(Transport::Http),
        }
    }

    /// Returns the program, and the arguments given in the same list.
    fn program(&self) -> Result<Option<(String, Vec<String>)>, String> {
        if !self.map.get(COMMAND).is_some_and(Value::is_array) {
            return Ok(self.text(COMMAND)?.map(|program| (program, Vec::new())));
        }
        let mut words = self.texts(COMMAND)?.into_iter();
        let program = words.next().ok_or("command is empty; write the name or path of a program")?;
        Ok(Some((program, words.collect())))
    }

    /// Returns the allowed tools (empty: all) and the denied ones.
    fn tools(&self) -> Result<(Vec<String>, Vec<String>), String> {
        let mut allowed: Option<Vec<String>> = None;
        let mut denied = Vec::new();
        for key in ALLOWS {
            if let Some(Value::Object(switches)) = self.map.get(key) {
                denied.extend(switched_off(key, switches)?);
                continue;
            }
            let names = self.names(key)?;
            if names.is_empty() && key == "tools" && self.map.get(key).is_some_and(Value::is_array) {
                return Err(r#"tools is empty, so no tool would be offered; write ["*"] for all, or "enabled": false"#
                    .to_owned());
            }
            if names.is_empty() || names.iter().any(|name| name == "*") {
                continue;
            }
            // Two allow lists are intersected.
            let before = allowed.take();
            let both =
                names.into_iter().filter(|name| before.as_ref().is_none_or(|before| before.contains(name))).collect();
            allowed = Some(both);
        }
        for key in DENIES {
            denied.extend(self.names(key)?);
        }
        match allowed {
            Some(names) if names.is_empty() => {
                Err("its lists of allowed tools have no tool in common; keep one of them".to_owned())
            }
            allowed => Ok((allowed.unwrap_or_default(), denied)),
        }
    }

    /// Reads a list of tool names. A pattern is an error, because it would match no tool as a name.
    fn names(&self, key: &str) -> Result<Vec<String>, String> {
        let names = self.texts(key)?;
        match names.iter().find(|name| name.contains('*') && (*name != "*" || DENIES.contains(&key))) {
            Some(pattern) => Err(format!("{key} has the pattern {}; name each tool", plain(pattern))),
            None => Ok(names),
        }
    }

    fn command(&mut self, program: &str, words: Vec<String>) -> Result<Command, String> {
        let program = self.variables.expand(program)?;
        if program.trim().is_empty() {
            return Err("command is empty; write the name or path of a program".to_owned());
        }
        let mut args = Vec::new();
        let mut names_secret = false;
        for arg in words.into_iter().chain(self.texts("args")?) {
            let value = self.variables.expand(&arg)?;
            // Matches `--api-key X` and `--api-key=X`.
            if names_secret {
                self.variables.hide(&value);
            } else if let Some((_, value)) = value.split_once('=').filter(|(name, _)| is_secret(name)) {
                self.variables.hide(value);
            }
            names_secret = value.starts_with('-') && !value.contains('=') && is_secret(&value);
            args.push(SecretString::from(value));
        }
        let mut env = BTreeMap::new();
        for name in INHERITED {
            if let Some(value) = self.variables.get(name) {
                env.insert(name.to_owned(), value);
            }
        }
        env.entry("PATH".to_owned()).or_insert_with(|| PATH.into());
        for (name, value) in self.pairs("env")?.into_iter().chain(self.pairs("environment")?) {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("env: {} is not a valid variable name", plain(&name)));
            }
            let written = value.contains("${");
            let value = self.variables.expand(&value)?;
            if !written && is_secret(&name) {
                self.variables.hide(&value);
            }
            env.insert(name, value.into());
        }
        let cwd = self.text("cwd")?.map(|cwd| self.variables.expand(&cwd)).transpose()?.map(PathBuf::from);
        for key in ["headers", "authorization", "allow_http"].iter().filter(|key| self.map.contains_key(**key)) {
            self.warnings.push(format!("{key} is only valid with a url and is ignored"));
        }
        Ok(Command { program, args, env, cwd })
    }

    fn endpoint(&mut self, url: &str, protocol: HttpProtocol) -> Result<Endpoint, String> {
        let url = address(url, self.variables)?;
        let mut headers = BTreeMap::new();
        for (name, value) in self.pairs("headers")? {
            let value = self.variables.expand(&value)?;
            if http::HeaderName::try_from(&name).is_err() || http::HeaderValue::try_from(&value).is_err() {
                return Err(format!("headers: {} is not a valid header", plain(&name)));
            }
            self.hide_credential(&value);
            headers.insert(name, value.into());
        }
        if let Some(authorization) = self.text("authorization")? {
            let value = self.variables.expand(&authorization)?;
            let value = if value.contains(' ') { value } else { format!("Bearer {value}") };
            if http::HeaderValue::try_from(&value).is_err() {
                return Err("authorization cannot be sent as a header".to_owned());
            }
            self.hide_credential(&value);
            headers.insert("Authorization".to_owned(), value.into());
        }
        for key in
            ["args", "env", "environment", "cwd", START_TIMEOUT].iter().filter(|key| self.map.contains_key(**key))
        {
            self.warnings.push(format!("{key} is only valid with a command and is ignored"));
        }
        let allow_http = self.flag("allow_http")?.unwrap_or_default();
        Ok(Endpoint { url, protocol, headers, allow_http })
    }

    /// Hides the value of a header, and the credential after its scheme.
    fn hide_credential(&mut self, value: &str) {
        self.variables.hide(value);
        if let Some((_, credential)) = value.split_once(' ') {
            self.variables.hide(credential);
        }
    }

    fn approval(&mut self) -> Result<bool, String> {
        match self.map.get("require_approval") {
            None | Some(Value::Null) => Ok(false),
            Some(Value::String(word)) => match word.as_str() {
                "always" => Ok(true),
                "never" => Ok(false),
                _ => Err("require_approval must be always or never".to_owned()),
            },
            Some(_) => {
                self.warnings.push(
                    "require_approval by tool is not supported: every call requires approval; write [[tools.rules]] instead"
                        .to_owned(),
                );
                Ok(true)
            }
        }
    }

    fn duration(&mut self, key: &str) -> Result<Option<Duration>, String> {
        let mistake = || format!(r#"{key} must be a duration up to one hour, such as "20s" or 20"#);
        let timeout = match self.map.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Number(number)) => number.as_u64().map(|number| self.spoken(key, number)),
            Some(Value::String(text)) => match text.trim().parse::<u64>() {
                Ok(seconds) => Some(Duration::from_secs(seconds)),
                Err(_) => humantime::parse_duration(text.trim()).ok(),
            },
            Some(_) => None,
        };
        let timeout = timeout.filter(|timeout| !timeout.is_zero() && *timeout <= TIMEOUT_MAX).ok_or_else(mistake)?;
        Ok(Some(timeout))
    }

    /// Reads a number without a unit as seconds. Entries with `httpUrl`, `type: "local"` or `type: "remote"` use
    /// milliseconds, as do numbers that would exceed an hour in seconds.
    fn spoken(&mut self, key: &str, number: u64) -> Duration {
        let kind = self.map.get("type").and_then(Value::as_str);
        let in_milliseconds = self.map.contains_key(HTTP_URL) || matches!(kind, Some("local" | "remote"));
        if number > TIMEOUT_MAX.as_secs() || (in_milliseconds && number >= MILLISECONDS_FROM) {
            self.warnings
                .push(format!("{key} {number} is read as milliseconds; write \"{}s\" to be sure", number / 1_000));
            Duration::from_millis(number)
        } else {
            Duration::from_secs(number)
        }
    }

    fn kind(&mut self) -> Result<ToolKind, String> {
        match self.map.get("kind").or_else(|| self.map.get("category")) {
            None | Some(Value::Null) => Ok(ToolKind::default()),
            Some(value) => serde_json::from_value(value.clone())
                .map_err(|_| "kind must be search, extract, db, drive, llm, other or another word of at most 24 lower-case letters, digits, - and _".to_owned()),
        }
    }

    fn first(&self, keys: &[&str]) -> Result<Option<String>, String> {
        for key in keys {
            if let Some(text) = self.text(key)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{key} must be text")),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(format!("{key} must be true or false")),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let mistake = || format!(r#"{key} must be a list of texts, such as ["one", "two"]"#);
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                let texts = list.iter().map(|item| scalar(item).ok_or_else(mistake));
                texts.collect()
            }
            Some(_) => Err(mistake()),
        }
    }

    fn pairs(&self, key: &str) -> Result<Vec<(String, String)>, String> {
        let mistake = || format!(r#"{key} must be an object of texts, such as {{"NAME": "value"}}"#);
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(map)) => {
                map.iter().map(|(name, value)| Ok((name.clone(), scalar(value).ok_or_else(mistake)?))).collect()
            }
            Some(_) => Err(mistake()),
        }
    }
}

/// Returns the tools that an object of switches disables: `{"name": false}` or `{"name": {"enabled": false}}`.
fn switched_off(key: &str, switches: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut off = Vec::new();
    for (name, switch) in switches {
        let on = match switch {
            Value::Bool(on) => *on,
            Value::Object(more) => {
                more.get("enabled").and_then(Value::as_bool) != Some(false)
                    && more.get("disabled").and_then(Value::as_bool) != Some(true)
            }
            _ => return Err(format!("{key}: {} must be true or false", plain(name))),
        };
        if name.contains('*') && !on {
            return Err(format!("{key} has the pattern {}; name each tool", plain(name)));
        }
        if !on {
            off.push(name.clone());
        }
    }
    Ok(off)
}

/// Returns a string, or a number or boolean as one.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Converts a key to snake case, such as `requireApproval` to `require_approval`.
fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 2);
    for c in key.chars() {
        match c {
            '-' | ' ' => snake.push('_'),
            upper if upper.is_ascii_uppercase() => snake.extend(['_', upper.to_ascii_lowercase()]),
            other => snake.push(other),
        }
    }
    snake
}

/// Makes a word of the file safe for a log line.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}
