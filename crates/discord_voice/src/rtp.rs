//! RTP packets with the transport encryption of Discord's voice servers: the header is authenticated, the payload is
//! encrypted, and the packet ends with a counter that is the nonce.

use aes_gcm::aead::{AeadInPlace, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// The size of a header without further fields, in bytes.
const HEADER: usize = 12;
/// The size of the authentication tag and of the counter behind the payload, in bytes.
const TAG: usize = 16;
const COUNTER: usize = 4;
/// The payload type of Opus.
const OPUS: u8 = 120;
/// The largest packet that is read, in bytes: the usual maximum of networks.
pub(crate) const PACKET_MAX: usize = 1_500;

/// The modes of encryption, preferred first.
const MODES: [&str; 2] = ["aead_aes256_gcm_rtpsize", "aead_xchacha20_poly1305_rtpsize"];

/// Returns the preferred mode among those of a server.
pub(crate) fn choose(offered: &[String]) -> Option<&'static str> {
    MODES.into_iter().find(|mode| offered.iter().any(|one| one == mode))
}

/// The key of a connection.
pub(crate) enum Cipher {
    Aes(Box<Aes256Gcm>),
    Chacha(Box<XChaCha20Poly1305>),
}

/// A received packet of Opus.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) ssrc: u32,
    pub(crate) sequence: u16,
    pub(crate) payload: Vec<u8>,
}

/// The numbers of the packets that are sent.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) sequence: u16,
    pub(crate) timestamp: u32,
    /// The number of sealed packets. A counter never repeats under one key.
    pub(crate) counter: u32,
}

impl Cipher {
    /// Creates the cipher of a mode. `None` if the mode is unknown.
    pub(crate) fn new(mode: &str, key: &[u8; 32]) -> Option<Self> {
        match MODES.iter().position(|known| *known == mode)? {
            0 => Some(Self::Aes(Box::new(Aes256Gcm::new(key.into())))),
            _ => Some(Self::Chacha(Box::new(XChaCha20Poly1305::new(key.into())))),
        }
    }

    /// Returns a packet with this payload. `None` if the counter is exhausted.
    pub(crate) fn seal(&self, numbers: &mut Numbers, ssrc: u32, payload: &[u8]) -> Option<Vec<u8>> {
        let counter = numbers.counter.to_be_bytes();
        numbers.counter = numbers.counter.checked_add(1)?;
        let mut packet = Vec::with_capacity(HEADER + payload.len() + TAG + COUNTER);
        packet.extend_from_slice(&[0x80, OPUS]);
        packet.extend_from_slice(&numbers.sequence.to_be_bytes());
        packet.extend_from_slice(&numbers.timestamp.to_be_bytes());
        packet.extend_from_slice(&ssrc.to_be_bytes());
        let mut body = payload.to_vec();
        let tag = match self {
            Self::Aes(cipher) => cipher.encrypt_in_place_detached(&nonce(counter).into(), &packet, &mut body).ok()?,
            Self::Chacha(cipher) => {
                let nonce: XNonce = nonce(counter).into();
                cipher.encrypt_in_place_detached(&nonce, &packet, &mut body).ok()?
            }
        };
        packet.extend_from_slice(&body);
        packet.extend_from_slice(&tag);
        packet.extend_from_slice(&counter);
        Some(packet)
    }

    /// Returns the content of a packet; `None` if it is no authentic packet of Opus.
    pub(crate) fn open(&self, packet: &[u8]) -> Option<Packet> {
        let [first, kind, ..] = *packet else { return None };
        if first >> 6 != 2 || kind & 0x7f != OPUS {
            return None;
        }
        let has_extension = first & 0x10 != 0;
        let plain = HEADER + usize::from(first & 0x0f) * 4 + if has_extension { 4 } else { 0 };
        let end = packet.len().checked_sub(TAG + COUNTER).filter(|end| *end >= plain)?;
        let (header, body) = (&packet[..plain], &packet[plain..end]);
        let (tag, counter) = packet[end..].split_at(TAG);
        let (mut payload, counter) = (body.to_vec(), <[u8; COUNTER]>::try_from(counter).ok()?);
        let tag = Tag::from_slice(tag);
        match self {
            Self::Aes(cipher) => {
                let nonce: Nonce<_> = nonce(counter).into();
                cipher.decrypt_in_place_detached(&nonce, header, &mut payload, tag).ok()?;
            }
            Self::Chacha(cipher) => {
                let nonce: XNonce = nonce(counter).into();
                cipher.decrypt_in_place_detached(&nonce, header, &mut payload, tag).ok()?;
            }
        }
        if first & 0x20 != 0 {
            let padding = usize::from(*payload.last()?);
            payload.truncate(payload.len().checked_sub(padding)?);
        }
        if has_extension {
            // The head of the extension is plain, its content is encrypted with the payload.
            let words = u16::from_be_bytes([header[plain - 2], header[plain - 1]]);
            let length = usize::from(words) * 4;
            payload = payload.get(length..)?.to_vec();
        }
        let number = |at: usize| u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
        Some(Packet { ssrc: number(8), sequence: u16::from_be_bytes([packet[2], packet[3]]), payload })
    }
}

/// Returns the nonce of a counter.
fn nonce<const SIZE: usize>(counter: [u8; COUNTER]) -> [u8; SIZE] {
    let mut nonce = [0; SIZE];
    nonce[..COUNTER].copy_from_slice(&counter);
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_sent_in_each_mode() {
        for mode in MODES {
            let cipher = Cipher::new(mode, &[7; 32]).unwrap();
            let mut numbers = Numbers { sequence: 65_535, timestamp: 9, counter: 3 };
            let sealed = cipher.seal(&mut numbers, 42, b"opus").unwrap();
            assert_eq!(sealed.len(), HEADER + 4 + TAG + COUNTER);
            assert_eq!(numbers.counter, 4);
            let packet = cipher.open(&sealed).unwrap();
            assert_eq!(packet, Packet { ssrc: 42, sequence: 65_535, payload: b"opus".to_vec() });
            assert_eq!(Cipher::new(mode, &[8; 32]).unwrap().open(&sealed), None, "another key");
        }
        assert!(Cipher::new("plain", &[7; 32]).is_none());
        assert_eq!(choose(&[MODES[1].to_owned(), "plain".to_owned()]), Some(MODES[1]));
        assert_eq!(choose(&["plain".to_owned()]), None);
    }

    #[test]
    fn each_change_of_a_packet_and_each_cut_is_refused() {
        let cipher = Cipher::new(MODES[0], &[7; 32]).unwrap();
        let sealed = cipher.seal(&mut Numbers::default(), 42, b"opus").unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 0x41;
            assert_eq!(cipher.open(&changed), None, "byte {at}");
            assert_eq!(cipher.open(&sealed[..at]), None, "length {at}");
        }
    }

    #[test]
    fn an_exhausted_counter_seals_nothing() {
        let cipher = Cipher::new(MODES[0], &[7; 32]).unwrap();
        let mut numbers = Numbers { counter: u32::MAX, ..Numbers::default() };
        assert!(cipher.seal(&mut numbers, 42, b"opus").is_none());
    }

    #[test]
    fn padding_and_extensions_are_removed_and_their_lengths_may_lie() {
        let cipher = Aes256Gcm::new(&[7; 32].into());
        let seal = |first: u8, extension: &[u8], body: &[u8]| {
            let mut packet = vec![first, OPUS, 0, 1, 0, 0, 0, 0, 0, 0, 0, 42];
            packet.extend_from_slice(extension);
            let mut body = body.to_vec();
            let tag = cipher.encrypt_in_place_detached(&nonce([0; 4]).into(), &packet, &mut body).unwrap();
            packet.extend_from_slice(&body);
            packet.extend_from_slice(&tag);
            packet.extend_from_slice(&[0; 4]);
            Cipher::new(MODES[0], &[7; 32]).unwrap().open(&packet).map(|packet| packet.payload)
        };
        assert_eq!(seal(0x90, &[0xbe, 0xde, 0, 1], b"extsopus").unwrap(), b"opus");
        assert_eq!(seal(0xa0, &[], b"opus\0\0\x03").unwrap(), b"opus");
        assert_eq!(seal(0x90, &[0xbe, 0xde, 255, 255], b"extsopus"), None);
        assert_eq!(seal(0xa0, &[], b"opus\xff"), None);
        assert_eq!(seal(0xa0, &[], b""), None);
    }
}
