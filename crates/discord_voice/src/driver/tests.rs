use std::future::Future;

use super::*;
use crate::pcm::{FRAME, RATE};
use crate::testing::{TOKEN, VoiceServer};
use ports::voice_calls::{CallEnd, VoiceAccess};

const ANA: u64 = 11;
const BEN: u64 = 12;
const CHANNEL: u64 = 500;

fn client() -> HttpClient {
    let _ = rustls::crypto::ring::default_provider().install_default();
    HttpClient::new(crate::settings()).unwrap()
}

fn access(server: &VoiceServer) -> VoiceAccess {
    VoiceAccess {
        guild: "1".to_owned(),
        channel: CHANNEL.to_string(),
        user: "99".to_owned(),
        session: "session".to_owned(),
        endpoint: server.endpoint(),
        token: TOKEN.to_owned().into(),
    }
}

/// Connects, with these members consenting.
async fn connect(server: &VoiceServer, consenting: &[u64]) -> (Driver, Consents) {
    let consents: Consents = Arc::new(RwLock::new(consenting.iter().copied().collect()));
    let driver = Driver::connect(client(), access(server), Arc::clone(&consents)).await.unwrap();
    (driver, consents)
}

/// Drives a connection until the condition holds, and returns what happened.
async fn until(driver: &mut Driver, mut holds: impl FnMut(&[Happening]) -> bool) -> Vec<Happening> {
    let mut all = Vec::new();
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while !holds(&all) {
            // The condition may depend on the server alone.
            tokio::select! {
                happening = driver.next() => all.push(happening),
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
        }
    });
    waited.await.expect("in time");
    all
}

/// Drives a connection while something else happens.
async fn during<T>(driver: &mut Driver, other: impl Future<Output = T>) -> (T, Vec<Happening>) {
    let mut all = Vec::new();
    tokio::pin!(other);
    loop {
        tokio::select! {
            done = &mut other => return (done, all),
            happening = driver.next() => all.push(happening),
        }
    }
}

/// Returns a tone of this pitch.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "samples are small")]
fn tone(pitch: f64, frames: usize) -> Vec<i16> {
    let sample = |at: usize| ((at as f64 / f64::from(RATE) * pitch * std::f64::consts::TAU).sin() * 12_000.0) as i16;
    (0..frames * FRAME).map(sample).collect()
}

/// Returns the pitch of a tone.
#[expect(clippy::cast_precision_loss, reason = "samples are few")]
fn pitch(samples: &[i16], rate: u32) -> f64 {
    let crossings = samples.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
    crossings as f64 / samples.len() as f64 * f64::from(rate)
}

fn speak(driver: &mut Driver, mark: u64, samples: &[i16]) {
    for frame in samples.chunks_exact(FRAME) {
        driver.speak(mark, Box::new(frame.try_into().unwrap()));
    }
}

fn samples_of(happenings: &[Happening], user: u64) -> Vec<i16> {
    let samples = happenings.iter().filter_map(|happening| match happening {
        Happening::Heard(who, samples) if *who == user => Some(samples.clone()),
        _ => None,
    });
    samples.flatten().collect()
}

async fn encrypted(driver: &mut Driver, server: &VoiceServer) {
    until(driver, |_| server.is_encrypted()).await;
}

/// True if the bot fell silent after it spoke.
fn is_silent(server: &VoiceServer) -> bool {
    server.stats().speaking.last() == Some(&false)
}

#[tokio::test]
async fn members_hear_what_the_bot_says() {
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    let (mut driver, _) = connect(&server, &[]).await;
    encrypted(&mut driver, &server).await;
    speak(&mut driver, 7, &tone(440.0, 50));
    until(&mut driver, |_| is_silent(&server)).await;
    let heard = server.heard(ANA);
    assert!((48..=50).contains(&(heard.len() / FRAME)), "{}", heard.len());
    let pitch = pitch(&heard[RATE as usize / 4..], RATE);
    assert!((435.0..=445.0).contains(&pitch), "{pitch}");
    assert_eq!((server.stats().speaking, driver.spoken()), (vec![true, false], Some(7)));
    assert_eq!(server.stats().unreadable, 0);
}

#[tokio::test]
async fn only_members_who_agreed_are_heard_and_an_opt_out_has_effect_at_once() {
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    server.joins(BEN);
    let (mut driver, consents) = connect(&server, &[ANA]).await;
    encrypted(&mut driver, &server).await;
    let (low, high) = (tone(300.0, 25), tone(900.0, 25));
    let both = async { tokio::join!(server.speaks(ANA, &low), server.speaks(BEN, &high)) };
    let (_, happenings) = during(&mut driver, both).await;
    let heard = samples_of(&happenings, ANA);
    assert!(heard.len() >= 20 * 320, "{}", heard.len());
    let pitch = pitch(&heard[3_200..], 16_000);
    assert!((290.0..=310.0).contains(&pitch), "{pitch}");
    assert!(samples_of(&happenings, BEN).is_empty());
    consents.write().clear();
    driver.forget(ANA);
    let ((), happenings) = during(&mut driver, server.speaks(ANA, &low)).await;
    assert!(samples_of(&happenings, ANA).is_empty());
}

#[tokio::test]
async fn what_is_left_to_say_is_dropped_at_once() {
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    let (mut driver, _) = connect(&server, &[]).await;
    encrypted(&mut driver, &server).await;
    speak(&mut driver, 1, &tone(440.0, 200));
    until(&mut driver, |_| !server.heard(ANA).is_empty()).await;
    driver.hush();
    assert!(driver.sounds().is_none());
    let before = server.heard(ANA).len() / FRAME;
    until(&mut driver, |_| is_silent(&server)).await;
    let after = server.heard(ANA).len() / FRAME;
    // A packet may have been on its way.
    assert!(after - before <= 2, "{before} and {after} frames");
}

#[tokio::test]
async fn a_lost_connection_is_resumed_without_a_gap_in_the_audio() {
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    let (mut driver, _) = connect(&server, &[ANA]).await;
    encrypted(&mut driver, &server).await;
    for (round, code) in [(1, None), (2, Some(4015))] {
        speak(&mut driver, 1, &tone(440.0, 40));
        until(&mut driver, |_| server.heard(ANA).len() / FRAME > round * 40 - 35).await;
        server.closes(code);
        until(&mut driver, |_| server.stats().resumes == round && server.heard(ANA).len() / FRAME >= round * 40).await;
        until(&mut driver, |_| is_silent(&server)).await;
    }
    assert_eq!(server.heard(ANA).len() / FRAME, 80);
    assert_eq!((server.stats().identifies, server.stats().resumes, server.stats().unreadable), (1, 2, 0));
    // The keys of the group are those of before.
    let ((), happenings) = during(&mut driver, server.speaks(ANA, &tone(300.0, 10))).await;
    assert!(!samples_of(&happenings, ANA).is_empty());
}

#[tokio::test]
async fn heartbeats_without_an_answer_end_in_a_resumption() {
    let server = VoiceServer::start(CHANNEL).await;
    let (mut driver, _) = connect(&server, &[]).await;
    until(&mut driver, |_| server.stats().heartbeats > 2).await;
    server.faults(|faults| faults.no_acknowledgements = true);
    until(&mut driver, |_| server.stats().resumes == 1).await;
    server.faults(|faults| faults.no_acknowledgements = false);
    let beats = server.stats().heartbeats;
    until(&mut driver, |_| server.stats().heartbeats > beats + 2).await;
    assert_eq!(server.stats().identifies, 1);
}

#[tokio::test]
async fn close_codes_decide_whether_the_bot_may_return() {
    for (code, is_lost) in [(4014, false), (4021, false), (4022, false), (4017, false), (4006, true), (4011, true)] {
        let server = VoiceServer::start(CHANNEL).await;
        let (mut driver, _) = connect(&server, &[]).await;
        server.closes(Some(code));
        let happenings = until(&mut driver, |all| !all.is_empty()).await;
        let Happening::Ended(end) = &happenings[0] else { panic!("{happenings:?}") };
        assert_eq!(matches!(end, CallEnd::Lost(_)), is_lost, "{code}: {end:?}");
        assert_eq!(server.stats().resumes, 0, "{code}");
        // The same codes during the handshake.
        server.faults(|faults| faults.closes = (code, 1));
        let refused = Driver::connect(client(), access(&server), Consents::default()).await.err().unwrap();
        assert_eq!(matches!(refused, CallEnd::Lost(_)), is_lost, "{code}: {refused:?}");
    }
    let server = VoiceServer::start(CHANNEL).await;
    let (mut driver, _) = connect(&server, &[]).await;
    server.faults(|faults| faults.closes_resumes = Some(4006));
    server.closes(Some(4015));
    let happenings = until(&mut driver, |all| !all.is_empty()).await;
    assert!(matches!(happenings[0], Happening::Ended(CallEnd::Lost(_))), "{happenings:?}");
}

#[tokio::test]
async fn a_member_who_leaves_while_the_connection_is_lost_is_gone_after_the_resumption() {
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    server.joins(BEN);
    let (mut driver, _) = connect(&server, &[ANA, BEN]).await;
    encrypted(&mut driver, &server).await;
    server.closes(None);
    server.leaves(BEN);
    until(&mut driver, |all| all.contains(&Happening::Left(BEN))).await;
    assert_eq!((server.stats().identifies, server.stats().resumes), (1, 1));
    encrypted(&mut driver, &server).await;
}

/// The frames of each exchange after a re-key.
const EXCHANGE: usize = 10;

/// The bot and a member speak at once: returns the frames that each of them heard of the other.
async fn exchange(driver: &mut Driver, server: &VoiceServer, mark: u64) -> (usize, usize) {
    let before = server.heard(ANA).len();
    speak(driver, mark, &tone(440.0, EXCHANGE));
    let ((), mut happenings) = during(driver, server.speaks(ANA, &tone(300.0, EXCHANGE))).await;
    happenings.extend(until(driver, |_| is_silent(server)).await);
    ((server.heard(ANA).len() - before) / FRAME, samples_of(&happenings, ANA).len() / 320)
}

/// `SPEECH_FIGURES=1` makes it as long as the figures in the documentation.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the length of a run is chosen by its caller")]
async fn members_who_come_and_go_re_key_the_group_and_audio_goes_on() {
    let rounds = if std::env::var("SPEECH_FIGURES").is_ok() { 500 } else { 4 };
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    let (mut driver, _) = connect(&server, &[ANA]).await;
    encrypted(&mut driver, &server).await;
    let (mut spoken, mut heard) = (0, 0);
    for round in 0..rounds {
        for comes in [true, false] {
            // Audio and the re-key are on their way at once.
            if comes {
                server.joins(BEN);
            } else {
                server.leaves(BEN);
            }
            let both = exchange(&mut driver, &server, round).await;
            assert!(both.0 >= EXCHANGE - 2 && both.1 >= EXCHANGE - 3, "round {round}, {comes}: {both:?} frames");
            (spoken, heard) = (spoken + both.0, heard + both.1);
            encrypted(&mut driver, &server).await;
        }
        server.forget_heard();
    }
    let (rekeys, all) = (2 * rounds, 2 * rounds * EXCHANGE as u64);
    println!("{rekeys} re-keys: of {all} frames in each direction, members heard {spoken}, the bot heard {heard}");
    let stats = server.stats();
    assert_eq!(stats.identifies, 1);
    // A new member cannot read what was sealed before the re-key.
    assert!(stats.unreadable as u64 <= 5 * rounds, "{} frames", stats.unreadable);
}

#[tokio::test]
async fn a_bot_that_was_alone_speaks_to_the_first_member() {
    let server = VoiceServer::start(CHANNEL).await;
    let (mut driver, _) = connect(&server, &[]).await;
    speak(&mut driver, 1, &tone(440.0, 10));
    server.joins(ANA);
    encrypted(&mut driver, &server).await;
    speak(&mut driver, 2, &tone(440.0, 10));
    until(&mut driver, |_| is_silent(&server)).await;
    assert!(server.heard(ANA).len() / FRAME >= 10);
}

#[tokio::test]
async fn a_dead_udp_path_is_named() {
    let server = VoiceServer::start(CHANNEL).await;
    server.faults(|faults| faults.udp_is_dead = true);
    let refused = Driver::connect(client(), access(&server), Consents::default()).await.err().unwrap();
    assert_eq!(refused, CallEnd::Lost("no audio reaches the voice server: UDP is blocked".to_owned()));
}

#[tokio::test]
async fn hostile_packets_and_messages_are_dropped() {
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    let (mut driver, _) = connect(&server, &[ANA]).await;
    encrypted(&mut driver, &server).await;
    let hostile = async {
        for size in [0, 1, 11, 12, 31, 32, 33, 200, 1_400] {
            server.sends(100, &vec![0xff; size], false).await;
            // Sealed for the transport, but not by a member.
            server.sends(100, &vec![0xfa; size], true).await;
            server.sends(7, &vec![0xfa; size], true).await;
        }
        for text in ["", "{}", "[", r#"{"op": 2, "d": null}"#, r#"{"op": 11, "d": {"user_ids": [{}, "x", -1]}}"#] {
            server.says(text);
        }
        for bytes in [&[][..], &[0], &[0, 200, 27], &[0, 200, 27, 0, 9, 9], &[0, 200, 25, 1, 2, 3]] {
            server.says_bytes(bytes);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    let ((), happenings) = during(&mut driver, hostile).await;
    assert_eq!(happenings, []);
    let ((), happenings) = during(&mut driver, server.speaks(ANA, &tone(300.0, 10))).await;
    assert!(!samples_of(&happenings, ANA).is_empty(), "a member is heard as before");
    speak(&mut driver, 1, &tone(440.0, 10));
    until(&mut driver, |_| is_silent(&server)).await;
    assert!(server.heard(ANA).len() / FRAME >= 9);
}
