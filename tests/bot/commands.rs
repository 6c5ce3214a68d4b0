//! Members' commands, their permissions, and the deletion of data.

use std::sync::Arc;
use std::time::Duration;

use playground::guild::Message;
use playground::guild::ids::MessageId;
use playground::interactions::{Interact, Interaction};
use serde_json::{Value, json};
use staffai::app::system::SystemClock;
use store::embedded::opener::Opener;
use store::{Backend, Steps};

use crate::model::Act;
use crate::support::{Said, Setup, World, story};

/// The bot is thinking.
const LOADING: u64 = 1 << 7;
/// Only one member sees the message.
const EPHEMERAL: u64 = 1 << 6;
const CALLBACK: &str = "POST /interactions/{interaction}/{token}/callback";
const OFFER: &str = "PUT /applications/{application}/commands";

impl World {
    /// Runs a command as a member.
    pub fn runs(&self, who: &str, channel: &str, name: &str, options: &[(&str, u64, &str)]) -> MessageId {
        let option = |(name, kind, value): &(&str, u64, &str)| json!({"name": name, "type": kind, "value": value});
        let deed = Interact::Command(name.to_owned(), options.iter().map(option).collect());
        self.service.interacts(self.member(who), self.channel(channel), deed).expect("a known member and channel")
    }

    /// Returns the ephemeral answer to a command.
    pub async fn told(&self, command: MessageId) -> Message {
        let message = self
            .until("an answer to a command", || {
                let interaction = self.service.interaction(command)?;
                let message = self.message_of(&interaction)?;
                (message.flags & LOADING == 0).then_some(message)
            })
            .await;
        let interaction = self.service.interaction(command).unwrap();
        assert_eq!((message.only_for, message.flags & EPHEMERAL), (Some(interaction.member), EPHEMERAL));
        assert_eq!(interaction.answer, Some(5), "first it says that an answer will come");
        message
    }

    fn message_of(&self, interaction: &Interaction) -> Option<Message> {
        let original = interaction.original?;
        self.service.messages(interaction.channel).into_iter().find(|message| message.id == original)
    }

    /// Returns the text of the answer to a command.
    pub async fn tells(&self, who: &str, name: &str, options: &[(&str, u64, &str)]) -> String {
        self.told(self.runs(who, "general", name, options)).await.content
    }

    /// Asks as a member, and awaits the answer.
    pub async fn talks(&self, who: &str, channel: &str, text: &str) -> Said {
        let said = self.says(who, channel, &format!("@staffai {text}"));
        self.answer_to(said).await;
        said
    }

    fn counted(&self, route: &str) -> u64 {
        self.service.stats().by_route.get(route).copied().unwrap_or(0)
    }

    /// Awaits the registration of all commands.
    async fn offers(&self) -> Vec<Value> {
        self.until("commands", || Some(self.service.commands(None)).filter(|commands| !commands.is_empty())).await
    }

    /// Returns everything in the store. The bot must have stopped.
    pub async fn stored(&self) -> Vec<(String, String)> {
        let store = Opener::new(self.dir.path().join("data"), Arc::new(SystemClock)).open().unwrap();
        let rows = store.scan("", 100_000, &Steps::default()).await.unwrap();
        store.close().await;
        rows
    }
}

/// Two models at the scripted endpoint.
pub async fn two_models() -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("models.json");
    let world = World::without_bot(Setup::new().set("STAFFAI_MODELS", file.display())).await;
    write_models(&world, &folder, &["scripted", "deep"]);
    world.start().await;
    (world, folder)
}

fn write_models(world: &World, folder: &tempfile::TempDir, keys: &[&str]) {
    let row = |key: &&str| {
        let row = json!({"model_id": key, "type": "OPENAI", "host": world.model.url(), "enabled": true});
        ((*key).to_owned(), row)
    };
    let models: serde_json::Map<String, Value> = keys.iter().map(row).collect();
    let text = json!({"version": 1, "models": models}).to_string();
    std::fs::write(folder.path().join("models.json"), text).unwrap();
}

#[test]
fn commands_are_offered_and_again_only_when_they_change() {
    story(async {
        let world = World::begin().await;
        let commands = world.offers().await;
        let names: Vec<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
        insta::assert_snapshot!(names.join(" "), @"export forget help memories model new refresh_status refresh_tools remember settings status tools usage");
        let of = |name: &str| commands.iter().find(|command| command["name"] == name).unwrap();
        assert_eq!(of("status")["default_member_permissions"], "8");
        assert_eq!(of("forget")["default_member_permissions"], Value::Null);
        assert_eq!(of("forget")["contexts"], json!([0]), "direct messages are not answered");
        assert_eq!(of("model")["options"][0]["autocomplete"], true);
        world.stop().await;
        world.start().await;
        world
            .until("another look", || (world.counted("GET /applications/{application}/commands") >= 2).then_some(()))
            .await;
        assert_eq!(world.counted(OFFER), 1);
    });
}

#[test]
fn offering_commands_is_retried_and_delays_no_turn() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        world.service.faults().answer_next(OFFER, 4, 503, None);
        world.start().await;
        world.talks("Ada", "general", "hello").await;
        world.offers().await;
    });
}

#[test]
fn help_names_what_one_may_run() {
    story(async {
        let world = World::begin().await;
        insta::assert_snapshot!(world.tells("Ada", "help", &[]).await, @r"
        I answer when you mention me or reply to one of my messages. I remember what you and I said in this channel lately. I see nothing from other members or channels, except a message that you reply to.

        **Commands** (only you see the answers)
        - `/help`: What I do, how to talk to me, and the commands that you may run
        - `/new`: Start our conversation here over
        - `/model`: See or choose the model that answers you
        - `/settings`: See or change how I answer you: length, language, tools, memory and more
        - `/usage`: Your usage, and what is left of your limits
        - `/forget`: Delete everything that I keep about you
        - `/export`: Get everything that I keep about you as a file
        - `/remember`: Tell me a fact to remember here
        - `/memories`: List the facts that I remember for you, or delete one
        - `/tools`: The tools that I can use

        **What I keep**: our last messages in each conversation, for a while; what you told me to remember; your settings; your tool calls; how many tokens you used. It stays in this bot's own storage; your questions are sent to the model that answers. `/export` shows you all of it, `/forget` deletes it.
        ");
        // She is configured as an operator.
        assert!(world.tells("Chloe", "help", &[]).await.contains("`/status`"));
    });
}

#[test]
fn commands_are_offered_and_answered_in_the_language_of_their_caller() {
    story(async {
        let mut setup = Setup::new();
        for guild in &mut setup.service.seed.guilds {
            "de".clone_into(&mut guild.locale);
        }
        let world = World::with(setup).await;
        let help = world.tells("Ada", "help", &[]).await;
        assert!(help.starts_with("Ich antworte") && help.contains("- `/forget`: Alles löschen"), "{help}");
        assert!(world.tells("Ada", "status", &[]).await.contains("ist nur für die Betreiber dieses Bots"));
        let status = world.told(world.runs("Chloe", "general", "status", &[])).await;
        assert_eq!(status.embeds[0]["description"], "Alle Teile laufen.");
        let commands = world.offers().await;
        let usage = commands.iter().find(|command| command["name"] == "usage").unwrap();
        let told = [&usage["description"], &usage["description_localizations"]["de"]];
        assert_eq!(
            told,
            ["Your usage, and what is left of your limits", "Dein Verbrauch und was von deinen Limits übrig ist"]
        );
        assert_eq!(usage["options"][0]["description_localizations"]["es-419"], "Otro miembro; solo para operadores");
    });
}

#[test]
fn operators_are_those_with_a_super_role_and_those_who_are_named() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let guild = world.service.guilds()[0].clone();
        let role = guild.roles.iter().find(|role| role.name == "restricted").unwrap().id;
        drop(world);
        let world = World::with(Setup::new().set("SUPER_ROLE_IDS", role)).await;
        for name in ["status", "refresh_status"] {
            let refusal = world.tells("Ada", name, &[]).await;
            assert!(refusal.contains("only for operators of this bot"), "{name}: {refusal}");
            let answer = world.told(world.runs("Chloe", "general", name, &[])).await;
            assert!(!answer.content.contains("only for operators of this bot"), "{name}");
        }
        assert!(world.service.sets_role(world.member("Chloe"), world.member("Ben"), role, true));
        let answer = world.told(world.runs("Ben", "general", "status", &[])).await;
        assert_eq!(answer.embeds.len(), 1, "{}", answer.content);
        let offered = world.offers().await;
        assert!(offered.iter().all(|command| command["default_member_permissions"].is_null()), "all must see them");
    });
}

#[test]
fn status_tells_what_an_operator_asks_first() {
    story(async {
        let world = World::begin().await;
        world.talks("Ada", "general", "hello").await;
        let answer = world.told(world.runs("Chloe", "general", "status", &[])).await;
        let card = &answer.embeds[0];
        let title = format!("staffai {}: ready", env!("CARGO_PKG_VERSION"));
        assert_eq!((&card["title"], &card["description"]), (&json!(title), &json!("All parts are up.")));
        let facts = card["fields"].as_array().unwrap();
        let fact = |name: &str| facts.iter().find(|fact| fact["name"] == name).map(|fact| fact["value"].clone());
        assert_eq!(fact("Shards"), Some(json!("1 of 1 connected")));
        assert_eq!(fact("Models"), Some(json!("scripted")));
        assert_eq!(fact("Store"), Some(json!("works")));
        assert!(fact("Turns").unwrap().as_str().unwrap().ends_with("1 since the start"));
        assert!(fact("Memory").is_some() && fact("Up for").is_some() && fact("Limits for each member").is_some());
    });
}

#[test]
fn a_new_conversation_knows_nothing_unless_it_is_replied_to() {
    story(async {
        let world = World::begin().await;
        let boat = world.talks("Ada", "general", "my boat is the Heron").await;
        world.talks("Ada", "help", "my cat is Tom").await;
        assert!(world.tells("Ada", "new", &[]).await.starts_with("We start over here"));
        world.talks("Ada", "general", "which boat?").await;
        assert!(!world.model.last().shows("Heron"));
        world.talks("Ada", "help", "which cat?").await;
        assert!(world.model.last().shows("Tom"), "other channels are not touched");
        let old = world.answer_to(boat).await;
        let said = world.replies("Ada", &old, "and this one?");
        world.answer_to(said).await;
        assert!(world.model.last().shows("Heron"), "a reply brings that one back");
        world.tells("Ada", "new", &[]).await;
        assert!(world.tells("Ada", "new", &[]).await.starts_with("There is nothing to do"));
    });
}

#[test]
fn an_answer_on_its_way_does_not_bring_an_old_conversation_back() {
    story(async {
        let world = World::begin().await;
        world.talks("Ada", "general", "my boat is the Heron").await;
        world.model.always(Act::SaysAfter(Duration::from_secs(1), "done".into()));
        let slow = world.says("Ada", "general", "@staffai where is it?");
        world.until("it is asked", || (world.model.calls() == 2).then_some(())).await;
        world.tells("Ada", "new", &[]).await;
        world.answer_to(slow).await;
        world.talks("Ada", "general", "hello").await;
        insta::assert_snapshot!(world.model.last().talk(), @"user: hello");
    });
}

#[test]
fn a_member_chooses_the_model_that_answers() {
    story(async {
        let (world, folder) = two_models().await;
        insta::assert_snapshot!(world.tells("Ada", "model", &[]).await, @r"
        You are answered by the default model, `scripted`. You can choose with `/model row:`
        - `scripted` (default)
        - `deep`
        ");
        let deep = [("row", 3, "deep")];
        assert!(world.tells("Ada", "model", &deep).await.contains("`deep` answers you"));
        for (who, model) in [("Ada", "deep"), ("Ben", "scripted")] {
            world.talks(who, "help", "hello").await;
            assert_eq!(world.model.last().body["model"], model, "{who}");
        }
        assert!(world.tells("Ben", "model", &[("row", 3, "gone")]).await.contains("no model `gone`"));

        // The row is removed; the member's choice falls back, and the answer says so.
        world.drain().await;
        write_models(&world, &folder, &["scripted", "third"]);
        world.start().await;
        world.talks("Ada", "help", "hello").await;
        assert_eq!(world.model.last().body["model"], "scripted");
        assert!(world.tells("Ada", "model", &[]).await.contains("`deep`, which no longer exists"));
        assert!(world.tells("Ada", "model", &[("row", 3, "default")]).await.contains("`scripted` now"));
        assert!(world.tells("Ada", "model", &[]).await.contains("the default model"));
    });
}

#[test]
fn forms_lists_and_buttons_that_were_never_offered_are_answered_with_a_sentence() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_DISCORD__DIRECT_MESSAGES", "answer")).await;
        let ada = world.member("Ada");
        let thread = world.service.opens_thread(ada, world.channel("general"), None, "aside").unwrap().id;
        let direct = world.service.direct(ada).unwrap().id;
        for channel in [world.channel("general"), thread, direct] {
            let said = world.writes("Ada", channel, "@staffai hello", None);
            let answer = world.answer_to(said).await;
            let field = json!({"type": 4, "custom_id": "name", "value": "x"});
            for interact in [
                Interact::Form("form".to_owned(), vec![json!({"type": 1, "components": [field]})]),
                Interact::Component(answer.id, "colour".to_owned(), vec!["red".to_owned(), "blue".to_owned()]),
                Interact::Component(answer.id, "yes".to_owned(), Vec::new()),
            ] {
                let begun = world.service.interacts(ada, channel, interact.clone()).unwrap();
                let words = world.told(begun).await.content;
                assert!(words.starts_with("I do not know this command."), "{interact:?}: {words}");
            }
        }
        assert_eq!(world.model.calls(), 3, "no model is asked for them");
    });
}

#[test]
fn rows_are_offered_while_a_member_types() {
    story(async {
        let (world, _folder) = two_models().await;
        let choices = async |typed: &str| {
            let focused = json!({"name": "row", "type": 3, "value": typed, "focused": true});
            let deed = Interact::Typing("model".to_owned(), vec![focused]);
            let id = world.service.interacts(world.member("Ada"), world.channel("general"), deed).unwrap();
            let form = world.until("choices", || world.service.interaction(id)?.form).await;
            let data: Value = serde_json::from_str(&form).unwrap();
            let names =
                data["choices"].as_array().unwrap().iter().map(|choice| choice["value"].as_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(choices("").await, ["scripted", "deep", "default"]);
        assert_eq!(choices("DE").await, ["deep", "default"]);
        assert!(choices("nothing like it").await.is_empty());
    });
}

#[test]
fn only_rows_that_the_operator_names_can_be_chosen() {
    story(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models.json");
        let setup = Setup::new().set("STAFFAI_MODELS", file.display()).set("STAFFAI_MEMBERS__MODELS", "scripted");
        let world = World::without_bot(setup).await;
        write_models(&world, &folder, &["scripted", "deep"]);
        world.start().await;
        assert!(world.tells("Ada", "model", &[]).await.ends_with("There is no other model to choose."));
        assert!(world.tells("Ada", "model", &[("row", 3, "deep")]).await.contains("no model `deep`"));
    });
}

#[test]
fn usage_is_ones_own_and_that_of_others_for_operators() {
    story(async {
        let world = World::begin().await;
        world.talks("Ada", "general", "hello").await;
        // The turn is counted when it is closed, shortly after its answer is visible.
        world.until_told("/api/v1/turns", |told| told["turns"][0]["outcome"].as_str().map(drop)).await;
        let own = world.tells("Ada", "usage", &[]).await;
        assert!(own.contains("Today: 15 tokens") && own.contains("15 tokens for 1 message"), "{own}");
        let ben = world.member("Ben").to_string();
        let other = [("user", 6, ben.as_str())];
        assert!(world.tells("Ada", "usage", &other).await.starts_with("Only operators"));
        assert!(world.tells("Chloe", "usage", &other).await.starts_with(&format!("<@{ben}> ")));
    });
}

#[test]
fn what_nothing_serves_is_neither_offered_nor_known() {
    story(async {
        let world = World::begin().await;
        let offered = world.offers().await;
        assert!(offered.iter().all(|command| command["name"] != "approvals"), "no call can be asked about");
        for name in ["tools", "refresh_tools"] {
            assert!(offered.iter().any(|command| command["name"] == name), "{name}: there are built-in tools");
        }
        assert!(world.tells("Ada", "tools", &[]).await.contains("`calculator`"));
        let other = world.tells("Ada", "tools", &[("category", 3, "other")]).await;
        let none = world.tells("Ada", "tools", &[("category", 3, "search")]).await;
        assert!(other.contains("`calculator`") && !none.contains('`'), "{other} {none}");
        assert!(world.tells("Chloe", "refresh_tools", &[]).await.starts_with("No tool server is connected"));
        assert!(world.tells("Chloe", "refresh_status", &[]).await.starts_with("I am reloading my prompts"));
    });
}

#[test]
fn an_administrator_is_no_operator() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_DISCORD__OPERATORS", "")).await;
        let refusal = world.tells("Chloe", "status", &[]).await;
        assert_eq!(refusal, "`/status` is only for operators of this bot.");
        assert!(world.offers().await.iter().all(|command| command["name"] != "status"), "no member could run it");
    });
}

#[test]
fn a_guild_that_is_not_served_gets_one_sentence() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_DISCORD__GUILDS", "5")).await;
        let answer = world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        assert!(answer.content.starts_with("Sorry, my operators"), "{}", answer.content);
        assert!(world.tells("Chloe", "status", &[]).await.starts_with("Sorry, my operators"));
        let again = world.says("Ada", "general", "@staffai hello?");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(world.answers(again).is_empty(), "once is enough");
    });
}

#[test]
fn a_command_that_the_bot_no_longer_has_is_answered_too() {
    story(async {
        let world = World::begin().await;
        assert!(world.tells("Ada", "tokenstats", &[]).await.starts_with("I do not know this command"));
    });
}

#[test]
fn nothing_of_what_a_member_said_is_left_after_forget() {
    story(async {
        let (world, _folder) = two_models().await;
        for channel in ["general", "help"] {
            world.talks("Ada", channel, "my canary-word is secret").await;
            world.talks("Ben", channel, "my own-word stays").await;
        }
        world.tells("Ada", "model", &[("row", 3, "deep")]).await;
        // Ben replies to Ada's answer, so her message is in his history as well.
        let last = world.spoken(world.channel("help"));
        let hers = last.iter().find(|message| message.content.contains("canary-word")).unwrap();
        world.answer_to(world.replies("Ben", hers, "what was that?")).await;
        assert!(world.model.last().shows("canary-word"));

        insta::assert_snapshot!(world.tells("Ada", "forget", &[]).await, @r"
        **Forgotten**
        - 2 conversations with 4 messages
        - 2 questions with their answers (kept for replies)
        - your words in 1 conversation of other members, who replied to my answers to you
        - your settings
        - how many tokens you used

        **Kept, and why**
        - your limits and any restriction, with their times: `/forget` does not end them
        - for an hour, the ids of messages that I answered, so that I answer none twice
        - the messages in the channels: they stay there, and you can delete yours
        ");
        assert!(world.tells("Ada", "forget", &[]).await.starts_with("I kept nothing about you"));
        world.talks("Ada", "general", "hello again").await;
        insta::assert_snapshot!(world.model.last().talk(), @"user: hello again");
        assert_eq!(world.model.last().body["model"], "scripted");
        world.talks("Ben", "help", "still there?").await;
        assert!(world.model.last().shows("own-word") && !world.model.last().shows("canary-word"));
        let usage = format!("token_stats:total:{}:{}", world.service.guilds()[0].id, world.member("Ada"));
        world.drain().await;
        let stored = world.stored().await;
        assert!(stored.iter().any(|(_, value)| value.contains("own-word")), "the store is read");
        let left: Vec<_> = stored.iter().filter(|(_, value)| value.contains("canary-word")).collect();
        assert!(left.is_empty(), "{left:?}");
        // All but the question that she asked afterwards.
        let counted = stored.iter().find(|(key, _)| *key == usage).map(|(_, value)| value.as_str());
        assert_eq!(counted, Some("15"), "{usage}");
    });
}

#[test]
fn an_answer_on_its_way_brings_nothing_back_that_was_forgotten() {
    story(async {
        let world = World::begin().await;
        world.talks("Ada", "general", "my first canary-word").await;
        world.model.always(Act::SaysAfter(Duration::from_millis(1_500), "done with the canary-word".into()));
        let slow = world.says("Ada", "general", "@staffai my second canary-word");
        let waiting = world.says("Ada", "general", "@staffai my third canary-word");
        world.until("it is asked", || (world.model.calls() == 2).then_some(())).await;
        let told = world.tells("Ada", "forget", &[]).await;
        assert!(told.contains("2 questions from before this will still be answered, but not remembered."), "{told}");
        world.all_answered(&[slow, waiting], Duration::from_secs(15)).await;
        world.model.always(Act::says("fresh"));
        world.talks("Ada", "general", "hello").await;
        insta::assert_snapshot!(world.model.last().talk(), @"user: hello");
        world.drain().await;
        let left: Vec<_> =
            world.stored().await.into_iter().filter(|(_, value)| value.contains("canary-word")).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn an_export_is_a_file_with_everything() {
    story(async {
        let world = World::begin().await;
        world.talks("Ada", "general", "my boat is the Heron").await;
        world.talks("Ben", "general", "my boat is the Gull").await;
        let answer = world.told(world.runs("Ada", "help", "export", &[])).await;
        assert!(answer.content.starts_with("Everything that I keep about you: 1 conversation with 2 messages"));
        assert_eq!(answer.attachments[0].filename, "what-staffai-keeps-about-you.json");
        let file = world.service.file(answer.attachments[0].id).unwrap();
        let document: Value = serde_json::from_slice(&file.bytes).unwrap();
        assert_eq!(document["person"], format!("discord:{}", world.member("Ada")));
        assert_eq!(document["conversations"][0]["place"], world.channel("general").to_string());
        assert_eq!(document["conversations"][0]["messages"][0]["text"], "my boat is the Heron");
        assert!(!document.to_string().contains("Gull"), "it is hers alone");
    });
}

#[test]
fn a_command_that_arrives_twice_runs_once() {
    story(async {
        let world = World::begin().await;
        world.offers().await;
        world.service.faults().duplicate_events(2);
        world.tells("Ada", "tools", &[]).await;
        world.service.faults().duplicate_events(0);
        world.talks("Ada", "general", "hello").await;
        assert_eq!(world.counted(CALLBACK), 1);
    });
}

#[test]
fn a_first_word_whose_answer_is_lost_is_tried_again() {
    story(async {
        let world = World::begin().await;
        world.service.faults().answer_next(CALLBACK, 2, 502, None);
        assert!(world.tells("Ada", "help", &[]).await.starts_with("I answer when"));
        world.service.faults().answer_next("PATCH /webhooks/{application}/{token}/messages/{message}", 2, 500, None);
        assert!(world.tells("Ada", "help", &[]).await.starts_with("I answer when"));
    });
}

#[test]
fn answers_to_commands_take_nothing_from_the_budget_of_requests() {
    story(async {
        let world = World::with(Setup::new().set("DISCORD_REQUESTS_PER_SECOND", 1)).await;
        world.offers().await;
        world.crowd(12);
        let before = tokio::time::Instant::now();
        let ran: Vec<MessageId> =
            (0..12).map(|n| world.runs(&format!("member-{n}"), "general", "tools", &[])).collect();
        for command in ran {
            world.told(command).await;
        }
        assert!(before.elapsed() < Duration::from_secs(20), "24 requests in {:?}", before.elapsed());
    });
}
