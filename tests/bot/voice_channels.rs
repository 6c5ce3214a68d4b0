//! Voice channels of Discord, against a voice server over real sockets, with the members' end of the encryption.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use discord_voice::testing::{TOKEN, VoiceServer};
use playground::guild::Message;
use playground::guild::ids::{ChannelId, GuildId};

use ports::voice_calls::HEARD_MAX;
use ports::{Fault, Faults, Input};
use serde_json::json;

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
        Self::as_set(setup, "members").await
    }

    /// Begins a world in which these callers may.
    async fn as_set(setup: Setup, callers: &str) -> Self {
        let espeak = r#"[{kind = "command", command = ["espeak-ng", "--stdin", "--stdout"]}]"#;
        let setup = setup.set("STAFFAI_DISCORD__VOICE", callers).set("STAFFAI_VOICES", espeak);
        Self::of(World::with(setup).await).await
    }

    /// Adds the voice server to a world.
    async fn of(world: World) -> Self {
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

    /// Discord has a member in the voice channel.
    fn appears(&self, name: &str) {
        let channel = self.world.channel("general");
        self.world.service.in_voice(self.guild(), self.world.member(name), Some(channel));
    }

    /// A member enters the voice channel.
    fn enters(&self, name: &str) {
        self.appears(name);
        self.server.joins(self.user(name));
    }

    /// A member leaves the voice channel.
    fn leaves(&self, name: &str) {
        self.world.service.in_voice(self.guild(), self.world.member(name), None);
        self.server.leaves(self.user(name));
    }

    /// A member enters and has the bot join.
    async fn joined_by(&self, name: &str) {
        self.enters(name);
        assert_eq!(self.world.tells(name, "join", &[]).await, "I am joining your voice channel.");
        self.says("I am in this voice channel").await;
        self.world.until("keys", || self.server.is_encrypted().then_some(())).await;
    }

    /// Awaits a message of the bot in the text chat that contains this, and returns it.
    async fn says(&self, text: &str) -> Message {
        let channel = self.world.channel("general");
        let found = || self.world.spoken(channel).into_iter().find(|message| message.content.contains(text));
        self.world.until(text, found).await
    }

    /// Awaits the end of the bot's speech, after it spoke so many times.
    async fn silence(&self, times: usize) {
        let ended = || {
            let speaking = self.server.stats().speaking;
            (speaking.iter().filter(|on| !**on).count() >= times).then_some(())
        };
        self.world.until("the end of speech", ended).await;
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
        room.silence(1).await;
        let (heard, made) = (loudness(&room.server.heard(room.user("Ada"))), loudness(&spoken(words)));
        let ratio = heard.len() * 100 / made.len();
        assert!((90..=115).contains(&ratio), "{} of {}", heard.len(), made.len());
        let likeness = likeness(&heard, &made).max(self::likeness(&made, &heard));
        assert!(likeness > 0.8, "{likeness}");
        assert_eq!(room.bot_is_in(), Some(room.world.channel("general")));
        room.world.stop().await;
    });
}

/// A row that hears the same words in each utterance, and a line in a file for each.
fn hearing(words: &str, log: &std::path::Path) -> String {
    let script = format!("cat > /dev/null; echo x >> {}; echo {words}", log.display());
    format!(r#"[{{kind = "command", command = ["sh", "-c", "{script}"]}}]"#)
}

/// Returns speech with silence around it.
fn sentence(text: &str) -> Vec<i16> {
    [vec![0; RATE / 2], spoken(text), vec![0; RATE / 10]].concat()
}

#[test]
fn only_a_member_who_agreed_asks_by_voice_and_is_answered_aloud() {
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("heard");
        let utterances = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
        let setup = Setup::new().set("STAFFAI_HEARING", hearing("what is two plus two", &log));
        let room = Room::begin(setup).await;
        room.world.model.does(|ask| Act::says(format!("You asked: {}", ask.question())));
        room.joined_by("Ada").await;
        room.enters("Ben");
        let (ada, ben) = (room.user("Ada"), room.user("Ben"));
        let words = sentence("What is two plus two?");
        room.server.speaks(ben, &words).await;
        room.server.speaks(ada, &words).await;
        let told = room.world.tells("Ada", "listen", &[]).await;
        assert!(told.starts_with("I hear you"), "{told}");
        room.says("I hear Ada from now on").await;
        assert_eq!(utterances(), 0, "no member had agreed");
        tokio::join!(room.server.speaks(ada, &words), room.server.speaks(ben, &words));
        let asked = room.says("**Ada:** what is two plus two").await;
        let said = crate::support::Said { id: asked.id, channel: room.world.channel("general") };
        assert_eq!(room.world.words_to(said).await, "You asked: what is two plus two");
        room.silence(1).await;
        assert!(!loudness(&room.server.heard(ben)).is_empty(), "all members hear the answer");
        let told = room.world.tells("Ada", "listen", &[("switch", 3, "off")]).await;
        assert_eq!(told, "I no longer hear you.");
        room.says("I no longer hear Ada").await;
        room.server.speaks(ada, &words).await;
        assert_eq!(utterances(), 1, "only the one utterance with consent was transcribed");
        room.world.stop().await;
    });
}

#[test]
fn a_member_who_leaves_is_heard_again_only_after_agreeing_again() {
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("heard");
        let setup = Setup::new().set("STAFFAI_HEARING", hearing("what is two plus two", &log));
        let room = Room::begin(setup).await;
        room.joined_by("Ben").await;
        room.enters("Ada");
        let (ada, words) = (room.user("Ada"), sentence("What is two plus two?"));
        room.world.tells("Ada", "listen", &[]).await;
        room.says("I hear Ada from now on").await;
        room.leaves("Ada");
        room.enters("Ada");
        // The consent of Ben is newer than the end of Ada's, so that end is known once Ben is heard.
        room.world.tells("Ben", "listen", &[]).await;
        room.server.speaks(ada, &words).await;
        room.server.speaks(room.user("Ben"), &words).await;
        room.says("**Ben:** what is two plus two").await;
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 1, "Ada was not transcribed");
        room.world.tells("Ada", "listen", &[]).await;
        room.server.speaks(ada, &words).await;
        room.says("**Ada:** what is two plus two").await;
        room.world.stop().await;
    });
}

#[test]
fn the_twenty_sixth_member_is_heard_once_a_place_is_free() {
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup::new().set("STAFFAI_HEARING", hearing("what is two plus two", &dir.path().join("heard")));
        let room = Room::begin(setup).await;
        room.joined_by("Ada").await;
        let many = u64::try_from(HEARD_MAX).unwrap();
        room.world.crowd(many);
        let names: Vec<String> = (0..many).map(|number| format!("member-{number}")).collect();
        for name in &names {
            room.appears(name);
        }
        // The keys of the others are no matter of this story.
        room.server.joins(room.user("member-0"));
        for name in &names {
            let told = room.world.tells(name, "listen", &[]).await;
            assert!(told.starts_with("I hear you"), "{name}: {told}");
        }
        let listens = async |name: &str| room.world.tells(name, "listen", &[]).await;
        let full = "I already hear as many members as I can here. Please try again when one of them has left.";
        assert_eq!(listens("Ada").await, full);
        room.leaves("member-0");
        while listens("Ada").await == full {}
        // The place is taken.
        assert_eq!(listens("member-0").await, "You are in no voice channel. Join one first.");
        room.enters("member-0");
        assert_eq!(listens("member-0").await, full);
        room.server.speaks(room.user("Ada"), &sentence("What is two plus two?")).await;
        room.says("**Ada:** what is two plus two").await;
        // A member who no longer wants to be heard leaves a place as well.
        assert_eq!(room.world.tells("member-1", "listen", &[("switch", 3, "off")]).await, "I no longer hear you.");
        let random = Some(room.world.channel("random"));
        room.world.service.in_voice(room.guild(), room.world.member("member-1"), random);
        assert!(listens("member-1").await.starts_with("I am in another voice channel"));
        assert!(listens("member-0").await.starts_with("I hear you"));
        room.world.stop().await;
    });
}

#[test]
fn a_member_who_speaks_interrupts_and_the_conversation_keeps_what_was_heard() {
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup::new().set("STAFFAI_HEARING", hearing("stop please", &dir.path().join("heard")));
        let room = Room::begin(setup).await;
        room.joined_by("Ada").await;
        room.world.tells("Ada", "listen", &[]).await;
        let long = "This is the first sentence of it. ".repeat(12);
        room.world
            .model
            .does(move |ask| Act::says(if ask.question().contains("long") { long.clone() } else { "Yes.".to_owned() }));
        let said = room.world.says("Ada", "general", "@staffai a long story");
        room.world.answer_to(said).await;
        let ada = room.user("Ada");
        room.world.until("speech", || (!room.server.heard(ada).is_empty()).then_some(())).await;
        room.server.speaks(ada, &sentence("Stop please, that is enough.")).await;
        room.silence(1).await;
        let asked = room.says("**Ada:** stop please").await;
        let heard = room.server.heard(ada).len() / RATE;
        assert!(heard < 10, "{heard} seconds of the answer were spoken");
        let said = crate::support::Said { id: asked.id, channel: room.world.channel("general") };
        room.world.answer_to(said).await;
        let again = room.world.says("Ada", "general", "@staffai go on");
        room.world.answer_to(again).await;
        let talk = room.world.model.last().talk();
        assert!(talk.contains("[interrupted here: the rest was not heard]"), "{talk}");
        assert!(talk.matches("first sentence").count() < 12, "{talk}");
        room.world.stop().await;
    });
}

/// A room in which the bot hears Ada, who says "stop please".
async fn hearing_ada(setup: Setup, dir: &std::path::Path) -> Room {
    let setup = setup.set("STAFFAI_HEARING", hearing("stop please", &dir.join("heard")));
    // A model that is silent is waited for.
    let room = Room::begin(setup.set("STAFFAI_LLM__TIMEOUT", "60s")).await;
    room.joined_by("Ada").await;
    room.world.tells("Ada", "listen", &[]).await;
    room
}

impl Room {
    /// Ada speaks, and the answer to her words arrives. Returns the conversation as its model read it.
    async fn ada_interrupts(&self) -> String {
        self.server.speaks(self.user("Ada"), &sentence("Stop please, that is enough.")).await;
        let asked = self.says("**Ada:** stop please").await;
        let said = crate::support::Said { id: asked.id, channel: self.world.channel("general") };
        self.world.answer_to(said).await;
        self.world.model.last().talk()
    }
}

#[test]
fn a_member_who_speaks_between_two_sentences_has_heard_the_first() {
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let room = hearing_ada(Setup::new(), dir.path()).await;
        let words = format!("One is first. Two is {} far.", "very ".repeat(40));
        room.world.model.does(move |ask| match ask.question() {
            "count" => Act::streams(&words, 10, Duration::ZERO, End::SilenceAfter(10)),
            _ => Act::says("Yes."),
        });
        room.world.says("Ada", "general", "@staffai count");
        // The first sentence was spoken, and the model does not go on.
        room.silence(1).await;
        let talk = room.ada_interrupts().await;
        let heard = "user: count\nassistant: One is first. [interrupted here: the rest was not heard]";
        assert_eq!(talk, format!("{heard}\nuser: stop please"));
        room.world.until("the model's stream is closed", || (room.world.model.cut() == 1).then_some(())).await;
        room.world.stop().await;
    });
}

#[test]
fn a_member_who_speaks_interrupts_an_answer_that_thinks_or_waits_for_an_approval() {
    const CUT: &str = "[interrupted here: the rest was not heard]\nuser: stop please";
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let room = hearing_ada(Setup::new(), dir.path()).await;
        room.world.model.does(|ask| if ask.question() == "think" { Act::Hangs } else { Act::says("Yes.") });
        room.world.says("Ada", "general", "@staffai think");
        room.world.until("a request", || (room.world.model.calls() == 1).then_some(())).await;
        assert_eq!(room.ada_interrupts().await, format!("user: think\nassistant: {CUT}"));
        room.world.stop().await;
    });
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup::new().set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "roll_dice");
        let room = hearing_ada(setup, dir.path()).await;
        room.world.model.does(|ask| match ask.question() {
            "roll" => Act::calls(&[("c1", "roll_dice", json!({"notation": "2d6"}))]),
            _ => Act::says("Yes."),
        });
        room.world.says("Ada", "general", "@staffai roll");
        room.says("roll_dice").await;
        assert_eq!(room.ada_interrupts().await, format!("user: roll\nassistant: {CUT}"));
        room.world.stop().await;
    });
}

#[test]
fn tools_are_announced_in_the_language_of_the_member_who_had_the_bot_join() {
    story(async {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("said");
        let script = format!("tee -a {} | espeak-ng --stdin --stdout", log.display());
        let voices = format!(r#"[{{kind = "command", command = ["sh", "-c", "{script}"]}}]"#);
        let mut setup = Setup::new().set("STAFFAI_DISCORD__VOICE", "members").set("STAFFAI_VOICES", voices);
        for guild in &mut setup.service.seed.guilds {
            "de".clone_into(&mut guild.locale);
        }
        let room = Room::of(World::with(setup).await).await;
        room.enters("Ada");
        room.world.tells("Ada", "join", &[]).await;
        room.world.until("keys", || room.server.is_encrypted().then_some(())).await;
        room.world.model.does(|ask| {
            if ask.results().is_empty() {
                Act::calls(&[("c1", "roll_dice", json!({"notation": "2d6"}))])
            } else {
                Act::says("Gewürfelt.")
            }
        });
        let said = room.world.says("Ada", "general", "@staffai würfle");
        room.world.answer_to(said).await;
        let words = || std::fs::read_to_string(&log).ok().filter(|words| words.contains("Gewürfelt."));
        let words = room.world.until("the speech", words).await;
        assert!(words.starts_with("Einen Moment"), "{words}");
        room.world.stop().await;
    });
}

#[test]
fn the_operator_decides_who_may_move_the_bot() {
    story(async {
        let world = World::with(Setup::new()).await;
        let told = world.tells("Ada", "join", &[]).await;
        assert!(told.starts_with("I do not know this command"), "off by default: {told}");
        world.stop().await;
        let room = Room::begin(Setup::new()).await;
        assert_eq!(room.world.tells("Ada", "join", &[]).await, "You are in no voice channel. Join one first.");
        assert_eq!(
            room.world.tells("Ada", "leave", &[]).await,
            "I am in no voice channel here. `/join` has me join yours."
        );
        let told = room.world.tells("Ada", "listen", &[]).await;
        assert_eq!(told, "I am in no voice channel here. `/join` has me join yours.");
        room.joined_by("Ada").await;
        assert_eq!(room.world.tells("Ada", "join", &[]).await, "I am in your voice channel already.");
        let told = room.world.tells("Ada", "listen", &[]).await;
        assert!(told.starts_with("I cannot hear"), "{told}");
        assert_eq!(room.world.tells("Ada", "leave", &[]).await, "I am leaving the voice channel.");
        room.world.until("the bot leaves", || room.bot_is_in().is_none().then_some(())).await;
        room.world.stop().await;
    });
    story(async {
        let room = Room::as_set(Setup::new(), "operators").await;
        room.enters("Ben");
        let told = room.world.tells("Ben", "join", &[]).await;
        assert!(told.contains("do not let you move me"), "{told}");
        room.joined_by("Chloe").await;
        room.world.stop().await;
    });
}

#[test]
fn a_lost_call_is_joined_again_and_a_dismissed_one_is_not() {
    story(async {
        let room = Room::begin(Setup::new()).await;
        room.joined_by("Ada").await;
        room.server.closes(Some(4006));
        room.world.until("another session", || (room.server.stats().identifies == 2).then_some(())).await;
        room.world.until("keys", || room.server.is_encrypted().then_some(())).await;
        room.world.model.always(Act::says("I am here again."));
        let said = room.world.says("Ada", "general", "@staffai are you there?");
        room.world.answer_to(said).await;
        room.silence(1).await;
        assert!(!loudness(&room.server.heard(room.user("Ada"))).is_empty());
        room.server.closes(Some(4014));
        room.world.until("the bot leaves", || room.bot_is_in().is_none().then_some(())).await;
        assert_eq!(
            room.world.tells("Ada", "leave", &[]).await,
            "I am in no voice channel here. `/join` has me join yours."
        );
        assert_eq!(room.server.stats().identifies, 2);
        room.world.stop().await;
    });
}

#[test]
fn a_call_follows_its_channel_to_another_server_and_no_moderator() {
    story(async {
        let room = Room::begin(Setup::new()).await;
        room.joined_by("Ada").await;
        let other = VoiceServer::start(room.world.channel("general").0).await;
        other.joins(room.user("Ada"));
        room.world.service.voice_server(&other.endpoint(), TOKEN);
        room.world.until("keys", || other.is_encrypted().then_some(())).await;
        room.world.model.always(Act::says("I am here as well."));
        let said = room.world.says("Ada", "general", "@staffai are you there?");
        room.world.answer_to(said).await;
        room.world.until("speech", || (!other.heard(room.user("Ada")).is_empty()).then_some(())).await;
        room.world.service.in_voice(room.guild(), room.world.service.bot(), Some(room.world.channel("random")));
        room.world.until("the bot leaves", || room.bot_is_in().is_none().then_some(())).await;
        assert_eq!(other.stats().identifies, 1);
        room.world.stop().await;
    });
}

/// Fails the actor of a call at one of its own events.
#[derive(Default)]
struct BreaksCall(AtomicBool);

impl Faults for BreaksCall {
    fn before(&self, path: &str, _input: Input) -> Option<Fault> {
        let is_call = path.rsplit('/').next().is_some_and(|name| name.starts_with("voice:"));
        (is_call && !self.0.swap(true, Ordering::SeqCst)).then_some(Fault::Panic)
    }
}

#[test]
fn a_call_that_crashes_restarts_alone() {
    story(async {
        let faults = Arc::<BreaksCall>::default();
        let room = Room::begin(Setup::new().faults(Arc::clone(&faults) as _)).await;
        room.joined_by("Ada").await;
        assert!(faults.0.load(Ordering::SeqCst));
        let restarts = room.world.restarts().await;
        let restarted: Vec<_> = restarts.iter().filter(|(_, many)| **many > 0).map(|(path, _)| path.clone()).collect();
        assert!(restarted.iter().all(|path| path.contains("voice")) && !restarted.is_empty(), "{restarts:?}");
        room.world.model.always(Act::says("It still works."));
        let said = room.world.says("Ada", "general", "@staffai hello");
        room.world.answer_to(said).await;
        room.silence(1).await;
        assert!(!loudness(&room.server.heard(room.user("Ada"))).is_empty());
        room.world.stop().await;
    });
}
