//! Approvals of tool calls as members see them, with built-in tools.

use std::time::Duration;

use futures_util::StreamExt;
use playground::guild::Message;
use playground::guild::ids::MessageId;
use playground::interactions::Interact;
use serde_json::{Value, json};

use crate::model::Act;
use crate::reading_along::{connect, read, submit};
use crate::support::{SOON, Said, Setup, World, story};

/// Only one member sees the message.
const EPHEMERAL: u64 = 1 << 6;
/// The bot is thinking.
const LOADING: u64 = 1 << 7;
const ROLLED: &str = "Rolled 2d6";

/// A bot that requires approval for each roll, with these variables. The model rolls once and reports the result.
async fn asking(variables: &[(&str, &str)]) -> World {
    let world = not_begun(variables).await;
    world.start().await;
    world
}

/// The same before the bot starts.
pub(crate) async fn not_begun(variables: &[(&str, &str)]) -> World {
    let mut setup = Setup::new()
        .set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true")
        .set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "roll_dice");
    for (name, value) in variables {
        setup = setup.set(name, value);
    }
    let world = World::without_bot(setup).await;
    let models = r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
    std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
    world.model.does(|ask| match ask.results() {
        results if results.is_empty() && ask.question().contains("roll") => {
            Act::calls(&[("call-1", "roll_dice", json!({"notation": "2d6"}))])
        }
        results if results.is_empty() => Act::says(format!("You said: {}", ask.question())),
        results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
    });
    world
}

/// Returns the labels and ids of a message's buttons.
fn buttons(message: &Message) -> Vec<(String, String)> {
    let parts = message.components.iter().flat_map(|row| row["components"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    parts.map(|part| (text(&part["label"]), text(&part["custom_id"]))).collect()
}

impl World {
    /// Awaits the next message that asks for a decision.
    pub(crate) async fn asks(&self, channel: &str) -> Message {
        let channel = self.channel(channel);
        self.until("a question with buttons", || {
            self.spoken(channel).into_iter().rev().find(|message| !buttons(message).is_empty())
        })
        .await
    }

    /// Presses a button of a message.
    pub(crate) fn presses(&self, who: &str, on: &Message, label: &str) -> MessageId {
        let (_, name) = buttons(on).into_iter().find(|(known, _)| known == label).expect("a button");
        self.presses_named(who, on, name)
    }

    fn presses_named(&self, who: &str, on: &Message, name: String) -> MessageId {
        let press = Interact::Component(on.id, name, Vec::new());
        self.service.interacts(self.member(who), on.channel, press).expect("a known member and channel")
    }

    /// Returns the ephemeral answer to a press.
    pub(crate) async fn hears_back(&self, press: MessageId) -> String {
        let message = self
            .until("an answer to a press", || {
                let interaction = self.service.interaction(press)?;
                let original = interaction.original?;
                let messages = self.service.messages(interaction.channel);
                messages.into_iter().find(|message| message.id == original && message.flags & LOADING == 0)
            })
            .await;
        assert_eq!(message.flags & EPHEMERAL, EPHEMERAL);
        message.content
    }

    /// Returns the message in its current state.
    pub(crate) fn again(&self, message: &Message) -> Message {
        let messages = self.service.messages(message.channel);
        messages.into_iter().find(|known| known.id == message.id).expect("it stands there")
    }

    /// Awaits the end of a question: it has these words and no buttons.
    pub(crate) async fn settles(&self, asked: &Message, words: &str) {
        self.until("the decision in the question's place", || {
            let now = self.again(asked);
            (now.content.contains(words) && buttons(&now).is_empty()).then_some(())
        })
        .await;
    }

    /// Returns the result of the call as the model got it.
    fn result_told(&self) -> String {
        self.model.last().results().last().map(|(_, text)| text.clone()).unwrap_or_default()
    }

    /// Checks that nothing was rolled.
    fn rolled_nothing(&self) {
        let results = self.model.asks().iter().flat_map(crate::model::Ask::results).collect::<Vec<_>>();
        let unapproved = results.iter().filter(|(_, text)| text.contains(ROLLED)).count();
        println!("unapproved calls that ran: {unapproved}");
        assert_eq!(unapproved, 0, "{results:?}");
    }

    async fn roll(&self) -> (Said, Message) {
        let said = self.says("Ada", "general", "@staffai roll two dice");
        (said, self.asks("general").await)
    }
}

#[test]
fn a_member_sees_the_exact_call_and_approves_it() {
    story(async {
        let world = asking(&[]).await;
        let (said, asked) = world.roll().await;
        assert!(asked.content.contains("`roll_dice`"), "{}", asked.content);
        assert!(asked.content.contains("\"notation\": \"2d6\""), "{}", asked.content);
        assert_eq!(asked.reply_to, None, "what replies to a question is its answer");
        let labels: Vec<String> = buttons(&asked).into_iter().map(|(label, _)| label).collect();
        assert_eq!(labels, ["Approve", "Allow for an hour", "Deny"]);
        world.rolled_nothing();
        let press = world.presses("Ada", &asked, "Approve");
        assert!(world.hears_back(press).await.starts_with("Approved"));
        assert!(world.words_to(said).await.starts_with(ROLLED));
        world.settles(&asked, "Approved by").await;
        assert_eq!(world.model.calls(), 2, "what was said before is not asked again");
        // Discord shows an error for a press without an answer within three seconds.
        let took = world.service.interaction(press).unwrap();
        assert!(took.answered_at.unwrap() - took.made_at < 3_000);
        let metrics = world.get("/metrics").await.1;
        assert!(metrics.contains(r#"staffai_gates_total{decision="approved"}"#), "{metrics}");
    });
}

#[test]
fn what_is_denied_does_not_run_and_the_model_says_so() {
    story(async {
        let world = asking(&[]).await;
        let (said, asked) = world.roll().await;
        let press = world.presses("Ada", &asked, "Deny");
        assert!(world.hears_back(press).await.starts_with("Denied"));
        assert!(world.words_to(said).await.contains("said no"));
        world.settles(&asked, "Denied by").await;
        assert!(world.result_told().contains("Do not call it again"), "{}", world.result_told());
        world.rolled_nothing();
        // The path of the turn contains the wait and its reason.
        let turns = world.json("/api/v1/turns").await.1;
        let steps = turns["turns"][0]["steps"].as_array().cloned().unwrap_or_default();
        let gate = steps.iter().find(|step| step["kind"] == "gate").unwrap_or_else(|| panic!("no gate in {turns}"));
        assert!(gate["failed"] == "denied" && gate["to_ms"].is_u64(), "{gate}");
    });
}

#[test]
fn an_undecided_call_counts_as_denied() {
    story(async {
        let world = asking(&[("STAFFAI_GATES__EXPIRY", "1s")]).await;
        let (said, asked) = world.roll().await;
        assert!(world.words_to(said).await.contains("nobody answered in time"));
        world.settles(&asked, "expired without a decision").await;
        let late = Interact::Component(asked.id, buttons(&asked)[0].1.clone(), Vec::new());
        let press = world.service.interacts(world.member("Ada"), asked.channel, late).unwrap();
        assert!(world.hears_back(press).await.contains("nothing to decide"));
        world.rolled_nothing();
    });
}

#[test]
fn only_the_asking_member_decides_and_only_once() {
    story(async {
        let world = asking(&[]).await;
        let (said, asked) = world.roll().await;
        let foreign = world.presses("Ben", &asked, "Approve");
        assert!(world.hears_back(foreign).await.contains("can decide this"));
        let (label, name) = buttons(&asked).remove(0);
        assert_eq!(label, "Approve");
        // The id of a question of another member.
        let gate = name.split(':').nth(1).unwrap();
        let forged = name.replace(gate, &gate.chars().rev().collect::<String>());
        let forged = world.presses_named("Ada", &asked, forged);
        assert!(world.hears_back(forged).await.contains("nothing to decide"));
        world.rolled_nothing();
        assert_eq!(world.answers(said), []);
        let presses = [world.presses("Ada", &asked, "Approve"), world.presses_named("Ada", &asked, name)];
        let mut told = Vec::new();
        for press in presses {
            told.push(world.hears_back(press).await);
        }
        told.sort();
        assert!(told[0].starts_with("Approved") && told[1].starts_with("Th"), "{told:?}");
        assert!(world.words_to(said).await.starts_with(ROLLED));
        let rolls = world.model.asks().iter().filter(|ask| ask.results().len() > 1).count();
        assert_eq!((world.model.calls(), rolls), (2, 0), "it ran once");
    });
}

#[test]
fn where_a_rule_names_approvers_they_alone_decide() {
    story(async {
        let world = not_begun(&[]).await;
        let role = world.service.guilds()[0].roles.iter().find(|role| role.name == "moderator").map(|role| role.id);
        let Some(role) = role else { panic!("the seed has moderators") };
        drop(world);
        let rules = format!(r#"[{{tools = "roll_dice", verdict = "ask", approvers = [{role}]}}]"#);
        let world = asking(&[("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", ""), ("STAFFAI_TOOLS__RULES", &rules)]).await;
        let members = world.service.members();
        let moderator = members.iter().find(|member| member.roles.contains(&role)).unwrap().name.clone();
        let said = world.says("Ben", "general", "@staffai roll two dice");
        let asked = world.asks("general").await;
        assert!(asked.content.contains(&format!("<@&{role}>")), "{}", asked.content);
        assert!(world.hears_back(world.presses("Ben", &asked, "Approve")).await.contains("can decide this"));
        world.rolled_nothing();
        world.presses(&moderator, &asked, "Approve");
        assert!(world.words_to(said).await.starts_with(ROLLED));
    });
}

#[test]
fn an_allowance_for_an_hour_asks_no_second_time_for_the_same_call() {
    story(async {
        let world = asking(&[]).await;
        let (said, asked) = world.roll().await;
        world.presses("Ada", &asked, "Allow for an hour");
        assert!(world.words_to(said).await.starts_with(ROLLED));
        let again = world.says("Ada", "general", "@staffai roll again");
        assert!(world.words_to(again).await.starts_with(ROLLED));
        let shown = world.tells("Ada", "approvals", &[]).await;
        assert!(shown.contains("Allowed for a while") && shown.contains("`roll_dice`"), "{shown}");
        let id = shown.rsplit_once("\n- `").and_then(|(_, line)| line.split('`').next()).expect("an id").to_owned();
        assert!(!world.tells("Ben", "approvals", &[]).await.contains(&id), "it is none of his business");
        assert!(world.tells("Ben", "approvals", &[("withdraw", 3, &id)]).await.starts_with("There is no"));
        // Operators see all approvals.
        assert!(world.tells("Chloe", "approvals", &[]).await.contains(&id));
        // Another place or member requires its own approval.
        world.says("Ada", "random", "@staffai roll here");
        assert_eq!(buttons(&world.asks("random").await).len(), 3);
        world.says("Ben", "general", "@staffai roll for me");
        assert!(world.asks("general").await.content.contains(&world.member("Ben").to_string()));
        assert!(world.tells("Ada", "approvals", &[("withdraw", 3, &id)]).await.contains("is withdrawn"));
        let asked = world.spoken(world.channel("general")).len();
        let third = world.says("Ada", "general", "@staffai roll a third time");
        world.until("a question", || (world.spoken(third.channel).len() > asked).then_some(())).await;
        assert_eq!(world.answers(third), []);
        let shown = world.tells("Ada", "approvals", &[]).await;
        assert!(shown.contains("Waiting for approval") && !shown.contains(&id), "{shown}");
    });
}

#[test]
fn the_next_message_is_answered_while_a_turn_waits() {
    story(async {
        let world = asking(&[]).await;
        let (said, asked) = world.roll().await;
        let next = world.says("Ada", "general", "@staffai hello meanwhile");
        assert_eq!(world.words_to(next).await, "You said: hello meanwhile");
        assert_eq!(world.answers(said), []);
        world.presses("Ada", &asked, "Approve");
        assert!(world.words_to(said).await.starts_with(ROLLED));
    });
}

#[test]
fn a_bot_that_is_killed_between_the_question_and_the_press_goes_on_once() {
    story(async {
        let world = not_begun(&[]).await;
        let first = world.process("first").await;
        let (said, asked) = world.roll().await;
        first.kill();
        world.service.disconnected(0).await;
        world.rolled_nothing();
        let second = world.process("second").await;
        let press = world.presses("Ada", &asked, "Approve");
        assert!(world.hears_back(press).await.starts_with("Approved"));
        assert!(world.words_to(said).await.starts_with(ROLLED));
        world.settles(&asked, "Approved by").await;
        assert_eq!(world.model.calls(), 2, "what was said before the restart is not asked again");
        let questions = world.spoken(said.channel).iter().filter(|one| one.content.contains("`roll_dice`")).count();
        assert_eq!(questions, 1, "it is asked once");
        drop(second);
    });
}

#[test]
fn a_bot_that_is_killed_right_after_the_press_rolls_once_or_says_that_it_may_have() {
    story(async {
        for pause in [0, 2, 5, 10, 20, 40, 80] {
            let world = not_begun(&[]).await;
            let first = world.process("first").await;
            let (said, asked) = world.roll().await;
            world.presses("Ada", &asked, "Approve");
            tokio::time::sleep(Duration::from_millis(pause)).await;
            first.kill();
            world.service.disconnected(0).await;
            let _second = world.process("second").await;
            if world.service.messages(said.channel).iter().any(|one| one.id == asked.id && !buttons(one).is_empty()) {
                // The press was lost with the process, so it is repeated.
                world.presses("Ada", &asked, "Approve");
            }
            let answer = world.words_to(said).await;
            println!("killed {pause} ms after the press: {answer}");
            assert!(answer.starts_with(ROLLED) || answer.contains("may have happened"), "{answer}");
            let told = world.model.asks().iter().filter(|ask| ask.results().len() > 1).count();
            assert_eq!(told, 0, "it is one call");
        }
    });
}

#[test]
fn who_wishes_to_be_forgotten_is_asked_nothing_more() {
    story(async {
        let world = asking(&[]).await;
        let (said, asked) = world.roll().await;
        world.tells("Ada", "forget", &[]).await;
        assert!(world.words_to(said).await.contains("waiting for an approval"));
        world.settles(&asked, "request was withdrawn").await;
        assert!(!world.again(&asked).content.contains("2d6"), "what was asked is not shown any more");
        let late = Interact::Component(asked.id, buttons(&asked)[0].1.clone(), Vec::new());
        let press = world.service.interacts(world.member("Ada"), asked.channel, late).unwrap();
        assert!(world.hears_back(press).await.contains("nothing to decide"));
        world.rolled_nothing();
    });
}

#[test]
fn nothing_in_the_arguments_breaks_out_of_the_question() {
    story(async {
        let world = asking(&[]).await;
        world.model.does(|ask| match ask.results() {
            results if results.is_empty() => {
                let notation = "``` @everyone <@&1> \u{202e}evil [x](https://evil.example)";
                Act::calls(&[("call-1", "roll_dice", json!({"notation": notation}))])
            }
            _ => Act::says("Done."),
        });
        let said = world.says("Ada", "general", "@staffai roll");
        let asked = world.asks("general").await;
        let (_, block) = asked.content.split_once("```json\n").expect("a block");
        let (inside, after) = block.split_once("\n```").expect("its end");
        assert!(
            inside.contains("everyone") && inside.contains(r"\u202e") && after.trim().is_empty(),
            "{}",
            asked.content
        );
        assert_eq!(asked.mentions.len(), 0, "no member is notified");
        world.presses("Ada", &asked, "Deny");
        world.answer_to(said).await;
    });
}

/// Reads a session until one of its calls requires approval; returns the gate's id.
pub async fn gate_of(world: &World, session: &str) -> String {
    let mut stream = connect(world, session, 0).await.bytes_stream();
    let mut text = String::new();
    let reading = async {
        while let Some(bytes) = stream.next().await {
            text.push_str(std::str::from_utf8(&bytes.unwrap()).unwrap());
            for data in text.lines().filter_map(|line| line.strip_prefix("data:")) {
                let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
                if event["event"] == "gate" {
                    assert!(event["question"].as_str().unwrap().contains("\"notation\": \"2d6\""), "{event}");
                    return event["id"].as_str().unwrap().to_owned();
                }
            }
        }
        panic!("the stream ended: {text}")
    };
    tokio::time::timeout(SOON, reading).await.expect("a call that waits")
}

#[test]
fn a_program_reads_of_a_call_that_waits_and_decides_over_the_api() {
    story(async {
        let world = asking(&[]).await;
        let decide = |id: String, body: Value| {
            let url = format!("{}/api/v1/gate/{id}", world.http());
            async move { reqwest::Client::new().post(url).json(&body).send().await.unwrap() }
        };
        for (session, approve, words) in [("one", true, ROLLED), ("two", false, "said no")] {
            let message = submit(&world, session, "roll two dice").await;
            let gate = gate_of(&world, session).await;
            let forged: String = gate.chars().rev().collect();
            for unknown in ["nonsense", forged.as_str()] {
                assert_eq!(decide(unknown.to_owned(), json!({"approve": true})).await.status(), 404);
            }
            assert_eq!(decide(gate.clone(), json!({"yes": true})).await.status(), 422);
            let answer = decide(gate.clone(), json!({"approve": approve})).await;
            assert_eq!(
                (answer.status().as_u16(), answer.json::<Value>().await.unwrap()["status"].as_str()),
                (200, Some("ok"))
            );
            let events = read(&world, session, 0, &message).await;
            let gates: Vec<&Value> = events.iter().filter(|event| event["event"] == "gate").collect();
            let decision = if approve { "approved" } else { "refused" };
            assert_eq!((gates.len(), gates[1]["decision"].as_str()), (2, Some(decision)));
            let last = events.iter().find(|event| event["event"] == "final").unwrap();
            assert!(last["text"].as_str().unwrap().contains(words), "{last}");
            assert_eq!(decide(gate, json!({"approve": true})).await.status(), 404, "it is over");
        }
        // A program cannot decide about a call in a channel.
        let (_, asked) = world.roll().await;
        let gate = buttons(&asked)[0].1.split(':').nth(1).unwrap().to_owned();
        assert_eq!(decide(gate, json!({"approve": true})).await.status(), 404);
    });
}
