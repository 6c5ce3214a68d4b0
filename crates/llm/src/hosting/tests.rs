use secrecy::ExposeSecret;

use super::*;
use ports::tools::HttpProtocol;

fn entry(name: &str, always_ask: bool) -> ServerEntry {
    let headers = [("authorization", "Bearer token-7"), ("X-Team", "tides")];
    let headers = headers.map(|(name, value)| (name.to_owned(), SecretString::from(value))).into();
    let url = format!("https://{name}.example/mcp");
    let endpoint = Endpoint { url, protocol: HttpProtocol::Either, headers, allow_http: false };
    ServerEntry { always_ask, ..ServerEntry::new(ServerName::new(name), Transport::Http(endpoint)) }
}

fn request() -> Request {
    let server = |name: &str| HostedTool {
        kind: HostedKind::Server { name: ServerName::new(name), tools: vec!["search".to_owned()] },
        replaces: vec![format!("{name}__search")],
    };
    let search = HostedTool { kind: HostedKind::WebSearch, replaces: vec![WEB_SEARCH.to_owned()] };
    Request { hosted: vec![search, server("docs"), server("wiki"), server("local")], ..Request::default() }
}

fn tools() -> HostedTools {
    let local = ServerEntry::new(ServerName::new("local"), Transport::Provider);
    HostedTools::new(Arc::new(hostable(&[entry("docs", false), entry("wiki", false), entry("asks", true), local])))
}

fn names(hosting: &Hosting<'_>) -> Vec<String> {
    hosting.tools.iter().map(|tool| tool.name().to_owned()).collect()
}

fn error(kind: ModelErrorKind, message: &str) -> ModelError {
    ModelError::new(kind, message)
}

#[test]
fn servers_with_an_address_are_hosted_unless_they_always_ask() {
    let (tools, request) = (tools(), request());
    let hosting = tools.of(&request);
    assert_eq!(names(&hosting), ["web_search", "docs", "wiki"]);
    assert!(hosting.replaces("docs__search") && !hosting.replaces("local__search"));
    let Some(Hosted::Server { server, .. }) = hosting.tools.get(1) else { panic!("no server") };
    assert_eq!(server.token.as_ref().unwrap().expose_secret(), "token-7");
    assert_eq!(server.headers.keys().collect::<Vec<_>>(), ["X-Team"]);
    assert!(!hostable(&[entry("asks", true)]).contains_key(&ServerName::new("asks")));
    assert_eq!(bearer_token("Basic abc"), None);
}

#[test]
fn an_error_names_the_tools_that_failed() {
    let (tools, request) = (tools(), request());
    let hosting = tools.of(&request);
    for (error, failed) in [
        (
            error(ModelErrorKind::BadRequest, "status 424: Error retrieving tool list from MCP server: 'docs'"),
            vec!["docs"],
        ),
        (
            error(ModelErrorKind::Provider, "an error inside the stream: the MCP server answered 404"),
            vec!["docs", "wiki"],
        ),
        (error(ModelErrorKind::BadRequest, "Hosted tool 'web_search' is not supported"), vec!["web_search"]),
        (error(ModelErrorKind::BadRequest, "Invalid value: 'tools[3]'"), vec!["web_search"]),
        (error(ModelErrorKind::BadRequest, "Invalid 'tools[2].server_url'"), vec!["docs", "wiki"]),
        (error(ModelErrorKind::Refused, "status 404: no tools from MCP server: 'docs'"), vec!["docs"]),
        (error(ModelErrorKind::Refused, "status 404: there is no model mcp-1"), vec![]),
        (error(ModelErrorKind::BadRequest, "unknown model"), vec![]),
        (error(ModelErrorKind::Connection, "no connection: mcp.example"), vec![]),
        (error(ModelErrorKind::RateLimited, "web_search: slow down"), vec![]),
    ] {
        assert_eq!(hosting.failed(&error), failed, "{}", error.message);
    }
    assert!(Hosting::default().failed(&error(ModelErrorKind::BadRequest, "mcp")).is_empty(), "none was sent");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_failed_is_left_out_for_ten_minutes() {
    let (tools, request) = (tools(), request());
    tools.leave_out("m", vec!["docs".to_owned()], &error(ModelErrorKind::BadRequest, "424"));
    let hosting = tools.of(&request);
    assert_eq!(names(&hosting), ["web_search", "wiki"]);
    assert!(!hosting.replaces("docs__search"), "its function is offered");
    drop(hosting);
    tokio::time::advance(LEFT_OUT_FOR).await;
    assert_eq!(names(&tools.of(&request)).len(), 3);
}
