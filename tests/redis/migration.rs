//! Migration from the Python bot's Redis: its conversations and usage continue, and none of its data stops the start.

use actors::services::ledger;
use domain::ids::{Door, Person};
use domain::people::Linked;
use playground::service::Service;
use ports::{Clock, Store};
use serde_json::Value;
use staffai::app::system::SystemClock;

use crate::bot::{World, history, says};
use crate::server::Server;
use crate::support::{Log, PATIENCE, store, until};

const DATA: &str = include_str!("python_bot.jsonl");

/// A member who has left the guild.
const DORA: &str = "800000000000000004";

/// Keys that this bot does not use.
const OTHERS: [&str; 8] = [
    "restricted_until:${GUILD}:${DORA}",
    "token_stats:log:${GUILD}:${ADA}",
    "token_stats:total_cached:${GUILD}:${ADA}",
    "token_stats:daily_cached:${GUILD}:${DAY}:${ADA}",
    "token_stats:daily:${GUILD}:${DAY-1}:${DORA}",
    "llm_calls:recent:${GUILD}",
    "name_followup_window:${GUILD}:${GENERAL}:${ADA}",
    "user_memory:${GUILD}:${ADA}",
];

/// Names in the data set and their values.
struct Names {
    names: Vec<(String, String)>,
    /// Seconds since 1970.
    now: u64,
}

impl Names {
    fn of(service: &Service) -> Self {
        let mut names = vec![("DORA".to_owned(), DORA.to_owned())];
        names.push(("GUILD".to_owned(), service.guilds()[0].id.to_string()));
        names.extend(service.members().iter().map(|member| (member.name.to_uppercase(), member.id.to_string())));
        names.extend(service.channels().iter().map(|place| (place.name.to_uppercase(), place.id.to_string())));
        Self { names, now: SystemClock.now().0 / 1_000 }
    }

    fn filled(&self, text: &str) -> String {
        let mut pieces = text.split("${");
        let mut out = pieces.next().unwrap().to_owned();
        for piece in pieces {
            let (name, rest) = piece.split_once('}').expect("a name ends");
            out.push_str(&self.meaning(name));
            out.push_str(rest);
        }
        out
    }

    fn meaning(&self, name: &str) -> String {
        let at = name.find(['-', '+']).unwrap_or(name.len());
        let by: i64 = if at < name.len() { name[at..].parse().unwrap() } else { 0 };
        match &name[..at] {
            "NOW" => self.now.checked_add_signed(by).unwrap().to_string(),
            "DAY" => {
                let then = self.now.checked_add_signed(by * 24 * 60 * 60).unwrap();
                let date = jiff::Timestamp::from_second(i64::try_from(then).unwrap()).unwrap();
                date.strftime("%Y-%m-%d").to_string()
            }
            known => self.names.iter().find(|(name, _)| name == known).expect("a known name").1.clone(),
        }
    }

    fn fill(&self, server: &Server) {
        for line in DATA.lines().filter(|line| line.starts_with('[')) {
            let words: Vec<String> = serde_json::from_str(&self.filled(line)).unwrap();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let _: redis::Value = server.words(&words);
        }
    }

    fn ask<T: redis::FromRedisValue>(&self, server: &Server, command: &str) -> T {
        server.ask(&self.filled(command))
    }
}

#[tokio::test]
async fn it_takes_over_the_redis_of_the_python_bot() {
    let log = Log::listen();
    let server = Server::start();
    let mut names = None;
    let world = World::start_on(&server.url(), |service| {
        let known = Names::of(service);
        known.fill(&server);
        let settings = restrict(service, &known);
        names = Some(known);
        settings
    })
    .await;
    let names = names.unwrap();
    let dumps = || OTHERS.map(|key| names.ask::<Option<Vec<u8>>>(&server, &format!("DUMP {key}")));
    let before = dumps();
    assert!(before.iter().all(Option::is_some));

    let ben = names.filled("restricted_until:${GUILD}:${BEN}");
    until("Ben is free", || !server.ask::<bool>(&format!("EXISTS {ben}"))).await;

    // Conversations continue; malformed ones as far as they can be read.
    for (who, place, name) in [("Ada", "general", "Gráinne"), ("Ben", "general", "Benedikt")] {
        let remembered = world.asked_by(who, place, "what is my name?").await;
        assert!(remembered.contains(name), "{who}: {remembered}");
    }
    for (who, place) in [("Ben", "help"), ("Ada", "random"), ("Ada", "help"), ("Ben", "random")] {
        let remembered = world.asked_by(who, place, "what is my name?").await;
        assert!(remembered.contains("not told me your name"), "{who} in {place}: {remembered}");
    }
    restrictions_go_on(&server, &names, &world).await;
    conversations_are_saved_as_before(&server, &names).await;
    usage_goes_on(&server, &names).await;
    assert_eq!(dumps(), before, "what is not ours stays as it was");
    assert!(log.count("store.corrupt") >= 2, "what cannot be read is said");
    assert_eq!((log.count("store.degraded"), log.count("panic"), log.count("actor.failed")), (0, 0, 0));
    world.stop().await;
}

/// Ben and Chloe have the role of restricted members, as the Python bot gave it.
fn restrict(service: &Service, names: &Names) -> Vec<(&'static str, String)> {
    let guild = service.guilds().remove(0);
    let role = guild.roles.iter().find(|role| role.name == "restricted").unwrap().id;
    for name in ["Ben", "Chloe"] {
        let member = guild.members.iter().find(|member| member.name == name).unwrap().id;
        assert!(service.sets_role(guild.owner, member, role, true));
    }
    vec![
        ("RESTRICTED_USER_ROLE_ID", role.to_string()),
        ("RESTRICTED_CHANNEL_ID", names.filled("${RANDOM}")),
        ("RESTRICTION_CHECK_INTERVAL_SECONDS", "1".to_owned()),
    ]
}

/// Ben's had expired before, which the Python bot never noticed; Chloe's continues.
async fn restrictions_go_on(server: &Server, names: &Names, world: &World) {
    let exists = |who: &str| names.ask::<bool>(server, &format!("EXISTS restricted_until:${{GUILD}}:${{{who}}}"));
    assert!(!exists("BEN") && exists("CHLOE") && exists("DORA"));
    let told = world.asked_by("Chloe", "general", "what is my name?").await;
    assert!(told.contains(&names.filled("<#${RANDOM}>")), "{told}");
    let answered = world.asked_by("Chloe", "random", "what is my name?").await;
    assert!(answered.contains("not told me your name"), "{answered}");
    // The windows that were sorted sets are lists, and their entries still count.
    for key in ["msg_rl:${GUILD}:${ADA}", "token_rl:${GUILD}:${ADA}"] {
        until("the window is a list", || names.ask::<String>(server, &format!("TYPE {key}")) == "list").await;
    }
}

/// In the Python bot's form, each message with its own time.
async fn conversations_are_saved_as_before(server: &Server, names: &Names) {
    let key = |who: &str, place: &str| names.filled(&format!("discord_context:${{{who}}}:${{{place}}}"));
    for (who, place, entries) in
        [("ADA", "GENERAL", 4), ("BEN", "GENERAL", 5), ("ADA", "RANDOM", 2), ("ADA", "HELP", 2), ("BEN", "RANDOM", 2)]
    {
        let key = key(who, place);
        until(&format!("{who} in {place} is saved"), || {
            server.ask::<String>(&format!("TYPE {key}")) == "string" && history(server, &key).len() == entries
        })
        .await;
        assert!((1..=1_800).contains(&server.ask::<i64>(&format!("TTL {key}"))), "{key}");
    }
    let ada = key("ADA", "GENERAL");
    assert!(says(&history(server, &ada), "my name is Gráinne"));
    let stored: Value = serde_json::from_str(&server.ask::<String>(&format!("GET {ada}"))).unwrap();
    let told = stored[0]["timestamp"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "seconds of this era")]
    let then = names.now as f64 - 120.0 + 0.482_913;
    assert!((told - then).abs() < 0.001, "{told} is not {then}");
    for unreadable in [key("ADA", "RANDOM"), key("ADA", "HELP")] {
        let aside: Option<String> = server.ask(&format!("GET staffai:quarantine:{unreadable}"));
        assert!(aside.is_some_and(|text| text.contains("role")), "{unreadable} is set aside");
    }
}

async fn usage_goes_on(server: &Server, names: &Names) {
    let number = |key: &str| {
        let key = names.filled(key);
        let text = server.ask::<String>(&format!("TYPE {key}")) == "string";
        text.then(|| server.ask::<String>(&format!("GET {key}"))).and_then(|text| text.parse::<u64>().ok())
    };
    until("everything is counted", || {
        number("token_stats:total:${GUILD}:${ADA}").is_some_and(|total| total > 50_000)
            && number("token_stats:daily:${GUILD}:${DAY}:${CHLOE}").is_some()
            && number("token_stats:total:${GUILD}:${BEN}").is_some()
    })
    .await;
    for key in ["token_stats:total:${GUILD}:${ADA}", "token_stats:total:${GUILD}:${CHLOE}"] {
        assert_eq!(names.ask::<i64>(server, &format!("TTL {key}")), -1, "{key} has no end");
    }
    let reader = store(&server.url()).await;
    let (ada, guild) = (Person::new(Door::new("discord"), names.filled("${ADA}")), names.filled("${GUILD}"));
    let sums = ledger::sums(&reader, (&ada, &Linked::default()), Some(&guild), SystemClock.now()).await;
    let ours = sums.today.tokens_in + sums.today.tokens_out;
    assert!(ours > 0 && sums.today.messages == 3, "{sums:?}");
    // If the day changes meanwhile, earlier usage belongs to yesterday.
    assert_eq!((sums.week.tokens, sums.total.tokens), (1_000 + ours, 50_000 + ours), "{sums:?}");
    reader.close(PATIENCE).await;
}
