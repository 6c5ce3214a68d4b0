//! Voice channels of Discord, against a voice server over real sockets, with the members' end of the encryption.

use std::process::Command;
use std::time::Duration;

use discord_voice::testing::{TOKEN, VoiceServer};
use playground::guild::ids::{ChannelId, GuildId};

use crate::model::{Act, End};
use crate::support::{Setup, World, story};

/// Samples per second of what members hear.
const RATE: usize = 48_000;

/// The bot, a voice channel, and its server.
struct Room {
    world: World,
    server: VoiceServer,
}

impl Room {
    /// Begins a world in which members may have the bot join voice channels.
    async fn begin(setup: Setup) -> Self {
        let espeak = r#"[{kind = "command", command = ["espeak-ng", "--stdin", "--stdout"]}]"#;
        let setup = setup.set("STAFFAI_DISCORD__VOICE", "members").set("STAFFAI_VOICES", espeak);
        let world = World::with(setup).await;
        let server = VoiceServer::start(world.channel("general").0).await;
        world.service.voice_server(&server.endpoint(), TOKEN);
        Self { world, server }
    }

    fn guild(&self) -> GuildId {
        self.world.service.guilds()[0].id
    }

    fn user(&self, name: &str) -> u64 {
        self.world.member(name).0
    }

    /// A member enters the voice channel.
    fn enters(&self, name: &str) {
        let channel = self.world.channel("general");
        self.world.service.in_voice(self.guild(), self.world.member(name), Some(channel));
        self.server.joins(self.user(name));
    }

    /// A member enters and has the bot join.
    async fn joined_by(&self, name: &str) {
        self.enters(name);
        assert_eq!(self.world.tells(name, "join", &[]).await, "I am joining your voice channel.");
        let notice = self.world.hears("general").await.content;
        assert!(notice.starts_with("I am in this voice channel"), "{notice}");
        self.world.until("keys", || self.server.is_encrypted().then_some(())).await;
    }

    fn bot_is_in(&self) -> Option<ChannelId> {
        self.world.service.voice_of(self.world.service.bot())
    }
}

/// Returns what espeak-ng makes of a text: 48,000 samples per second.
fn spoken(text: &str) -> Vec<i16> {
    let output = Command::new("espeak-ng").args(["--stdout", text]).output().expect("espeak-ng");
    let samples: Vec<i16> =
        output.stdout[44..].chunks_exact(2).map(|sample| i16::from_le_bytes([sample[0], sample[1]])).collect();
    let many = samples.len() * RATE / 22_050;
    (0..many).map(|at| samples[at * 22_050 / RATE]).collect()
}

/// Returns the loudness of audio in steps of 50 milliseconds, without the silence around it.
fn loudness(samples: &[i16]) -> Vec<f64> {
    let mean = |part: &[i16]| {
        let sum: f64 = part.iter().map(|sample| f64::from(*sample) * f64::from(*sample)).sum();
        (sum / f64::from(u32::try_from(part.len()).unwrap())).sqrt()
    };
    let steps: Vec<f64> = samples.chunks(RATE / 20).map(mean).collect();
    let is_loud = |loudness: &f64| *loudness > 300.0;
    let begin = steps.iter().position(is_loud).unwrap_or(0);
    let end = steps.iter().rposition(is_loud).map_or(0, |end| end + 1);
    steps[begin..end.max(begin)].to_vec()
}

/// Returns how alike two courses of loudness are: 1 for equal ones. They may be shifted by two steps.
fn likeness(one: &[f64], other: &[f64]) -> f64 {
    let at_shift = |shift: usize| {
        let pairs: Vec<(f64, f64)> = one.iter().skip(shift).zip(other).map(|(a, b)| (*a, *b)).collect();
        let many = f64::from(u32::try_from(pairs.len().max(1)).unwrap());
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / many;
        let (first, second) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
        let together = mean(&|pair| (pair.0 - first) * (pair.1 - second));
        let spread = |of: &dyn Fn(&(f64, f64)) -> f64| mean(&|pair| of(pair) * of(pair)).sqrt();
        together / (spread(&|pair| pair.0 - first) * spread(&|pair| pair.1 - second)).max(1e-9)
    };
    (0..3).map(at_shift).fold(f64::MIN, f64::max)
}

#[test]
fn an_answer_in_the_text_chat_is_spoken_to_the_members_of_the_voice_channel() {
    story(async {
        let room = Room::begin(Setup::new()).await;
        room.joined_by("Ada").await;
        let words = "The weather in the mountains is cold today.";
        room.world.model.always(Act::streams(words, 5, Duration::from_millis(5), End::Well));
        let said = room.world.says("Ada", "general", "@staffai how is the weather?");
        room.world.answer_to(said).await;
        room.world.until("the end of speech", || {
            let speaking = room.server.stats().speaking;
            (speaking.last() == Some(&false)).then_some(())
        })
        .await;
        let (heard, made) = (loudness(&room.server.heard(room.user("Ada"))), loudness(&spoken(words)));
        let ratio = heard.len() * 100 / made.len();
        assert!((90..=115).contains(&ratio), "{} of {}", heard.len(), made.len());
        let likeness = likeness(&heard, &made).max(self::likeness(&made, &heard));
        assert!(likeness > 0.8, "{likeness}");
        assert_eq!(room.bot_is_in(), Some(room.world.channel("general")));
        room.world.stop().await;
    });
}
