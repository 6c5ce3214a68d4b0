//! A voice server for tests: the voice gateway, a UDP socket, and the end-to-end encryption of the members in its
//! channel, over real sockets.
#![allow(clippy::missing_panics_doc, reason = "a panic fails the test")]

mod group;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use davey::MediaType;
use futures_util::{SinkExt, StreamExt};
use opus2::{Application, Channels, Decoder, Encoder};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use self::group::Group;
use crate::pcm::{FRAME, RATE};
use crate::rtp::{Cipher, Numbers, PACKET_MAX};
use crate::wire;

/// The key of the transport.
const KEY: [u8; 32] = [7; 32];
const MODE: &str = "aead_aes256_gcm_rtpsize";
/// The source of the bot's audio.
const BOT: u32 = 1;
/// The token that admits the bot.
pub const TOKEN: &str = "voice-token";

/// The faults in force.
#[derive(Debug, Default)]
pub struct VoiceFaults {
    /// No packet of audio is answered or read.
    pub udp_is_dead: bool,
    /// Heartbeats are not acknowledged.
    pub no_acknowledgements: bool,
    /// The close code of the next connections, and their number.
    pub closes: (u16, usize),
    /// Resumptions are closed with this code.
    pub closes_resumes: Option<u16>,
}

/// The observations of a server.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct VoiceStats {
    /// Connections that began a session.
    pub identifies: usize,
    /// Connections that continued one.
    pub resumes: usize,
    /// Heartbeats.
    pub heartbeats: usize,
    /// The announcements that the bot speaks or falls silent.
    pub speaking: Vec<bool>,
    /// Packets of audio that no member could decrypt.
    pub unreadable: usize,
}

enum Out {
    Message(Message),
    Cut,
}

struct Bot {
    user: u64,
    out: UnboundedSender<Out>,
    address: Option<SocketAddr>,
    /// The buffered messages, with their numbers.
    sent: Vec<(u64, Message)>,
    number: u64,
}

struct Member {
    ssrc: u32,
    encoder: Encoder,
    decoder: Decoder,
    numbers: Numbers,
    heard: Vec<i16>,
}

struct State {
    bot: Option<Bot>,
    members: HashMap<u64, Member>,
    group: Group,
    faults: VoiceFaults,
    stats: VoiceStats,
}

/// A voice server with one channel.
pub struct VoiceServer {
    address: SocketAddr,
    udp: Arc<UdpSocket>,
    cipher: Arc<Cipher>,
    state: Arc<Mutex<State>>,
    tasks: [AbortHandle; 2],
}

impl Drop for VoiceServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(bot) = &self.state.lock().bot {
            let _ = bot.out.send(Out::Cut);
        }
    }
}

impl VoiceServer {
    /// Starts a server whose channel has this id.
    pub async fn start(channel: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let udp = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port"));
        let cipher = Arc::new(Cipher::new(MODE, &KEY).expect("a known mode"));
        let state = State {
            bot: None,
            members: HashMap::new(),
            group: Group::new(channel),
            faults: VoiceFaults::default(),
            stats: VoiceStats::default(),
        };
        let state = Arc::new(Mutex::new(state));
        let port = udp.local_addr().expect("an address").port();
        let accepts = {
            let state = Arc::clone(&state);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&state), port));
                }
            })
        };
        let receives = tokio::spawn(receive(Arc::clone(&udp), Arc::clone(&cipher), Arc::clone(&state)));
        Self { address, udp, cipher, state, tasks: [accepts.abort_handle(), receives.abort_handle()] }
    }

    /// Returns the endpoint for clients.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// Changes the faults in force.
    pub fn faults(&self, change: impl FnOnce(&mut VoiceFaults)) {
        change(&mut self.state.lock().faults);
    }

    /// Returns the observations so far.
    #[must_use]
    pub fn stats(&self) -> VoiceStats {
        self.state.lock().stats.clone()
    }

    /// True if the bot is in the group of the members, and the last change of it is complete.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.state.lock().group.has_bot()
    }

    /// Adds a member to the channel, and re-keys its group.
    pub fn joins(&self, user: u64) {
        let state = &mut *self.state.lock();
        let ssrc = 100 + u32::try_from(state.members.len()).expect("few members");
        let member = Member {
            ssrc,
            encoder: Encoder::new(RATE, Channels::Mono, Application::Voip).expect("an encoder"),
            decoder: Decoder::new(RATE, Channels::Mono).expect("a decoder"),
            numbers: Numbers::default(),
            heard: Vec::new(),
        };
        state.members.insert(user, member);
        let messages = state.group.add(user);
        if let Some(bot) = &mut state.bot {
            bot.text(11, &json!({"user_ids": [user.to_string()]}));
            bot.text(5, &json!({"user_id": user.to_string(), "ssrc": ssrc, "speaking": 1}));
            bot.all(messages);
        }
    }

    /// Removes a member from the channel, and re-keys its group.
    pub fn leaves(&self, user: u64) {
        let state = &mut *self.state.lock();
        state.members.remove(&user);
        let messages = state.group.remove(user);
        if let Some(bot) = &mut state.bot {
            bot.text(13, &json!({"user_id": user.to_string()}));
            bot.all(messages);
        }
    }

    /// Returns the samples of the bot's speech as this member heard them: 48,000 per second.
    #[must_use]
    pub fn heard(&self, user: u64) -> Vec<i16> {
        self.state.lock().members.get(&user).map(|member| member.heard.clone()).unwrap_or_default()
    }

    /// Forgets what the members heard.
    pub fn forget_heard(&self) {
        self.state.lock().members.values_mut().for_each(|member| member.heard.clear());
    }

    /// Speaks as a member, in real time, and resolves when the last packet was sent: 48,000 samples per second.
    pub async fn speaks(&self, user: u64, samples: &[i16]) {
        let mut pace = interval(Duration::from_millis(20));
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for frame in samples.chunks_exact(FRAME) {
            pace.tick().await;
            let packet = {
                let state = &mut *self.state.lock();
                let Some(member) = state.members.get_mut(&user) else { return };
                let opus = member.encoder.encode_vec(frame, 1_275).expect("an encoded frame");
                let Some(sealed) = state.group.seal(user, &opus) else { continue };
                member.numbers.sequence = member.numbers.sequence.wrapping_add(1);
                member.numbers.timestamp = member.numbers.timestamp.wrapping_add(960);
                let packet = self.cipher.seal(&mut member.numbers, member.ssrc, &sealed).expect("a packet");
                state.bot.as_ref().and_then(|bot| bot.address).map(|address| (packet, address))
            };
            if let Some((packet, address)) = packet {
                let _ = self.udp.send_to(&packet, address).await;
            }
        }
    }

    /// Sends a packet of any content, with or without the encryption of the transport.
    pub async fn sends(&self, ssrc: u32, content: &[u8], is_sealed: bool) {
        let address = self.state.lock().bot.as_ref().and_then(|bot| bot.address);
        let Some(address) = address else { return };
        let mut numbers = Numbers { counter: 1 << 30, ..Numbers::default() };
        let sealed = if is_sealed { self.cipher.seal(&mut numbers, ssrc, content) } else { Some(content.to_vec()) };
        let _ = self.udp.send_to(&sealed.expect("a packet"), address).await;
    }

    /// Sends a text message of any content.
    pub fn says(&self, text: &str) {
        if let Some(bot) = &self.state.lock().bot {
            let _ = bot.out.send(Out::Message(Message::text(text)));
        }
    }

    /// Sends a binary message of any content.
    pub fn says_bytes(&self, bytes: &[u8]) {
        if let Some(bot) = &self.state.lock().bot {
            let _ = bot.out.send(Out::Message(Message::binary(bytes.to_vec())));
        }
    }

    /// Closes the bot's connection with a code, or cuts it.
    pub fn closes(&self, code: Option<u16>) {
        let out = match code {
            Some(code) => Out::Message(close(code)),
            None => Out::Cut,
        };
        if let Some(bot) = &self.state.lock().bot {
            let _ = bot.out.send(out);
        }
    }
}

fn close(code: u16) -> Message {
    Message::Close(Some(CloseFrame { code: code.into(), reason: "scripted".into() }))
}

impl Bot {
    fn put(&mut self, message: Message) {
        self.sent.push((self.number, message.clone()));
        let _ = self.out.send(Out::Message(message));
    }

    /// Sends a numbered text message.
    fn text(&mut self, opcode: u8, data: &Value) {
        self.number += 1;
        self.put(Message::text(json!({"op": opcode, "d": data, "seq": self.number}).to_string()));
    }

    /// Sends a numbered binary message.
    fn binary(&mut self, opcode: u8, content: &[u8]) {
        self.number += 1;
        let number = u16::try_from(self.number).expect("few messages").to_be_bytes();
        self.put(Message::binary([&number[..], &[opcode], content].concat()));
    }

    fn all(&mut self, messages: Vec<(u8, Vec<u8>)>) {
        for (opcode, content) in messages {
            self.binary(opcode, &content);
        }
    }
}

/// Serves one WebSocket.
async fn serve(stream: TcpStream, state: Arc<Mutex<State>>, port: u16) {
    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let (mut sink, mut source) = socket.split();
    let (out, mut outgoing) = unbounded_channel();
    let hello = json!({"op": 8, "d": {"v": 8, "heartbeat_interval": 200.0}});
    let _ = out.send(Out::Message(Message::text(hello.to_string())));
    loop {
        tokio::select! {
            message = source.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text).expect("JSON");
                    state.lock().text(&message, &out, port);
                }
                Some(Ok(Message::Binary(bytes))) => state.lock().binary(&bytes),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            message = outgoing.recv() => match message {
                Some(Out::Message(message)) => {
                    let closes = matches!(message, Message::Close(_));
                    if sink.send(message).await.is_err() || closes {
                        // The client answers the close frame.
                        while let Some(Ok(_)) = source.next().await {}
                        return;
                    }
                }
                Some(Out::Cut) | None => return,
            },
        }
    }
}

impl State {
    fn text(&mut self, message: &Value, out: &UnboundedSender<Out>, port: u16) {
        let data = &message["d"];
        match message["op"].as_u64() {
            Some(0) => self.identify(data, out, port),
            Some(1) => {
                let Some(bot) = &mut self.bot else { return };
                assert_eq!((&data["protocol"], &data["data"]["mode"]), (&json!("udp"), &json!(MODE)));
                bot.text(4, &json!({"mode": MODE, "secret_key": KEY, "dave_protocol_version": 1}));
                let users: Vec<String> = self.members.keys().map(ToString::to_string).collect();
                bot.text(11, &json!({"user_ids": users}));
                for (user, member) in &self.members {
                    bot.text(5, &json!({"user_id": user.to_string(), "ssrc": member.ssrc, "speaking": 1}));
                }
                bot.binary(25, &self.group.external_sender());
            }
            Some(3) => {
                self.stats.heartbeats += 1;
                if !self.faults.no_acknowledgements {
                    let reply = json!({"op": 6, "d": {"t": data["t"]}});
                    let _ = out.send(Out::Message(Message::text(reply.to_string())));
                }
            }
            Some(5) => self.stats.speaking.push(data["speaking"] == 1),
            Some(7) => self.resume(data, out),
            Some(23) => {
                let id = u16::try_from(data["transition_id"].as_u64().expect("an id")).expect("an id");
                self.group.execute(id);
                if let Some(bot) = &mut self.bot {
                    bot.text(22, &json!({"transition_id": id}));
                }
            }
            Some(31) => panic!("the bot could not follow a change of the group: {data}"),
            _ => {}
        }
    }

    fn identify(&mut self, data: &Value, out: &UnboundedSender<Out>, port: u16) {
        if self.faults.closes.1 > 0 {
            self.faults.closes.1 -= 1;
            let _ = out.send(Out::Message(close(self.faults.closes.0)));
            return;
        }
        assert_eq!((&data["token"], &data["max_dave_protocol_version"]), (&json!(TOKEN), &json!(1)));
        self.stats.identifies += 1;
        self.group.forget_bot();
        let user = data["user_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        let mut bot = Bot { user, out: out.clone(), address: None, sent: Vec::new(), number: 0 };
        let modes = json!([MODE, "aead_xchacha20_poly1305_rtpsize"]);
        bot.text(2, &json!({"ssrc": BOT, "ip": "127.0.0.1", "port": port, "modes": modes}));
        self.bot = Some(bot);
    }

    fn resume(&mut self, data: &Value, out: &UnboundedSender<Out>) {
        let Some(bot) = self.bot.as_mut().filter(|_| self.faults.closes_resumes.is_none()) else {
            let _ = out.send(Out::Message(close(self.faults.closes_resumes.unwrap_or(4006))));
            return;
        };
        assert_eq!(data["token"], TOKEN);
        self.stats.resumes += 1;
        let last = data["seq_ack"].as_u64().expect("a number");
        bot.out = out.clone();
        for (_, message) in bot.sent.iter().filter(|(number, _)| *number > last) {
            let _ = out.send(Out::Message(message.clone()));
        }
        let _ = out.send(Out::Message(Message::text(wire::message(9, &Value::Null))));
    }

    fn binary(&mut self, bytes: &[u8]) {
        let Some(bot) = &mut self.bot else { return };
        match bytes {
            [26, offer @ ..] => bot.all(self.group.offered(bot.user, offer)),
            [28, commit @ ..] => bot.all(self.group.committed(commit)),
            _ => {}
        }
    }
}

/// Reads packets of audio.
async fn receive(udp: Arc<UdpSocket>, cipher: Arc<Cipher>, state: Arc<Mutex<State>>) {
    let mut buffer = [0; PACKET_MAX];
    while let Ok((size, from)) = udp.recv_from(&mut buffer).await {
        let packet = &buffer[..size];
        let answer = {
            let state = &mut *state.lock();
            if state.faults.udp_is_dead {
                continue;
            }
            if size == 74 && packet.starts_with(&[0, 1, 0, 70]) {
                if let Some(bot) = &mut state.bot {
                    bot.address = Some(from);
                }
                let mut answer = packet.to_vec();
                answer[1] = 2;
                let ip = from.ip().to_string();
                answer[8..8 + ip.len()].copy_from_slice(ip.as_bytes());
                answer[72..].copy_from_slice(&from.port().to_be_bytes());
                Some(answer)
            } else {
                if let Some(packet) = cipher.open(packet) {
                    state.hear(&packet.payload);
                }
                None
            }
        };
        if let Some(answer) = answer {
            let _ = udp.send_to(&answer, from).await;
        }
    }
}

impl State {
    /// Plays a packet of the bot to each member.
    fn hear(&mut self, payload: &[u8]) {
        let Some(bot) = &self.bot else { return };
        for (user, member) in &mut self.members {
            let Some(opus) = self.group.open(*user, bot.user, payload) else {
                self.stats.unreadable += 1;
                continue;
            };
            let mut samples = [0; FRAME];
            let many = member.decoder.decode(&opus, &mut samples, false).expect("Opus");
            if opus != davey::OPUS_SILENCE_PACKET {
                member.heard.extend_from_slice(&samples[..many]);
            }
        }
    }
}

/// The kind of media of calls.
const AUDIO: MediaType = MediaType::AUDIO;
