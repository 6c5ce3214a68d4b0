//! Modals: the dialogue of the settings, wherever a member opens it, and forms of tool servers.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::asking_server::Asker;
use crate::model::Act;
use crate::world::{World, story};
use playground::workspace::{Fault, Message};

/// Two rows: the first one takes a temperature, the second one reasons instead.
const MODELS: &str = r#"{"models": {
    "quick": {"model_id": "scripted", "enabled": true},
    "deep": {"model_id": "scripted", "enabled": true, "temperature": null, "takes_reasoning_effort": true}
}}"#;

async fn world() -> World {
    let mut world = World::without_bot().await;
    world.env.insert("LITELLM_MODEL".to_owned(), "quick".to_owned());
    let open = "model,instructions,verbosity,reasoning_effort,temperature,language,memory";
    world.env.insert("STAFFAI_MEMBERS__SETTINGS".to_owned(), open.to_owned());
    std::fs::write(&world.env["STAFFAI_MODELS"], MODELS).unwrap();
    world.start().await;
    world
}

/// Awaits the dialogue with fields of a member.
async fn fields(world: &World, user: &str) -> Vec<Value> {
    world
        .until("a dialogue with fields", || {
            let (view, _) = world.service.dialogue(user)?;
            let blocks = view["blocks"].as_array()?.clone();
            blocks.iter().any(|block| block["type"] == "input").then_some(blocks)
        })
        .await
}

fn names(fields: &[Value]) -> Vec<&str> {
    fields.iter().filter_map(|field| field["block_id"].as_str()).collect()
}

async fn told(world: &World, user: &str, words: &str) {
    world
        .until(words, || {
            let (view, _) = world.service.dialogue(user)?;
            view["blocks"].to_string().contains(words).then_some(())
        })
        .await;
}

#[test]
fn a_command_a_shortcut_and_the_app_home_open_the_settings_before_anything_is_read() {
    story(async {
        let world = world().await;
        world.service.runs("U1", "C1", "settings");
        let by_command = fields(&world, "U1").await;
        world.service.uses_global_shortcut("U2", "settings:0");
        let by_shortcut = fields(&world, "U2").await;
        world.service.opens_home("U3");
        world.until("the page", || world.service.home("U3")).await;
        assert!(world.service.presses_at_home("U3"));
        let by_home = fields(&world, "U3").await;
        for fields in [&by_command, &by_shortcut, &by_home] {
            let names = names(fields);
            assert!(names.contains(&"model") && names.contains(&"temperature"), "{names:?}");
            assert!(!names.contains(&"reasoning_effort"), "the row in force does not reason: {names:?}");
        }
        let instructions = by_command.iter().find(|field| field["block_id"] == "instructions").unwrap();
        assert_eq!(instructions["element"]["max_length"], 1_000);
        // The trigger lives for three seconds: the dialogue opens before the data of the member is read.
        let order = world.service.call_order();
        let first = |method: &str| order.iter().position(|known| known == method);
        assert!(first("views.open") < first("users.info"), "{order:?}");
        assert_eq!(world.service.calls("views.open").len(), 3);
    });
}

#[test]
fn members_of_a_user_group_have_further_fields() {
    story(async {
        let mut world = World::without_bot().await;
        world.service.groups("S0EXPERTS", &["U1"]);
        world.env.insert("STAFFAI_MEMBERS__SETTINGS".to_owned(), "verbosity,instructions".to_owned());
        world.env.insert("STAFFAI_MEMBERS__ROLE_SETTINGS".to_owned(), "S0EXPERTS temperature".to_owned());
        world.start().await;
        for (user, has_more) in [("U1", true), ("U2", false)] {
            world.service.runs(user, "C1", "settings");
            let shown = fields(&world, user).await;
            assert_eq!(names(&shown).contains(&"temperature"), has_more, "{user}: {shown:?}");
        }
        assert!(world.service.fills_in("U1", &[("temperature", "0.5")]));
        told(&world, "U1", "Saved").await;
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        assert_eq!(world.model.last().body["temperature"], 0.5);
    });
}

#[test]
fn the_shortcuts_of_the_manifest_on_a_message_open_the_settings_also_in_a_thread() {
    story(async {
        let world = world().await;
        let (code, manifest, _) = crate::setup::run(&world, &["init", "slack"]);
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        let shortcuts = manifest["features"]["shortcuts"].as_array().unwrap();
        let of_all: BTreeSet<_> = shortcuts.iter().filter_map(|shortcut| shortcut["callback_id"].as_str()).collect();
        assert!(code == 0 && of_all.len() == shortcuts.len(), "each name is used once: {manifest}");
        let of_settings = |shortcut: &&Value| shortcut["type"] == "message" && shortcut["name"] == "Settings";
        let shortcut = shortcuts.iter().find(of_settings).unwrap()["callback_id"].as_str().unwrap();
        let root = world.service.says("U2", "C1", "the tide is late");
        let reply = world.service.replies("U3", &root, "very late");
        for (user, said) in [("U1", &root), ("U2", &reply)] {
            world.service.uses_shortcut(user, shortcut, &world.service.message(said).unwrap());
            assert!(names(&fields(&world, user).await).contains(&"temperature"));
            assert!(world.service.fills_in(user, &[("instructions", "Say tide.")]));
            told(&world, user, "Saved").await;
        }
        let said = world.service.says("U1", "C2", "@bot hello");
        world.only_answer_to(&said).await;
        assert!(world.model.last().shows("Say tide."), "{:?}", world.model.last().messages);
        assert_eq!(world.service.spoken().len(), 1, "the shortcut posts nothing");
    });
}

#[test]
fn sent_settings_are_stored_and_errors_stand_at_their_fields() {
    story(async {
        let world = world().await;
        world.service.runs("U1", "C1", "settings");
        fields(&world, "U1").await;
        assert!(world.service.fills_in("U1", &[("temperature", "9"), ("language", "!!")]));
        let errors = world
            .until("errors", || world.service.dialogue("U1").map(|(_, errors)| errors).filter(|all| !all.is_null()))
            .await;
        assert!(errors["temperature"].is_string() && errors["language"].is_string(), "{errors}");
        assert!(
            world.service.fills_in("U1", &[("verbosity", "short"), ("instructions", "Say tide."), ("language", "")])
        );
        told(&world, "U1", "Saved").await;
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        assert!(world.model.last().shows("Say tide."), "{:?}", world.model.last().messages);
        // What is stored is shown, and empties again.
        world.service.closes_dialogue("U1");
        world.service.runs("U1", "C1", "settings");
        let shown = fields(&world, "U1").await;
        let of = |name: &str| shown.iter().find(|field| field["block_id"] == name).unwrap()["element"].clone();
        assert_eq!(of("instructions")["initial_value"], "Say tide.");
        assert_eq!(of("verbosity")["initial_option"]["value"], "short");
        assert!(world.service.fills_in("U1", &[("instructions", "")]));
        told(&world, "U1", "Saved").await;
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        assert!(!world.model.last().shows("Say tide."));
    });
}

#[test]
fn a_value_that_the_chosen_row_cannot_serve_is_refused_at_its_field_and_nothing_is_stored() {
    story(async {
        let world = world().await;
        world.service.runs("U1", "C1", "settings");
        fields(&world, "U1").await;
        assert!(world.service.fills_in("U1", &[("model", "deep"), ("temperature", "1")]));
        let errors = world
            .until("errors", || world.service.dialogue("U1").map(|(_, errors)| errors).filter(|all| !all.is_null()))
            .await;
        assert!(errors["temperature"].as_str().is_some_and(|why| why.contains("deep")), "{errors}");
        assert!(world.service.fills_in("U1", &[("model", "deep"), ("temperature", "")]));
        told(&world, "U1", "Saved").await;
        world.service.closes_dialogue("U1");
        world.service.runs("U1", "C1", "settings");
        let shown = fields(&world, "U1").await;
        let names = names(&shown);
        assert!(names.contains(&"reasoning_effort") && !names.contains(&"temperature"), "{names:?}");
    });
}

#[test]
fn the_page_of_a_member_who_opens_it_again_and_again_is_published_once() {
    story(async {
        let world = world().await;
        for _ in 0..50 {
            world.service.opens_home("U3");
        }
        world.until("the page", || world.service.home("U3")).await;
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        assert_eq!(world.service.calls("views.publish").len(), 1);
        world.service.opens_home("U4");
        world.until("the page of another member", || world.service.home("U4")).await;
    });
}

#[test]
fn a_dialogue_that_slack_does_not_open_becomes_a_list_with_its_button() {
    story(async {
        let world = world().await;
        world.service.breaks("views.open", Fault::Named("expired_trigger_id"));
        world.service.runs("U1", "C1", "settings");
        let told = world.until("the list", || world.service.whispers().into_iter().next()).await;
        assert!(told["blocks"].to_string().contains("settings:0"), "{told}");
        assert!(world.service.dialogue("U1").is_none());
    });
}

#[test]
fn a_change_whose_acknowledgement_is_lost_is_made_once_and_answered_again() {
    story(async {
        let world = world().await;
        world.service.runs("U1", "C1", "settings");
        fields(&world, "U1").await;
        let before = world.service.payloads().len();
        assert!(world.service.fills_in("U1", &[("memory", "off")]));
        told(&world, "U1", "Saved").await;
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        world.service.sends_again();
        world.until("the same answer", || (world.service.payloads().len() == before + 2).then_some(())).await;
        let payloads = world.service.payloads();
        assert_eq!(payloads[before], payloads[before + 1]);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(world.service.spoken().is_empty());
    });
}

#[test]
fn a_member_fills_in_the_form_of_a_tool_server_and_no_other_member_can() {
    story(async {
        let asker = Asker::start().await;
        let mut world = World::without_bot().await;
        let servers = json!({"mcpServers": {"ask": {"url": asker.url()}}});
        let file = world.dir().join("mcp.json");
        std::fs::write(&file, servers.to_string()).unwrap();
        world.env.insert("STAFFAI_MCP_CONFIG".to_owned(), file.display().to_string());
        let models =
            r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
        std::fs::write(&world.env["STAFFAI_MODELS"], models).unwrap();
        world.model.does(|ask| match ask.results() {
            results if results.is_empty() => Act::calls(&[("call-1", "ask__book", json!({"word": "x"}))]),
            results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        });
        world.start().await;
        asker.listed(&world.url("")).await;
        let said = world.service.says("U1", "C1", "@bot book");
        let has_buttons = |message: &Message| message.blocks.to_string().contains("actions");
        let asked = world.until("a question", || world.service.spoken().into_iter().find(has_buttons)).await;
        assert!(world.service.presses("U2", &asked, "Answer"));
        told(&world, "U2", "can decide this").await;
        assert!(world.service.presses("U1", &asked, "Answer"));
        let form = fields(&world, "U1").await;
        assert_eq!(names(&form), ["city", "nights"]);
        assert_eq!(form[1]["element"]["type"], "number_input");
        assert!(world.service.fills_in("U1", &[("city", "Rome"), ("nights", "many")]));
        let errors = world
            .until("errors", || world.service.dialogue("U1").map(|(_, errors)| errors).filter(|all| !all.is_null()))
            .await;
        assert!(errors["nights"].as_str().is_some_and(|why| why.contains("a number is required")), "{errors}");
        assert_eq!(asker.state().answers, Vec::<Value>::new());
        assert!(world.service.fills_in("U1", &[("city", "Rome"), ("nights", "2")]));
        told(&world, "U1", "Sent to the server").await;
        world
            .until("the result", || {
                world.service.answers(&said).iter().any(|answer| answer.text.contains("booked x")).then_some(())
            })
            .await;
        let content = json!({"city": "Rome", "nights": 2});
        assert_eq!(asker.state().answers, [json!({"q": {"action": "accept", "content": content}})]);
    });
}
