//! Reads the use of tools that the provider ran itself.

use serde_json::Value;

use super::item::{self, Item};
use crate::arguments;
use crate::bounds::CALLS_MAX;
use domain::hosted::{CitedSource, HostedCall, HostedEnd, HostedUse, WEB_SEARCH};

/// The most sources read from one answer.
const SOURCES_MAX: usize = 64;

/// The longest address of a source, in bytes.
const URL_BYTES: usize = 2_000;

/// Returns the calls and the cited sources in an answer.
pub(super) fn used(items: &[Item]) -> HostedUse {
    HostedUse {
        calls: items.iter().filter_map(call).take(CALLS_MAX).collect(),
        sources: items.iter().flat_map(item::parts).flat_map(sources).take(SOURCES_MAX).collect(),
    }
}

/// Returns the call that an item is about; a list of a server's tools is a call without the name of a tool.
fn call(item: &Item) -> Option<HostedCall> {
    let named = |name: &str| item::text(item, name).map(str::to_owned);
    let failed =
        || item.get("error").is_some_and(|error| !error.is_null()) || named("status").as_deref() == Some("failed");
    let end = || if failed() { HostedEnd::Failed } else { HostedEnd::Ok };
    let arguments = |name: &str| arguments::written(item.get(name));
    let call = match item::text(item, "type")? {
        "web_search_call" => {
            HostedCall { server: None, tool: Some(WEB_SEARCH.to_owned()), arguments: arguments("action"), end: end() }
        }
        "mcp_call" => HostedCall {
            server: named("server_label"),
            tool: named("name"),
            arguments: arguments("arguments"),
            end: end(),
        },
        "mcp_list_tools" => {
            HostedCall { server: named("server_label"), tool: None, arguments: String::new(), end: end() }
        }
        // No request asks for approvals, so one that arrives is refused.
        "mcp_approval_request" => HostedCall {
            server: named("server_label"),
            tool: named("name"),
            arguments: arguments("arguments"),
            end: HostedEnd::Refused,
        },
        _ => return None,
    };
    Some(call)
}

/// Returns the pages that a part of a message cites.
fn sources(part: &Value) -> impl Iterator<Item = CitedSource> {
    let annotations = part.get("annotations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    annotations.iter().filter_map(|annotation| {
        let text = |name: &str| annotation.get(name).and_then(Value::as_str);
        let url = text("url").filter(|url| url.len() <= URL_BYTES && text("type") == Some("url_citation"))?;
        Some(CitedSource { url: url.to_owned(), title: text("title").unwrap_or_default().to_owned() })
    })
}
