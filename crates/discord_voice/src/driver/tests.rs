use std::future::Future;

use super::*;
use crate::pcm::{FRAME, RATE};
use crate::testing::{TOKEN, VoiceServer};
use ports::VoiceAccess;

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

#[tokio::test]
async fn members_hear_what_the_bot_says() {
    let server = VoiceServer::start(CHANNEL).await;
    server.joins(ANA);
    let (mut driver, _) = connect(&server, &[]).await;
    encrypted(&mut driver, &server).await;
    speak(&mut driver, 7, &tone(440.0, 50));
    until(&mut driver, |_| server.stats().speaking.last() == Some(&false)).await;
    let heard = server.heard(ANA);
    assert!((48..=50).contains(&(heard.len() / FRAME)), "{}", heard.len());
    let pitch = pitch(&heard[RATE as usize / 4..], RATE);
    assert!((435.0..=445.0).contains(&pitch), "{pitch}");
    assert_eq!((server.stats().speaking, driver.spoken()), (vec![true, false], Some(7)));
    assert_eq!(server.stats().unreadable, 0);
}
