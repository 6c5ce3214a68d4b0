//! The messages of the voice gateway, version 8. Any content yields a value, never a panic.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

/// The most users that one message may name.
const USERS_MAX: usize = 1_000;
/// The bounds of a heartbeat interval.
const BEATS: (u64, u64) = (100, 120_000);

/// A message of the server, with its number if it is buffered for a resume.
#[derive(Debug, PartialEq)]
pub(crate) struct Received {
    pub(crate) number: Option<u64>,
    pub(crate) event: Event,
}

impl Received {
    /// Returns the bytes that it takes beside its own size.
    pub(crate) fn bytes(&self) -> usize {
        match &self.event {
            Event::Dave(
                Dave::ExternalSender(bytes)
                | Dave::Proposals { bytes, .. }
                | Dave::Commit { bytes, .. }
                | Dave::Welcome { bytes, .. },
            ) => bytes.len(),
            Event::Joined(users) => size_of_val(users.as_slice()),
            _ => 0,
        }
    }
}

/// The content of a message of the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// The interval of heartbeats.
    Hello(Duration),
    /// The address for audio.
    Ready {
        ssrc: u32,
        address: (IpAddr, u16),
        modes: Vec<String>,
    },
    /// The keys of the transport, and the version of end-to-end encryption; 0 is none.
    Description {
        mode: String,
        key: [u8; 32],
        version: u16,
    },
    /// The source of a user's audio.
    Speaking {
        user: u64,
        ssrc: u32,
    },
    /// Users who are in the channel.
    Joined(Vec<u64>),
    /// A user left the channel.
    Left(u64),
    /// The session continues.
    Resumed,
    /// A heartbeat arrived.
    Beat,
    /// A change of the encryption.
    Dave(Dave),
    Other,
}

/// A change of the end-to-end encryption.
#[derive(Debug, PartialEq)]
pub(crate) enum Dave {
    PrepareTransition { id: u16, version: u16 },
    Execute { id: u16 },
    PrepareEpoch { version: u16, epoch: u64 },
    ExternalSender(Vec<u8>),
    Proposals { revokes: bool, bytes: Vec<u8> },
    Commit { id: u16, bytes: Vec<u8> },
    Welcome { id: u16, bytes: Vec<u8> },
}

/// Reads a text message. `None` if it is malformed.
pub(crate) fn text(text: &str) -> Option<Received> {
    let message: Value = serde_json::from_str(text).ok()?;
    let data = &message["d"];
    let event = match message["op"].as_u64()? {
        2 => ready(data)?,
        4 => description(data)?,
        5 => match (id(&data["user_id"]), small(&data["ssrc"])) {
            (Some(user), Some(ssrc)) => Event::Speaking { user, ssrc },
            _ => Event::Other,
        },
        6 => Event::Beat,
        8 => Event::Hello(Duration::from_millis(whole(&data["heartbeat_interval"])?.clamp(BEATS.0, BEATS.1))),
        9 => Event::Resumed,
        11 => Event::Joined(data["user_ids"].as_array()?.iter().take(USERS_MAX).filter_map(id).collect()),
        13 => Event::Left(id(&data["user_id"])?),
        21 => Event::Dave(Dave::PrepareTransition {
            id: small(&data["transition_id"])?,
            version: small(&data["protocol_version"])?,
        }),
        22 => Event::Dave(Dave::Execute { id: small(&data["transition_id"])? }),
        24 => Event::Dave(Dave::PrepareEpoch {
            version: small(&data["protocol_version"])?,
            epoch: data["epoch"].as_u64()?,
        }),
        _ => Event::Other,
    };
    Some(Received { number: message["seq"].as_u64(), event })
}

/// Reads a binary message: its number, its opcode, and its content. `None` if it is malformed.
pub(crate) fn binary(bytes: &[u8]) -> Option<Received> {
    let [high, low, opcode, ref content @ ..] = *bytes else { return None };
    let transition = || {
        let [high, low, ref bytes @ ..] = *content else { return None };
        Some((u16::from_be_bytes([high, low]), bytes.to_vec()))
    };
    let event = match opcode {
        25 => Dave::ExternalSender(content.to_vec()),
        27 => {
            let [kind @ (0 | 1), ref bytes @ ..] = *content else { return None };
            Dave::Proposals { revokes: kind == 1, bytes: bytes.to_vec() }
        }
        29 => transition().map(|(id, bytes)| Dave::Commit { id, bytes })?,
        30 => transition().map(|(id, bytes)| Dave::Welcome { id, bytes })?,
        _ => return Some(Received { number: None, event: Event::Other }),
    };
    Some(Received { number: Some(u64::from(u16::from_be_bytes([high, low]))), event: Event::Dave(event) })
}

fn ready(data: &Value) -> Option<Event> {
    let ip = data["ip"].as_str()?.parse().ok()?;
    let modes = data["modes"].as_array()?.iter().filter_map(|mode| mode.as_str().map(str::to_owned)).collect();
    Some(Event::Ready { ssrc: small(&data["ssrc"])?, address: (ip, small(&data["port"])?), modes })
}

fn description(data: &Value) -> Option<Event> {
    let key: Vec<u8> = data["secret_key"].as_array()?.iter().map(small).collect::<Option<_>>()?;
    let version = if data["dave_protocol_version"].is_null() { 0 } else { small(&data["dave_protocol_version"])? };
    Some(Event::Description { mode: data["mode"].as_str()?.to_owned(), key: key.try_into().ok()?, version })
}

/// Reads an id, which is text or a number.
fn id(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Reads a whole number, also one that is written with a decimal point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64))
}

fn small<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    T::try_from(value.as_u64()?).ok()
}

/// Returns a text message of the client.
pub(crate) fn message(opcode: u8, data: &Value) -> String {
    json!({"op": opcode, "d": data}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_and_binary_messages_are_read() {
        let read = text(r#"{"op": 5, "d": {"user_id": "7", "ssrc": 9, "speaking": 1}, "seq": 12}"#).unwrap();
        assert_eq!(read, Received { number: Some(12), event: Event::Speaking { user: 7, ssrc: 9 } });
        assert_eq!(text(r#"{"op": 8, "d": {"heartbeat_interval": 13750.5}}"#).unwrap().number, None);
        let read = binary(&[1, 2, 30, 0, 5, 9, 9]).unwrap();
        let welcome = Dave::Welcome { id: 5, bytes: vec![9, 9] };
        assert_eq!(read, Received { number: Some(258), event: Event::Dave(welcome) });
    }

    #[test]
    fn hostile_messages_are_refused_or_ignored() {
        let refused = [
            "",
            "[]",
            "{}",
            r#"{"op": -1}"#,
            r#"{"op": 2, "d": {}}"#,
            r#"{"op": 13, "d": {"user_id": []}}"#,
            r#"{"op": 4, "d": {"mode": "x", "secret_key": [1, 2]}}"#,
            r#"{"op": 4, "d": {"mode": "x", "secret_key": [256]}}"#,
            r#"{"op": 2, "d": {"ssrc": 4294967296, "ip": "127.0.0.1", "port": 1, "modes": []}}"#,
            r#"{"op": 8, "d": {"heartbeat_interval": "soon"}}"#,
            r#"{"op": 21, "d": {"transition_id": 70000}}"#,
        ];
        for hostile in refused {
            assert_eq!(text(hostile), None, "{hostile}");
        }
        for hostile in [&[][..], &[0], &[0, 1], &[0, 1, 27], &[0, 1, 27, 2], &[0, 1, 29, 0], &[0, 1, 30]] {
            assert_eq!(binary(hostile), None, "{hostile:?}");
        }
        let never = text(r#"{"op": 8, "d": {"heartbeat_interval": 0}}"#).unwrap();
        assert_eq!(never.event, Event::Hello(Duration::from_millis(BEATS.0)), "no storm of heartbeats");
        assert_eq!(text(r#"{"op": 99}"#).unwrap().event, Event::Other);
    }
}
