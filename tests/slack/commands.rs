//! Commands, and approvals of tool calls by buttons.

use serde_json::json;

use crate::model::Act;
use crate::world::{World, story};
use playground::workspace::Message;

/// The key of a program.
const KEY: &str = "sk-of-the-house";

/// A bot that requires approval for each roll.
async fn asking() -> World {
    let mut world = World::without_bot().await;
    world.env.insert("STAFFAI_TOOLS__BUILT_IN_ALWAYS".to_owned(), "true".to_owned());
    world.env.insert("STAFFAI_TOOLS__REQUIRES_CONFIRMATION".to_owned(), "roll_dice".to_owned());
    let models = r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
    std::fs::write(&world.env["STAFFAI_MODELS"], models).unwrap();
    world.model.does(|ask| match ask.results() {
        results if results.is_empty() => Act::calls(&[("call-1", "roll_dice", json!({"notation": "2d6"}))]),
        results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
    });
    world.start().await;
    world
}

async fn question(world: &World) -> Message {
    let has_buttons = |message: &Message| message.blocks.to_string().contains("actions");
    world.until("a question with buttons", || world.service.spoken().into_iter().find(has_buttons)).await
}

#[test]
fn an_approved_call_runs_once_and_its_question_shows_the_exact_arguments() {
    story(async {
        let world = asking().await;
        let said = world.service.says("U1", "C1", "@bot roll");
        let asked = question(&world).await;
        assert_eq!(asked.thread.as_deref(), Some(said.ts.as_str()));
        assert!(asked.blocks.to_string().contains("2d6"), "{}", asked.blocks);
        assert!(world.service.presses("U1", &asked, "Approve"));
        assert!(world.service.presses("U1", &asked, "Approve"));
        world
            .until("the result", || {
                world.service.answers(&said).iter().any(|answer| answer.text.contains("Rolled 2d6")).then_some(())
            })
            .await;
        world
            .until("the decision in the place of the question", || {
                let shown = world.service.spoken().into_iter().find(|message| message.ts == asked.ts)?;
                (shown.blocks.is_null() && shown.text.contains("Approved")).then_some(())
            })
            .await;
        assert!(!world.service.whispers().is_empty(), "the member is told privately");
    });
}

#[test]
fn another_member_cannot_approve() {
    story(async {
        let world = asking().await;
        let said = world.service.says("U1", "C1", "@bot roll");
        let asked = question(&world).await;
        assert!(world.service.presses("U2", &asked, "Approve"));
        world.until("a private refusal", || (!world.service.whispers().is_empty()).then_some(())).await;
        assert!(world.service.presses("U1", &asked, "Deny"));
        world.until("the end", || (world.service.answers(&said).len() > 1).then_some(())).await;
        assert!(!world.model.last().results().iter().any(|(_, text)| text.contains("Rolled")));
    });
}

#[test]
fn a_command_is_answered_privately() {
    story(async {
        let world = World::begin().await;
        world.service.runs("U1", "C1", "help");
        let told = world.until("a private answer", || world.service.whispers().into_iter().next()).await;
        assert_eq!(told["response_type"], "ephemeral");
        assert!(told["text"].as_str().is_some_and(|text| text.contains("forget")), "{told}");
        assert!(world.service.spoken().is_empty(), "no one else sees it");
    });
}

#[test]
fn a_member_can_have_everything_forgotten() {
    story(async {
        let world = World::begin().await;
        let first = world.service.says("U1", "C1", "@bot my colour is blue");
        world.only_answer_to(&first).await;
        world.service.runs("U1", "C1", "forget");
        world.until("a private answer", || world.service.whispers().into_iter().next()).await;
        let second = world.service.replies("U1", &first, "@bot which is it?");
        world.only_answer_to(&second).await;
        assert!(!world.model.last().shows("my colour is blue"));
    });
}

#[test]
fn an_export_is_sent_to_its_member_alone() {
    story(async {
        let world = World::begin().await;
        let first = world.service.says("U1", "C1", "@bot my colour is blue");
        world.only_answer_to(&first).await;
        world.service.runs("U1", "C1", "export");
        world.until("a private answer", || world.service.whispers().into_iter().next()).await;
        let sent = world.service.sent_files("DU1");
        assert!(sent.len() == 1 && sent[0].contains("my colour is blue"), "{sent:?}");
    });
}

#[test]
fn an_account_at_slack_is_linked_with_a_key_by_a_code() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("STAFFAI_MEMBERS__LINKING".to_owned(), "members".to_owned());
        world.env.insert("STAFFAI_API_KEYS".to_owned(), KEY.to_owned());
        world.model.always(Act::says("Aye."));
        world.start().await;
        let whispers = async |count: usize| {
            let look = || world.service.whispers().get(count - 1).cloned();
            world.until("a private answer", look).await["text"].as_str().unwrap().to_owned()
        };
        world.service.runs("U1", "C1", "link");
        let told = whispers(1).await;
        assert!(world.service.spoken().is_empty(), "no one else sees the code");
        let code = told.split('`').nth(1).unwrap_or_else(|| panic!("{told}"));
        let (_, linked) = world.in_session(&format!("/link {code}")).await;
        assert!(linked.contains("`slack:U1`, `api:operator`"), "{linked}");
        world.service.runs("U1", "C1", "settings verbosity short");
        whispers(2).await;
        assert_eq!(world.in_session("hello").await, (200, "Aye.".to_owned()));
        assert!(world.model.last().talk().contains("briefly"));
        world.service.runs("U1", "C1", "unlink");
        assert!(whispers(3).await.contains("no longer linked"));
        world.in_session("hello").await;
        assert!(!world.model.last().talk().contains("briefly"));
    });
}

impl World {
    /// Says this in a session of the key, and returns the status and the answer.
    async fn in_session(&self, text: &str) -> (u16, String) {
        let body = json!({"session": "main", "text": text, "wait": true});
        let request = reqwest::Client::new().post(self.url("/api/v1/submit")).bearer_auth(KEY).json(&body);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let told: serde_json::Value = answer.json().await.unwrap();
        (status, told["text"].as_str().unwrap_or_default().to_owned())
    }
}
