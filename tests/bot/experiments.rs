//! Experiments: members are split between rows or profiles, keep their arm, and each arm is counted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::Act;
use crate::support::{Setup, World, story};

/// The default row, which has a price, and a second one.
const ROWS: &str = r#"{"version": 1, "models": {
    "scripted": {"model_id": "scripted", "enabled": true, "price_per_million": {"input": 1000.0, "output": 2000.0}},
    "mini": {"model_id": "mini", "enabled": true}}}"#;
const MODELS: &str = "[{name = 'cheaper', models = ['scripted 50', 'mini 50']}]";
const MEMBERS: u64 = 16;

async fn world(experiments: &str) -> World {
    let world = World::without_bot(Setup::new().set("STAFFAI_LLM__EXPERIMENTS", experiments)).await;
    std::fs::write(world.dir.path().join("scripted-models.json"), ROWS).unwrap();
    world.crowd(MEMBERS);
    world.start().await;
    world
}

/// Returns the arms by name, once they have this many answers and apologies in all.
async fn arms(world: &World, turns: u64) -> BTreeMap<String, Value> {
    let told = |told: &Value| {
        let arms = told["arms"].as_array()?.clone();
        let count = |arm: &Value| arm["answers"].as_u64().unwrap_or(0) + arm["apologies"].as_u64().unwrap_or(0);
        let named = |arm: Value| (arm["arm"].as_str().unwrap_or_default().to_owned(), arm);
        (arms.iter().map(count).sum::<u64>() == turns).then(|| arms.into_iter().map(named).collect())
    };
    // A read is cached for ten seconds.
    world.until_told("/api/v1/experiments", told).await
}

#[test]
fn members_keep_their_arm_and_each_arm_is_counted_across_restarts() {
    story(async {
        let world = world(MODELS).await;
        world.model.always(Act::says("Here you are."));
        let mut rows: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        let mut last = None;
        for number in (0..MEMBERS).chain(0..MEMBERS) {
            let said = world.says(&format!("member-{number}"), "general", "@staffai where is the key?");
            last = Some((number, world.answer_to(said).await));
            rows.entry(number).or_default().insert(world.model.last().model().to_owned());
        }
        assert!(rows.values().all(|rows| rows.len() == 1), "each member keeps their row: {rows:?}");
        let of = |row: &str| rows.values().filter(|rows| rows.contains(row)).count() as u64;
        let (scripted, mini) = (of("scripted"), of("mini"));
        assert!(scripted > 0 && mini > 0 && scripted + mini == MEMBERS, "{rows:?}");
        // A member who chose a model is outside.
        let of_mini = rows.iter().find(|(_, rows)| rows.contains("mini")).map(|(number, _)| *number).unwrap();
        let who = format!("member-{of_mini}");
        world.tells(&who, "model", &[("row", 3, "scripted")]).await;
        world.answer_to(world.says(&who, "general", "@staffai again")).await;
        assert_eq!(world.model.last().model(), "scripted");
        // Votes: one for each member and message.
        let (number, answer) = last.unwrap();
        for (voter, emoji) in [("Ada", "👍🏽"), ("Ada", "👍"), ("Ben", "👎"), ("Ben", "❤")] {
            world.service.reacts(world.member(voter), answer.channel, answer.id, emoji);
        }
        world.until_page("/metrics", |page| page.contains("staffai_experiment_turns_total").then_some(())).await;
        assert!(world.drain().await);
        world.start().await;
        let counted = arms(&world, MEMBERS * 2).await;
        let number_of = |arm: &str, what: &str| counted[arm][what].as_u64().unwrap_or(0);
        assert_eq!((number_of("scripted", "answers"), number_of("mini", "answers")), (scripted * 2, mini * 2));
        assert_eq!(number_of("scripted", "micros"), scripted * 2 * 20_000, "{counted:?}");
        assert_eq!((number_of("mini", "micros"), number_of("mini", "unpriced_tokens")), (0, mini * 2 * 15));
        assert!(counted["mini"]["p50_ms"].is_u64() && counted["mini"]["p95_ms"].is_u64(), "{counted:?}");
        let voted = &counted[rows[&number].first().unwrap()];
        assert_eq!((&voted["up"], &voted["down"]), (&Value::from(1), &Value::from(1)), "{counted:?}");
        let shown = world.tells("Chloe", "usage", &[]).await;
        let line = format!("- `cheaper` mini: {} answers, ", mini * 2);
        assert!(shown.contains("Experiments\n") && shown.contains(&line), "{shown}");
        assert!(!world.tells("Ada", "usage", &[]).await.contains("cheaper"));
        // The vote is data about the member who voted.
        world.tells("Ada", "forget", &[]).await;
        assert!(world.drain().await);
        let votes: Vec<String> = world
            .stored()
            .await
            .into_iter()
            .map(|(key, _)| key)
            .filter(|key| key.starts_with("staffai:vote:"))
            .collect();
        assert_eq!(votes.len(), 1, "{votes:?}");
        assert!(votes[0].contains(&world.member("Ben").to_string()), "{votes:?}");
    });
}

#[test]
fn an_arm_can_be_a_profile_of_prompts_and_its_repairs_and_apologies_are_counted() {
    story(async {
        let prompts = tempfile::tempdir().unwrap();
        let folder = prompts.path().join("profiles/terse");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("personality_prompt.txt"), "You are terse.").unwrap();
        let setup = Setup::new()
            .set("STAFFAI_LLM__EXPERIMENTS", "[{name = 'tone', profiles = ['terse 100']}]")
            .set("STAFFAI_PROMPTS_DIR", prompts.path().display());
        let world = World::with(setup).await;
        world.model.does(|ask| match (ask.question(), ask.number) {
            ("mend", 0) => Act::content("{}"),
            ("fail", _) => Act::Status(400),
            _ => Act::says("Yes."),
        });
        world.answer_to(world.says("Ada", "general", "@staffai mend")).await;
        assert!(world.model.last().shows("You are terse."), "{}", world.model.last().body);
        world.answer_to(world.says("Ada", "general", "@staffai fail")).await;
        let counted = arms(&world, 2).await;
        let figures: Vec<&Value> =
            ["answers", "apologies", "repaired"].iter().map(|what| &counted["terse"][what]).collect();
        assert_eq!(figures, [1, 1, 1], "{counted:?}");
        let turn = world.json("/api/v1/turns").await.1["turns"][0]["trial"].clone();
        assert_eq!(turn, serde_json::json!({"experiment": "tone", "arm": "terse"}));
    });
}
