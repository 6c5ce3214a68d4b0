//! The usage ledger: what is counted per answer and member, and how it is reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use playground::guild::Message;
use ports::{Clock, Store};
use serde_json::json;
use staffai::app::system::SystemClock;
use store::embedded::opener::Opener;
use store::resilient::Resilient;
use tempfile::TempDir;

use crate::model::Act;
use crate::reading_along;
use crate::support::{Setup, World, story};

/// 1,000 dollars per million prompt tokens, 2,000 per million completion tokens. An answer of the scripted model has 10
/// and 5.
const PRICED: &str = r#"{"version": 1, "models": {"scripted": {
    "model_id": "scripted", "type": "OPENAI", "host": null, "enabled": true, "llm_call_timeout": 2, "schema_with_tools": true,
    "price_per_million": {"input": 1000.0, "output": 2000.0, "cached": 500.0}}}}"#;

/// Returns everything counted, after the bot has ended. Keys begin after `staffai:ledger:`, or are the Python bot's.
pub async fn counted(world: &World) -> BTreeMap<String, u64> {
    let data = world.dir.path().join("data");
    let opener = Opener::new(&data, Arc::new(SystemClock));
    let store = Resilient::start(move || opener.open(), Arc::new(SystemClock)).await.unwrap();
    let mut rows = store.scan("staffai:ledger:", 1_000).await.part();
    rows.extend(store.scan("token_stats:", 1_000).await.part());
    store.close(Duration::from_secs(10)).await;
    let short = |key: String| key.strip_prefix("staffai:ledger:").map_or_else(|| key.clone(), str::to_owned);
    let kinds = ["in", "out", "cached", "messages", "micros", "unpriced"];
    let mut counted = BTreeMap::new();
    for (key, text) in rows {
        let numbers = text.split(' ').map(|number| number.parse::<u64>().unwrap());
        if key.starts_with("token_stats:") {
            counted.extend(numbers.map(|number| (key.clone(), number)));
        } else {
            let named = kinds.iter().zip(numbers).filter(|(_, number)| *number > 0);
            counted.extend(named.map(|(kind, number)| (format!("{}:{kind}", short(key.clone())), number)));
        }
    }
    counted
}

fn guild(world: &World) -> String {
    world.service.guilds()[0].id.to_string()
}

/// Returns the text and cards of a message.
pub fn shown(message: &Message) -> String {
    let cards = message.embeds.iter().map(ToString::to_string);
    std::iter::once(message.content.clone()).chain(cards).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_answer_counts_for_its_member() {
    story(async {
        let folder = TempDir::new().unwrap();
        let rows = folder.path().join("models.json");
        std::fs::write(&rows, PRICED).unwrap();
        let world = World::with(Setup::new().set("STAFFAI_MODELS", rows.display())).await;
        for (who, text) in [("Ada", "@staffai one"), ("Ben", "@staffai two"), ("Ada", "@staffai three")] {
            world.answer_to(world.says(who, "general", text)).await;
        }
        // A hint and a refused call cost nothing.
        world.answer_to(world.says("Chloe", "general", "@staffai")).await;
        world.model.always(Act::Status(400));
        world.answer_to(world.says("Chloe", "general", "@staffai four")).await;
        assert!(world.drain().await);
        let (kept, guild) = (counted(&world).await, guild(&world));
        for (who, answers) in [("Ada", 2), ("Ben", 1)] {
            let id = world.member(who);
            let of_all = |kind: &str| kept.get(&format!("all:discord:{guild}:{id}:{kind}")).copied();
            assert_eq!(
                ["in", "out", "messages", "micros", "cached", "unpriced"].map(of_all),
                [Some(10 * answers), Some(5 * answers), Some(answers), Some(20_000 * answers), None, None],
                "{who}: {kept:?}"
            );
            assert_eq!(kept.get(&format!("token_stats:total:{guild}:{id}")), Some(&(15 * answers)));
            let daily = kept.iter().filter(|(key, _)| {
                key.starts_with(&format!("token_stats:daily:{guild}:")) && key.ends_with(&format!(":{id}"))
            });
            assert_eq!(daily.map(|(_, tokens)| tokens).sum::<u64>(), 15 * answers, "{kept:?}");
        }
        let chloe = world.member("Chloe").to_string();
        assert!(!kept.keys().any(|key| key.contains(&chloe)), "{kept:?}");
    });
}

#[test]
fn a_killed_process_counts_no_answer_twice() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let mut said = Vec::new();
        for life in 0..4 {
            let process = world.process(&format!("life-{life}")).await;
            let asked = world.says("Ada", "general", &format!("@staffai question {life}"));
            // The answer is visible; its record may or may not be closed.
            world.answer_to(asked).await;
            said.push(asked);
            process.kill();
            world.service.disconnected(0).await;
        }
        let mut last = world.process("last-life").await;
        said.push(world.says("Ada", "general", "@staffai the last question"));
        world.all_answered(&said, Duration::from_secs(20)).await;
        last.terminate();
        assert_eq!(last.exit(Duration::from_secs(20)).await, 0);
        let (kept, guild, ada) = (counted(&world).await, guild(&world), world.member("Ada"));
        // A process that is killed before its first write has counted nothing.
        let messages = kept.get(&format!("all:discord:{guild}:{ada}:messages")).copied().unwrap_or(0);
        assert!((1..=5).contains(&messages), "{kept:?}");
        assert_eq!(kept.get(&format!("token_stats:total:{guild}:{ada}")), Some(&(15 * messages)), "{kept:?}");
    });
}

#[test]
fn a_report_comes_once_also_over_a_restart_and_pings_no_member() {
    story(async {
        let world = World::begin().await;
        for who in ["Ada", "Ada", "Ben"] {
            world.answer_to(world.says(who, "general", "@staffai hello")).await;
        }
        assert!(world.drain().await);
        let channel = world.channel("random");
        // One interval since 1970 has just ended, and the next one ends in half a century.
        let interval = SystemClock.now().0 / 1_000;
        let changes =
            [("STATS_REPORT_CHANNEL_ID", channel.to_string()), ("STATS_REPORT_INTERVAL_SECONDS", interval.to_string())];
        let changes = changes.each_ref().map(|(name, value)| (*name, value.as_str()));
        let first = world.spawn_with("first", &changes);
        let report = world.until("a report", || world.spoken(channel).into_iter().next()).await;
        let text = shown(&report);
        let (ada, ben) = (world.member("Ada"), world.member("Ben"));
        assert!(text.contains("3 messages of 2 members") && text.contains("45 tokens"), "{text}");
        assert!(text.contains(&format!("1. <@{ada}>: 30 tokens")), "{text}");
        assert!(text.contains(&format!("2. <@{ben}>: 15 tokens")), "{text}");
        assert!(text.contains("No cost is known for 45 tokens"), "{text}");
        assert_eq!((report.reply_to, report.mentions.len(), report.mention_everyone), (None, 0, false));
        while !first.output().contains("report.posted") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Its time is on disk by now.
        first.kill();
        let _second = world.spawn_with("second", &changes);
        world.answer_to(world.says("Ada", "general", "@staffai still there?")).await;
        assert_eq!(world.spoken(channel).len(), 1);
    });
}

#[test]
fn operators_see_what_was_used_by_day_member_and_tool() {
    story(async {
        let folder = TempDir::new().unwrap();
        let rows = folder.path().join("models.json");
        std::fs::write(&rows, PRICED).unwrap();
        let world = World::with(Setup::new().set("STAFFAI_MODELS", rows.display())).await;
        world.model.does(|ask| match ask.results().len() {
            0 if ask.question().contains("roll") => Act::calls(&[("call-1", "roll_dice", json!({"notation": "2d6"}))]),
            _ => Act::says("Done."),
        });
        for (who, text) in [("Ada", "@staffai roll"), ("Ada", "@staffai hello"), ("Ben", "@staffai roll")] {
            let said = world.says(who, "general", text);
            let done = || world.answers(said).into_iter().find(|answer| answer.content == "Done.");
            world.until("the whole answer", done).await;
        }
        let [ada, ben] = ["Ada", "Ben"].map(|who| world.member(who));
        let used = async || {
            let (status, told) = world.json("/api/v1/usage/days?days=2").await;
            assert_eq!(status, 200, "{told}");
            told["days"].clone()
        };
        // The last answer is counted shortly after it was posted, and a reading is cached for some seconds.
        let days = loop {
            let days = used().await;
            if days[0]["all"]["messages"] == 3 {
                break days;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let today = &days[0];
        assert_eq!(
            (today["all"]["tokens"].as_u64(), today["members"]["count"].as_u64()),
            (Some(75), Some(2)),
            "{today}"
        );
        let first = &today["members"]["most"][0];
        assert_eq!((first["member"].as_str(), first["tokens"].as_u64()), (Some(&*format!("discord:{ada}")), Some(45)));
        let tools = json!([{"tool": "roll_dice", "calls": 2, "failed": 0, "members": 2,
            "duration_ms": today["tools"]["most"][0]["duration_ms"]}]);
        assert_eq!(today["tools"], json!({"count": 1, "most": tools}), "{today}");
        assert_eq!(days[1]["all"]["tokens"], 0, "nothing was used yesterday");
        for wrong in ["0", "32", "many"] {
            assert_eq!(world.json(&format!("/api/v1/usage/days?days={wrong}")).await.0, 400);
        }
        let told = world.tells("Chloe", "usage", &[]).await;
        assert!(told.contains("All members today: 75 tokens for 3 messages"), "{told}");
        assert!(told.contains(&format!("- <@{ada}>: 45 tokens")) && told.contains(&format!("- <@{ben}>")), "{told}");
        assert!(told.ends_with("Tools today\n- `roll_dice`: 2 calls"), "{told}");
        // The same members at another door.
        let asked = reading_along::submit(&world, "ops", "/usage").await;
        let told = json!(reading_along::read(&world, "ops", 0, &asked).await).to_string();
        assert!(told.contains("All members today: 75 tokens for 3 messages"), "{told}");
        let own = world.tells("Ada", "usage", &[]).await;
        assert!(!own.contains("All members") && !own.contains("roll_dice"), "of others a member hears nothing: {own}");
    });
}
