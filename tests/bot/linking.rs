//! One person with accounts at several doors: codes, shared limits and settings, restrictions, the API for operators.

use serde_json::{Value, json};

use crate::model::Act;
use crate::model_api::KEY;
use crate::programs::with_key;
use crate::support::{Setup, World, story};

/// The type of a text option.
const TEXT: u64 = 3;

fn setup() -> Setup {
    Setup::new().set("STAFFAI_MEMBERS__LINKING", "members").set("STAFFAI_API_KEYS", KEY)
}

impl World {
    /// Says this in a session of the key, and returns the status and the answer.
    async fn in_session(&self, text: &str) -> (u16, String) {
        let body = json!({"session": "main", "text": text, "wait": true});
        let answer = with_key(self, "/api/v1/submit", &body, KEY).await;
        let status = answer.status().as_u16();
        let told: Value = answer.json().await.unwrap();
        (status, told["text"].as_str().unwrap_or_else(|| told["error"].as_str().unwrap_or_default()).to_owned())
    }

    /// Returns a code that was shown to a member of the guild.
    async fn code_of(&self, who: &str) -> String {
        let told = self.tells(who, "link", &[]).await;
        let code = told.split('`').nth(1).unwrap_or_else(|| panic!("{told}")).to_owned();
        assert_eq!(code.len(), 14, "{told}");
        code
    }

    async fn links_by_code(&self, who: &str) {
        let code = self.code_of(who).await;
        let (_, told) = self.in_session(&format!("/link {code}")).await;
        assert!(told.contains(&format!("`discord:{}`, `api:operator`", self.member(who))), "{told}");
    }

    /// Asks as a member of the guild; true if a model answered.
    async fn is_answered(&self, who: &str) -> bool {
        let said = self.says(who, "general", "@staffai hello");
        self.words_to(said).await == "Aye."
    }

    /// Asks in a session of the key; true if a model answered.
    async fn is_answered_in_session(&self) -> bool {
        self.in_session("hello").await == (200, "Aye.".to_owned())
    }

    async fn links(&self, method: reqwest::Method, query: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}/api/v1/links{query}", self.http());
        let answer = reqwest::Client::new().request(method, url).bearer_auth(KEY).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

#[test]
fn a_code_from_one_door_links_two_accounts_with_one_set_of_settings() {
    story(async {
        let world = World::with(setup()).await;
        world.model.always(Act::says("Aye."));
        world.in_session("/settings instructions Speak like a sailor.").await;
        let code = world.code_of("Ada").await;
        let (ben, spoiled) = (world.code_of("Ben").await, "AAAA-BBBB-CCCC");
        assert!(world.tells("Ada", "link", &[("code", TEXT, &ben)]).await.contains("shown on this platform"));
        assert!(world.in_session(&format!("/link {ben}")).await.1.contains("do not know"), "it is used up");
        assert!(world.in_session(&format!("/link {spoiled}")).await.1.contains("do not know"));
        // A code survives a restart.
        world.stop().await;
        world.start().await;
        let told = world.in_session(&format!("/link {}", code.to_lowercase())).await.1;
        assert!(told.contains("linked now"), "{told}");
        assert!(world.in_session(&format!("/link {code}")).await.1.contains("do not know"), "it works once");
        world.tells("Ada", "settings", &[("change", TEXT, "verbosity short")]).await;
        assert!(world.is_answered_in_session().await);
        let talk = world.model.asks().pop().unwrap().talk();
        assert!(talk.contains("briefly") && !talk.contains("sailor"), "the first account leads: {talk}");
        world.stop().await;
        world.start().await;
        world.in_session("/settings language de").await;
        assert!(world.is_answered("Ada").await);
        let talk = world.model.asks().pop().unwrap().talk();
        assert!(talk.contains("German") && talk.contains("briefly"), "{talk}");
        assert!(world.is_answered("Ben").await);
        assert!(!world.model.asks().pop().unwrap().talk().contains("briefly"), "another person is not concerned");
        // The settings from before the link are there again.
        assert!(world.tells("Ada", "unlink", &[]).await.contains("no longer linked"));
        assert!(world.is_answered_in_session().await);
        let talk = world.model.asks().pop().unwrap().talk();
        assert!(talk.contains("sailor") && !talk.contains("briefly"), "{talk}");
    });
}

#[test]
fn linked_accounts_share_their_limits_and_no_unlink_gives_a_fresh_one() {
    story(async {
        let setup = setup().set("RATE_LIMIT_COUNT", "4").set("STAFFAI_HTTP__KEY_REQUESTS", "4");
        let world = World::with(setup).await;
        world.model.always(Act::says("Aye."));
        world.links_by_code("Ada").await;
        for _ in 0..2 {
            assert!(world.is_answered("Ada").await && world.is_answered_in_session().await);
        }
        assert!(!world.is_answered_in_session().await, "four messages of one person");
        assert!(!world.is_answered("Ada").await);
        assert!(world.is_answered("Ben").await);
        let client = reqwest::Client::new().get(format!("{}/api/v1/usage", world.http())).bearer_auth(KEY);
        let used: Value = client.send().await.unwrap().json().await.unwrap();
        assert_eq!(used["used"]["today"]["messages"], 4, "the ledger counts both: {used}");
        world.tells("Ada", "unlink", &[]).await;
        // Each account has used two of its own four.
        for _ in 0..2 {
            assert!(world.is_answered("Ada").await && world.is_answered_in_session().await);
        }
        assert!(!world.is_answered("Ada").await && !world.is_answered_in_session().await);
        let client = reqwest::Client::new().get(format!("{}/api/v1/usage", world.http())).bearer_auth(KEY);
        let used: Value = client.send().await.unwrap().json().await.unwrap();
        assert_eq!(used["used"]["today"]["messages"], 4, "each has its own ledger again: {used}");
        world.links_by_code("Ada").await;
        assert!(!world.is_answered_in_session().await, "a new link resets nothing either");
    });
}

#[test]
fn memories_exports_and_forget_requests_cover_all_accounts() {
    story(async {
        let world = World::with(setup()).await;
        world.model.always(Act::says("Aye."));
        world.tells("Ada", "remember", &[("fact", TEXT, "Her boat is the Heron")]).await;
        assert!(!world.in_session("/memories").await.1.contains("Heron"), "before the link");
        world.links_by_code("Ada").await;
        assert!(world.in_session("/memories").await.1.contains("Heron"));
        world.in_session("my anchor is lost").await;
        world.stop().await;
        let rows = world.stored().await;
        assert!(rows.iter().any(|(_, value)| value.contains("anchor")));
        let counters =
            |rows: &[(String, String)]| rows.iter().filter(|(key, _)| key.starts_with("token_stats:total")).count();
        assert!(counters(&rows) > 0, "{rows:?}");
        let hash_only = rows.iter().find(|(key, _)| key == "staffai:link_codes").unwrap();
        assert!(hash_only.1.contains("\"codes\":[]"), "{hash_only:?}");
        world.start().await;
        let forgotten = world.tells("Ada", "forget", &[]).await;
        assert!(forgotten.contains("1 fact") && forgotten.contains("1 conversation"), "{forgotten}");
        assert!(!world.in_session("/memories").await.1.contains("Heron"));
        world.stop().await;
        let rows = world.stored().await;
        assert_eq!(counters(&rows), 0, "the use of each account is forgotten: {rows:?}");
        let left: Vec<_> = rows.iter().filter(|(_, value)| value.contains("anchor")).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_restriction_of_one_account_holds_for_the_other_and_cannot_be_unlinked_away() {
    story(async {
        let setup = setup();
        let guild = &setup.service.seed.guilds[0];
        let role = guild.roles.iter().find(|role| role.name == "restricted").unwrap().id;
        let setup = setup.set("RESTRICTED_USER_ROLE_ID", role).set("RATE_LIMIT_COUNT", "2");
        let world = World::with(setup).await;
        world.model.always(Act::says("Aye."));
        world.links_by_code("Ada").await;
        assert!(world.is_answered_in_session().await);
        assert!(world.is_answered("Ada").await);
        // The limit of the person is full; that of the guild's account is not, so nothing restricts it yet.
        assert!(!world.is_answered("Ada").await);
        assert!(world.tells("Ada", "unlink", &[]).await.contains("no longer linked"));
        assert!(world.is_answered("Ada").await);
        assert!(!world.is_answered("Ada").await, "now it breaks its own limit");
        world.links_by_code("Ada").await;
        let (_, told) = world.in_session("hello").await;
        assert!(told.contains("Another of your linked accounts is restricted"), "{told}");
        assert!(world.tells("Ada", "unlink", &[]).await.contains("is restricted"));
        assert!(world.in_session("/unlink").await.1.contains("is restricted"));
        assert_eq!(world.in_session("hello").await.1, told);
    });
}

#[test]
fn guesses_of_codes_are_limited() {
    story(async {
        let world = World::with(setup()).await;
        let code = world.code_of("Ada").await;
        for number in 0..5 {
            let told = world.in_session(&format!("/link {number}")).await.1;
            assert!(told.contains("do not know this code"), "{told}");
        }
        let told = world.in_session(&format!("/link {code}")).await.1;
        assert!(told.contains("too many wrong codes"), "{told}");
    });
}

#[test]
fn operators_link_and_unlink_accounts_and_links_are_off_by_default() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_API_KEYS", KEY)).await;
        let pair = json!({"accounts": [format!("discord:{}", world.member("Ada")), "api:operator"]});
        assert_eq!(world.links(reqwest::Method::POST, "", &pair).await.0, 403);
        assert!(world.tells("Ada", "link", &[]).await.contains("do not know this command"));
        world.stop().await;
        let world = World::with(setup().set("STAFFAI_MEMBERS__LINKING", "operators")).await;
        world.model.always(Act::says("Aye."));
        assert!(world.tells("Ada", "link", &[]).await.contains("do not know this command"));
        let pair = json!({"accounts": [format!("discord:{}", world.member("Ada")), "api:operator"]});
        let (status, linked) = world.links(reqwest::Method::POST, "", &pair).await;
        assert_eq!((status, &linked["accounts"]), (200, &pair["accounts"]));
        assert_eq!(world.links(reqwest::Method::POST, "", &pair).await.0, 409);
        assert_eq!(world.links(reqwest::Method::POST, "", &json!({"accounts": ["Ada", "Ben"]})).await.0, 400);
        for unknown in ["x:1".to_owned(), format!("slack:{}", "U".repeat(5_000)), "discord:1 2".to_owned()] {
            let body = json!({"accounts": [unknown, "api:c"]});
            assert_eq!(world.links(reqwest::Method::POST, "", &body).await.0, 400, "{unknown}");
        }
        let (_, all) = world.links(reqwest::Method::GET, "", &Value::Null).await;
        assert_eq!(all["people"], json!([pair["accounts"]]));
        world.tells("Ada", "settings", &[("change", TEXT, "verbosity short")]).await;
        assert!(world.is_answered_in_session().await);
        assert!(world.model.asks().pop().unwrap().talk().contains("briefly"));
        assert_eq!(world.links(reqwest::Method::DELETE, "?account=api:operator", &Value::Null).await.0, 200);
        assert_eq!(world.links(reqwest::Method::DELETE, "?account=api:operator", &Value::Null).await.0, 404);
        assert!(world.is_answered_in_session().await);
        assert!(!world.model.asks().pop().unwrap().talk().contains("briefly"));
    });
}

#[test]
fn a_link_lends_neither_rights_nor_conversations_to_the_other_account() {
    story(async {
        let world = World::with(setup()).await;
        world.model.always(Act::says("Aye."));
        world.says("Ada", "general", "@staffai the word is heron");
        assert!(world.is_answered("Ada").await);
        world.links_by_code("Ada").await;
        // The key operates the bot, the member of the guild does not.
        assert!(world.tells("Ada", "status", &[]).await.contains("only for operators"));
        assert!(!world.in_session("/status").await.1.contains("only for operators"));
        assert!(world.is_answered_in_session().await);
        assert!(!world.model.asks().pop().unwrap().talk().contains("heron"), "a conversation stays in its place");
    });
}

#[test]
fn what_was_told_alone_is_remembered_at_the_other_door_and_what_was_told_in_a_channel_is_not() {
    story(async {
        let world = World::of_row(setup().set("STAFFAI_DISCORD__DIRECT_MESSAGES", "answer"), r#""tools": "off""#).await;
        world.model.always(Act::says("Aye."));
        world.tells("Ada", "remember", &[("fact", TEXT, "The party is a surprise")]).await;
        world.in_session("/remember My tea is green").await;
        let accounts = json!({"accounts": [format!("discord:{}", world.member("Ada")), "api:operator"]});
        assert_eq!(world.links(reqwest::Method::POST, "", &accounts).await.0, 200);
        let asked = async |text: &str| {
            world.in_session(text).await;
            world.model.asks().pop().unwrap().talk()
        };
        let talk = asked("what do you know?").await;
        assert!(talk.contains("green") && !talk.contains("surprise"), "a channel keeps its facts: {talk}");
        assert!(world.is_answered("Ada").await);
        let talk = world.model.asks().pop().unwrap().talk();
        assert!(talk.contains("surprise") && !talk.contains("green"), "others read the channel: {talk}");
        let direct = world.service.direct(world.member("Ada")).unwrap().id;
        let said = world.writes("Ada", direct, "what do you know?", None);
        world.answer_to(said).await;
        let talk = world.model.asks().pop().unwrap().talk();
        assert!(talk.contains("green") && !talk.contains("surprise"), "only Ada reads this: {talk}");
    });
}
