//! The tool against servers on this machine. One address stands for the public internet; a canary listens on all
//! others.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use domain::ids::{Door, Place};
use domain::tool::testing::on_behalf;
use domain::tool::{Effect, OnBehalf};

const DOOR: Door = Door::new("d");

/// Stands for a public address.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(127, 9, 9, 9);

/// Maps the path of a request to the bytes of a whole response.
type Answers = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// Starts a server at the public address, and returns its port.
async fn serve(answers: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((PUBLIC, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers: Answers = Arc::new(answers);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket, Arc::clone(&answers)));
        }
    });
    port
}

async fn answer(mut socket: TcpStream, answers: Answers) {
    let (mut request, mut piece) = (Vec::new(), [0; 1_024]);
    while !request.ends_with(b"\r\n\r\n") {
        match socket.read(&mut piece).await {
            Ok(length) if length > 0 => request.extend_from_slice(&piece[..length]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default();
    // A client that has read enough closes its end.
    let _ = socket.write_all(&answers(path)).await;
    if path == "/never" {
        std::future::pending::<()>().await;
    }
    let _ = socket.shutdown().await;
}

fn page(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n").into_bytes();
    answer.extend_from_slice(body.as_ref());
    answer
}

fn html(body: &str) -> Vec<u8> {
    page("Content-Type: text/html; charset=utf-8\r\n", body)
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// Creates the tool with one local address treated as public.
fn tool_with(ports: &[u16], lookup: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> UrlExtract {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let reach = Reach { ports: ports.to_vec(), allow: Vec::new(), deny: vec!["denied.example".to_owned()] };
    let lookup: guard::Lookup = Arc::new(move |name| {
        let found = lookup(&name);
        Box::pin(async move { Ok(found) })
    });
    let permitted = |address: IpAddr| address == IpAddr::V4(PUBLIC) || guard::is_public(address);
    UrlExtract::guarded(Guard { reach, permitted, lookup }, 64 * 1024, Duration::from_secs(5))
}

fn tool(port: u16) -> UrlExtract {
    tool_with(&[port], |_| vec![PUBLIC.into()])
}

async fn call(tool: &UrlExtract, url: &str) -> (String, bool) {
    call_for(None, tool, url).await
}

async fn call_for(on_behalf: Option<OnBehalf>, tool: &UrlExtract, url: &str) -> (String, bool) {
    let Value::Object(arguments) = json!({"url": url}) else { unreachable!() };
    let request = ToolRequest::new("url_extract", arguments, Effect::Reads, Duration::from_secs(5));
    let result = tool.call(&ToolRequest { on_behalf, ..request }).await.unwrap();
    (result.to_text(), result.is_error)
}

/// Calls the tool for a member.
async fn call_of(member: &str, tool: &UrlExtract, url: &str) -> (String, bool) {
    let whose = on_behalf(Person::new(DOOR, member), Place::new(DOOR, "1"));
    call_for(Some(whose), tool, url).await
}

async fn refused(tool: &UrlExtract, url: &str) -> String {
    let (text, is_error) = call(tool, url).await;
    assert!(is_error, "{url} was read: {text}");
    text
}

#[tokio::test]
async fn a_page_is_read_with_its_title_and_its_final_address() {
    let port = serve(|path| match path {
        "/old" => redirect("/new?x=1"),
        "/new?x=1" => html("<title>News</title><h1>Today</h1><p>Nothing <a href=/more>happened</a>."),
        "/json" => page("Content-Type: application/json\r\n", "{\"a\": 1}"),
        "/latin" => page("Content-Type: text/plain; charset=latin1\r\n", b"caf\xe9"),
        _ => page("", "<!doctype html><p>untold"),
    })
    .await;
    let base = format!("http://page.example:{port}");
    for (path, text) in [
        ("/old", format!("Title: News\nAddress: {base}/new?x=1\n\n# Today\n\nNothing happened <{base}/more>.")),
        ("/json", format!("Address: {base}/json\n\n{{\"a\": 1}}")),
        ("/latin", format!("Address: {base}/latin\n\ncaf\u{e9}")),
        ("/untold", format!("Address: {base}/untold\n\nuntold")),
    ] {
        assert_eq!(call(&tool(port), &format!("{base}{path}")).await, (text, false), "{path}");
    }
}

#[tokio::test]
async fn slow_pages_of_one_member_leave_places_for_others() {
    let port = serve(|path| if path == "/never" { Vec::new() } else { html("<p>at once") }).await;
    let (tool, base) = (Arc::new(tool(port)), format!("http://page.example:{port}"));
    let never = format!("{base}/never");
    let slow: Vec<_> = (0..2 * PAGES_MAX)
        .map(|_| {
            let (tool, never) = (Arc::clone(&tool), never.clone());
            tokio::spawn(async move { call_of("1", &tool, &never).await })
        })
        .collect();
    while tool.permits.free() > PAGES_MAX / 2 {
        tokio::task::yield_now().await;
    }
    for member in ["2", "3"] {
        let (text, is_error) = call_of(member, &tool, &base).await;
        assert!(text.ends_with("at once") && !is_error, "{text}");
    }
    assert!(slow.iter().all(|call| !call.is_finished()));
}

#[tokio::test]
async fn slow_names_of_one_member_leave_lookups_for_others() {
    let port = serve(|_| html("<p>at once")).await;
    let begun = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&begun);
    let mut tool = tool(port);
    let reach = Reach { ports: vec![port], allow: Vec::new(), deny: Vec::new() };
    let lookup: guard::Lookup = Arc::new(move |name| {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            if name.starts_with("slow") {
                counted.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
            Ok(vec![PUBLIC.into()])
        })
    });
    let permitted = |address: IpAddr| address == IpAddr::V4(PUBLIC);
    tool.fetcher = Fetcher::new(Guard { reach, permitted, lookup }, 1_024);
    tool.timeout = Duration::from_millis(100);
    // Each call times out, and the resolver goes on.
    for number in 0..2 * guard::LOOKUPS_MAX {
        let (text, is_error) = call_of("1", &tool, &format!("http://slow{number}.example:{port}/")).await;
        assert!(is_error && text.contains("did not come in time"), "{text}");
    }
    assert_eq!(begun.load(Ordering::SeqCst), guard::LOOKUPS_MAX / 2);
    tool.timeout = Duration::from_secs(5);
    for member in ["2", "3"] {
        let (text, is_error) = call_of(member, &tool, &format!("http://page.example:{port}/")).await;
        assert!(text.ends_with("at once") && !is_error, "{text}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_refused_in_words() {
    let port = serve(|path| match path {
        "/pdf" => page("Content-Type: application/pdf\r\n", "%PDF-1.7"),
        "/binary" => page("", b"GIF89a\0\0\0"),
        "/br" => page("Content-Type: text/html\r\nContent-Encoding: br\r\n", "x"),
        "/broken" => page("Content-Type: text/html\r\nContent-Encoding: gzip\r\n", "no gzip at all"),
        "/gone" => b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nno".to_vec(),
        "/nowhere" => b"HTTP/1.1 302 Found\r\nConnection: close\r\n\r\n".to_vec(),
        "/round" => redirect("/round"),
        "/garbage" => b"\0\xff\xfe SSH-2.0 whatever\r\n\r\n".to_vec(),
        "/file" => redirect("file:///etc/passwd"),
        _ => Vec::new(),
    })
    .await;
    for (path, words) in [
        ("/pdf", "application/pdf, which cannot be read as text"),
        ("/binary", "is not text"),
        ("/br", "compressed in a way"),
        ("/broken", "compressed in a way"),
        ("/gone", "status 404"),
        ("/nowhere", "status 302"),
        ("/round", "redirects too often"),
        ("/garbage", "cannot be reached"),
        ("/empty", "cannot be reached"),
        ("/file", "only http and https"),
    ] {
        let told = refused(&tool(port), &format!("http://page.example:{port}{path}")).await;
        assert!(told.contains(words) && told.len() < 300, "{path}: {told}");
    }
}

#[tokio::test]
async fn a_page_is_read_as_far_as_its_bounds_and_no_longer_than_its_time() {
    let bomb = {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let blank = vec![b'x'; 1024 * 1024];
        (0..64).for_each(|_| encoder.write_all(&blank).unwrap());
        encoder.finish().unwrap()
    };
    assert!(bomb.len() < 128 * 1024, "{}", bomb.len());
    let port = serve(move |path| match path {
        "/long" => page("Content-Type: text/plain\r\n", "y".repeat(1024 * 1024)),
        "/bomb" => page("Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", &bomb),
        "/never" => page("Content-Type: text/plain\r\nContent-Length: 100\r\n", "begins"),
        _ => Vec::new(),
    })
    .await;
    let mut tool = tool(port);
    tool.timeout = Duration::from_millis(700);
    for path in ["/long", "/bomb"] {
        let (text, is_error) = call(&tool, &format!("http://page.example:{port}{path}")).await;
        assert!(!is_error && text.len() < 70 * 1024, "{path}: {} bytes", text.len());
        assert!(text.contains("Only the first 65536 bytes of the page were read."), "{path}");
    }
    let told = refused(&tool, &format!("http://page.example:{port}/never")).await;
    assert_eq!(told, "the page did not come in time");
}

/// Counts connections.
struct Canary {
    port: u16,
    contacts: Arc<AtomicUsize>,
}

impl Canary {
    /// Listens at every address of this machine, IPv4 and IPv6.
    async fn listen() -> Self {
        let contacts = Arc::<AtomicUsize>::default();
        let first = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let mut listeners = vec![first];
        // A machine without IPv6 has nothing to contact there.
        if let Ok(six) = TcpListener::bind(("::1", port)).await {
            listeners.push(six);
        }
        for listener in listeners {
            let contacts = Arc::clone(&contacts);
            tokio::spawn(async move {
                while let Ok((mut socket, _)) = listener.accept().await {
                    contacts.fetch_add(1, Ordering::SeqCst);
                    let _ = socket.write_all(&html("secret")).await;
                }
            });
        }
        Self { port, contacts }
    }
}

/// Internal hosts, in all notations.
const INTERNAL: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "017700000001",
    "0177.0x0.0.1",
    "%31%32%37.0.0.1",
    "127.0.0.1.",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "127\u{3002}0\u{3002}0\u{3002}1",
    "127\u{ff0e}0\u{ff0e}0\u{ff0e}1",
    "\u{2460}\u{2461}\u{2466}.0.0.1",
    "0",
    "0.0.0.0",
    "0x0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "169.254.170.2",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "192.0.0.192",
    "168.63.129.16",
    "0xa83f8110",
    "[::ffff:168.63.129.16]",
    "platform.evil.example",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:169.254.169.254]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::a00:1]",
    "[2002:7f00:1::1]",
    "[2002:a9fe:a9fe::]",
    "[2001:0:7f00:1::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[2606:4700::5efe:127.0.0.1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fe80::1%eth0]",
    "[ff02::1]",
    "[100::1]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "\u{24db}ocalhost",
    "localhost\u{3002}",
    "metadata",
    "printer.local",
    "metadata.google.internal",
    "metadata.google.internal.",
    "router.lan",
    "api.default.svc",
    "1.0.0.127.in-addr.arpa",
    // Names whose answers an attacker's name server chooses.
    "loopback.evil.example",
    "metadata.evil.example",
    "private.evil.example",
    "six.evil.example",
    "mapped.evil.example",
    "nat64.evil.example",
    "both.evil.example",
    "nothing.evil.example",
    // Credentials, and characters that parsers read differently.
    "public.example@127.0.0.1",
    "public.example:80@127.0.0.1",
    "user:pass@public.example",
    "127.0.0.1\\@public.example",
    "127.0.0.1%00.public.example",
    "127.0.0.1%2f.public.example",
    "127.0.0.1#.public.example",
    "127.0.0.1?.public.example",
    "127.0.0.1\t",
    " 127.0.0.1",
];

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn evil(name: &str) -> Vec<IpAddr> {
    match name.trim_end_matches('.') {
        "public.example" => vec![PUBLIC.into()],
        "loopback.evil.example" => addresses(&["127.0.0.1"]),
        "metadata.evil.example" => addresses(&["169.254.169.254"]),
        "private.evil.example" => addresses(&["10.0.0.1", "192.168.0.1"]),
        "platform.evil.example" => addresses(&["168.63.129.16"]),
        "six.evil.example" => addresses(&["::1"]),
        "mapped.evil.example" => addresses(&["::ffff:127.0.0.1"]),
        "nat64.evil.example" => addresses(&["64:ff9b::7f00:1"]),
        "both.evil.example" => vec![PUBLIC.into(), Ipv4Addr::LOCALHOST.into()],
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn no_internal_address_is_ever_contacted() {
    let canary = Canary::listen().await;
    let inside = canary.port;
    let hosts = INTERNAL.len();
    // The public server redirects to each of them in turn, and after two more hops of its own.
    let port = serve(move |path| {
        let number = path.trim_start_matches(['/', 'h']).parse::<usize>();
        match number {
            Ok(number) if path.starts_with("/hh") => redirect(&format!("/h{number}")),
            Ok(number) if path.starts_with("/h") => redirect(&format!("/{number}")),
            Ok(number) => redirect(&format!("http://{}:{inside}/", INTERNAL[number % INTERNAL.len()])),
            Err(_) => html("public"),
        }
    })
    .await;
    let tool = tool_with(&[inside, port], evil);
    let mut tried = 0;
    for (number, host) in INTERNAL.iter().enumerate() {
        for url in [
            format!("http://{host}:{inside}/"),
            format!("https://{host}:{inside}/"),
            format!("http://{}:{inside}/", host.to_uppercase()),
            format!("http:{host}:{inside}/"),
            format!("http:\\\\{host}:{inside}\\"),
            format!("http:////{host}:{inside}/"),
            format!("http://public.example:{port}/{number}"),
            format!("http://public.example:{port}/hh{number}"),
        ] {
            let (text, _) = call(&tool, &url).await;
            assert!(!text.contains("secret"), "{url}: {text}");
            tried += 1;
        }
    }
    let (text, is_error) = call(&tool, &format!("http://public.example:{port}/page")).await;
    assert!(!is_error && text.ends_with("public"), "the public server is read: {text}");
    let contacted = canary.contacts.load(Ordering::SeqCst);
    println!("internal addresses contacted: {contacted} of {tried}, in {hosts} ways to write them");
    assert_eq!(contacted, 0);
    // The canary works.
    TcpStream::connect((Ipv4Addr::LOCALHOST, inside)).await.unwrap();
    while canary.contacts.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_never_followed_inside() {
    let canary = Canary::listen().await;
    let port = canary.port;
    let public = TcpListener::bind((PUBLIC, 0)).await.unwrap().local_addr().unwrap().port();
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&asked);
    // Public at the first lookup, internal afterwards: a second lookup would be led inside.
    let lookup = move |_: &str| match counted.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => vec![PUBLIC.into()],
        _ => addresses(&["127.0.0.1"]),
    };
    let tool = tool_with(&[port, public], lookup);
    for calls in 1..=20 {
        let told = refused(&tool, &format!("http://rebind.example:{public}/")).await;
        assert!(told.contains("cannot be reached") || told.contains("public internet"), "{told}");
        assert_eq!(asked.load(Ordering::SeqCst), calls, "one look-up for each connection");
        let _ = call(&tool, &format!("http://127.0.0.1:{port}/")).await;
    }
    assert_eq!(canary.contacts.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn internal_names_cannot_be_probed() {
    let tool = tool_with(&[80], evil);
    let mut told = Vec::new();
    for host in ["private.evil.example", "nothing.evil.example", "printer", "printer.local", "10.0.0.1"] {
        told.push(refused(&tool, &format!("http://{host}/")).await);
    }
    told.dedup();
    assert_eq!(told, ["there is no host of the public internet at this address, so it is not read"]);
}

#[tokio::test]
async fn ports_and_hosts_are_those_of_the_settings() {
    let port = serve(|_| html("words")).await;
    let base = tool(port);
    for (url, words) in [
        ("http://page.example/".to_owned(), "port 80"),
        ("https://page.example/".to_owned(), "port 443"),
        (format!("http://denied.example:{port}/"), "of this host"),
        (format!("http://below.DENIED.example.:{port}/"), "of this host"),
        (format!("ftp://page.example:{port}/"), "only http"),
        ("page.example".to_owned(), "https://host/path"),
        (format!("http://page.example:{port}/{}", "x".repeat(3_000)), "longer than 2048"),
    ] {
        let told = refused(&base, &url).await;
        assert!(told.contains(words), "{url}: {told}");
    }
    assert!(!call(&base, &format!("http://notdenied.example:{port}/")).await.1);
    let mut guarded = tool_with(&[port], |_| vec![PUBLIC.into()]);
    let reach = Reach { ports: vec![port], allow: vec!["*.open.example".to_owned()], deny: Vec::new() };
    let lookup: guard::Lookup = Arc::new(|_| Box::pin(async { Ok(vec![PUBLIC.into()]) }));
    let permitted = |address: IpAddr| address == IpAddr::V4(PUBLIC);
    guarded.fetcher = Fetcher::new(Guard { reach, permitted, lookup }, 1_024);
    for (host, reads) in [("open.example", true), ("a.open.example", true), ("reopen.example", false)] {
        assert_eq!(!call(&guarded, &format!("http://{host}:{port}/")).await.1, reads, "{host}");
    }
}

#[test]
fn only_what_was_given_out_to_the_public_is_public() {
    for public in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "2606:4700::1111",
        "2a00::1",
        "64:ff9b::101:101",
    ] {
        assert!(guard::is_public(public.parse().unwrap()), "{public}");
    }
    for special in [
        "192.0.2.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.9",
        "192.88.99.1",
        "240.0.0.1",
        "168.63.129.16",
        "2001::1",
        "4000::1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::a83f:8110",
        "64:ff9b:0:0:0:1:101:101",
        "64:ff9b:1::101:101",
    ] {
        assert!(!guard::is_public(special.parse().unwrap()), "{special}");
    }
}
