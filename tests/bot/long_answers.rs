//! Answers that take longer than the idle timeout: those without progress are given up, others are read to the end.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::model::{Act, End, Streamed};
use crate::model_api::{begin, body, post};
use crate::support::{SOON, Setup, World, story};

/// The idle timeouts of the model and of a turn.
const SILENCE: Duration = Duration::from_secs(1);
const STILL: Duration = Duration::from_secs(2);
/// The pause between two pieces.
const PAUSE: Duration = Duration::from_millis(250);

fn setup(longest: &str) -> Setup {
    let setup = Setup::new().set("STAFFAI_LLM__TIMEOUT", "1s").set("STAFFAI_TURN__DEADLINE", "2s");
    setup.set("STAFFAI_TURN__LONGEST", longest)
}

/// This many words, one per piece.
fn words(many: usize) -> String {
    (0..many).map(|number| format!("w{number:03} ")).collect::<String>().trim_end().to_owned()
}

/// Text that is streamed steadily.
fn writes(text: &str, end: End) -> Act {
    Act::Streams(Streamed { content: text.to_owned(), piece: 5, pause: PAUSE, end })
}

#[test]
fn a_model_that_writes_steadily_is_read_to_its_end_in_discord() {
    story(async {
        let world = World::with(setup("60s")).await;
        let text = words(52);
        // Some pauses are longer.
        let pauses = (0..60).map(|piece| if piece % 10 == 9 { PAUSE * 2 } else { PAUSE }).collect();
        world.model.always(Act::streams_unevenly(&text, 5, pauses));
        let said = world.says("Ada", "general", "@staffai tell me everything");
        let begun = Instant::now();
        world.until("the whole answer", || (world.answers(said).first()?.content == text).then_some(())).await;
        assert!(begun.elapsed() > PAUSE * 52, "it took its time: {:?}", begun.elapsed());
        world.all_answered(&[said], SOON).await;
        assert_eq!(world.model.calls(), 1, "it was not begun again");
    });
}

#[test]
fn a_model_that_writes_steadily_is_read_to_its_end_at_every_door_of_programs() {
    story(async {
        let world = begin(setup("60s")).await;
        let text = words(24);
        world.model.does({
            let text = text.clone();
            move |ask| if ask.has_form() { Act::streams(&text, 5, PAUSE, End::Well) } else { writes(&text, End::Well) }
        });
        let begun = Instant::now();
        let chat = |stream| body("tell me everything", stream);
        let ollama =
            |stream| json!({"model": "scripted", "messages": [{"role": "user", "content": "x"}], "stream": stream});
        let response = |stream| json!({"input": "tell me everything", "stream": stream});
        let submit = json!({"session": "one", "text": "tell me everything", "wait": true, "timeout": 60});
        let asks = [
            ("/v1/chat/completions", chat(true)),
            ("/v1/chat/completions", chat(false)),
            ("/v1/responses", response(true)),
            ("/v1/responses", response(false)),
            ("/api/chat", ollama(true)),
            ("/api/chat", ollama(false)),
        ];
        let answers = asks.iter().map(async |(path, body)| {
            let answer = post(&world, path, body).await;
            assert_eq!(answer.status(), 200, "{path}");
            (path, answer.text().await.unwrap())
        });
        let session = async { post(&world, "/api/v1/submit", &submit).await.json::<Value>().await.unwrap() };
        let (answers, session) = tokio::join!(join_all(answers), session);
        assert!(begun.elapsed() > PAUSE * 24 && begun.elapsed() > STILL * 2, "{:?}", begun.elapsed());
        for (path, told) in answers {
            assert!(told.contains("w023") && !told.contains("\"error\":{"), "{path}: {told}");
        }
        assert_eq!(session["status"], "complete", "{session}");
        assert_eq!(world.model.calls(), 7, "none was begun again");
    });
}

#[test]
fn a_stream_that_stands_still_is_given_up_and_what_was_shown_of_it_stays() {
    story(async {
        let world = World::with(setup("60s")).await;
        let text = words(60);
        world.model.always(Act::streams(&text, 5, PAUSE, End::SilenceAfter(30)));
        let (said, begun) = (world.says("Ada", "general", "@staffai tell me everything"), Instant::now());
        let shown = |wanted: &str| world.answers(said).first().is_some_and(|answer| answer.content.contains(wanted));
        world.until("most of it", || shown("w015").then_some(())).await;
        world.all_answered(&[said], SOON).await;
        world.until("the apology below it", || world.answers(said)[0].content.contains('\n').then_some(())).await;
        assert!(shown("w015") && !shown("w040"));
        assert!(begun.elapsed() < PAUSE * 30 + SILENCE * 6 + STILL, "{:?}", begun.elapsed());
        assert_eq!(world.model.calls(), 1, "what was shown is not begun again");
    });
}

#[test]
fn no_answer_takes_longer_than_the_longest_turn() {
    story(async {
        let world = begin(setup("4s")).await;
        world.model.always(writes(&words(200), End::Well));
        let begun = Instant::now();
        let answer = post(&world, "/v1/chat/completions", &body("tell me everything", false)).await;
        let took = begun.elapsed();
        assert_eq!(answer.status(), 504);
        assert!(took > Duration::from_secs(3) && took < Duration::from_secs(8), "{took:?}");
        assert_eq!(answer.json::<Value>().await.unwrap()["error"]["code"], "timeout");
    });
}

#[test]
fn a_long_answer_ends_with_its_client_and_with_a_drain() {
    story(async {
        let world = begin(setup("60s").set("STAFFAI_TURN__OPEN", "1").set("STAFFAI_DRAIN_SECONDS", "1")).await;
        world.model.always(writes(&words(200), End::Well));
        let mut answer = post(&world, "/v1/chat/completions", &body("tell me everything", true)).await;
        let begun = Instant::now();
        while begun.elapsed() < STILL * 2 {
            assert!(answer.chunk().await.unwrap().is_some());
        }
        drop(answer);
        world.model.always(Act::content("short"));
        let until = Instant::now() + SOON;
        while post(&world, "/v1/chat/completions", &body("hello", false)).await.status() != 200 {
            assert!(Instant::now() < until, "the turn was not cancelled");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }

        world.model.always(Act::streams(&words(200), 5, PAUSE, End::Well));
        let said = world.says("Ada", "general", "@staffai tell me everything");
        world.until("some of it", || world.answers(said).into_iter().next()).await;
        tokio::time::sleep(STILL * 2).await;
        let begun = Instant::now();
        world.drain().await;
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        world.model.always(Act::says("Here it is."));
        world.start().await;
        world.until("the answer", || (world.answers(said).first()?.content == "Here it is.").then_some(())).await;
    });
}
