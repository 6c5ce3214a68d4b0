//! Tools: the cost of a call compared with a raw request to the same server, and the cost of an unused catalogue per
//! turn.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use domain::tool::catalogue::{Catalogue, Offer};
use domain::tool::selection::Index;
use domain::tool::view::View;
use domain::tool::{Effect, ServerName, Tool, ToolRequest};
use futures_util::future::join_all;
use mcp::McpServers;
use ports::ToolServers as _;
use ports::tools::{Endpoint, HttpProtocol, ServerEntry, Transport};
use serde_json::{Map, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::Size;
use crate::arithmetic::{as_f64, median, percentile};
use crate::figures::{Steal, Table};
use crate::http;
use crate::process::Helper;
use crate::tool_server::{self, HOLD};

/// Calls of one side per round, half of them before and half after those of the other.
const CALLS: usize = 400;
/// Concurrent calls.
const PARALLEL: usize = 16;
/// Maximum number of tools that a model row is offered.
const OFFERED: usize = 40;
/// Timeout of any step of the rig's server.
const TIMEOUT: Duration = Duration::from_secs(10);

type Server = Arc<dyn ports::ToolServer>;

pub async fn run(on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    // Another scene may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let rig = tool_server::start(on_core)?;
    let server = connect(&rig, OFFERED).await?;
    calls(&rig, &server, size, table).await?;
    parallel(&server, table).await?;
    for many in [0, OFFERED, 10_000] {
        catalogue(&rig, many, table).await?;
    }
    Ok(())
}

async fn connect(rig: &Helper, tools: usize) -> Result<Server, String> {
    let endpoint = Endpoint {
        url: format!("http://{}/tools/{tools}", rig.address),
        protocol: HttpProtocol::Streamable,
        headers: BTreeMap::new(),
        allow_http: false,
    };
    let entry = ServerEntry::new(ServerName::new("rig"), Transport::Http(endpoint));
    McpServers::default().connect(&entry, TIMEOUT).await.map_err(|error| error.to_string())
}

async fn call(server: &Server, name: &str) -> Result<(), String> {
    let arguments = Map::from_iter([("place".to_owned(), json!("Cuxhaven"))]);
    let request = ToolRequest::new(name, arguments, Effect::Reads, TIMEOUT);
    server.call(&request, None).await.map(drop).map_err(|error| error.to_string())
}

/// The same request over a bare socket.
struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
    request: String,
}

impl Raw {
    async fn open(address: &str) -> std::io::Result<Self> {
        let params = json!({"name": "find_tide_1", "arguments": {"place": "Cuxhaven"}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let request = format!(
            "POST /tools/40 HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4_096), request })
    }

    async fn call(&mut self) -> std::io::Result<()> {
        self.stream.write_all(self.request.as_bytes()).await?;
        let read = http::read(&mut self.stream, &mut self.buffer).await?;
        self.buffer.clear();
        read.map(drop).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }
}

/// Measures calls in sequence, alternating with raw requests.
async fn calls(rig: &Helper, server: &Server, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let mut raw = Raw::open(&rig.address).await.map_err(|error| error.to_string())?;
    let (mut ours, mut raws, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=size.rounds {
        let (mut us, mut floor) = (Vec::new(), Vec::new());
        for of_us in [false, true, true, false] {
            for _ in 0..CALLS / 2 {
                let begun = Instant::now();
                if of_us {
                    call(server, "find_tide_1").await?;
                } else {
                    raw.call().await.map_err(|error| error.to_string())?;
                }
                (if of_us { &mut us } else { &mut floor }).push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        // The first round is a warm-up.
        if round > 0 {
            ratios.push(median(&us) / median(&floor));
            ours.extend(us);
            raws.extend(floor);
        }
    }
    let over = |share| percentile(&ours, share) - percentile(&raws, share);
    let raw = format!("{:.0} us, {:.0} us", percentile(&raws, 0.5), percentile(&raws, 0.99));
    table.told("m10 raw request to a tool server, p50, p99", &raw, &steal);
    table.at_most("m10 call of a tool over that, p50", (over(0.5), "us"), 100.0, &steal);
    table.at_most("m10 call of a tool over that, p99", (over(0.99), "us"), 500.0, &steal);
    let middle = median(&ratios);
    table.told("m10 call of a tool against a raw request, p50", &format!("{middle:.2} x"), &steal);
    Ok(())
}

/// Compares concurrent calls with the slowest single one.
async fn parallel(server: &Server, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let mut ratios = Vec::new();
    for _ in 0..10 {
        let begun = Instant::now();
        join_all((0..PARALLEL).map(|_| call(server, "holds"))).await.into_iter().collect::<Result<(), String>>()?;
        ratios.push(begun.elapsed().as_secs_f64() / HOLD.as_secs_f64());
    }
    table.ratio(&format!("m10 {PARALLEL} calls at once, against the slowest of them"), &ratios, 1.2, &steal);
    Ok(())
}

/// Measures the cost of this many tools: per change, and per turn.
async fn catalogue(rig: &Helper, many: usize, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let millis = |begun: Instant| begun.elapsed().as_secs_f64() * 1e3;
    let server = connect(rig, many).await?;
    let begun = Instant::now();
    let listing = server.list().await.map_err(|error| error.to_string())?;
    let listed = millis(begun);
    if listing.tools.len() != many {
        return Err(format!("{} of {many} tools were listed", listing.tools.len()));
    }
    let tools = listing.tools.into_iter().map(Arc::new).collect();
    let offers = [Offer { tools, ..Offer::default() }];
    let schema = |tool: &Tool| tool.input_schema.to_value();
    let begun = Instant::now();
    let all = Arc::new(Catalogue::new(&offers, &Catalogue::default(), schema));
    let built = millis(begun);
    let begun = Instant::now();
    black_box(Catalogue::new(&offers, &all, schema));
    let again = millis(begun);
    let begun = Instant::now();
    let index = Index::new(&all);
    let indexed = millis(begun);
    let figure = format!("{listed:.1}, {built:.1}, {again:.1}, {indexed:.1} ms");
    table.told(&format!("m10 {many} tools, once a change: list, catalogue, the same again, index"), &figure, &steal);
    let question = "When is high tide in Cuxhaven tomorrow, and do I need an umbrella for the walk to the old pier?";
    let begun = Instant::now();
    let turns = 2_000_u64;
    let view = View::of(&all, &[]);
    for _ in 0..turns {
        let find = || index.find(black_box(question), OFFERED, |place| view.shows(place)).len();
        black_box(black_box(&view).all(OFFERED, usize::MAX).map_or_else(find, <[u32]>::len));
    }
    let each = begun.elapsed().as_secs_f64() * 1e6 / as_f64(turns);
    table.told(&format!("m10 {many} tools, in each turn: those that are shown"), &format!("{each:.2} us"), &steal);
    Ok(())
}
