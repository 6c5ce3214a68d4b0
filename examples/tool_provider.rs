//! A second program that provides tools to the bot over NATS: `NATS_URL=nats://127.0.0.1:4222 cargo run --example tool_provider`.
//!
//! It announces two tools, takes calls as a member of a queue group, stops work that nobody waits for, and withdraws when it is told
//! to end. What goes over which subject is drawn in `crates/mcp/src/nats.rs`. Any number of such programs may run, also of the same name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Message};
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

/// The name of this provider: its tools are called `desk__...`.
const PROVIDER: &str = "desk";
/// How often it says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Call {
    #[serde(rename = "call")]
    id: String,
    tool: String,
    arguments: Value,
    deadline_ms: u64,
}

#[derive(Deserialize)]
struct Cancel {
    #[serde(rename = "call")]
    id: String,
}

/// The calls under way, by their ids.
type Running = Arc<Mutex<HashMap<String, AbortHandle>>>;

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a program of its own reads its own environment")]
async fn main() -> Result<(), async_nats::Error> {
    let url = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let client = async_nats::connect(url).await?;
    let instance = format!("{}", std::process::id());
    let mut calls = client.queue_subscribe(format!("staffai.tools.call.{PROVIDER}"), PROVIDER.to_owned()).await?;
    let mut cancels = client.subscribe(format!("staffai.tools.cancel.{PROVIDER}")).await?;
    let mut discover = client.subscribe("staffai.tools.discover").await?;
    let who = json!({"provider": PROVIDER, "instance": instance}).to_string();
    announce(&client, &instance).await?;
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    let mut ends = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let running = Running::default();
    println!("providing {PROVIDER} as instance {instance}");
    loop {
        tokio::select! {
            Some(message) = calls.next() => begin(&client, &running, message),
            Some(message) = cancels.next() => cancel(&running, &message),
            Some(_) = discover.next() => announce(&client, &instance).await?,
            _ = heartbeat.tick() => client.publish("staffai.tools.heartbeat", who.clone().into()).await?,
            _ = ends.recv() => break,
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    client.publish("staffai.tools.withdraw", who.into()).await?;
    // Without a connection there is nobody to be told: the bot sees that the heartbeats end.
    let _ = tokio::time::timeout(Duration::from_secs(1), client.flush()).await;
    Ok(())
}

/// Says what there is. Tools have the form that the Model Context Protocol gives them.
async fn announce(client: &Client, instance: &str) -> Result<(), async_nats::Error> {
    let text = json!({"type": "string"});
    let tools = json!([
        {"name": "count_words", "description": "Counts the words of a text.", "annotations": {"readOnlyHint": true},
         "inputSchema": {"type": "object", "required": ["text"], "properties": {"text": text}}},
        {"name": "ring", "description": "Rings the bell at the desk, and says so when it has rung.",
         "inputSchema": {"type": "object", "properties": {"seconds": {"type": "integer", "minimum": 0, "maximum": 60}}}},
    ]);
    let announcement = json!({"provider": PROVIDER, "instance": instance, "tools": tools});
    client.publish("staffai.tools.announce", announcement.to_string().into()).await?;
    Ok(())
}

/// Works on a call beside the others, and answers to its inbox.
fn begin(client: &Client, running: &Running, message: Message) {
    let Some(inbox) = message.reply else { return };
    let Ok(call) = serde_json::from_slice::<Call>(&message.payload) else { return };
    let (client, calls, id) = (client.clone(), Arc::clone(running), call.id.clone());
    let work = tokio::spawn(async move {
        let deadline = Duration::from_millis(call.deadline_ms);
        let result = tokio::time::timeout(deadline, work(&call)).await;
        let (text, failed) = match result {
            Ok(Ok(text)) => (text, false),
            Ok(Err(why)) => (why, true),
            Err(_) => ("it took too long".to_owned(), true),
        };
        let answer = json!({"content": [{"type": "text", "text": text}], "isError": failed});
        if let Err(error) = client.publish(inbox, answer.to_string().into()).await {
            eprintln!("an answer could not be sent: {error}");
        }
        calls.lock().remove(&call.id);
    });
    running.lock().insert(id, work.abort_handle());
}

/// Nobody waits for this call any more.
fn cancel(running: &Running, message: &Message) {
    let Ok(Cancel { id }) = serde_json::from_slice(&message.payload) else { return };
    if let Some(work) = running.lock().remove(&id) {
        work.abort();
        println!("cancelled {id}");
    }
}

/// What the tools do.
async fn work(call: &Call) -> Result<String, String> {
    match call.tool.as_str() {
        "count_words" => {
            let text = call.arguments["text"].as_str().ok_or("text is missing")?;
            Ok(text.split_whitespace().count().to_string())
        }
        "ring" => {
            let seconds = call.arguments["seconds"].as_u64().unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            println!("ding");
            Ok("it rang".to_owned())
        }
        other => Err(format!("there is no tool {other}")),
    }
}
