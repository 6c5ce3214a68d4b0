use std::time::Duration;

use serde_json::{Value, json};

use super::super::testing::{TOKEN, access, answer, serve};
use super::*;
use domain::ids::Door;
use domain::outgoing::File;
use domain::rejection::Rejection;
use ports::{Bucket, HistoryRange, LimitScope};

fn here() -> Place {
    Place::new(DOOR, "500")
}

fn message(id: &str) -> MessageId {
    MessageId::new(DOOR, id)
}

fn create(reply_to: Option<&str>) -> PostRequest {
    PostRequest::Create {
        place: here(),
        piece: Piece::text("hello @everyone"),
        reply_to: reply_to.map(message),
        nonce: "n1".to_owned(),
    }
}

/// Sends one request to a server with one response; returns the outcome and the request as received.
async fn one(request: PostRequest, reply: String) -> (Result<PostReply, PostError>, super::super::testing::Request) {
    let (base, mut seen) = serve(vec![reply]).await;
    let rest = Rest::new(&access(&base)).unwrap();
    rest.know_me(UserId::new(1));
    let outcome = rest.perform(&request).await;
    (outcome, seen.recv().await.unwrap())
}

fn message_json(id: u64) -> Value {
    json!({"id": id.to_string(), "channel_id": "500", "content": format!("text {id}"), "type": 0, "mentions": [],
           "timestamp": "2026-11-20T18:38:00.123000+00:00", "author": {"id": "7", "username": "ann"}})
}

#[tokio::test]
async fn a_post_pings_nobody_and_carries_its_nonce() {
    let limits = "x-ratelimit-bucket: abcd\nx-ratelimit-remaining: 4\nx-ratelimit-reset-after: 1.25\n";
    let (outcome, seen) = one(create(Some("77")), answer(200, limits, r#"{"id":"900","content":"x"}"#)).await;
    let bucket = Bucket { id: Some("abcd".to_owned()), remaining: 4, reset_after: Duration::from_millis(1250) };
    let expected = PostReply { result: PostResult::Message(message("900")), bucket: Some(bucket) };
    assert_eq!(outcome.unwrap(), expected);
    assert_eq!(seen.line, "POST /api/v10/channels/500/messages");
    assert!(seen.headers.contains(&format!("authorization: bot {}", TOKEN.to_lowercase())));
    assert!(seen.headers.contains("user-agent: discordbot (https://"), "{}", seen.headers);
    assert!(seen.headers.contains("content-type: application/json"));
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    let expected = json!({
        "content": "hello @everyone", "nonce": "n1", "enforce_nonce": true, "tts": false, "embeds": [],
        "attachments": [], "sticker_ids": [],
        "allowed_mentions": {"parse": [], "users": [], "roles": [], "replied_user": false},
        "message_reference": {"type": 0, "message_id": "77", "channel_id": "500", "guild_id": null,
                              "fail_if_not_exists": true},
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn whom_the_operator_allows_may_be_notified_and_nobody_else() {
    let edit = || PostRequest::Edit { place: here(), message: message("900"), piece: Piece::text("new") };
    for (pings, expected) in [
        (
            AllowedMentions { answered: true, mentioned: false },
            json!({"parse": [], "users": [], "roles": [], "replied_user": true}),
        ),
        (
            AllowedMentions { answered: false, mentioned: true },
            json!({"parse": ["users"], "users": [], "roles": [], "replied_user": false}),
        ),
    ] {
        for request in [create(Some("77")), edit()] {
            let (base, mut seen) = serve(vec![answer(200, "", r#"{"id":"900"}"#)]).await;
            let rest = Rest::new(&access(&base)).unwrap().pinging(pings);
            rest.perform(&request).await.unwrap();
            let body: Value = serde_json::from_str(&seen.recv().await.unwrap().body).unwrap();
            assert_eq!(body["allowed_mentions"], expected);
        }
    }
}

#[tokio::test]
async fn what_answers_nobody_notifies_nobody_whatever_the_operator_allows() {
    let (base, mut seen) = serve(vec![answer(200, "", r#"{"id":"900"}"#)]).await;
    let rest = Rest::new(&access(&base)).unwrap().pinging(AllowedMentions { answered: true, mentioned: true });
    rest.perform(&create(None)).await.unwrap();
    let body: Value = serde_json::from_str(&seen.recv().await.unwrap().body).unwrap();
    let nobody = json!({"parse": [], "users": [], "roles": [], "replied_user": false});
    assert_eq!(body["allowed_mentions"], nobody);
}

#[tokio::test]
async fn a_post_without_a_reply_has_no_reference() {
    let (outcome, seen) = one(create(None), answer(200, "", r#"{"id":"900"}"#)).await;
    assert_eq!(outcome.unwrap().bucket, None);
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(body.get("message_reference"), None);
}

#[tokio::test]
async fn an_edit_pings_nobody_either() {
    let request = PostRequest::Edit { place: here(), message: message("900"), piece: Piece::text("new") };
    let (outcome, seen) = one(request, answer(200, "", r#"{"id":"900"}"#)).await;
    assert_eq!(outcome.unwrap().result, PostResult::Message(message("900")));
    assert_eq!(seen.line, "PATCH /api/v10/channels/500/messages/900");
    let expected = json!({
        "content": "new", "embeds": [], "attachments": [], "components": [],
        "allowed_mentions": {"parse": [], "users": [], "roles": [], "replied_user": false},
    });
    assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), expected);
}

#[tokio::test]
async fn files_go_as_a_form_that_pings_nobody_and_carries_its_nonce() {
    let picture = File { description: "x^2".to_owned(), ..File::new("formula.png", "image/png", *b"PNG bytes") };
    let files = vec![picture, File::new("code.py", "text/plain; charset=utf-8", *b"print(1)")];
    let piece = Piece { files, ..Piece::text("look @everyone") };
    for edit in [false, true] {
        let piece = piece.clone();
        let request = if edit {
            PostRequest::Edit { place: here(), message: message("900"), piece }
        } else {
            PostRequest::Create { place: here(), piece, reply_to: Some(message("77")), nonce: "n1".to_owned() }
        };
        let (outcome, seen) = one(request, answer(200, "", r#"{"id":"900"}"#)).await;
        assert_eq!(outcome.unwrap().result, PostResult::Message(message("900")));
        assert!(seen.headers.contains("content-type: multipart/form-data; boundary="), "{}", seen.headers);
        let payload = seen.body.lines().find(|line| line.starts_with('{')).unwrap();
        let json: Value = serde_json::from_str(payload).unwrap();
        let told =
            json!([{"id": 0, "filename": "formula.png", "description": "x^2"}, {"id": 1, "filename": "code.py"}]);
        assert_eq!(json["attachments"], told);
        assert_eq!(json["allowed_mentions"], json!({"parse": [], "users": [], "roles": [], "replied_user": false}));
        assert_eq!(json["content"], "look @everyone");
        if !edit {
            assert_eq!((&json["nonce"], &json["enforce_nonce"]), (&json!("n1"), &json!(true)));
            assert_eq!(json["message_reference"]["message_id"], "77");
        }
        for part in [
            "name=\"payload_json\"\r\nContent-Type: application/json\r\n",
            "name=\"files[0]\"; filename=\"formula.png\"\r\nContent-Type: image/png\r\n\r\nPNG bytes\r\n",
            "name=\"files[1]\"; filename=\"code.py\"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nprint(1)\r\n",
        ] {
            assert!(seen.body.contains(part), "{part}\nis not in\n{}", seen.body);
        }
    }
}

#[tokio::test]
async fn typing_is_an_empty_post() {
    let (outcome, seen) = one(PostRequest::Typing { place: here() }, answer(204, "", "")).await;
    assert_eq!(outcome.unwrap().result, PostResult::Done);
    assert_eq!(seen.line, "POST /api/v10/channels/500/typing");
    assert!(seen.headers.contains("content-length: 0"));
    assert_eq!(seen.body, "");
}

#[tokio::test]
async fn a_reaction_names_its_emoji_in_the_path() {
    for (emoji, written) in [("⏳", "%E2%8F%B3"), ("wait:123", "wait%3A123"), ("../@me?", "%2E%2E%2F%40me%3F")] {
        let request = PostRequest::React { place: here(), message: message("98"), emoji: emoji.to_owned() };
        let (outcome, seen) = one(request, answer(204, "", "")).await;
        assert_eq!(outcome.unwrap().result, PostResult::Done);
        assert_eq!(seen.line, format!("PUT /api/v10/channels/500/messages/98/reactions/{written}/@me"));
    }
}

#[tokio::test]
async fn history_comes_oldest_first_and_skips_what_it_cannot_read() {
    let request = PostRequest::History { place: here(), range: HistoryRange::After(message("98")), limit: 250 };
    let newest_first = json!([message_json(100), {"id": "odd"}, message_json(99)]).to_string();
    let (outcome, seen) = one(request, answer(200, "", &newest_first)).await;
    assert_eq!(seen.line, "GET /api/v10/channels/500/messages?limit=100&after=98");
    let PostResult::Messages(messages) = outcome.unwrap().result else { panic!("no messages") };
    let ids: Vec<&str> = messages.iter().map(|message| message.id.id.as_str()).collect();
    assert_eq!(ids, ["99", "100"]);
    assert_eq!(messages[0].guild, None);
}

#[tokio::test]
async fn one_message_is_fetched_and_our_own_id_is_asked_for_once() {
    let ours =
        json!({"id": "9", "channel_id": "500", "author": {"id": "1", "username": "bot", "bot": true}}).to_string();
    let answers =
        vec![answer(200, "", r#"{"id":"1","username":"bot"}"#), answer(200, "", &ours), answer(200, "", &ours)];
    let (base, mut seen) = serve(answers).await;
    let rest = Rest::new(&access(&base)).unwrap();
    let request = PostRequest::Fetch { place: here(), message: message("9") };
    for _ in 0..2 {
        let PostResult::Messages(messages) = rest.perform(&request).await.unwrap().result else { panic!("no message") };
        assert_eq!(messages[0].author.kind, domain::incoming::AuthorKind::Ourselves);
    }
    let mut lines = Vec::new();
    while let Some(request) = seen.recv().await {
        lines.push(request.line);
    }
    let message = "GET /api/v10/channels/500/messages/9";
    assert_eq!(lines, ["GET /api/v10/users/@me", message, message]);
}

#[tokio::test]
async fn too_many_requests_say_how_long_to_wait() {
    let cases = [
        // The body is more precise than the header.
        ("retry-after: 2\n", r#"{"message":"slow","retry_after":1.337,"global":false}"#, 1337, LimitScope::Route),
        ("retry-after: 65\n", r#"{"message":"slow","retry_after":64.57,"global":true}"#, 64570, LimitScope::Global),
        ("retry-after: 3\nx-ratelimit-global: true\n", r#"{"message":"slow"}"#, 3000, LimitScope::Global),
        // Sent by the proxy in front of Discord.
        ("retry-after: 30\n", "error code: 1015", 30_000, LimitScope::Global),
        ("", r#"{"retry_after":-4,"global":false}"#, 5000, LimitScope::Route),
        ("x-ratelimit-reset-after: 0.5\n", r#"{"global":false}"#, 500, LimitScope::Route),
        ("", r#"{"retry_after":1e300,"global":false}"#, 3_600_000, LimitScope::Route),
        // A limit of all senders together does not count against the bot.
        ("x-ratelimit-scope: shared\n", r#"{"retry_after":1,"global":false}"#, 1000, LimitScope::Shared),
        ("x-ratelimit-scope: user\n", r#"{"retry_after":1,"global":false}"#, 1000, LimitScope::Route),
        ("retry-after: NaN\n", "", 5000, LimitScope::Global),
    ];
    for (headers, body, milliseconds, scope) in cases {
        let (outcome, _) = one(create(None), answer(429, headers, body)).await;
        let retry_after = Duration::from_millis(milliseconds);
        assert_eq!(outcome, Err(PostError::Limited { retry_after, scope }), "{headers}{body}");
    }
}

#[tokio::test]
async fn refusals_hold_discords_words() {
    let cases = [
        (
            403,
            r#"{"message":"Missing Permissions","code":50013}"#,
            Rejection::Forbidden,
            "code 50013: Missing Permissions",
        ),
        (403, r#"{"message":"Missing Access","code":50001}"#, Rejection::Forbidden, "code 50001: Missing Access"),
        (404, r#"{"message":"Unknown Channel","code":10003}"#, Rejection::PlaceGone, "code 10003: Unknown Channel"),
        (404, r#"{"message":"Unknown Message","code":10008}"#, Rejection::MessageGone, "code 10008: Unknown Message"),
        (403, r#"{"message":"403: Forbidden","code":0}"#, Rejection::Unexplained, "403: Forbidden"),
        (401, r#"{"message":"401: Unauthorized","code":0}"#, Rejection::Credentials, "401: Unauthorized"),
        (404, "<html>", Rejection::Unexplained, "not found"),
        (
            400,
            r#"{"message":"Invalid","code":50035,"errors":{"a":1}}"#,
            Rejection::Content,
            r#"code 50035: Invalid: {"a":1}"#,
        ),
        // A filter of the guild; the code for a reply is another.
        (400, r#"{"message":"Blocked","code":200000}"#, Rejection::Content, "code 200000: Blocked"),
        (400, r#"{"message":"No reply","code":160002}"#, Rejection::Reply, "code 160002: No reply"),
        (
            400,
            r#"{"message":"Invalid","code":50035,"errors":{"message_reference":{"_errors":[]}}}"#,
            Rejection::Reply,
            r#"code 50035: Invalid: {"message_reference":{"_errors":[]}}"#,
        ),
        (403, r#"{"message":"Cannot send","code":50007}"#, Rejection::Content, "code 50007: Cannot send"),
        (413, "", Rejection::Content, "payload too large"),
        (302, "", Rejection::Unexplained, "found"),
    ];
    for (status, body, reason, words) in cases {
        let (outcome, _) = one(create(None), answer(status, "location: http://127.0.0.1:1/\n", body)).await;
        let message = format!("status {status}: {words}");
        // Discord counts these two statuses against the bot, and rate limits.
        let counted = matches!(status, 401 | 403);
        assert_eq!(outcome, Err(PostError::Rejected { reason, message, counted }));
    }
    let long = json!({"message": "x".repeat(5000), "code": 1}).to_string();
    let (outcome, _) = one(create(None), answer(400, "", &long)).await;
    assert!(
        matches!(outcome, Err(PostError::Rejected { message, .. }) if message.ends_with("xx") && message.len() < 330)
    );
}

#[tokio::test]
async fn lost_and_broken_answers_may_be_tried_again() {
    let truncated = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\":\"9".to_owned();
    let answers = [
        String::new(),
        truncated,
        answer(500, "", ""),
        answer(502, "", "{}"),
        answer(200, "", "<html>"),
        answer(200, "", "{}"),
    ];
    for reply in answers {
        let (outcome, _) = one(create(None), reply.clone()).await;
        assert!(matches!(outcome, Err(PostError::Unsure(_))), "{reply:?} gave {outcome:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut() {
    let large = format!("{{\"id\":\"{}\"}}", "9".repeat(9 * 1024 * 1024));
    let (outcome, _) = one(create(None), answer(200, "", &large)).await;
    assert_eq!(outcome, Err(PostError::Unsure("the answer of discord is too large".to_owned())));
}

#[tokio::test]
async fn ids_of_other_shapes_and_doors_never_reach_a_path() {
    let rest = Rest::new(&access("http://127.0.0.1:1")).unwrap();
    for place in [Place::new(DOOR, "../users/@me"), Place::new(DOOR, "0"), Place::new(Door::new("slack"), "5")] {
        let outcome = rest.perform(&PostRequest::Typing { place }).await;
        assert!(matches!(outcome, Err(PostError::Rejected { reason: Rejection::Content, .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn nothing_that_is_printed_holds_the_token() {
    let rest = Rest::new(&access("http://127.0.0.1:1")).unwrap();
    let error = rest.perform(&create(None)).await.unwrap_err();
    let refused = rest.gateway().await.unwrap_err();
    let printed = format!("{rest:?} {error:?} {error} {refused:?} {:?}", access("http://127.0.0.1:1"));
    assert!(!printed.contains("secret-of-the-test"), "{printed}");
    assert!(matches!(error, PostError::Transient(_)));
    let mut spoiled = access("http://127.0.0.1:1");
    spoiled.token = format!("{TOKEN}\n{TOKEN}").into();
    assert_eq!(Rest::new(&spoiled).unwrap_err(), BadAccess::Token);
    spoiled.token = "Bot ".into();
    assert_eq!(Rest::new(&spoiled).unwrap_err(), BadAccess::Token);
}

#[test]
fn the_word_before_the_token_is_optional() {
    let mut access = access("http://127.0.0.1:1");
    access.token = format!(" Bot {TOKEN}\n").into();
    assert_eq!(bare_token(&access), TOKEN);
}

#[tokio::test]
async fn a_refusal_without_end_counts_for_its_status() {
    let endless = json!({"code": 50_013, "message": "x".repeat(200 * 1024)}).to_string();
    let (outcome, _) = one(create(None), answer(403, "", &endless)).await;
    assert!(matches!(outcome, Err(PostError::Rejected { reason: Rejection::Unexplained, .. })), "{outcome:?}");
}
