//! Long conversations: summaries of older exchanges, their scope, their budget, and how they end.

use std::time::Duration;

use serde_json::json;

use crate::model::{Act, Ask};
use crate::support::{SOON, Said, Setup, World, story};

/// The beginning of the instructions of every call for a summary.
const TASK: &str = domain::summary::asking::TASK;
/// The words before a name that is worth keeping.
const FACT: &str = "boat is called ";

/// A world whose summaries are written by the row `cheap`, with histories of so many messages.
async fn world_of(messages: usize, setup: Setup) -> World {
    let setup = setup.set("STAFFAI_SUMMARIES__MODEL", "cheap").set("MAX_HISTORY_PER_USER", messages);
    let world = World::without_bot(setup).await;
    let row = |key: &str| json!({"model_id": key, "type": "OPENAI", "host": world.model.url(), "enabled": true});
    let models = json!({"version": 1, "models": {"scripted": row("scripted"), "cheap": row("cheap")}});
    std::fs::write(world.dir.path().join("scripted-models.json"), models.to_string()).unwrap();
    world.model.does(remembers);
    world.start().await;
    world
}

/// True for a call that asks for a summary.
fn summarises(ask: &Ask) -> bool {
    ask.messages[0].1.starts_with(TASK)
}

/// A model that knows nothing but its prompt: summaries keep the sentences with a fact, and a fact is answered only if
/// the prompt has it.
fn remembers(ask: &Ask) -> Act {
    if summarises(ask) {
        let lines = ask.question().lines().filter_map(|line| line.strip_prefix("> "));
        let kept: Vec<&str> = lines.filter(|line| line.contains(FACT) && !line.contains("You told")).collect();
        let text = if kept.is_empty() { "They talked about knots.".to_owned() } else { kept.join("\n") };
        return Act::content(text);
    }
    let (question, before) = ask.messages.split_last().unwrap();
    if question.1 != "which boat?" {
        return Act::says("Aye.");
    }
    let shown = before[1..].iter().find_map(|(_, text)| text.split_once(FACT)).map(|(_, rest)| rest);
    match shown {
        Some(rest) => Act::says(format!("You told me of the {}.", rest.split(['.', '\n']).next().unwrap())),
        None if ask.shows("you no longer see them") => Act::says("I no longer see what we said first."),
        None => Act::says("You told me of no boat."),
    }
}

impl World {
    async fn chats(&self, who: &str, channel: &str, text: &str) -> Said {
        let said = self.says(who, channel, &format!("@staffai {text}"));
        self.answer_to(said).await;
        said
    }

    /// Asks so many questions without a fact.
    async fn talks_of_knots(&self, who: &str, channel: &str, questions: usize) {
        for number in 0..questions {
            self.chats(who, channel, &format!("knot {number}?")).await;
        }
    }

    async fn boat_of(&self, who: &str, channel: &str) -> String {
        let said = self.says(who, channel, "@staffai which boat?");
        self.words_to(said).await
    }

    /// Waits until the summary of this member has these words.
    async fn summary_of(&self, who: &str, words: &str) {
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let told = self.tells(who, "memories", &[]).await;
            if told.contains(words) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "no summary of {who} has {words}: {told}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The last prompt of a turn.
    fn prompt(&self) -> Ask {
        self.model.asks().into_iter().rev().find(|ask| !summarises(ask)).expect("a turn asked the model")
    }

    /// The calls for summaries so far.
    fn summaries(&self) -> Vec<Ask> {
        self.model.asks().into_iter().filter(summarises).collect()
    }
}

#[test]
fn a_fact_of_turn_3_is_answered_at_turn_200() {
    story(async {
        let world = world_of(20, Setup::new()).await;
        world.talks_of_knots("Ada", "general", 2).await;
        world.chats("Ada", "general", "my boat is called Heron. Nice?").await;
        world.talks_of_knots("Ada", "general", 8).await;
        world.summary_of("Ada", "Heron").await;
        world.talks_of_knots("Ada", "general", 100 - 12).await;
        assert_eq!(world.boat_of("Ada", "general").await, "You told me of the Heron.", "turn 100");
        world.talks_of_knots("Ada", "general", 200 - 101).await;
        assert_eq!(world.boat_of("Ada", "general").await, "You told me of the Heron.", "turn 200");
        let last = world.prompt();
        assert_eq!(last.model(), "scripted");
        let history = last.messages.iter().filter(|(_, text)| text.starts_with("knot ") || text == "Aye.").count();
        assert!(history <= 20, "the history is as long as before: {history}");
        let note = &last.messages[1].1;
        assert!(note.starts_with("[Summary of ") && note.contains(&format!("> Member: my {FACT}Heron")), "{note}");
        let calls = world.summaries();
        assert!(calls.iter().all(|ask| ask.model() == "cheap"));
        assert!(calls.len() < 100, "{} calls", calls.len());
        let page = world.json("/api/v1/usage/days?days=1").await.1;
        let own = page["days"][0]["own"].as_array().cloned().unwrap_or_default();
        let spent = own.iter().find(|own| own["purpose"] == "summaries").map(|own| own["tokens"].clone());
        assert!(spent.and_then(|spent| spent.as_u64()).is_some_and(|spent| spent > 0), "{page}");
    });
}

#[test]
fn nothing_of_a_summary_crosses_members_or_channels() {
    story(async {
        let world = world_of(8, Setup::new()).await;
        let lanes = [("Ada", "general"), ("Ada", "help"), ("Ben", "general"), ("Ben", "help")];
        for (who, channel) in lanes {
            world.chats(who, channel, &format!("my {FACT}canary-{who}-{channel}.")).await;
        }
        for round in 0..12 {
            for (who, channel) in lanes {
                world.chats(who, channel, &format!("{who} in {channel} asks of knot {round}")).await;
            }
        }
        for (who, channel) in lanes {
            world.summary_of(who, &format!("canary-{who}-{channel}")).await;
            assert_eq!(world.boat_of(who, channel).await, format!("You told me of the canary-{who}-{channel}."));
        }
        for ask in world.model.asks() {
            let shown = lanes.iter().filter(|(who, channel)| {
                ask.shows(&format!("canary-{who}-{channel}")) || ask.shows(&format!("{who} in {channel} asks"))
            });
            assert!(shown.count() <= 1, "a prompt of several conversations: {:?}", ask.messages);
        }
        let told = world.tells("Ada", "memories", &[]).await;
        assert!(told.contains("canary-Ada-help") && !told.contains("canary-Ben"), "{told}");
    });
}

#[test]
fn a_deleted_message_leaves_history_and_summary() {
    story(async {
        let world = world_of(8, Setup::new()).await;
        let said = world.chats("Ada", "general", &format!("my {FACT}Heron. Nice?")).await;
        world.talks_of_knots("Ada", "general", 2).await;
        world.summary_of("Ada", "Heron").await;
        assert!(world.boat_of("Ada", "general").await.contains("Heron"), "the history still has it too");
        world.service.deletes(world.channel("general"), said.id);
        // The deletion and the next question take different paths.
        let mut answer = String::new();
        for _ in 0..100 {
            // Answers of the bot that name the boat stay; questions do not show them as a fact.
            answer = world.boat_of("Ada", "general").await;
            if !answer.contains("Heron") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!answer.contains("Heron"), "{answer}");
        world.talks_of_knots("Ada", "general", 8).await;
        let told = world.tells("Ada", "memories", &[]).await;
        assert!(!told.contains(&format!("{FACT}Heron")), "{told}");
        assert!(world.drain().await);
        let left: Vec<_> = world.stored().await.into_iter().filter(|(_, value)| value.contains(FACT)).collect();
        assert_eq!(left, []);
    });
}

#[test]
fn forget_and_new_remove_the_summary_and_export_has_it() {
    story(async {
        let world = world_of(8, Setup::new()).await;
        for channel in ["general", "help"] {
            world.chats("Ada", channel, &format!("my {FACT}Heron-{channel}.")).await;
            world.talks_of_knots("Ada", channel, 6).await;
            world.summary_of("Ada", &format!("Heron-{channel}")).await;
        }
        let told = world.tells("Ada", "new", &[]).await;
        assert!(told.starts_with("We start over here"), "{told}");
        assert_eq!(world.boat_of("Ada", "general").await, "You told me of no boat.");
        assert_eq!(world.prompt().talk(), "user: which boat?", "neither the summary nor a count is left");
        let told = world.tells("Ada", "memories", &[]).await;
        assert!(told.contains("Heron-help") && !told.contains("Heron-general"), "{told}");
        assert!(world.tells("Ada", "export", &[]).await.contains("of older parts of conversations"));
        let told = world.tells("Ada", "forget", &[]).await;
        assert!(told.contains("of older parts of conversations"), "{told}");
        assert_eq!(world.boat_of("Ada", "help").await, "You told me of no boat.");
        assert_eq!(world.prompt().talk(), "user: which boat?");
        world.tells("Ada", "forget", &[]).await;
        assert!(world.drain().await);
        let beside = ["staffai:summary:", "staffai:evicted:", "staffai:asked:"];
        let kept = |(key, value): &(String, String)| {
            value.contains(FACT) || beside.iter().any(|prefix| key.starts_with(prefix))
        };
        let left: Vec<_> = world.stored().await.into_iter().filter(kept).collect();
        assert_eq!(left, []);
    });
}

#[test]
fn what_another_member_is_answered_from_ends_with_the_summary_when_they_are_forgotten() {
    story(async {
        let world = world_of(8, Setup::new()).await;
        let ben = world.chats("Ben", "general", &format!("my {FACT}Swan.")).await;
        let answer = world.answer_to(ben).await;
        let said = world.replies("Ada", &answer, "tell me more");
        world.answer_to(said).await;
        world.talks_of_knots("Ada", "general", 8).await;
        world.summary_of("Ada", "Swan").await;
        assert!(world.boat_of("Ada", "general").await.contains("Swan"));
        world.tells("Ben", "forget", &[]).await;
        let told = world.tells("Ada", "memories", &[]).await;
        assert!(!told.contains(&format!("{FACT}Swan")), "{told}");
        world.talks_of_knots("Ada", "general", 5).await;
        assert!(!world.boat_of("Ada", "general").await.contains("Swan"));
    });
}

#[test]
fn without_budget_no_model_is_called_and_the_answer_says_what_it_no_longer_sees() {
    story(async {
        let world = world_of(8, Setup::new().set("STAFFAI_SUMMARIES__TOKENS_PER_DAY", 10)).await;
        world.chats("Ada", "general", &format!("my {FACT}Heron.")).await;
        world.talks_of_knots("Ada", "general", 6).await;
        assert_eq!(world.boat_of("Ada", "general").await, "I no longer see what we said first.");
        assert!(world.prompt().messages[1].1.starts_with("[No longer visible: 3 older exchanges"));
        assert_eq!(world.summaries().len(), 0);
        let page = world.get("/metrics").await.1;
        assert!(page.contains(r#"staffai_summaries_total{outcome="budget"}"#), "the operator sees why");
    });
}

#[test]
fn a_process_killed_while_it_summarises_loses_nothing() {
    story(async {
        let world =
            World::without_bot(Setup::new().set("STAFFAI_SUMMARIES__MODEL", "scripted").set("MAX_HISTORY_PER_USER", 8))
                .await;
        world.model.does(|ask| if summarises(ask) { Act::Hangs } else { remembers(ask) });
        let process = world.process("first").await;
        world.chats("Ada", "general", &format!("my {FACT}Heron.")).await;
        world.talks_of_knots("Ada", "general", 2).await;
        world.until("a call for a summary", || world.summaries().pop()).await;
        // The last answer is durable by then.
        tokio::time::sleep(Duration::from_millis(300)).await;
        process.kill();
        world.service.disconnected(0).await;
        world.model.does(remembers);
        let _process = world.process("second").await;
        let said = world.says("Ada", "general", "@staffai knot again?");
        world.answer_to(said).await;
        assert_eq!(
            world.prompt().talk(),
            format!(
                "user: my {FACT}Heron.\nassistant: Aye.\nuser: knot 0?\nassistant: Aye.\nuser: knot 1?\nassistant: Aye.\nuser: knot again?"
            )
        );
        world.talks_of_knots("Ada", "general", 1).await;
        world.summary_of("Ada", "Heron").await;
        world.talks_of_knots("Ada", "general", 4).await;
        assert_eq!(world.boat_of("Ada", "general").await, "You told me of the Heron.");
    });
}
