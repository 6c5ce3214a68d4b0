//! The rig's request API and model: a minimal HTTP server for clients with content lengths and persistent connections,
//! so that the rig is not what is measured.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::rig::{Rig, Stream};
use crate::wire;

/// Number of pieces of a long stream per write.
const WORDS_AT_ONCE: usize = 16;

/// Accepts connections forever.
pub async fn accept(listener: TcpListener, rig: Arc<Rig>) {
    while let Ok((stream, _)) = listener.accept().await {
        let rig = Arc::clone(&rig);
        tokio::spawn(async move {
            // A disconnect is not an error here; affected turns are counted elsewhere.
            let _ = serve(stream, &rig).await;
        });
    }
}

async fn serve(mut stream: TcpStream, rig: &Rig) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(32 * 1024);
    loop {
        let Some((head, body)) = read(&mut stream, &mut buffer).await? else { return Ok(()) };
        if memchr::memmem::find(&buffer[..head], b"/chat/completions").is_some() && rig.state.lock().slow_model {
            let number = rig.asked_in(&buffer[head..head + body]);
            stream_slowly(&mut stream, rig, number).await?;
            buffer.drain(..head + body);
            continue;
        }
        let words = rig.state.lock().words;
        if words > 0 && memchr::memmem::find(&buffer[..head], b"/chat/completions").is_some() {
            stream_words(&mut stream, rig, words).await?;
            buffer.drain(..head + body);
            continue;
        }
        let answer = answer(rig, &buffer[..head], &buffer[head..head + body]);
        stream.write_all(answer.as_bytes()).await?;
        buffer.drain(..head + body);
    }
}

/// A model that streams many words at once, each in a piece of its own.
async fn stream_words(stream: &mut TcpStream, rig: &Rig, words: usize) -> std::io::Result<()> {
    rig.count("model");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let numbers: Vec<usize> = (0..words).collect();
    for numbers in numbers.chunks(WORDS_AT_ONCE) {
        let pieces: String = numbers.iter().map(|number| chunk(&wire::word(*number))).collect();
        stream.write_all(pieces.as_bytes()).await?;
    }
    stream.write_all((chunk(wire::end_of_stream()) + "0\r\n\r\n").as_bytes()).await
}

/// A model that streams a word at intervals.
async fn stream_slowly(stream: &mut TcpStream, rig: &Rig, number: Option<usize>) -> std::io::Result<()> {
    rig.count("model");
    let note = |note: fn(&mut Stream, Instant)| number.into_iter().for_each(|number| rig.streams(number, note));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut due = Instant::now();
    for piece in 0..=wire::PIECES {
        due += wire::PIECE_EVERY;
        tokio::time::sleep_until(due).await;
        if piece == 0 {
            note(|stream, now| stream.begun = Some(now));
        }
        stream.write_all(chunk(&wire::piece(piece)).as_bytes()).await?;
    }
    note(|stream, now| stream.ended = Some(now));
    stream.write_all((chunk(wire::end_of_stream()) + "0\r\n\r\n").as_bytes()).await
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Reads one message: the lengths of its head and its body. `None` at the end of the connection.
pub async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<(usize, usize)>> {
    let head = loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let body = length(&buffer[..head]);
    while buffer.len() < head + body {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some((head, body)))
}

fn length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME));
    let value = line.and_then(|line| std::str::from_utf8(&line[NAME.len()..]).ok());
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

fn answer(rig: &Rig, head: &[u8], body: &[u8]) -> String {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path.ends_with("/chat/completions") {
        rig.count("model");
        rig.state.lock().prompt_bytes += body.len() as u64;
        if memchr::memmem::find(body, b"\"stream\":true").is_some() {
            return ok("text/event-stream", &wire::completion_stream());
        }
        return json(&wire::completion());
    }
    let parts: Vec<&str> = path.trim_start_matches("/api/v10").split('/').skip(1).collect();
    match (method, parts.as_slice()) {
        ("POST", ["channels", channel, "messages"]) => {
            rig.count("post");
            json(&rig.post(channel, body))
        }
        ("PATCH", ["channels", channel, "messages", id]) => {
            rig.count("edit");
            let id = id.parse().unwrap_or(0);
            rig.edit(channel, id, body);
            json(&wire::posted(id, channel, 0, &rig.stamp()))
        }
        ("POST", ["channels", _, "typing"]) => {
            rig.count("typing");
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
        }
        ("GET", ["channels", channel, "messages"]) => {
            rig.count("history");
            json(&rig.history(channel, wire::number_behind(query.as_bytes(), "after=").unwrap_or(0)))
        }
        ("GET", ["gateway", "bot"]) => json(&wire::gateway_bot(&rig.gateway_url())),
        ("GET", ["users" | "applications", "@me"]) => json(&wire::me()),
        ("GET", ["oauth2", "applications", "@me"]) => json(&wire::application()),
        ("GET", ["guilds", ..]) => json(&wire::guild(&parts[2..])),
        ("PUT", _) => json("[]"),
        _ => {
            rig.count("unknown");
            let body = r#"{"message":"404: Not Found","code":0}"#;
            format!(
                "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        }
    }
}

fn json(body: &str) -> String {
    ok("application/json", body)
}

fn ok(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
