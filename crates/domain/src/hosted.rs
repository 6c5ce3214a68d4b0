//! Tools that the provider of a model runs itself: its web search, and tool servers that it connects to.
//!
//! A hosted tool takes the place of functions of the request. If the provider does not accept it, or cannot reach the
//! server, the functions are offered instead and run here.

use sha2::{Digest, Sha256};

use super::arguments_hash::ArgumentsHash;
use super::hex::hex;
use super::server_name::ServerName;

/// The name of the tool that searches the web, also as a function.
pub const WEB_SEARCH: &str = "web_search";

/// The name in place of a tool that was not offered.
const UNKNOWN: &str = "unknown";

/// The most sources shown below an answer.
const SOURCES_MAX: usize = 5;

/// The most names of tools shown below an answer.
const TOOLS_MAX: usize = 5;

/// The longest title of a source, in characters.
const TITLE_CHARS: usize = 80;

/// A tool that the provider may run in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedTool {
    /// The tool.
    pub kind: HostedKind,
    /// The names of the functions of the request that it takes the place of.
    pub replaces: Vec<String>,
}

/// A kind of hosted tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostedKind {
    /// The search of the provider.
    WebSearch,
    /// A tool server. The edge of the model has its address and its credentials.
    Server {
        /// Its configured name.
        name: ServerName,
        /// The server's own names of the tools that the caller may use without approval.
        tools: Vec<String>,
    },
}

impl HostedTool {
    fn made(&self, call: &HostedCall) -> bool {
        match (&self.kind, &call.server, &call.tool) {
            (HostedKind::WebSearch, None, Some(tool)) => tool == WEB_SEARCH,
            (HostedKind::Server { name, tools }, Some(server), tool) => {
                name.as_str() == server && tool.as_ref().is_none_or(|tool| tools.contains(tool))
            }
            _ => false,
        }
    }
}

/// The use of hosted tools in one answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostedUse {
    /// The calls, in the order of the answer.
    pub calls: Vec<HostedCall>,
    /// The sources that the text cites, in its order.
    pub sources: Vec<CitedSource>,
}

/// One call that the provider made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedCall {
    /// The tool server; `None` for a tool of the provider.
    pub server: Option<String>,
    /// The tool's own name; `None` if the provider read the list of the server's tools.
    pub tool: Option<String>,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// The end of the call.
    pub end: HostedEnd,
}

/// The end of a hosted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostedEnd {
    /// It succeeded.
    Ok,
    /// It failed, at the provider or at the server.
    Failed,
    /// The provider requested an approval, which counts as refused.
    Refused,
}

impl HostedEnd {
    /// Returns the label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Refused => "denied",
        }
    }
}

/// A page that an answer cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitedSource {
    /// Its address.
    pub url: String,
    /// Its title; empty if the provider names none.
    pub title: String,
}

impl HostedCall {
    /// Returns the hash of server, tool and arguments.
    #[must_use]
    pub fn hash(&self) -> ArgumentsHash {
        let mut hash = Sha256::new();
        for part in [self.server.as_deref().unwrap_or_default(), &self.name(), &self.arguments] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part.as_bytes());
        }
        ArgumentsHash(hex(&hash.finalize()))
    }

    /// Returns the name of the tool in calls, or `tools/list` instead.
    #[must_use]
    pub fn name(&self) -> String {
        let tool = self.tool.as_deref().unwrap_or("tools/list");
        self.server.as_ref().map_or_else(|| tool.to_owned(), |server| format!("{server}__{tool}"))
    }
}

impl HostedUse {
    /// True if no hosted tool was used.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.sources.is_empty()
    }

    /// Replaces the names of calls that none of these tools made: names become labels of metrics and text for members,
    /// and a provider could make them up without end.
    pub fn name_only(&mut self, offered: &[HostedTool]) {
        let unknown = |call: &&mut HostedCall| !offered.iter().any(|tool| tool.made(call));
        for call in self.calls.iter_mut().filter(unknown) {
            (call.server, call.tool) = (None, Some(UNKNOWN.to_owned()));
        }
    }

    /// Adds the use in a later answer of the same turn. What no footer shows is dropped.
    pub fn add(&mut self, later: &Self) {
        for call in later.calls.iter().filter(|call| call.end == HostedEnd::Ok && call.tool.is_some()) {
            if self.calls.len() < TOOLS_MAX && !self.calls.iter().any(|known| known.name() == call.name()) {
                self.calls.push(HostedCall { arguments: String::new(), ..call.clone() });
            }
        }
        for source in &later.sources {
            if self.sources.len() < SOURCES_MAX && !self.sources.iter().any(|known| known.url == source.url) {
                self.sources.push(source.clone());
            }
        }
    }

    /// Returns the line below an answer: the tools that were used and the cited sources as links. `None` if there are
    /// neither.
    #[must_use]
    pub fn footer(&self) -> Option<String> {
        let tools = self.calls.iter().map(|call| format!("`{}`", plain(&call.name())));
        let parts: Vec<String> = tools.chain(self.sources.iter().filter_map(link)).collect();
        (!parts.is_empty()).then(|| format!("-# {}", parts.join(" · ")))
    }
}

/// Returns a source as a link without a preview. `None` if its address is no web address.
fn link(source: &CitedSource) -> Option<String> {
    let url = source.url.trim();
    let is_plain = url.chars().all(|letter| letter.is_ascii_graphic() && !"<>()[]\\`".contains(letter));
    if !is_plain || !["https://", "http://"].iter().any(|scheme| url.starts_with(scheme)) {
        return None;
    }
    let title: String = plain(&source.title).chars().take(TITLE_CHARS).collect();
    let host = url.split('/').nth(2).unwrap_or(url);
    let title = if title.trim().is_empty() { host } else { title.trim() };
    Some(format!("[{title}](<{url}>)"))
}

/// Returns a text without characters that have a meaning in messages.
fn plain(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().filter(|letter| !letter.is_control() && !"[]()<>`*~|@\\".contains(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(server: Option<&str>, tool: &str, end: HostedEnd) -> HostedCall {
        HostedCall { server: server.map(str::to_owned), tool: Some(tool.to_owned()), arguments: String::new(), end }
    }

    fn source(url: &str, title: &str) -> CitedSource {
        CitedSource { url: url.to_owned(), title: title.to_owned() }
    }

    #[test]
    fn the_footer_names_the_tools_that_were_used_and_links_the_sources_once() {
        let mut whole = HostedUse::default();
        assert!(whole.is_empty() && whole.footer().is_none());
        let calls = vec![call(None, "web_search", HostedEnd::Ok), call(Some("docs"), "read", HostedEnd::Failed)];
        whole.add(&HostedUse {
            calls: calls.clone(),
            sources: vec![source("https://tides.example/a?b=1", "Tides [of] *May*")],
        });
        let calls = [calls, vec![call(Some("docs"), "find", HostedEnd::Ok)]].concat();
        let again = vec![source("https://tides.example/a?b=1", "Tides"), source("https://moon.example/x", " ")];
        whole.add(&HostedUse { calls, sources: again });
        assert_eq!(
            whole.footer().unwrap(),
            "-# `web_search` · `docs__find` · [Tides of May](<https://tides.example/a?b=1>) · [moon.example](<https://moon.example/x>)"
        );
    }

    #[test]
    fn addresses_that_are_no_plain_web_addresses_are_no_links() {
        let odd = ["javascript:alert(1)", "https://a b", "https://a>x", "https://a)x", "ftp://a", ""];
        let sources = odd.iter().map(|url| source(url, "title")).collect();
        assert_eq!(HostedUse { sources, ..HostedUse::default() }.footer(), None);
    }

    #[test]
    fn names_of_tools_that_were_not_offered_are_replaced() {
        let name = ServerName::new("docs");
        let of = |kind| HostedTool { kind, replaces: Vec::new() };
        let docs = of(HostedKind::Server { name, tools: vec!["read".to_owned()] });
        let list = HostedCall { tool: None, ..call(Some("docs"), "", HostedEnd::Ok) };
        let offered = [list, call(Some("docs"), "read", HostedEnd::Ok), call(None, WEB_SEARCH, HostedEnd::Ok)];
        let made_up = [
            call(Some("docs"), "write", HostedEnd::Ok),
            call(Some("other"), "read", HostedEnd::Failed),
            call(None, "shell", HostedEnd::Ok),
        ];
        let mut whole = HostedUse { calls: [offered.clone(), made_up].concat(), sources: Vec::new() };
        whole.name_only(&[docs, of(HostedKind::WebSearch)]);
        assert_eq!(whole.calls[..3], offered);
        let replaced = whole.calls[3..].iter().map(|call| (call.name(), call.end));
        let expected = [HostedEnd::Ok, HostedEnd::Failed, HostedEnd::Ok].map(|end| ("unknown".to_owned(), end));
        assert_eq!(replaced.collect::<Vec<_>>(), expected);
        whole.name_only(&[]);
        assert!(whole.calls.iter().all(|call| call.name() == "unknown"));
    }

    #[test]
    fn a_footer_is_bounded() {
        let mut whole = HostedUse::default();
        let sources = (0..99).map(|n| source(&format!("https://{n}.example"), &"long ".repeat(99))).collect();
        let calls = (0..99).map(|n| call(None, &n.to_string(), HostedEnd::Ok)).collect();
        whole.add(&HostedUse { calls, sources });
        assert!(whole.footer().unwrap().len() < 1_000);
    }
}
