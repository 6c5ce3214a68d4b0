//! The routes of the workspace.

use super::*;

impl Place {
    async fn seen(&self, member: &str) -> Value {
        let response = self.client.get(self.url(&format!("/playground/workspace/state?member={member}"))).send().await;
        response.expect("an answer").json().await.expect("JSON")
    }

    async fn writes(&self, body: &Value) -> (u16, Value) {
        self.send(Method::POST, "/playground/workspace/messages", body).await
    }
}

#[tokio::test]
async fn members_write_in_channels_and_threads_and_see_their_own_conversation_alone() {
    let place = Place::open().await;
    let (status, root) = place.writes(&json!({"member": "UADA", "channel": "C1", "text": "@staffai hello"})).await;
    assert_eq!(status, 201);
    let (status, _) =
        place.writes(&json!({"member": "UBEN", "channel": "C1", "text": "hi", "thread": root["ts"]})).await;
    assert_eq!(status, 201);
    place.writes(&json!({"member": "UADA", "channel": "DUADA", "text": "only for the bot"})).await;
    let (ada, ben) = (place.seen("UADA").await, place.seen("UBEN").await);
    let texts = |seen: &Value| seen["messages"].as_array().map(|all| all.iter().map(|m| m["text"].clone()).collect());
    assert_eq!(texts(&ada), Some(vec!["<@UBOT> hello".into(), "hi".into(), Value::from("only for the bot")]));
    assert_eq!(texts(&ben), Some(vec!["<@UBOT> hello".into(), Value::from("hi")]));
    assert_eq!((&ada["messages"][1]["thread"], &ada["connected"]), (&root["ts"], &false.into()));
}

#[tokio::test]
async fn what_a_member_of_the_workspace_cannot_do_is_refused_with_a_sentence() {
    let place = Place::open().await;
    let (_, said) = place.writes(&json!({"member": "UADA", "channel": "DUADA", "text": "mine"})).await;
    let ts = said["ts"].as_str().expect("a timestamp");
    for (body, status, why) in [
        (json!({"member": "UEVE", "channel": "C1", "text": "x"}), 404, "there is no such member"),
        (json!({"member": "UBEN", "channel": "DUADA", "text": "x"}), 404, "there is no such channel"),
        (json!({"member": "UBEN", "channel": "C1", "text": " "}), 400, "a message has 1 to 4000 characters"),
        (json!({"member": "UBEN", "channel": "C1", "text": "x", "thread": ts}), 404, "there is no such thread"),
    ] {
        assert_eq!(place.writes(&body).await, (status, json!({"error": why})), "{body}");
    }
    let press = json!({"member": "UADA", "ts": ts, "label": "Approve"});
    let pressed = place.send(Method::POST, "/playground/workspace/presses", &press).await;
    assert_eq!(pressed, (404, json!({"error": "the message has no such button"})));
    for (member, status) in [("UBEN", 404), ("UADA", 204), ("UADA", 404)] {
        let path = format!("/playground/workspace/messages/{ts}?member={member}");
        assert_eq!(place.send(Method::DELETE, &path, &json!({})).await.0, status);
    }
}

#[tokio::test]
async fn the_oldest_messages_of_a_workspace_leave_first() {
    let clock = Arc::new(|| 1_760_000_000_000);
    let options = crate::workspace::Options::of_playground("bot".to_owned(), "app".to_owned(), clock);
    let workspace = Workspace::start(options).await.expect("a loopback port");
    for number in 0..2_500 {
        workspace.says("UADA", "C1", &number.to_string());
    }
    let texts: Vec<String> = workspace.messages().into_iter().map(|message| message.text).collect();
    assert_eq!((texts.len(), texts[0].as_str(), texts[1_999].as_str()), (2_000, "500", "2499"));
    assert_eq!(workspace.unacknowledged(), 2_500);
    for number in 0..2_000 {
        workspace.says("UADA", "C1", &number.to_string());
    }
    assert_eq!(workspace.unacknowledged(), 4_096);
}
