//! One voice connection: the WebSocket of the voice gateway (version 8) and the UDP socket for audio. A lost WebSocket is
//! resumed, while audio continues.

mod handshake;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use http_client::{Duplex, HttpClient};
use parking_lot::RwLock;
use serde_json::json;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use self::handshake::Resumption;
use super::dave::{Encryption, Reply};
use super::ears::Ears;
use super::mouth::{Act, Mouth};
use super::pcm::Frame;
use super::rtp::{Cipher, PACKET_MAX};
use super::wire::{self, Event, Received};
use ports::voice_calls::{CallEnd, VoiceAccess};
use telemetry::events::{VOICE_CHANNEL_DROPPED, VOICE_CHANNEL_RESUMED};

/// The most messages that wait to be written; a server reads faster.
const OUTGOING_MAX: usize = 64;
/// The heartbeats in a row without an acknowledgement after which the WebSocket is lost.
const UNANSWERED_MAX: u32 = 2;
/// The interval of packets that keep the way through routers open.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// The errors of the UDP socket in a row after which the connection is lost.
const UDP_ERRORS_MAX: u32 = 10;
/// The resumptions without an acknowledged heartbeat in between after which the connection is lost.
const RESUMES_MAX: u32 = 3;

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// The members who agreed to be heard, by their ids. An opt-out has effect before the next packet.
pub(crate) type Consents = Arc<RwLock<HashSet<u64>>>;

/// An event of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// Samples of a member who agreed to be heard, for recognition.
    Heard(u64, Vec<i16>),
    /// A member left the channel.
    Left(u64),
    /// The connection ended.
    Ended(CallEnd),
}

/// Returns the effect of a close code: `Ok` if the session can be resumed.
pub(crate) fn closed(code: Option<u16>) -> Result<(), CallEnd> {
    let lost = |why: &str| Err(CallEnd::Lost(format!("the voice server closed the connection: {why}")));
    match code {
        Some(4014) => Err(CallEnd::Dismissed("the bot was disconnected from the channel".to_owned())),
        Some(4021) => Err(CallEnd::Dismissed("the bot is rate limited".to_owned())),
        Some(4022) => Err(CallEnd::Dismissed("the call was ended".to_owned())),
        Some(4017) => {
            Err(CallEnd::Dismissed("the channel requires another version of end-to-end encryption".to_owned()))
        }
        Some(4004) => lost("the token is invalid"),
        Some(4006 | 4009) => lost("the session is no longer valid"),
        Some(4011) => lost("the server is unknown"),
        Some(code @ (4001..=4003 | 4005 | 4012 | 4016 | 4020)) => lost(&format!("code {code}")),
        // 4015: the server crashed. Others: the connection broke.
        Some(_) | None => Ok(()),
    }
}

/// The writing half of a WebSocket.
struct Writer {
    messages: mpsc::Sender<Message>,
    task: AbortHandle,
}

impl Writer {
    /// Sends a message. A full queue drops it: then the connection is lost without it.
    fn send(&self, message: Message) {
        let _ = self.messages.try_send(message);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection.
pub(crate) struct Driver {
    access: VoiceAccess,
    client: HttpClient,
    consents: Consents,
    writer: Writer,
    reader: SplitStream<Socket>,
    /// The resumption in progress.
    resuming: Option<Aborted<Result<Box<Resumption>, CallEnd>>>,
    /// The resumptions in a row.
    resumes: u32,
    udp: UdpSocket,
    cipher: Cipher,
    encryption: Encryption,
    ears: Ears,
    mouth: Mouth,
    ssrc: u32,
    /// The number of the last buffered message.
    number: Option<u64>,
    interval: Duration,
    beat: Instant,
    unanswered: u32,
    keepalive: Instant,
    kept: u32,
    udp_errors: u32,
    buffer: Box<[u8; PACKET_MAX]>,
    /// The events of messages that were sent again, or early.
    waiting: VecDeque<Happening>,
}

/// A task that ends with its handle.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Step {
    Act,
    Beat,
    Keepalive,
    Message(Option<Result<Message, Error>>),
    Packet(std::io::Result<usize>),
    Resumed(Result<Box<Resumption>, CallEnd>),
}

impl Driver {
    /// True if more frames may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.mouth.has_room()
    }

    /// Speaks a frame after those before it. The mark says what it belongs to.
    pub(crate) fn speak(&mut self, mark: u64, frame: Frame) {
        self.mouth.add(mark, frame);
    }

    /// Stops speaking at once.
    pub(crate) fn hush(&mut self) {
        self.mouth.hush();
    }

    /// Returns the mark of the next frame; `None` while no audio waits.
    pub(crate) fn sounds(&self) -> Option<u64> {
        self.mouth.sounds()
    }

    /// True if this is the voice server of the connection.
    pub(crate) fn is_at(&self, endpoint: &str) -> bool {
        self.access.endpoint == endpoint
    }

    /// Returns the mark of the last frame that was sent.
    pub(crate) fn spoken(&self) -> Option<u64> {
        self.mouth.spoken()
    }

    /// Forgets the audio of a member who no longer agrees.
    pub(crate) fn forget(&mut self, user: u64) {
        self.ears.forget(user);
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Happening {
        loop {
            if let Some(happening) = self.waiting.pop_front() {
                return happening;
            }
            let is_open = self.resuming.is_none();
            let resumed = async {
                match &mut self.resuming {
                    Some(Aborted(task)) => task.await,
                    None => std::future::pending().await,
                }
            };
            let step = tokio::select! {
                biased;
                () = sleep_until(self.mouth.due()), if self.mouth.is_busy() => Step::Act,
                () = sleep_until(self.beat), if is_open => Step::Beat,
                message = self.reader.next(), if is_open => Step::Message(message),
                resumed = resumed => {
                    let broken = || Err(CallEnd::Lost("the task of a resumption ended".to_owned()));
                    Step::Resumed(resumed.unwrap_or_else(|_| broken()))
                }
                received = self.udp.recv(&mut self.buffer[..]) => Step::Packet(received),
                () = sleep_until(self.keepalive) => Step::Keepalive,
            };
            match self.take(step) {
                Ok(Some(happening)) => return happening,
                Ok(None) => {}
                Err(end) => return Happening::Ended(end),
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<Option<Happening>, CallEnd> {
        match step {
            Step::Act => {
                self.act();
                Ok(None)
            }
            Step::Beat => self.heartbeat().map(|()| None),
            Step::Keepalive => {
                self.keepalive = Instant::now() + KEEPALIVE;
                self.kept = self.kept.wrapping_add(1);
                // A packet that cannot be sent is lost like one on its way.
                let _ = self.udp.try_send(&u64::from(self.kept).to_le_bytes());
                Ok(None)
            }
            Step::Message(message) => self.message(message),
            Step::Packet(Ok(size)) => {
                self.udp_errors = 0;
                Ok(self.packet(size))
            }
            Step::Packet(Err(error)) => {
                self.udp_errors += 1;
                if self.udp_errors < UDP_ERRORS_MAX {
                    return Ok(None);
                }
                Err(CallEnd::Lost(format!("the voice server does not receive audio: {error}")))
            }
            Step::Resumed(resumed) => self.resumed(resumed).map(|()| None),
        }
    }

    /// Sends what is due.
    fn act(&mut self) {
        match self.mouth.act(self.encryption.can_speak()) {
            Act::Send(opus, begins) => {
                if begins {
                    self.say_speaking(true);
                }
                let sealed = self.encryption.seal(&opus);
                let packet = sealed.and_then(|opus| self.cipher.seal(&mut self.mouth.numbers, self.ssrc, &opus));
                if let Some(packet) = packet {
                    // A packet that cannot be sent is lost like one on its way.
                    let _ = self.udp.try_send(&packet);
                }
            }
            Act::End => self.say_speaking(false),
            Act::Nothing => {}
        }
    }

    fn say_speaking(&self, on: bool) {
        let data = json!({"speaking": u8::from(on), "delay": 0, "ssrc": self.ssrc});
        self.writer.send(Message::text(wire::message(5, &data)));
    }

    fn heartbeat(&mut self) -> Result<(), CallEnd> {
        self.beat = Instant::now() + self.interval;
        if self.unanswered >= UNANSWERED_MAX {
            return self.resume();
        }
        self.unanswered += 1;
        let data = json!({"t": self.unanswered, "seq_ack": self.number});
        self.writer.send(Message::text(wire::message(3, &data)));
        Ok(())
    }

    fn message(&mut self, message: Option<Result<Message, Error>>) -> Result<Option<Happening>, CallEnd> {
        let received = match message {
            Some(Ok(Message::Text(text))) => wire::text(&text),
            Some(Ok(Message::Binary(bytes))) => wire::binary(&bytes),
            Some(Ok(Message::Close(frame))) => {
                closed(frame.map(|frame| frame.code.into()))?;
                return self.resume().map(|()| None);
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(None),
            Some(Err(_)) | None => return self.resume().map(|()| None),
        };
        let Some(received) = received else {
            tracing::debug!(event = VOICE_CHANNEL_DROPPED, reason = "a message of the voice server is malformed");
            return Ok(None);
        };
        Ok(self.happened(received))
    }

    fn happened(&mut self, received: Received) -> Option<Happening> {
        self.number = received.number.or(self.number);
        match received.event {
            Event::Beat => (self.unanswered, self.resumes) = (0, 0),
            Event::Speaking { user, ssrc } => self.ears.learn(ssrc, user),
            Event::Joined(users) => self.encryption.joined(users),
            Event::Left(user) => {
                self.encryption.left(user);
                self.ears.left(user);
                return Some(Happening::Left(user));
            }
            Event::Dave(change) => {
                let replies = self.encryption.apply(&change);
                self.reply(replies);
            }
            Event::Hello(_) | Event::Ready { .. } | Event::Description { .. } | Event::Resumed | Event::Other => {}
        }
        None
    }

    /// Reads messages whose events [`Driver::next`] returns later.
    fn replay(&mut self, messages: Vec<Received>) {
        for received in messages {
            let happening = self.happened(received);
            self.waiting.extend(happening);
        }
    }

    fn reply(&self, replies: Vec<Reply>) {
        for reply in replies {
            self.writer.send(match reply {
                Reply::Text(text) => Message::text(text),
                Reply::Binary(bytes) => Message::binary(bytes),
            });
        }
    }

    /// Reads a packet. Audio of a member who did not agree is dropped before its end-to-end encryption is opened.
    fn packet(&mut self, size: usize) -> Option<Happening> {
        let packet = self.cipher.open(&self.buffer[..size])?;
        let user = self.ears.member(packet.ssrc)?;
        if !self.consents.read().contains(&user) {
            return None;
        }
        let opus = self.encryption.open(user, packet.payload)?;
        let samples = self.ears.decode(user, packet.sequence, &opus)?;
        Some(Happening::Heard(user, samples))
    }

    /// Begins to resume the session over another WebSocket.
    fn resume(&mut self) -> Result<(), CallEnd> {
        self.resumes += 1;
        if self.resumes > RESUMES_MAX {
            return Err(CallEnd::Lost("the session could not be resumed".to_owned()));
        }
        let resume = handshake::resume(self.client.clone(), self.access.clone(), self.number);
        self.resuming = Some(Aborted(tokio::spawn(resume)));
        Ok(())
    }

    fn resumed(&mut self, resumed: Result<Box<Resumption>, CallEnd>) -> Result<(), CallEnd> {
        self.resuming = None;
        let Resumption { socket, interval, missed } = *match resumed {
            Ok(resumption) => resumption,
            Err(CallEnd::Lost(_)) => return self.resume(),
            Err(end) => return Err(end),
        };
        (self.writer, self.reader) = handshake::halves(socket);
        (self.interval, self.unanswered) = (interval, 0);
        self.beat = Instant::now() + interval;
        tracing::info!(event = VOICE_CHANNEL_RESUMED, missed = missed.len(), "a voice connection was resumed");
        self.replay(missed);
        // The announcement may have been lost with the connection.
        if self.mouth.is_busy() {
            self.say_speaking(true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
