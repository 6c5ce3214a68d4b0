//! The beginnings of a connection: identification, the address for audio, the keys; and the resumption of a session.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use http::Uri;
use http_client::HttpClient;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::{Consents, Driver, OUTGOING_MAX, Socket, Writer, closed};
use crate::dave::{self, Encryption};
use crate::ears::Ears;
use crate::mouth::Mouth;
use crate::rtp::{self, Cipher, PACKET_MAX};
use crate::wire::{self, Event, Received};
use domain::host::is_loopback;
use ports::voice_calls::{CallEnd, VoiceAccess};

/// The timeout of the whole handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout of one attempt to learn the own address, and the number of attempts.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(1);
const DISCOVERIES: usize = 4;
/// The size of a packet that asks for the own address, and the position of the address in it.
const DISCOVERY: usize = 74;
const ADDRESS_AT: usize = 8;
/// The largest message of the server, in bytes: the keys of a full channel have less.
const MESSAGE_MAX: usize = 1024 * 1024;
/// The most messages before the end of a handshake, and their most bytes.
const EARLY_MAX: usize = 1_000;
const EARLY_BYTES_MAX: usize = 4 * MESSAGE_MAX;

/// A resumed session.
pub(super) struct Resumption {
    pub(super) socket: Socket,
    pub(super) interval: Duration,
    /// The messages that the server sent again.
    pub(super) missed: Vec<Received>,
}

fn lost(why: impl Into<String>) -> CallEnd {
    CallEnd::Lost(why.into())
}

impl Driver {
    /// Connects.
    ///
    /// # Errors
    /// There is no connection.
    pub(crate) async fn connect(client: HttpClient, access: VoiceAccess, consents: Consents) -> Result<Self, CallEnd> {
        let connect = Self::open(client, access, consents);
        timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| Err(lost("the voice server did not answer in time")))
    }

    async fn open(client: HttpClient, access: VoiceAccess, consents: Consents) -> Result<Self, CallEnd> {
        let me = access.user.parse().map_err(|_| lost("the bot's id is no number"))?;
        let channel = access.channel.parse().map_err(|_| lost("the channel's id is no number"))?;
        let mut socket = dial(&client, &access).await?;
        send(&mut socket, 0, &identity(&access)).await?;
        let mut early = Vec::new();
        let (mut hello, mut ready) = (None, None);
        while hello.is_none() || ready.is_none() {
            match receive(&mut socket).await? {
                Received { event: Event::Hello(interval), .. } => hello = Some(interval),
                Received { event: Event::Ready { ssrc, address, modes }, number } => {
                    ready = Some((ssrc, address, modes, number));
                }
                other => keep(&mut early, other)?,
            }
        }
        let (Some(interval), Some((ssrc, address, modes, number))) = (hello, ready) else {
            return Err(lost("the voice server sent no address"));
        };
        let mode = rtp::choose(&modes).ok_or_else(|| lost("the voice server has no known mode of encryption"))?;
        let udp = udp(address).await?;
        let (own, port) = discover(&udp, ssrc).await?;
        let data = json!({"address": own, "port": port, "mode": mode});
        send(&mut socket, 1, &json!({"protocol": "udp", "data": data})).await?;
        let (key, version) = loop {
            match receive(&mut socket).await? {
                Received { event: Event::Description { mode: chosen, key, version }, .. } if chosen == mode => {
                    break (key, version);
                }
                Received { event: Event::Description { .. }, .. } => {
                    return Err(lost("the voice server chose another mode of encryption"));
                }
                other => keep(&mut early, other)?,
            }
        };
        let cipher = Cipher::new(mode, &key).ok_or_else(|| lost("the mode of encryption is unknown"))?;
        let mouth = Mouth::new().map_err(|error| lost(format!("the encoder of Opus failed: {error}")))?;
        let (writer, reader) = halves(socket);
        let now = Instant::now();
        let mut driver = Self {
            access,
            client,
            consents,
            writer,
            reader,
            resuming: None,
            resumes: 0,
            udp,
            cipher,
            encryption: Encryption::new(me, channel),
            ears: Ears::default(),
            mouth,
            ssrc,
            number,
            interval,
            beat: now,
            unanswered: 0,
            keepalive: now,
            kept: 0,
            udp_errors: 0,
            buffer: Box::new([0; PACKET_MAX]),
            waiting: VecDeque::new(),
        };
        let begin = driver.encryption.begin(version);
        driver.reply(begin);
        driver.replay(early);
        Ok(driver)
    }
}

/// Resumes a session.
pub(super) async fn resume(
    client: HttpClient,
    access: VoiceAccess,
    number: Option<u64>,
) -> Result<Box<Resumption>, CallEnd> {
    let resume = async {
        let mut socket = dial(&client, &access).await?;
        let data = json!({
            "server_id": access.guild,
            "session_id": access.session,
            "token": access.token.expose_secret(),
            "seq_ack": number,
        });
        send(&mut socket, 7, &data).await?;
        let (mut interval, mut resumed, mut missed) = (None, false, Vec::new());
        while interval.is_none() || !resumed {
            match receive(&mut socket).await? {
                Received { event: Event::Hello(every), .. } => interval = Some(every),
                Received { event: Event::Resumed, .. } => resumed = true,
                other => keep(&mut missed, other)?,
            }
        }
        let interval = interval.ok_or_else(|| lost("the voice server sent no hello"))?;
        Ok(Box::new(Resumption { socket, interval, missed }))
    };
    timeout(CONNECT_TIMEOUT, resume).await.unwrap_or_else(|_| Err(lost("the session was not resumed in time")))
}

/// Splits a socket; a task of its own writes.
pub(super) fn halves(socket: Socket) -> (Writer, SplitStream<Socket>) {
    let (mut sink, reader) = socket.split();
    let (messages, mut queue) = mpsc::channel::<Message>(OUTGOING_MAX);
    let task = tokio::spawn(async move {
        while let Some(message) = queue.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    });
    (Writer { messages, task: task.abort_handle() }, reader)
}

fn identity(access: &VoiceAccess) -> Value {
    json!({
        "server_id": access.guild,
        "user_id": access.user,
        "session_id": access.session,
        "token": access.token.expose_secret(),
        "max_dave_protocol_version": dave::VERSION,
    })
}

/// Opens a WebSocket. The endpoint comes from Discord; only one on this machine may be reached without TLS.
async fn dial(client: &HttpClient, access: &VoiceAccess) -> Result<Socket, CallEnd> {
    let endpoint = access.endpoint.trim_start_matches("wss://").trim_end_matches('/');
    let host = endpoint.parse::<http::uri::Authority>().map_err(|_| lost("the voice server's address is invalid"))?;
    let scheme = if is_loopback(host.host()) { "ws" } else { "wss" };
    let address: Uri =
        format!("{scheme}://{host}/?v=8").parse().map_err(|_| lost("the voice server's address is invalid"))?;
    let stream = client.dial(&address).await.map_err(|failure| lost(failure.cause))?;
    let mut limits = WebSocketConfig::default();
    limits.max_message_size = Some(MESSAGE_MAX);
    limits.max_frame_size = Some(MESSAGE_MAX);
    let opened = client_async_with_config(address, stream, Some(limits)).await;
    opened.map(|(socket, _)| socket).map_err(|error| lost(format!("the voice server refuses: {error}")))
}

async fn send(socket: &mut Socket, opcode: u8, data: &Value) -> Result<(), CallEnd> {
    let message = Message::text(wire::message(opcode, data));
    socket.send(message).await.map_err(|error| lost(format!("the voice server hung up: {error}")))
}

/// Returns the next message that is not malformed.
async fn receive(socket: &mut Socket) -> Result<Received, CallEnd> {
    loop {
        let received = match socket.next().await {
            Some(Ok(Message::Text(text))) => wire::text(&text),
            Some(Ok(Message::Binary(bytes))) => wire::binary(&bytes),
            Some(Ok(Message::Close(frame))) => {
                closed(frame.map(|frame| frame.code.into()))?;
                return Err(lost("the voice server closed the connection"));
            }
            Some(Ok(_)) => None,
            Some(Err(error)) => return Err(lost(format!("the connection to the voice server broke: {error}"))),
            None => return Err(lost("the voice server hung up")),
        };
        if let Some(received) = received {
            return Ok(received);
        }
    }
}

fn keep(early: &mut Vec<Received>, received: Received) -> Result<(), CallEnd> {
    let bytes: usize = early.iter().chain([&received]).map(Received::bytes).sum();
    if early.len() >= EARLY_MAX || bytes > EARLY_BYTES_MAX {
        return Err(lost("the voice server sent too much before the connection was ready"));
    }
    early.push(received);
    Ok(())
}

async fn udp((ip, port): (IpAddr, u16)) -> Result<UdpSocket, CallEnd> {
    let failed = |error: std::io::Error| lost(format!("there is no UDP socket: {error}"));
    let any: SocketAddr = if ip.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await.map_err(failed)?;
    socket.connect((ip, port)).await.map_err(failed)?;
    Ok(socket)
}

/// Asks the server for the address that it sees: routers may have translated it.
async fn discover(udp: &UdpSocket, ssrc: u32) -> Result<(IpAddr, u16), CallEnd> {
    let mut packet = [0; DISCOVERY];
    packet[..4].copy_from_slice(&[0, 1, 0, 70]);
    packet[4..8].copy_from_slice(&ssrc.to_be_bytes());
    let mut buffer = [0; PACKET_MAX];
    for _ in 0..DISCOVERIES {
        // A packet that cannot be sent is lost like one on its way.
        let _ = udp.send(&packet).await;
        let answered = async {
            loop {
                match udp.recv(&mut buffer).await {
                    Ok(size) => {
                        if let Some(address) = discovered(&buffer[..size]) {
                            return address;
                        }
                    }
                    // The next attempt tells whether it lasts.
                    Err(_) => std::future::pending().await,
                }
            }
        };
        if let Ok(address) = timeout(DISCOVERY_TIMEOUT, answered).await {
            return Ok(address);
        }
    }
    Err(lost("no audio reaches the voice server: UDP is blocked"))
}

fn discovered(packet: &[u8]) -> Option<(IpAddr, u16)> {
    if packet.len() != DISCOVERY || packet[..4] != [0, 2, 0, 70] {
        return None;
    }
    let text = packet[ADDRESS_AT..DISCOVERY - 2].split(|byte| *byte == 0).next()?;
    let port = u16::from_be_bytes([packet[DISCOVERY - 2], packet[DISCOVERY - 1]]);
    Some((std::str::from_utf8(text).ok()?.parse().ok()?, port))
}
