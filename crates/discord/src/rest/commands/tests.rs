use serde_json::{Value, json};

use super::super::super::testing::{Request, access, answer as reply, serve};
use super::*;
use crate::DOOR;
use domain::command::{CallbackToken, Served};
use domain::ids::MessageId;
use domain::menu;
use domain::menu::Offer;
use domain::outgoing::{Card, Field, File};
use domain::rejection::Rejection;
use ports::{PostRequest, Poster};

const SERVED: Served = Served { tools: true, questions: true, links: true, voice: true };
const ALL: Offer = Offer { operators: true, super_roles: false, served: SERVED, direct: true };
const SECRET: &str = "aW50ZXJhY3Rpb246-secret_of.it";

fn callback() -> Callback {
    Callback {
        id: MessageId::new(DOOR, "77"),
        application: "5".to_owned(),
        token: CallbackToken::new(SECRET.to_owned()),
    }
}

async fn ask(request: PostRequest, answers: Vec<String>) -> (Result<PostReply, PostError>, Vec<Request>) {
    let many = answers.len();
    let (base, mut seen) = serve(answers).await;
    let outcome = Rest::new(&access(&base)).unwrap().perform(&request).await;
    let mut requests = Vec::new();
    for _ in 0..many {
        requests.push(seen.recv().await.unwrap());
    }
    (outcome, requests)
}

fn done() -> PostReply {
    PostReply { result: PostResult::Done, bucket: None }
}

#[tokio::test]
async fn the_first_word_is_private_and_comes_once() {
    let (outcome, seen) = ask(PostRequest::Defer(callback()), vec![reply(204, "", "")]).await;
    assert_eq!(outcome, Ok(done()));
    assert_eq!(seen[0].line, format!("POST /api/v10/interactions/77/{SECRET}/callback"));
    assert_eq!(serde_json::from_str::<Value>(&seen[0].body).unwrap(), json!({"type": 5, "data": {"flags": 64}}));
    let again = r#"{"message": "Interaction has already been acknowledged.", "code": 40060}"#;
    let (outcome, _) = ask(PostRequest::Defer(callback()), vec![reply(400, "", again)]).await;
    assert_eq!(outcome.unwrap().result, PostResult::Already);
    let unknown = r#"{"message": "Unknown interaction", "code": 10062}"#;
    let (outcome, _) = ask(PostRequest::Defer(callback()), vec![reply(404, "", unknown)]).await;
    assert!(matches!(outcome, Err(PostError::Rejected { reason: Rejection::Content, .. })));
}

#[tokio::test]
async fn an_answer_takes_the_place_of_the_first_word_and_pings_nobody() {
    let card = Card {
        title: Some("staffai".to_owned()),
        text: "well".to_owned(),
        fields: vec![Field { name: "Up for".to_owned(), value: "1 s".to_owned(), inline: true }],
        colour: Some(7),
        ..Card::default()
    };
    let piece = Piece { text: "hello @everyone".to_owned(), cards: vec![card], ..Piece::default() };
    let (outcome, seen) =
        ask(PostRequest::Respond { to: callback(), piece, problems: Vec::new() }, vec![reply(200, "", "{}")]).await;
    assert_eq!(outcome, Ok(done()));
    assert_eq!(seen[0].line, format!("PATCH /api/v10/webhooks/5/{SECRET}/messages/@original"));
    let body: Value = serde_json::from_str(&seen[0].body).unwrap();
    let embed = &body["embeds"][0];
    assert_eq!(
        (&body["content"], &embed["title"], &embed["color"]),
        (&json!("hello @everyone"), &json!("staffai"), &json!(7))
    );
    assert_eq!(embed["fields"][0]["name"], "Up for");
    assert_eq!(body["allowed_mentions"]["parse"], json!([]), "no account is notified");
}

#[tokio::test]
async fn a_file_travels_beside_the_message() {
    let file = File::new("what.json", "application/json", b"{\"a\":1}".to_vec());
    let piece = Piece { text: "here".to_owned(), files: vec![file], ..Piece::default() };
    let (outcome, seen) =
        ask(PostRequest::Respond { to: callback(), piece, problems: Vec::new() }, vec![reply(200, "", "{}")]).await;
    assert_eq!(outcome, Ok(done()));
    assert!(seen[0].headers.contains("content-type: multipart/form-data; boundary="));
    for part in ["name=\"payload_json\"", "name=\"files[0]\"; filename=\"what.json\"", "{\"a\":1}"] {
        assert!(seen[0].body.contains(part), "{part}: {}", seen[0].body);
    }
}

#[tokio::test]
async fn choices_are_short_and_not_too_many() {
    let choice = |number: usize| Choice { name: format!("{number}{}", "x".repeat(200)), value: number.to_string() };
    let choices = (0..40).map(choice).collect();
    let (outcome, seen) = ask(PostRequest::Suggest { to: callback(), choices }, vec![reply(204, "", "")]).await;
    assert_eq!(outcome, Ok(done()));
    let body: Value = serde_json::from_str(&seen[0].body).unwrap();
    let offered = body["data"]["choices"].as_array().unwrap();
    assert_eq!((body["type"].as_u64(), offered.len()), (Some(8), CHOICES_MAX));
    assert_eq!(offered[0]["name"].as_str().unwrap().chars().count(), CHOICE_MAX);
}

#[tokio::test]
async fn commands_are_replaced_only_when_they_differ() {
    let application = reply(200, "", r#"{"id": "5"}"#);
    let specs = menu::specs(Offer { direct: false, ..ALL });
    let answers = vec![application.clone(), reply(200, "", "[]"), reply(200, "", "[]")];
    let (outcome, seen) = ask(PostRequest::RegisterCommands(specs.clone()), answers).await;
    assert_eq!(outcome, Ok(done()));
    let lines: Vec<&str> = seen.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "GET /api/v10/applications/@me",
            "GET /api/v10/applications/5/commands?with_localizations=true",
            "PUT /api/v10/applications/5/commands"
        ]
    );

    // Discord returns more fields than it received, in its own order, and omits defaults.
    let mut offered: Vec<Value> = serde_json::from_str(&seen[2].body).unwrap();
    offered.reverse();
    for command in &mut offered {
        command["id"] = json!("9");
        command["nsfw"] = json!(false);
        let fields = command.as_object_mut().unwrap();
        fields.retain(|name, value| name != "options" || value != &json!([]));
    }
    let listed = reply(200, "", &Value::Array(offered).to_string());
    let (outcome, _) = ask(PostRequest::RegisterCommands(specs), vec![application.clone(), listed.clone()]).await;
    assert_eq!(outcome.unwrap().result, PostResult::Already);
    let answers = vec![application, listed, reply(200, "", "[]")];
    let (outcome, _) = ask(PostRequest::RegisterCommands(menu::specs(ALL)), answers).await;
    assert_eq!(outcome, Ok(done()));
}

#[tokio::test]
async fn a_token_that_is_no_token_leads_nowhere_and_none_ever_shows() {
    let rest = Rest::new(&access("http://127.0.0.1:9")).unwrap();
    for token in ["", "a/../b", "..", "a?b", "a b"] {
        let callback = Callback { token: CallbackToken::new(token.to_owned()), ..callback() };
        assert!(
            matches!(rest.defer(&callback).await, Err(PostError::Rejected { reason: Rejection::Content, .. })),
            "{token}"
        );
    }
    let error = rest.defer(&callback()).await.unwrap_err();
    assert!(matches!(error, PostError::Transient(_)) && !error.to_string().contains(SECRET), "{error}");
}
