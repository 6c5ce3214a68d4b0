//! The part of a prompt that a provider's cache can reuse: prompts of one lane begin like the one before.

use serde_json::{Value, json};

use crate::model::{Act, Ask};
use crate::support::{Setup, World, story};

const TURNS: usize = 20;

/// Returns a request as providers cache it: the tools, then the messages in their order.
fn cached_text(ask: &Ask) -> String {
    let messages = ask.body["messages"].as_array().unwrap().iter().map(Value::to_string);
    std::iter::once(ask.body["tools"].to_string()).chain(messages).collect::<Vec<_>>().join("\n")
}

/// Returns how many of 1,000 bytes of all prompts, without the first, begin like the prompt before.
fn share(asks: &[Ask]) -> usize {
    let prompts: Vec<String> = asks.iter().map(cached_text).collect();
    let (mut same, mut all) = (0, 0);
    for pair in prompts.windows(2) {
        let common = pair[0].bytes().zip(pair[1].bytes()).take_while(|(before, now)| before == now).count();
        (same, all) = (same + common, all + pair[1].len());
    }
    same * 1_000 / all
}

/// Talks in one lane; each third message needs a tool.
async fn talk(setup: Setup) -> Vec<Ask> {
    let world =
        World::of_row(setup.set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true"), r#""schema_with_tools": true"#).await;
    world.model.does(|ask| {
        let wants = ask.question().contains("roll") && ask.results().is_empty();
        if wants {
            Act::calls(&[("call-1", "roll_dice", json!({"notation": "2d6"}))])
        } else {
            Act::says("Here you are.")
        }
    });
    for number in 0..TURNS {
        let text = if number % 3 == 0 { "roll two dice" } else { "tell me of the harbour and of its ships" };
        world.answer_to(world.says("Ada", "general", &format!("@staffai {text}, {number}"))).await;
    }
    world.model.asks()
}

#[test]
fn most_of_a_prompt_is_the_prompt_before_it() {
    story(async {
        let whole = share(&talk(Setup::new().set("STAFFAI_HISTORY__MAX_MESSAGES", "60")).await);
        let usual = share(&talk(Setup::new()).await);
        println!("of 1,000 bytes of a prompt, {whole} begin like the prompt before; with the default bound {usual}");
        assert!(whole >= 900 && usual >= 900, "{whole} {usual}");
    });
}
