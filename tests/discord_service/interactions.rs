//! Commands, buttons, forms, and their answers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use playground::{
    interactions::{FIRST_ANSWER_MS, Interact, TOKEN_LIFETIME_MS},
    service::{Options, Service},
};
use reqwest::Method;
use serde_json::{Value, json};
use serenity::model::{
    application::{Command, Interaction},
    channel::Message,
};

use crate::support::{Gateway, Rest, channel, member, options, start};

async fn register(service: &Service, rest: &Rest) -> Value {
    let commands = json!([{"name": "status", "description": "how it goes", "type": 1}]);
    let path = format!("/applications/{}/commands", service.bot());
    let (status, _, body) = rest.send(Method::PUT, &path, Some(commands)).await.unwrap();
    assert_eq!(status, 200, "{body}");
    let _: Vec<Command> = serde_json::from_value(body.clone()).unwrap();
    body
}

fn callback(event: &Value) -> String {
    format!("/interactions/{}/{}/callback", event["id"].as_str().unwrap(), event["token"].as_str().unwrap())
}

#[tokio::test]
async fn a_command_is_answered_privately_after_a_pause() {
    let service = start().await;
    let rest = Rest::of(&service).with_token("interactions need none");
    let registered = register(&service, &Rest::of(&service)).await;
    let (general, ada, ben) = (channel(&service, "general"), member(&service, "Ada"), member(&service, "Ben"));
    let (mut gateway, _) = Gateway::login(&service).await;
    let option = json!({"name": "user", "type": 6, "value": ben});
    let id = service.interacts(ada, general, Interact::Command("status".to_owned(), vec![option])).unwrap();
    let event = gateway.event("INTERACTION_CREATE").await;
    assert_eq!((&event["id"], &event["data"]["id"]), (&json!(id), &registered[0]["id"]));
    let Interaction::Command(parsed) = serde_json::from_value(event.clone()).unwrap() else {
        panic!("not a command: {event}");
    };
    assert_eq!((parsed.user.id.get(), parsed.data.options().len()), (ada.0, 1));

    let deferred = json!({"type": 5, "data": {"flags": 64}});
    assert_eq!(rest.post(&callback(&event), deferred.clone()).await.0, 204);
    let (status, _, again) = rest.post(&callback(&event), deferred).await;
    assert_eq!((status, &again["code"]), (400, &json!(40_060)));
    let hook = format!("/webhooks/{}/{}", service.bot(), event["token"].as_str().unwrap());
    let original = format!("{hook}/messages/@original");
    let (status, _, body) = rest.send(Method::PATCH, &original, Some(json!({"content": "well"}))).await.unwrap();
    assert_eq!((status, &body["content"], &body["flags"]), (200, &json!("well"), &json!(64)));
    let (status, _, more) = rest.post(&hook, json!({"content": "really"})).await;
    assert_eq!(status, 200);
    let _: Message = serde_json::from_value(more).unwrap();

    let told: Vec<_> =
        service.messages(general).into_iter().map(|message| (message.content, message.only_for)).collect();
    assert_eq!(told, [("well".to_owned(), Some(ada)), ("really".to_owned(), None)]);
    let (.., listed) = Rest::of(&service).get(&format!("/channels/{general}/messages")).await;
    assert_eq!(listed.as_array().unwrap().len(), 1, "ephemeral answers are not in the history");
    assert_eq!(gateway.event("MESSAGE_CREATE").await["content"], "really");
    assert_eq!(service.interaction(id).unwrap().answer, Some(5));
}

#[tokio::test]
async fn a_button_changes_its_message() {
    let service = start().await;
    let rest = Rest::of(&service);
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let (mut gateway, _) = Gateway::login(&service).await;
    let row = json!([{"type": 1, "components": [{"type": 2, "style": 3, "label": "Approve", "custom_id": "yes"}]}]);
    rest.write(general, json!({"content": "may I?", "components": row})).await;
    let asked = service.messages(general).pop().unwrap();
    let _ = service.interacts(ada, general, Interact::Component(asked.id, "yes".to_owned(), Vec::new())).unwrap();
    let event = gateway.event("INTERACTION_CREATE").await;
    let Interaction::Component(parsed) = serde_json::from_value(event.clone()).unwrap() else {
        panic!("not a component: {event}");
    };
    assert_eq!((&*parsed.data.custom_id, parsed.message.id.get()), ("yes", asked.id.0));
    let update = json!({"type": 7, "data": {"content": "approved", "components": []}});
    assert_eq!(rest.post(&callback(&event), update).await.0, 204);
    let changed = service.messages(general).pop().unwrap();
    assert_eq!((changed.id, &*changed.content, changed.components.len()), (asked.id, "approved", 0));

    let _ = service.interacts(ada, general, Interact::Form("form".to_owned(), Vec::new())).unwrap();
    let event = gateway.event("INTERACTION_CREATE").await;
    assert!(matches!(serde_json::from_value(event).unwrap(), Interaction::Modal(_)));
}

#[tokio::test]
async fn an_answer_can_come_too_late() {
    let time = Arc::new(AtomicU64::new(1_700_000_000_000));
    let clock = time.clone();
    let clock = Arc::new(move || clock.load(Ordering::SeqCst));
    let service = Service::start(Options { clock, ..options() }).await.unwrap();
    let rest = Rest::of(&service);
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let (mut gateway, _) = Gateway::login(&service).await;
    let begin = || service.interacts(ada, general, Interact::Command("status".to_owned(), Vec::new())).unwrap();
    let answer = json!({"type": 4, "data": {"content": "here"}});

    let _ = begin();
    let event = gateway.event("INTERACTION_CREATE").await;
    time.fetch_add(FIRST_ANSWER_MS + 1, Ordering::SeqCst);
    let (status, _, body) = rest.post(&callback(&event), answer.clone()).await;
    assert_eq!((status, &body["code"]), (404, &json!(10_062)));

    let _ = begin();
    let event = gateway.event("INTERACTION_CREATE").await;
    assert_eq!(rest.post(&callback(&event), answer.clone()).await.0, 204);
    time.fetch_add(TOKEN_LIFETIME_MS + 1, Ordering::SeqCst);
    let hook = format!("/webhooks/{}/{}", service.bot(), event["token"].as_str().unwrap());
    let (status, _, body) = rest.post(&hook, answer["data"].clone()).await;
    assert_eq!((status, &body["code"]), (401, &json!(50_027)));
}
