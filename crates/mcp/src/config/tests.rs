use secrecy::ExposeSecret;

use super::*;
use domain::tool::ToolKind;
use ports::tools::Command;

fn lookup(name: &str) -> Option<SecretString> {
    let value = match name {
        "PATH" => "/bin",
        "HOME" => "/home/bot",
        "TENOR_KEY" => "tk-123456",
        _ => return None,
    };
    Some(value.into())
}

fn of(text: &str) -> Configured {
    read(Some(File { path: "mcp.json", text }), &[], &lookup).unwrap()
}

/// Returns the only server of a file with this entry.
fn one(entry: &str) -> ServerEntry {
    let Configured { servers, .. } = of(&format!(r#"{{"mcpServers": {{"x": {entry}}}}}"#));
    assert!(servers.off.is_empty(), "{:?}", servers.off);
    servers.entries[0].clone()
}

/// Returns why the server of this entry is disabled.
fn mistake(entry: &str) -> String {
    let Configured { servers, .. } = of(&format!(r#"{{"mcpServers": {{"x": {entry}}}}}"#));
    assert!(servers.entries.is_empty(), "{entry}");
    servers.off[0].mistake.clone().unwrap()
}

fn command(entry: &ServerEntry) -> &Command {
    match &entry.transport {
        Transport::Stdio(command) => command,
        Transport::Http(_) | Transport::Provider => panic!("no command"),
    }
}

fn endpoint(entry: &ServerEntry) -> &Endpoint {
    match &entry.transport {
        Transport::Http(endpoint) => endpoint,
        Transport::Stdio(_) | Transport::Provider => panic!("no address"),
    }
}

#[test]
fn the_example_of_the_contract_is_read() {
    let Configured { servers, secrets } = of(r#"{"mcpServers": {
        "time":  {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "UTC"}, "timeout": "20s"},
        "tenor": {"url": "https://tenor.example/mcp", "headers": {"Authorization": "Bearer ${TENOR_KEY}"}, "allowed_tools": ["search"]},
        "old":   {"url": "https://old.example/sse", "type": "sse", "enabled": false}}}"#);
    let names: Vec<&str> = servers.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["tenor", "time"]);
    assert_eq!(servers.off, [ServerOff { name: ServerName::new("old"), mistake: None }]);
    assert!(servers.warnings.is_empty(), "{:?}", servers.warnings);
    let tenor = endpoint(&servers.entries[0]);
    assert_eq!(tenor.headers["Authorization"].expose_secret(), "Bearer tk-123456");
    assert_eq!(tenor.protocol, HttpProtocol::Either);
    assert_eq!(servers.entries[0].allowed_tools, ["search"]);
    let time = command(&servers.entries[1]);
    assert_eq!(servers.entries[1].timeout, Some(std::time::Duration::from_secs(20)));
    let env: Vec<(&str, &str)> = time.env.iter().map(|(name, value)| (&**name, value.expose_secret())).collect();
    assert_eq!(env, [("HOME", "/home/bot"), ("PATH", "/bin"), ("TZ", "UTC")], "a child inherits no other variable");
    assert!(secrets.iter().any(|secret| secret.expose_secret() == "tk-123456"));
    assert!(!secrets.iter().any(|secret| secret.expose_secret() == "/home/bot"));
}

#[test]
fn keys_of_other_programs_are_read_or_warned_of() {
    let entry = one(
        r#"{"server_url": "https://a.example/mcp", "authorization": "tok-abcdef", "require_approval": "always",
        "server_description": "things", "category": "books", "trusted": true, "side_effects": false, "type": "streamable-http"}"#,
    );
    assert_eq!(endpoint(&entry).headers["Authorization"].expose_secret(), "Bearer tok-abcdef");
    assert_eq!(endpoint(&entry).protocol, HttpProtocol::Streamable);
    assert!(entry.always_ask && entry.trusted && entry.side_effects == Some(false));
    assert_eq!((entry.kind, entry.description.as_deref()), ("books".parse::<ToolKind>().unwrap(), Some("things")));
    let Configured { servers, .. } =
        of(r#"{"mcp_servers": {"a b": {"command": "x", "autoApprove": [], "alwaysAllow": 1}}, "inputs": []}"#);
    assert_eq!(servers.entries[0].name.as_str(), "a-b");
    assert_eq!(servers.warnings.len(), 2, "{:?}", servers.warnings);
    assert!(servers.warnings.iter().any(|line| line.contains("alwaysAllow, autoApprove is not known")));
    let Configured { servers, .. } = of(r#"{"mcpServers": {"x": {"command": "x", "disabled": true}}}"#);
    assert_eq!(servers.off[0].mistake, None);
    let asks = one(r#"{"command": "x", "require_approval": {"never": {"tool_names": ["a"]}}}"#);
    assert!(asks.always_ask, "an unknown value requires approval");
}

#[test]
fn restrictions_of_other_programs_mean_what_they_mean_there() {
    let listed = |entry: &str| {
        let entry = one(entry);
        (entry.allowed_tools.join(" "), entry.denied_tools.join(" "))
    };
    let of = |allowed: &str, denied: &str| (allowed.to_owned(), denied.to_owned());
    for (entry, expected) in [
        (r#"{"command": "x", "includeTools": ["a", "b"], "excludeTools": ["b"]}"#, of("a b", "b")),
        (r#"{"command": "x", "enabled_tools": ["a"], "disabled_tools": ["b"]}"#, of("a", "b")),
        (r#"{"command": "x", "disabledTools": ["a"]}"#, of("", "a")),
        (r#"{"command": "x", "tools": ["*"]}"#, of("", "")),
        (r#"{"command": "x", "tools": ["a", "b"], "allowed_tools": ["b", "c"]}"#, of("b", "")),
        (
            r#"{"command": "x", "tools": {"a": false, "b": true, "c": {"enabled": false}, "d": {"disabled": true}}}"#,
            of("", "a c d"),
        ),
        (r#"{"command": "x", "includeTools": []}"#, of("", "")),
    ] {
        assert_eq!(listed(entry), expected, "{entry}");
    }
    for (entry, says) in [
        (r#"{"command": "x", "tools": []}"#, "no tool would be offered"),
        (r#"{"command": "x", "excludeTools": ["delete_*"]}"#, "name each tool"),
        (r#"{"command": "x", "excludeTools": ["*"]}"#, "name each tool"),
        (r#"{"command": "x", "includeTools": ["a"], "tools": ["b"]}"#, "no tool in common"),
        (r#"{"command": "x", "exclude_tool": ["a"]}"#, "did you mean exclude_tools"),
        (r#"{"command": "x", "tools": {"a": 1}}"#, "must be true or false"),
    ] {
        let line = mistake(entry);
        assert!(line.contains(says), "{entry}: {line}");
    }
}

#[test]
fn entries_of_other_programs_are_read_as_they_are_written() {
    let entry = one(
        r#"{"type": "local", "command": ["npx", "-y", "x"], "environment": {"PORT": 80, "ON": true}, "timeout": 5000}"#,
    );
    let Command { program, args, env, .. } = command(&entry);
    let args: Vec<&str> = args.iter().map(ExposeSecret::expose_secret).collect();
    assert_eq!((program.as_str(), &args[..]), ("npx", &["-y", "x"][..]));
    assert_eq!((env["PORT"].expose_secret(), env["ON"].expose_secret()), ("80", "true"));
    assert_eq!(entry.timeout, Some(std::time::Duration::from_secs(5)));
    let start = |written: &str| one(&format!(r#"{{"command": "uvx", {written}}}"#)).connect_timeout().as_secs();
    assert_eq!((start(r#""start_timeout": "5m""#), start(r#""timeout": 3"#)), (300, 120));
    let entry = one(r#"{"httpUrl": "https://a.example/mcp", "timeout": 30000}"#);
    assert_eq!(
        (endpoint(&entry).protocol, entry.timeout),
        (HttpProtocol::Streamable, Some(std::time::Duration::from_secs(30)))
    );
    assert_eq!(endpoint(&one(r#"{"type": "remote", "url": "https://a.example/mcp"}"#)).protocol, HttpProtocol::Either);
    let seconds =
        |written: &str| one(&format!(r#"{{"command": "x", "timeout": {written}}}"#)).timeout.unwrap().as_secs();
    assert_eq!([seconds("20"), seconds("3600"), seconds("60000"), seconds("\"90s\"")], [20, 3600, 60, 90]);
    let Configured { servers, .. } =
        of("{ // servers\n \"mcpServers\": {\"a\": {\"command\": \"x\", /* one */ \"args\": [\"//\",],},},\n}");
    assert_eq!(command(&servers.entries[0]).args[0].expose_secret(), "//");
}

#[test]
fn a_misspelt_key_is_told_and_switches_the_server_off_where_more_would_be_allowed() {
    let Configured { servers, .. } = of(r#"{"mcpServers": {"x": {"comand": "x", "command": "y", "Args": []}}}"#);
    let told = servers.warnings.join("\n");
    assert!(told.contains("comand is not known; did you mean command"), "{told}");
    assert!(told.contains("Args is not known; did you mean args") && servers.entries.len() == 1, "{told}");
    for (entry, meant) in [
        (r#"{"command": "x", "requireApproval": "always"}"#, "require_approval"),
        (r#"{"command": "x", "require_aproval": "always"}"#, "require_approval"),
        (r#"{"command": "x", "allowedTools": ["a"]}"#, "allowed_tools"),
        (r#"{"command": "x", "disable": true}"#, "disabled"),
    ] {
        let line = mistake(entry);
        assert!(line.contains(&format!("did you mean {meant}")), "{entry}: {line}");
    }
}

#[test]
fn servers_are_found_where_other_programs_write_them_or_the_fix_is_named() {
    let Configured { servers, .. } = of(r#"{"servers": {"a": {"command": "x"}}, "inputs": [{"id": "key"}]}"#);
    assert_eq!((servers.entries.len(), servers.warnings.len()), (1, 0), "{:?}", servers.warnings);
    let Configured { servers, .. } = of(r#"{"a": {"command": "x"}}"#);
    assert_eq!(servers.entries.len(), 0);
    assert!(servers.warnings[0].contains(r#"write {"mcpServers": {"a": {...}}}"#), "{:?}", servers.warnings);
}

#[test]
fn each_usual_mistake_is_one_line_with_its_fix_and_switches_off_one_server() {
    for (entry, says) in [
        (r#""uvx x""#, "must be an object"),
        ("{}", "neither a command nor a url"),
        (r#"{"command": "x", "url": "https://a.example"}"#, "both a command and a url"),
        (r#"{"command": "x", "args": "y"}"#, "args must be a list of texts"),
        (r#"{"command": "x", "env": ["A=b"]}"#, "env must be an object of texts"),
        (r#"{"command": "x", "env": {"A": "${MISSING_ONE}"}}"#, "the variable MISSING_ONE is not set; set it in .env"),
        (r#"{"command": "x", "args": ["${OPEN"]}"#, "is not closed"),
        (r#"{"command": "x", "timeout": "soon"}"#, "timeout must be a duration"),
        (r#"{"command": "x", "start_timeout": "2h"}"#, "start_timeout must be a duration"),
        (r#"{"command": "x", "reuse_results": "2d"}"#, "reuse_results must be a duration up to one day"),
        (r#"{"command": "x", "timeout": 6000000000}"#, "timeout must be a duration"),
        (r#"{"command": "x", "type": "websocket"}"#, "type websocket is not one of stdio"),
        (r#"{"command": "x", "type": "http"}"#, "goes with type stdio"),
        (r#"{"url": "tenor.example/mcp"}"#, "must begin with https://"),
        (r#"{"url": "https://me:secret@tenor.example/mcp"}"#, "contains credentials"),
        (r#"{"url": "https://a.example", "headers": {"A b": "c"}}"#, "headers: A b is not a valid header"),
        (r#"{"url": "https://a.example", "require_approval": "sometimes"}"#, "always or never"),
        (r#"{"url": "https://a.example", "kind": "a video"}"#, "kind must be search"),
        (r#"{"url": "https://a.example", "enabled": "no"}"#, "enabled must be true or false"),
    ] {
        let line = mistake(entry);
        assert!(line.starts_with("mcp.json: x: ") && line.contains(says), "{entry}: {line}");
        assert!(!line.contains("secret"), "{line}");
    }
    let Configured { servers, .. } = of(r#"{"mcpServers": {"bad": {}, "good": {"command": "x"}}}"#);
    assert_eq!((servers.entries.len(), servers.off.len()), (1, 1));
}

#[test]
fn a_file_that_is_none_is_an_error_of_its_own() {
    let read = |text| read(Some(File { path: "mcp.json", text }), &[], &lookup);
    for text in ["[]", "{", r#"{"mcpServers": []}"#, r#"{"mcpServers": null}"#] {
        assert!(read(text).unwrap_err().starts_with("mcp.json: "), "{text}");
    }
    assert_eq!(read("").unwrap().servers, ServerEntries::default());
    assert_eq!(read("\u{feff}{}").unwrap().servers, ServerEntries::default());
}

#[test]
fn two_servers_of_one_name_are_not_taken_for_each_other() {
    let Configured { servers, .. } = of(
        r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}, "b/c": {"command": "z"}, "b c": {"command": "w"}}}"#,
    );
    let names: Vec<&str> = servers.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["a", "b-c"]);
    assert_eq!(command(&servers.entries[0]).program, "x");
    let off: Vec<&str> = servers.off.iter().map(|off| off.name.as_str()).collect();
    assert_eq!(off, ["a-2", "b-c-2"]);
    assert!(servers.off.iter().all(|off| off.mistake.as_ref().unwrap().contains("twice")));
}

#[test]
fn addresses_alone_are_named_after_their_hosts() {
    let urls = ["https://tenor.example/mcp", "http://localhost:3001/sse", "https://tenor.example/other", "nonsense"];
    let Configured { servers, .. } = read(None, &urls.map(str::to_owned), &lookup).unwrap();
    let names: Vec<&str> = servers.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["localhost", "tenor-example", "tenor-example-2"]);
    assert!(servers.off[0].mistake.as_ref().unwrap().starts_with("MCP_SERVERS: the address must begin with"));
}

#[test]
fn variables_have_defaults_and_are_hidden() {
    let entry =
        one(r#"{"command": "${SHELL_X:-sh}", "args": ["--api-key", "literal-key", "${HOME}/x", "${env:TENOR_KEY}"]}"#);
    let command = command(&entry);
    let args: Vec<&str> = command.args.iter().map(ExposeSecret::expose_secret).collect();
    assert_eq!((command.program.as_str(), args), ("sh", vec!["--api-key", "literal-key", "/home/bot/x", "tk-123456"]));
    let hidden = of(r#"{"mcpServers": {"x": {"command": "x", "args": ["--api-key", "literal-key", "--token=abcdefg"],
        "env": {"API_KEY": "written-here", "TZ": "Europe/Madrid"}}}}"#);
    let hidden: Vec<&str> = hidden.secrets.iter().map(ExposeSecret::expose_secret).collect();
    assert_eq!(hidden, ["literal-key", "abcdefg", "written-here"]);
}

#[test]
fn many_servers_of_one_name_cost_no_more_than_their_text() {
    let file = |many: usize| {
        let entries: Vec<String> = (0..many).map(|_| r#""a": {"command": "x"}"#.to_owned()).collect();
        format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(","))
    };
    cost::grows_linearly(100, file, |text| {
        drop(read(Some(File { path: "mcp.json", text: &text }), &[], &lookup));
    });
}
