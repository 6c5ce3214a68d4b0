//! The audio of members: packets become samples. Only the audio of members who agreed is decrypted and decoded.

use std::collections::HashMap;

use opus2::{Channels, Decoder};

use ports::voice_calls::HEARD_MAX;

/// The maximum number of known sources of audio; a channel has fewer members.
const SOURCES_MAX: usize = 2_000;
/// The samples of the longest packet of Opus: 120 milliseconds.
const LONGEST: usize = RATE as usize * 120 / 1_000;
/// Samples per second, as for recognition.
const RATE: u32 = speech::hearing::RATE;

/// The sources of audio in a channel.
#[derive(Default)]
pub(crate) struct Ears {
    /// The members, by the sources of their audio.
    sources: HashMap<u32, u64>,
    decoders: HashMap<u64, Voice>,
}

/// The audio of one member.
struct Voice {
    decoder: Decoder,
    /// The sequence number of the last packet.
    last: u16,
}

impl Ears {
    /// Notes the source of a member's audio.
    pub(crate) fn learn(&mut self, ssrc: u32, user: u64) {
        if self.sources.len() < SOURCES_MAX || self.sources.contains_key(&ssrc) {
            // A new source counts its packets from another number.
            if self.sources.insert(ssrc, user) != Some(user) {
                self.forget(user);
            }
        }
    }

    /// Returns the member with this source of audio.
    pub(crate) fn member(&self, ssrc: u32) -> Option<u64> {
        self.sources.get(&ssrc).copied()
    }

    /// Forgets a member.
    pub(crate) fn forget(&mut self, user: u64) {
        self.decoders.remove(&user);
    }

    /// Forgets a member who left.
    pub(crate) fn left(&mut self, user: u64) {
        self.forget(user);
        self.sources.retain(|_, known| *known != user);
    }

    /// Returns the samples of a packet. `None` if it is late, repeated or unreadable, or if too many members speak.
    pub(crate) fn decode(&mut self, user: u64, sequence: u16, opus: &[u8]) -> Option<Vec<i16>> {
        if !self.decoders.contains_key(&user) {
            if self.decoders.len() >= HEARD_MAX {
                return None;
            }
            let decoder = Decoder::new(RATE, Channels::Mono).ok()?;
            self.decoders.insert(user, Voice { decoder, last: sequence.wrapping_sub(1) });
        }
        let voice = self.decoders.get_mut(&user)?;
        let ahead = sequence.wrapping_sub(voice.last);
        if ahead == 0 || ahead > u16::MAX / 2 {
            return None;
        }
        voice.last = sequence;
        let mut samples = vec![0; LONGEST];
        let many = voice.decoder.decode(opus, &mut samples, false).ok()?;
        samples.truncate(many);
        Some(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mouth::{Act, Mouth};
    use crate::pcm::FRAME;

    #[tokio::test]
    async fn packets_in_order_are_decoded_and_others_are_dropped() {
        let mut mouth = Mouth::new().unwrap();
        mouth.add(0, Box::new([1_000; FRAME]));
        let Act::Send(opus, true) = mouth.act(true) else { panic!("a packet") };
        let mut ears = Ears::default();
        assert_eq!(ears.decode(7, 65_535, &opus).unwrap().len(), 320);
        assert_eq!(ears.decode(7, 65_535, &opus), None, "repeated");
        assert_eq!(ears.decode(7, 65_530, &opus), None, "late");
        assert_eq!(ears.decode(7, 0, &opus).unwrap().len(), 320);
        for sequence in 1..=3_000_u16 {
            let hostile: Vec<u8> = (0..sequence % 300)
                .map(|at| at.wrapping_mul(31).wrapping_add(sequence.wrapping_mul(7)).to_le_bytes()[0])
                .collect();
            let samples = ears.decode(7, sequence, &hostile);
            assert!(samples.is_none_or(|samples| samples.len() <= LONGEST));
        }
        for user in 0..100 {
            ears.decode(user, 1, &opus);
        }
        assert_eq!((ears.decoders.len(), ears.decode(200, 1, &opus)), (HEARD_MAX, None));
        ears.learn(1, 7);
        ears.left(7);
        assert_eq!((ears.member(1), ears.decoders.contains_key(&7)), (None, false));
        assert!(ears.decode(200, 1, &opus).is_some(), "a place is free");
    }
}
