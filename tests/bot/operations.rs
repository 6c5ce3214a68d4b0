//! The operators' view, and the bot's capacity.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use playground::guild::seed::Seed;
use reqwest::Method;
use serde_json::json;
use tokio::sync::watch;

use crate::model::{Act, End};
use crate::support::{SOON, Said, Setup, World, story};

#[test]
fn the_pages_say_how_the_bot_is() {
    story(async {
        let world = World::begin().await;
        let said = world.says("Ada", "general", "@staffai hello");
        world.answer_to(said).await;
        assert_eq!(world.get("/healthz").await.0, 200);

        let (status, ready) = world.json("/readyz").await;
        assert_eq!((status, ready["status"].as_str()), (200, Some("ready")));
        for kind in ["door", "shard", "store", "model"] {
            let part = ready["parts"].as_array().unwrap().iter().find(|part| part["kind"] == kind);
            let part = part.unwrap_or_else(|| panic!("{kind} is missing: {ready}"));
            assert_eq!(part["status"], "ready");
            assert!(part["since"].as_str().is_some_and(|since| since.ends_with('Z')));
            assert!(part["restarts"].is_u64() && part.get("last_error").is_some());
        }

        let (status, tree) = world.json("/api/v1/tree").await;
        assert_eq!((status, tree["name"].as_str(), tree["path"].as_str()), (200, Some("staffai"), Some("staffai")));
        let names: Vec<_> = tree["children"].as_array().unwrap().iter().map(|child| child["name"].clone()).collect();
        insta::assert_snapshot!(serde_json::to_string(&names).unwrap(), @r#"["ops","journal","outbox:api","outbox:discord","outbox:terminal","rate_limiter","restriction_sweeper","tools","llm_dispatcher","conversations","summaries","presence_scheduler","commands","reporter","timers","config_watcher","gateway","discord"]"#);
        for child in tree["children"].as_array().unwrap() {
            for field in ["restarts", "mailbox", "handled", "uptime_s"] {
                assert!(child[field].is_u64(), "{field} of {child}");
            }
            assert_eq!(child["state"], "running");
            assert!(child.get("last_error").is_some() && child["children"].is_array());
        }
    });
}

#[test]
fn the_document_describes_the_endpoints_that_answer() {
    story(async {
        let world = World::begin().await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        let (_, document) = world.json("/api/v1/openapi.json").await;
        for (path, described) in document["paths"].as_object().unwrap() {
            let url = format!("{}{}", world.http(), path.replace(['{', '}'], ""));
            let refused = reqwest::Client::new().request(Method::TRACE, url).send().await.unwrap();
            assert_eq!(refused.status(), 405, "{path}");
            let allowed = refused.headers()["allow"].to_str().unwrap().to_lowercase();
            let allowed: BTreeSet<&str> = allowed.split(',').filter(|method| *method != "head").collect();
            let methods: BTreeSet<&str> = described.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(allowed, methods, "{path}");
        }
        for (path, at) in [
            ("/api/v1/tree", "Actor"),
            ("/api/v1/actor?path=staffai/journal", "ActorDetail"),
            ("/api/v1/turns", "Turns"),
            ("/api/v1/turns/1", "TurnDetail"),
            ("/api/v1/samples", "Samples"),
            ("/api/v1/tool_servers", "ToolServers"),
            ("/api/v1/questions", "Questions"),
        ] {
            let (status, body) = world.json(path).await;
            let mut schema = document["components"]["schemas"][at].clone();
            schema["components"] = document["components"].clone();
            let told: Vec<String> =
                jsonschema::validator_for(&schema).unwrap().iter_errors(&body).map(|error| error.to_string()).collect();
            assert!(status == 200 && told.is_empty(), "{path}: {told:?} in {body}");
        }
    });
}

#[test]
fn one_line_says_why_an_answer_took_long_and_why_there_was_none() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::streams("The tide comes in.", 20, Duration::from_millis(150), End::Well));
        let slow = world.says("Ada", "general", "@staffai hello");
        world.answer_to(slow).await;
        world.model.always(Act::Status(500));
        let failed = world.says("Ben", "help", "@staffai hello");
        world.answer_to(failed).await;
        let one = async |query: String| {
            let path = format!("/api/v1/turns?{query}");
            let told = world.until_told(&path, |told| {
                let ended = told["turns"][0]["post_ms"].is_u64();
                ended.then(|| told.clone())
            });
            let told = told.await;
            assert_eq!(told["turns"].as_array().map(Vec::len), Some(1), "{query}: {told}");
            told["turns"][0].clone()
        };
        let (channel, ada, ben) = (world.channel("general"), world.member("Ada"), world.member("Ben"));
        let turn = one(format!("member={ada}&outcome=replied")).await;
        assert_eq!(
            (turn["place"].clone(), turn["member"].clone()),
            (json!(format!("discord:{channel}")), json!(format!("discord:{ada}")))
        );
        assert!(turn["model_ms"].as_u64().is_some_and(|took| took >= 250), "{turn}");
        let parts =
            ["lane_ms", "permit_ms", "model_ms", "tools_ms", "post_ms"].map(|part| turn[part].as_u64().unwrap());
        let whole = turn["ended_ms"].as_u64().unwrap();
        assert!(parts.iter().sum::<u64>() <= whole + 10 && parts[0] + parts[1] + parts[3] < 250, "{turn}");
        let same = one(format!("message={}", turn["message"].as_str().unwrap())).await;
        assert_eq!(same["number"], turn["number"]);
        let turn = one(format!("id={ben}&outcome=apologised")).await;
        assert!(turn["reason"].is_string() && turn["model_ms"].is_u64(), "{turn}");
        assert_eq!(world.json("/api/v1/turns?member=1").await.1["turns"], json!([]));
    });
}

#[test]
fn a_turn_in_detail_tells_texts_only_where_the_log_may_and_none_after_forget() {
    story(async {
        for content in [false, true] {
            let world = World::of_row(Setup::new().set("LOG_CONTENT", content), r#""tools": "off""#).await;
            let asked = world.says("Ada", "general", "@staffai my canary-word is secret");
            let answer = world.words_to(asked).await;
            let (status, told) = world.json("/api/v1/turns/1").await;
            assert_eq!((status, &told["texts"]), (200, &json!(if content { "visible" } else { "withheld" })), "{told}");
            assert_eq!(told.to_string().contains("canary-word"), content, "{told}");
            assert!(told["log"][0].as_str().is_some_and(|line| line.starts_with("a line of discord:")), "{told}");
            let counted = world.json("/api/v1/turns").await.1["turns"][0]["counted"].clone();
            assert_eq!(
                (&counted["messages"], &counted["tokens"], &counted["of_messages"]),
                (&json!(1), &json!(15), &json!(1000))
            );
            assert_eq!(world.get("/api/v1/turns/2").await.0, 404);
            if !content {
                continue;
            }
            assert!(told["calls"][0]["answer"].as_str().is_some_and(|raw| raw.contains(&answer)), "{told}");
            world.tells("Ada", "forget", &[]).await;
            let told = world.json("/api/v1/turns/1").await.1;
            assert_eq!(told, json!({"texts": "forgotten", "calls": [], "log": []}));
            world.answer_to(world.says("Ben", "general", "@staffai my own-word stays")).await;
            let told = world.json("/api/v1/turns/2").await.1;
            assert!(told["texts"] == "visible" && told.to_string().contains("own-word"), "{told}");
        }
    });
}

/// Metrics that appear with their first event: a price in a row, a tool call; or with several ranges.
const LATER: [&str; 4] =
    ["staffai_llm_cost_dollars", "gen_ai_execute_tool_duration_seconds", "staffai_gates_open", "staffai_ranges_free"];

/// Returns the metrics named in the dashboard and the alert rules of `deploy`, except those that appear later.
fn watched() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in ["deploy/grafana/staffai.json", "deploy/prometheus/staffai.rules.yaml"] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        // Labels of models begin with `gen_ai_` too.
        let starts = ["staffai_", "gen_ai_client_", "gen_ai_execute_"];
        let metrics = words.filter(|word| starts.iter().any(|start| word.starts_with(start)));
        names.extend(metrics.map(|word| word.trim_end_matches("_bucket").trim_end_matches("_sum").to_owned()));
    }
    assert!(names.len() > 25, "{names:?}");
    names.retain(|name| !LATER.contains(&name.as_str()));
    names
}

#[test]
fn the_counts_say_that_nothing_was_lost_and_nothing_doubled() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let mut process = world.process("run").await;
        world.crowd(20);
        let said: Vec<Said> = (0..20).map(|n| world.says(&format!("member-{n}"), "help", "@staffai hello")).collect();
        world.all_answered(&said, SOON).await;
        // Mailboxes are measured every few seconds.
        while !world.get("/metrics").await.1.contains("staffai_mailbox_depth") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let (status, page) = world.get("/metrics").await;
        assert_eq!(status, 200);
        let sum = |name: &str| -> f64 {
            let own = page.lines().filter(|line| line.starts_with(name));
            own.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        assert!((sum("staffai_turns_total{") - 20.0).abs() < 0.1, "{page}");
        assert!(sum("staffai_turns_lost_total").abs() < 0.1, "{page}");
        assert!(sum("staffai_turns_doubled_total").abs() < 0.1, "{page}");
        for name in [
            "staffai_turns_lost_total",
            "staffai_turns_doubled_total",
            "staffai_turn_seconds",
            "staffai_turn_overhead_seconds",
            "staffai_first_visible_seconds",
            "staffai_mailbox_depth",
            "staffai_gateway_events_total",
            "staffai_discord_requests_total",
            "gen_ai_client_token_usage",
            "gen_ai_client_operation_duration_seconds",
        ] {
            assert!(page.contains(name), "{name} is missing:\n{page}");
        }
        for (name, labels) in [
            ("staffai_turns_total", "door outcome trigger"),
            ("staffai_mailbox_depth", "actor"),
            ("staffai_gateway_events_total", "kind"),
            ("staffai_discord_requests_total", "status"),
            ("gen_ai_client_token_usage_sum", "gen_ai_operation_name gen_ai_request_model gen_ai_token_type"),
            ("gen_ai_client_operation_duration_seconds_sum", "gen_ai_operation_name gen_ai_request_model"),
        ] {
            let own = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
            for line in own {
                let pairs = line.split_once('}').unwrap().0.split("\",");
                let mut found: Vec<&str> = pairs.map(|pair| pair.split_once('=').unwrap().0).collect();
                found.sort_unstable();
                assert_eq!(found.join(" "), labels, "{name}");
            }
            assert!(page.contains(&format!("\n{name}{{")), "{name} has no labels:\n{page}");
        }
        for name in watched() {
            assert!(page.contains(&format!("# TYPE {name} ")), "{name} is watched and is not there:\n{page}");
        }
        for id in [world.channel("help").to_string(), world.member("Ada").to_string()] {
            assert!(!page.contains(&id), "an id is in the metrics");
        }
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
        for line in process.output().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            for field in ["timestamp", "level", "message"] {
                assert!(line[field].is_string(), "{field} is missing: {line}");
            }
            assert!(!line.to_string().contains("hello"), "content is in the log: {line}");
        }
    });
}

#[test]
fn it_is_not_ready_before_discord_is_and_while_it_drains() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        world.service.faults().refuse_connects(1_000);
        world.launch().await;
        let (status, body) = world.json("/readyz").await;
        assert_eq!((status, body["status"].as_str()), (503, Some("starting")));
        world.service.faults().refuse_connects(0);
        world.becomes("ready").await;

        let (open, gate) = watch::channel(false);
        world.model.does(move |_| Act::SaysWhen(gate.clone(), "done".into()));
        let said = world.says("Ada", "general", "@staffai hello");
        world.until("it is asked", || (world.model.calls() == 1).then_some(())).await;
        let (finished, ()) = tokio::join!(world.drain(), async {
            world.becomes("draining").await;
            open.send(true).expect("the model waits");
        });
        assert!(finished);
        world.all_answered(&[said], Duration::from_millis(100)).await;
    });
}

#[test]
fn a_thousand_mentions_are_answered_in_full() {
    story(async {
        let world = World::begin().await;
        world.crowd(1_000);
        world.model.always(Act::says("Aye."));
        let channels = ["general", "help", "random"];
        let members = world.service.members();
        let crowd = members.iter().filter(|member| member.name.starts_with("member-"));
        let text = format!("<@{}> hello", world.service.bot());
        let said: Vec<Said> = crowd
            .enumerate()
            .map(|(number, member)| {
                let channel = world.channel(channels[number % 3]);
                Said { id: world.service.says(member.id, channel, &text, None), channel }
            })
            .collect();
        world.all_answered(&said, Duration::from_secs(40)).await;
        assert_eq!(world.model.calls(), 1_000);
        for said in said {
            assert_eq!(world.words_to(said).await, "Aye.");
        }
    });
}

#[test]
fn all_shards_are_served() {
    story(async {
        let mut setup = Setup::new();
        setup.service.seed = Seed::many(4, 2);
        (setup.service.shards, setup.service.max_concurrency) = (2, 2);
        let world = World::with(setup).await;
        world.service.connected(1).await;
        let bot = world.service.bot();
        let mut said = Vec::new();
        for guild in world.service.guilds() {
            for channel in guild.channels {
                let id = world.service.says(guild.members[0].id, channel.id, &format!("<@{bot}> hello"), None);
                said.push(Said { id, channel: channel.id });
            }
        }
        world.all_answered(&said, SOON).await;
        let (_, ready) = world.json("/readyz").await;
        let shards = ready["parts"].as_array().unwrap().iter().filter(|part| part["kind"] == "shard").count();
        assert_eq!(shards, 2);
    });
}

#[test]
fn who_asks_more_than_a_lane_holds_is_told_to_wait_once() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_TURN__LANE", 2)).await;
        world.model.always(Act::SaysAfter(Duration::from_millis(500), "done".into()));
        let said: Vec<Said> = (0..5).map(|_| world.says("Ada", "general", "@staffai hello")).collect();
        world.all_answered(&said[..4], SOON).await;
        world.ignores(said[4]).await;
        let mut words = Vec::new();
        for said in &said[..4] {
            words.push(world.words_to(*said).await);
        }
        insta::assert_snapshot!(words.join("\n"), @r"
        done
        done
        done
        I am still working on your earlier messages; please wait for those answers first.
        ");
    });
}

#[test]
fn more_questions_than_the_bot_holds_are_told_so() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_TURN__OPEN", 3)).await;
        world.crowd(6);
        world.model.always(Act::SaysAfter(Duration::from_millis(700), "done".into()));
        let said: Vec<Said> = (0..6).map(|n| world.says(&format!("member-{n}"), "general", "@staffai hello")).collect();
        world.all_answered(&said, SOON).await;
        let mut words = Vec::new();
        for said in said {
            words.push(world.words_to(said).await);
        }
        assert_eq!(words.iter().filter(|words| *words == "done").count(), 3, "{words:?}");
        assert!(words[5].starts_with("Sorry, too many people"), "{words:?}");
    });
}
