//! Members' own settings: their effect on answers, the operator's defaults, and the same over the API.

use serde_json::{Value, json};

use crate::commands::two_models;
use crate::limits::role;
use crate::model::{Act, Ask};
use crate::reading_along::{read, submit};
use crate::support::{Setup, World, story};

/// The type of a text option.
const TEXT: u64 = 3;

impl World {
    /// Changes a setting as a member; returns the answer.
    pub async fn sets(&self, who: &str, change: &str) -> String {
        self.tells(who, "settings", &[("change", TEXT, change)]).await
    }

    fn last_ask(&self) -> Ask {
        self.model.asks().pop().unwrap()
    }
}

#[test]
fn settings_reach_the_next_answer_and_end_with_forget() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::says("Aye."));
        assert!(world.sets("Ada", "verbosity short").await.contains("`verbosity` is `short`"));
        assert!(world.sets("Ada", "here language de").await.contains("`language` is `de` in this conversation"));
        world.sets("Ada", "instructions Call me \"Captain\".").await;
        world.talks("Ada", "general", "hello").await;
        let talk = world.last_ask().talk();
        for part in ["briefly", "German", r#"Call me \"Captain\"."#] {
            assert!(talk.contains(part), "{part}: {talk}");
        }
        world.talks("Ada", "help", "hello").await;
        let talk = world.last_ask().talk();
        assert!(talk.contains("briefly") && !talk.contains("German"), "only here: {talk}");
        world.talks("Ben", "general", "hello").await;
        assert!(!world.last_ask().talk().contains("briefly"), "each member has their own");

        world.sets("Ada", "memory off").await;
        world.talks("Ada", "general", "what did I say?").await;
        let talk = world.last_ask().talk();
        assert!(!talk.contains("hello"), "{talk}");
        world.sets("Ada", "memory on").await;
        world.talks("Ada", "general", "and now?").await;
        let talk = world.last_ask().talk();
        assert!(talk.contains("hello") && !talk.contains("what did I say?"), "{talk}");

        assert!(world.last_ask().body["tools"].is_array());
        world.sets("Ada", "tools off").await;
        world.talks("Ada", "general", "without tools").await;
        assert!(world.last_ask().body["tools"].is_null());

        let shown = world.tells("Ada", "settings", &[]).await;
        for line in ["`verbosity`: `short`", "`tools`: `off`", "`language`: `de` (here)", "`streaming`: not set"] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        world.tells("Ada", "forget", &[]).await;
        world.talks("Ada", "general", "again").await;
        assert!(!world.last_ask().talk().contains("briefly"));
    });
}

#[test]
fn without_memory_no_exchange_is_stored_and_none_is_used() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::says("Aye."));
        let before = world.talks("Ada", "general", "my first canary-word").await;
        world.sets("Ada", "memory off").await;
        let said = world.talks("Ada", "general", "my second canary-word").await;
        for said in [before, said] {
            let answer = world.answer_to(said).await;
            world.answer_to(world.replies("Ada", &answer, "what was that?")).await;
            let talk = world.last_ask().talk();
            assert!(talk.contains("Aye.") && !talk.contains("canary-word"), "the answer is quoted alone: {talk}");
        }
        world.drain().await;
        let left: Vec<_> = world.stored().await.into_iter().filter(|(_, value)| value.contains("second")).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn the_operator_decides_what_is_open_and_the_model_what_is_served() {
    story(async {
        let setup = Setup::new()
            .set("STAFFAI_MEMBERS__SETTINGS", "verbosity,temperature,reasoning_effort")
            .set("STAFFAI_MEMBERS__DEFAULTS", "verbosity detailed,language French");
        let world = World::with(setup).await;
        world.model.always(Act::says("Aye."));
        assert!(world.sets("Ada", "language de").await.contains("do not let members change `language`"));
        assert!(world.sets("Ada", "reasoning_effort high").await.contains("has no effect"));
        assert!(world.sets("Ada", "verbosity endless").await.contains("short | normal | detailed"));
        assert!(world.sets("Ada", "colour red").await.contains("no such setting"));
        world.talks("Ada", "general", "hello").await;
        let talk = world.last_ask().talk();
        assert!(talk.contains("in detail") && talk.contains("French"), "{talk}");
        world.sets("Ada", "temperature 0.5").await;
        world.sets("Ada", "verbosity normal").await;
        world.talks("Ada", "general", "hello again").await;
        let ask = world.last_ask();
        assert_eq!(ask.body["temperature"], 0.5);
        assert!(!ask.talk().contains("in detail") && ask.talk().contains("French"), "{}", ask.talk());
    });
}

#[test]
fn a_community_wins_over_the_operators_defaults_and_a_member_over_both() {
    story(async {
        let guild = World::without_bot(Setup::new()).await.service.guilds()[0].id;
        let setup = Setup::new().set("STAFFAI_MEMBERS__DEFAULTS", "verbosity detailed,language French").set(
            "STAFFAI_MEMBERS__COMMUNITY_DEFAULTS",
            format!("{guild} verbosity short,{guild} temperature 0.5,1{guild} language es"),
        );
        let world = World::with(setup).await;
        world.model.always(Act::says("Aye."));
        let asked = async |who: &str| {
            world.talks(who, "general", "hello").await;
            let ask = world.last_ask();
            let talk = ask.talk();
            let length = ["briefly", "in detail"].into_iter().filter(|words| talk.contains(words));
            (length.collect::<Vec<_>>(), talk.contains("French"), ask.body["temperature"].clone())
        };
        let community = (vec!["briefly"], true, json!(0.5));
        assert_eq!(asked("Ada").await, community, "the language comes from the defaults, the rest from the community");
        world.sets("Ada", "verbosity detailed").await;
        assert_eq!(asked("Ada").await, (vec!["in detail"], true, json!(0.5)));
        assert_eq!(asked("Ben").await, community, "another member is not concerned");
        world.sets("Ada", "here verbosity normal").await;
        assert_eq!(asked("Ada").await, (vec![], true, json!(0.5)));
        world.sets("Ada", "here verbosity default").await;
        world.sets("Ada", "verbosity default").await;
        assert_eq!(asked("Ada").await, community);
    });
}

#[test]
fn holders_of_a_role_may_change_further_settings_while_they_hold_it() {
    story(async {
        let id = role(&World::without_bot(Setup::new()).await, "restricted");
        let setup = Setup::new()
            .set("STAFFAI_MEMBERS__SETTINGS", "verbosity")
            .set("STAFFAI_MEMBERS__ROLE_SETTINGS", format!("{id} temperature"));
        let world = World::with(setup).await;
        world.model.always(Act::says("Aye."));
        assert!(world.sets("Ada", "temperature 0.5").await.contains("do not let members change `temperature`"));
        assert!(world.service.sets_role(world.member("Chloe"), world.member("Ada"), id, true));
        assert!(world.sets("Ada", "temperature 0.5").await.contains("`temperature` is `0.5`"));
        world.talks("Ada", "general", "hello").await;
        assert_eq!(world.last_ask().body["temperature"], 0.5);
        assert!(world.tells("Ada", "settings", &[]).await.contains("`temperature`"));
        assert!(!world.tells("Ben", "settings", &[]).await.contains("`temperature`"));
        assert!(world.service.sets_role(world.member("Chloe"), world.member("Ada"), id, false));
        world.talks("Ada", "general", "hello again").await;
        assert_ne!(world.last_ask().body["temperature"], 0.5);
    });
}

#[test]
fn a_model_and_other_settings_are_chosen_side_by_side() {
    story(async {
        let (world, _folder) = two_models().await;
        world.model.always(Act::says("Aye."));
        world.sets("Ada", "verbosity short").await;
        world.tells("Ada", "model", &[("row", TEXT, "deep")]).await;
        world.talks("Ada", "general", "hello").await;
        let ask = world.last_ask();
        assert_eq!(ask.body["model"], "deep");
        assert!(ask.talk().contains("briefly"));
        world.tells("Ada", "model", &[("row", TEXT, "default")]).await;
        world.talks("Ada", "general", "hello").await;
        let ask = world.last_ask();
        assert_eq!(ask.body["model"], "scripted");
        assert!(ask.talk().contains("briefly"));
        assert!(world.sets("Ada", "model other").await.contains("`scripted`, `deep`"));
    });
}

#[test]
fn a_session_has_settings_of_its_own_and_changes_are_all_or_none() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::says("Aye."));
        let asks = async |session: &str, text: &str| {
            let message = submit(&world, session, text).await;
            read(&world, session, 0, &message).await;
        };
        asks("one", "hello").await;
        asks("two", "hello").await;
        let patch = async |body: Value| {
            let request = reqwest::Client::new().patch(format!("{}/api/v1/settings", world.http()));
            let answer = request.json(&body).send().await.unwrap();
            (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
        };
        let short = json!({"verbosity": "short"});
        assert_eq!(patch(json!({"settings": short})).await.0, 400, "without keys, a session is the holder");
        let wrong = json!({"session": "two", "settings": {"verbosity": "short", "memory": "perhaps"}});
        assert_eq!(patch(wrong).await.0, 400);
        asks("two", "nothing changed").await;
        assert!(!world.last_ask().talk().contains("briefly"));
        let (status, listed) = patch(json!({"session": "two", "settings": short})).await;
        assert_eq!(status, 200);
        let all = listed["settings"].as_array().unwrap();
        let length = all.iter().find(|setting| setting["name"] == "verbosity").unwrap();
        assert_eq!((&length["value"], &length["level"]), (&json!("short"), &json!("here")));
        asks("two", "this one").await;
        assert!(world.last_ask().talk().contains("briefly"));
        asks("one", "not this one").await;
        assert!(!world.last_ask().talk().contains("briefly"));
        asks("two", "!set here verbosity detailed\nand now?").await;
        assert!(world.last_ask().talk().contains("in detail"));
    });
}
