//! The cost of speech: within the limits of its payer, and in the ledger.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::model::Act;
use crate::support::{Setup, World, story};
use crate::voice::{Speaker, asks, heard, of, texts};

const KEY: &str = "sk-one";
/// A thousandth of a dollar per character.
const VOICES: &str =
    r#"[{kind = "command", command = ["sh", "-c", "printf 'RIFF....WAVE'; cat"], price_per_million = 1000}]"#;
/// A dollar per second.
const HEARING: &str =
    r#"[{kind = "command", command = ["sh", "-c", "cat > /dev/null; echo two plus two"], price_per_minute = 60}]"#;
/// Four sentences of the same length, each of which costs 14,000 millionths of a dollar.
const WORDS: &str = "One two three. Four five six. Six five four. Five one six.";
const EACH: u64 = 14_000;

fn priced(limits: &str) -> Setup {
    let setup = Setup::new().set("STAFFAI_API_KEYS", KEY).set("STAFFAI_VOICES", VOICES).set("STAFFAI_HEARING", HEARING);
    setup.set("STAFFAI_RATE_LIMITER__LIMITS", limits)
}

async fn speaker(world: &World, session: &str) -> Speaker {
    let key = [("authorization", "Bearer sk-one")];
    Speaker::opens(world, &format!("session={session}"), &key).await.unwrap_or_else(|status| panic!("status {status}"))
}

/// Waits until this much is in the ledger of the key, in millionths of a dollar.
async fn spent(world: &World, wanted: impl Fn(u64) -> bool) -> Value {
    let client = reqwest::Client::new();
    for _ in 0..500 {
        let used = client.get(format!("{}/api/v1/usage", world.http())).bearer_auth(KEY).send().await.unwrap();
        let today = used.json::<Value>().await.unwrap()["used"]["today"].clone();
        if wanted(today["micros"].as_u64().unwrap()) {
            return today;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the ledger never has it");
}

/// Speaks a question with its voice.
async fn speaks(speaker: &mut Speaker) -> Vec<Value> {
    let words = std::process::Command::new("espeak-ng").args(["--stdout", "what is two plus two"]).output().unwrap();
    speaker.sends(json!({"event": "listen"})).await;
    for piece in words.stdout[44..].chunks(640) {
        use futures_util::SinkExt;
        speaker.0.send(Message::binary(piece[..piece.len() & !1].to_vec())).await.unwrap();
    }
    speaker.sends(json!({"event": "listen_end"})).await;
    speaker.until(|event| event["final"] == true || event["event"] == "error").await
}

#[test]
fn a_full_account_turns_speech_off_for_the_answer_and_keeps_its_text() {
    story(async {
        // Room for two sentences.
        let world = World::with(priced(r#"[{scope = "member", per = "1h", dollars = 0.03}]"#)).await;
        world.model.always(Act::says(WORDS));
        let mut first = speaker(&world, "one").await;
        first.sends(asks("speak")).await;
        let events = first.answer().await;
        assert_eq!(texts(&events), WORDS);
        let spoken: Vec<u64> = heard(&events).into_iter().map(|(sentence, _)| sentence).collect();
        assert_eq!(spoken, [0, 1], "{events:?}");
        let refused: Vec<&Value> = of(&events, "text_only").collect();
        let why = refused[0]["why"].as_str().unwrap();
        assert!(refused.len() == 1 && why.contains("continues as text. Speech is available again in "), "{refused:?}");
        assert!(of(&events, "error").next().is_none(), "one sentence about it: {events:?}");
        let today = spent(&world, |micros| micros == 2 * EACH).await;
        assert_eq!(today["messages"], 1, "{today}");
        // A cached sentence is free: the account has no room for it.
        let mut second = speaker(&world, "two").await;
        second.sends(asks("speak")).await;
        let again = second.answer().await;
        assert_eq!((heard(&again).len(), texts(&again).as_str()), (2, WORDS));
    });
}

#[test]
fn hearing_is_charged_by_its_duration_and_a_call_limit_names_it() {
    story(async {
        let limits = r#"[{scope = "member", per = "1h", calls = 1, tools = ["hearing"]}]"#;
        let world = World::with(priced(limits)).await;
        world.model.always(Act::says("Four."));
        let mut speaker = speaker(&world, "one").await;
        let events = speaks(&mut speaker).await;
        assert_eq!(events[events.len() - 1]["text"], "two plus two", "{events:?}");
        speaker.answer().await;
        // The answer has five characters; the question took between half a second and five.
        let range = 500_000 + 5_000..5_000_000;
        spent(&world, |micros| range.contains(&micros)).await;
        let events = speaks(&mut speaker).await;
        let why = events[events.len() - 1]["why"].as_str().unwrap_or_default();
        assert!(why.contains("the limit of speech is reached; write instead"), "{events:?}");
        speaker.sends(asks("in writing")).await;
        assert_eq!(texts(&speaker.answer().await), "Four.");
    });
}
