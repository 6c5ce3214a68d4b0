//! Resources of tool servers that a member names in a question, as `@server:uri`.

use std::fmt;

use serde::Deserialize;
use serde_json::json;

use super::Source;
use super::access::Access;
use super::catalogue::Catalogue;
use super::rights::Verdict;
use super::round::{Problem, Ready};
use super::utility::Utility;
use crate::attachment::{Attachment, MAX_ATTACHMENTS, MAX_READ, Unread};
use crate::clean::clean;
use crate::completion::ToolCall;

/// The argument of [`Utility::ReadResource`]: the address of the resource.
pub const URI: &str = "uri";
/// The maximum number of resources of one server that are listed.
const LISTED_MAX: usize = 100;
/// The longest address, in bytes.
const URI_BYTES: usize = 2_048;

/// A resource that a member names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedResource<'a> {
    /// The name of the server.
    pub server: &'a str,
    /// The address at the server.
    pub uri: &'a str,
}

/// Returns the resources that a text names, each once, at most [`MAX_ATTACHMENTS`].
#[must_use]
pub fn named(text: &str) -> Vec<NamedResource<'_>> {
    let mut found = Vec::new();
    for resource in all_named(text) {
        if found.len() == MAX_ATTACHMENTS {
            break;
        }
        if !found.contains(&resource) {
            found.push(resource);
        }
    }
    found
}

/// Returns the resources that a text names, in its order.
pub fn all_named(text: &str) -> impl Iterator<Item = NamedResource<'_>> {
    text.split_whitespace().filter_map(NamedResource::of)
}

impl fmt::Display for NamedResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}:{}", self.server, self.uri)
    }
}

impl<'a> NamedResource<'a> {
    fn of(word: &'a str) -> Option<Self> {
        let word = word.trim_start_matches(['(', '[', '"', '\'', '<', '*', '`']);
        let (server, uri) = word.strip_prefix('@')?.split_once(':')?;
        let uri = uri.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'', '>', '*', '`']);
        let (scheme, rest) = uri.split_once(':')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
        let fits = !server.is_empty() && server.chars().all(is_name) && uri.len() <= URI_BYTES;
        let absolute = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_scheme);
        (fits && absolute && !rest.is_empty()).then_some(Self { server, uri })
    }

    /// Returns the resource as a file of the question, with its media type and its size in bytes.
    #[must_use]
    pub fn file(self, mime: Option<String>, bytes: usize) -> Attachment {
        Attachment { name: self.to_string(), ..Attachment::of_bytes(mime, bytes) }
    }

    /// Returns the call that reads it; `None` if the text names no resource but an account or a link.
    ///
    /// # Errors
    /// The reason why the caller cannot read it.
    #[must_use]
    pub fn call(self, catalogue: &Catalogue, access: &Access) -> Option<Result<Ready, Unread>> {
        let is_of_server =
            |source: &Source| matches!(source, Source::Server(name) if name.as_str().eq_ignore_ascii_case(self.server));
        let mut of_server = catalogue.entries().iter().filter(|entry| is_of_server(&entry.tool.source)).peekable();
        let known = of_server.peek().is_some();
        let Some(entry) = of_server.find(|entry| entry.tool.utility == Some(Utility::ReadResource)) else {
            let is_link = self.uri.starts_with("http://") || self.uri.starts_with("https://");
            return (known || !is_link).then_some(Err(Unread::NoServer));
        };
        let arguments = json!({ URI: self.uri }).to_string();
        let call = ToolCall { id: String::new(), name: entry.name.to_string(), arguments };
        Some(Ready::bind(&call, catalogue, |entry| access.sees(entry)).map_err(|problem| match problem {
            Problem::Unknown(_) => Unread::Denied,
            Problem::NotJson(_) | Problem::Misfit(_) => Unread::Unknown,
            Problem::Repeated | Problem::Spent => Unread::TooMany,
        }))
    }
}

/// Returns the names, as members write them, of the resources in a server's list that the caller may read. A list that
/// cannot be read has none.
#[must_use]
pub fn listed(server: &str, list: &str, catalogue: &Catalogue, access: &Access) -> Vec<String> {
    #[derive(Deserialize)]
    struct Resource {
        uri: String,
    }
    #[derive(Deserialize)]
    struct List {
        resources: Vec<Resource>,
    }
    let List { resources } = serde_json::from_str(list).unwrap_or(List { resources: Vec::new() });
    let may_read = |uri: &str| {
        let call = NamedResource { server, uri }.call(catalogue, access);
        call.and_then(Result::ok)
            .is_some_and(|ready| access.decide(&ready.entry, &ready.arguments).verdict != Verdict::Deny)
    };
    let shown = resources.iter().take(LISTED_MAX).filter(|resource| may_read(&resource.uri));
    shown.map(|resource| format!("@{server}:{}", clean(&resource.uri, URI_BYTES))).collect()
}

/// The most resources of one question that are read; further ones are only named.
pub const RESOURCES_READ_MAX: usize = MAX_READ;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Tool;
    use super::super::catalogue::Offer;
    use super::super::rights::Rule;
    use super::super::testing::tool;
    use super::*;

    fn found(text: &str) -> Vec<(&str, &str)> {
        named(text).into_iter().map(|NamedResource { server, uri }| (server, uri)).collect()
    }

    #[test]
    fn a_resource_is_named_by_its_server_and_its_whole_address() {
        let text = "compare (@docs:file:///a/b.md), @my-db:table://users?x=1, and @docs:file:///a/b.md.";
        assert_eq!(found(text), [("docs", "file:///a/b.md"), ("my-db", "table://users?x=1")]);
        assert_eq!(found("`@n:note:7`"), [("n", "note:7")]);
        for plain in
            ["@mike: hello", "@mike:hello", "mail a@b:c:d", "@docs:", "@:x:y", "@docs:1x://y", "@a/b:x:y", "@d:x:"]
        {
            assert_eq!(found(plain), [], "{plain}");
        }
    }

    #[test]
    fn names_are_bounded_and_cost_no_more_than_the_text() {
        let many: String = (0..1_000).map(|number| format!("@d:n://{number} ")).collect();
        assert_eq!(named(&many).len(), MAX_ATTACHMENTS);
        assert_eq!(found(&format!("@d:n://{}", "x".repeat(URI_BYTES))), []);
    }

    #[test]
    fn the_rules_decide_and_what_is_no_server_is_told() {
        let read = Tool { utility: Some(Utility::ReadResource), ..tool("docs", "read_resource", "") };
        let own = tool("own", "read_resource", "");
        let offer = Offer { tools: vec![Arc::new(read), Arc::new(own)], ..Offer::default() };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        let call = |server, uri, rules| NamedResource { server, uri }.call(&all, &Access::of_a_member(rules));
        let ready = call("Docs", "n://1", Vec::new()).unwrap().unwrap();
        assert_eq!((&*ready.entry.name, &ready.arguments[URI]), ("docs__read_resource", &json!("n://1")));
        let denied = vec![Rule::everywhere("docs__*", Verdict::Deny)];
        assert_eq!(call("docs", "n://1", denied).unwrap().unwrap_err(), Unread::Denied);
        assert_eq!(call("dosc", "n://1", Vec::new()).unwrap().unwrap_err(), Unread::NoServer);
        assert_eq!(
            call("own", "n://1", Vec::new()).unwrap().unwrap_err(),
            Unread::NoServer,
            "its own tool is no resource"
        );
        assert!(call("mike", "https://a.example", Vec::new()).is_none());
        let secret = Rule { resource: Some("n://secret*".to_owned()), ..Rule::everywhere("docs__*", Verdict::Deny) };
        let list = json!({"resources": [{"uri": "n://1", "name": "one"}, {"uri": "n://secret/2", "name": "two"}]});
        let names = |list: &str| listed("docs", list, &all, &Access::of_a_member(vec![secret.clone()]));
        assert_eq!(names(&list.to_string()), ["@docs:n://1"]);
        assert_eq!(names("[no list"), Vec::<String>::new());
    }
}
