//! Messages, members, roles, errors and budgets over HTTP.

use std::time::Duration;

use playground::{
    limits::Budgets,
    service::{Options, Service},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Rest, channel, member, options, start};

fn code(body: &Value) -> u64 {
    body["code"].as_u64().unwrap()
}

#[tokio::test]
async fn the_service_introduces_itself() {
    let service = Service::start(Options { shards: 3, max_concurrency: 2, ..options() }).await.unwrap();
    let rest = Rest::of(&service);
    let (status, _, gateway) = rest.get("/gateway/bot").await;
    assert_eq!(status, 200);
    assert_eq!(gateway["shards"], 3);
    assert_eq!(gateway["session_start_limit"]["max_concurrency"], 2);
    assert_eq!(gateway["session_start_limit"]["remaining"], 1_000);
    assert!(gateway["url"].as_str().unwrap().starts_with("ws://127.0.0.1:"));
    assert_eq!(rest.get("/users/@me").await.2["id"], service.bot().to_string());
    let (.., application) = rest.get("/oauth2/applications/@me").await;
    assert_eq!(application["id"], service.bot().to_string());
    assert_eq!(application["owner"]["username"], "chloe");
    let guild = service.guilds()[0].id;
    assert_eq!(rest.get(&format!("/guilds/{guild}")).await.2["name"], "Harbour");
    for (list, length) in [("channels", 3), ("roles", 4), ("members?limit=1000", 4), ("members", 1)] {
        let (.., body) = rest.get(&format!("/guilds/{guild}/{list}")).await;
        assert_eq!(body.as_array().unwrap().len(), length, "{list}");
    }
}

#[tokio::test]
async fn refusals_have_discords_status_and_code() {
    let budgets = Budgets { writes: (100, Duration::from_secs(5)), ..Budgets::default() };
    let service = Service::start(Options { budgets, ..options() }).await.unwrap();
    let rest = Rest::of(&service);
    let guild = service.guilds()[0].id;
    let general = channel(&service, "general");
    let ada = service.says(member(&service, "Ada"), general, "mine", None);
    let own = format!("/channels/{general}/messages");
    let cases = [
        (Method::GET, "/nowhere".to_owned(), None, 404, 0),
        (Method::PUT, "/users/@me".to_owned(), None, 405, 0),
        (Method::GET, "/channels/5/messages".to_owned(), None, 404, 10_003),
        (Method::GET, format!("{own}/5"), None, 404, 10_008),
        (Method::GET, format!("{own}?limit=101"), None, 400, 50_035),
        (Method::GET, format!("/guilds/{guild}/members/5"), None, 404, 10_007),
        (Method::PATCH, format!("{own}/{ada}"), Some(json!({"content": "x"})), 403, 50_005),
        (Method::POST, own.clone(), Some(json!({"content": "  "})), 400, 50_006),
        (Method::POST, own.clone(), Some(json!([])), 400, 50_109),
        (Method::POST, own.clone(), Some(json!({"content": "é".repeat(2_001)})), 400, 50_035),
        (Method::POST, own.clone(), Some(json!({"content": "x", "nonce": "n".repeat(26)})), 400, 50_035),
        (
            Method::POST,
            own.clone(),
            Some(json!({"content": "x", "message_reference": {"message_id": "5"}})),
            400,
            50_035,
        ),
    ];
    for (method, path, body, status, number) in cases {
        let (found, _, answer) = rest.send(method, &path, body).await.unwrap();
        assert_eq!((found, code(&answer)), (status, number), "{path}: {answer}");
        assert!(answer["message"].is_string());
    }
    let stranger = rest.with_token("stranger");
    assert_eq!(stranger.get("/users/@me").await.0, 401);
    let stats = service.stats();
    assert_eq!(stats.invalid_requests, 2);
    assert_eq!((stats.by_status[&400], stats.by_status[&401]), (6, 1));
}

#[tokio::test]
async fn two_thousand_characters_of_any_script_are_accepted() {
    let service = start().await;
    let general = channel(&service, "general");
    let (status, _, body) = Rest::of(&service).write(general, json!({"content": "é".repeat(2_000)})).await;
    assert_eq!(status, 200);
    assert_eq!(body["content"].as_str().unwrap().chars().count(), 2_000);
}

#[tokio::test]
async fn the_same_nonce_makes_one_message() {
    let service = start().await;
    let (general, help) = (channel(&service, "general"), channel(&service, "help"));
    let rest = Rest::of(&service);
    let body = json!({"content": "once", "nonce": "t1", "enforce_nonce": true});
    let (.., first) = rest.write(general, body.clone()).await;
    let (status, _, second) = rest.write(general, body.clone()).await;
    assert_eq!((status, &second["id"]), (200, &first["id"]));
    let (.., elsewhere) = rest.write(help, body).await;
    assert_ne!(elsewhere["id"], first["id"]);
    let (.., loose) = rest.write(general, json!({"content": "once", "nonce": "t1"})).await;
    assert_ne!(loose["id"], first["id"], "not enforced");
    assert_eq!(service.messages(general).len(), 2);
    assert_eq!(service.stats().duplicate_nonces, 1);
}

#[tokio::test]
async fn allowed_mentions_decide_who_is_notified() {
    let service = start().await;
    let general = channel(&service, "general");
    let (ada, ben) = (member(&service, "Ada"), member(&service, "Ben"));
    let moderator = service.guilds()[0].roles.iter().find(|role| role.name == "moderator").unwrap().id;
    let question = service.says(ada, general, "?", None);
    let rest = Rest::of(&service);
    let text = format!("<@{ben}> <@&{moderator}> @everyone");
    let reply = json!({"message_id": question.to_string()});
    let mut notified = Vec::new();
    for allowed in [
        Value::Null,
        json!({"parse": []}),
        json!({"parse": [], "replied_user": true}),
        json!({"parse": ["roles"], "users": [ben.to_string()]}),
    ] {
        let mut body = json!({"content": text, "message_reference": reply});
        if !allowed.is_null() {
            body["allowed_mentions"] = allowed.clone();
        }
        let (status, _, answer) = rest.write(general, body).await;
        assert_eq!(status, 200, "{answer}");
        let message = service.messages(general).pop().unwrap();
        assert_eq!(message.allowed_mentions, (!allowed.is_null()).then_some(allowed));
        notified.push((message.mentions, message.mention_roles, message.mention_everyone));
    }
    let all = (vec![ada, ben], vec![moderator], true);
    let none = (vec![], vec![], false);
    assert_eq!(notified, [all, none, (vec![ada], vec![], false), (vec![ben], vec![moderator], false)]);
    let both = json!({"content": "x", "allowed_mentions": {"parse": ["users"], "users": [ben.to_string()]}});
    assert_eq!(code(&rest.write(general, both).await.2), 50_035);
}

#[tokio::test]
async fn history_is_read_in_pages_newest_first() {
    let service = start().await;
    let (random, ada) = (channel(&service, "random"), member(&service, "Ada"));
    let ids: Vec<String> = (0..250).map(|n| service.says(ada, random, &n.to_string(), None).to_string()).collect();
    let rest = Rest::of(&service);
    let page = async |query: &str| -> Vec<String> {
        let (.., body) = rest.get(&format!("/channels/{random}/messages?{query}")).await;
        body.as_array().unwrap().iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first = |range: std::ops::Range<usize>| -> Vec<String> { ids[range].iter().rev().cloned().collect() };
    assert_eq!(page("").await, newest_first(200..250));
    assert_eq!(page("limit=100").await, newest_first(150..250));
    assert_eq!(page(&format!("limit=100&before={}", ids[150])).await, newest_first(50..150));
    assert_eq!(page(&format!("limit=10&after={}", ids[100])).await, newest_first(101..111));
    assert_eq!(page(&format!("limit=5&around={}", ids[100])).await, newest_first(98..103));
}

#[tokio::test]
async fn a_message_can_be_edited_deleted_and_sent_with_files() {
    let service = start().await;
    let general = channel(&service, "general");
    let rest = Rest::of(&service);
    let payload = json!({"content": "see", "embeds": [{"title": "t"}]}).to_string();
    let parts = [
        ("name=\"payload_json\"\r\nContent-Type: application/json", payload.as_str()),
        ("name=\"files[0]\"; filename=\"sum.png\"\r\nContent-Type: image/png", "12345"),
    ];
    let part =
        |(head, body): &(&str, &str)| format!("--xx\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n");
    let mut form = parts.iter().map(part).collect::<Vec<_>>().concat();
    form.push_str("--xx--\r\n");
    let path = format!("/channels/{general}/messages");
    let request =
        rest.request(Method::POST, &path).header("content-type", "multipart/form-data; boundary=xx").body(form);
    let sent: Value = serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(sent["attachments"][0]["filename"], "sum.png");
    assert_eq!((&sent["attachments"][0]["size"], &sent["embeds"][0]["title"]), (&json!(5), &json!("t")));

    let path = format!("{path}/{}", sent["id"].as_str().unwrap());
    let (status, _, edited) = rest.send(Method::PATCH, &path, Some(json!({"content": "seen"}))).await.unwrap();
    assert_eq!((status, &edited["content"], &edited["embeds"][0]["title"]), (200, &json!("seen"), &json!("t")));
    assert_eq!(rest.get(&path).await.2["edited_timestamp"], edited["edited_timestamp"]);
    assert_eq!(rest.send(Method::DELETE, &path, None).await.unwrap().0, 204);
    assert_eq!(rest.get(&path).await.0, 404);
}

#[tokio::test]
async fn typing_lasts_until_the_message() {
    let service = start().await;
    let general = channel(&service, "general");
    let rest = Rest::of(&service);
    assert!(!service.typing(general));
    let (status, ..) = rest.send(Method::POST, &format!("/channels/{general}/typing"), None).await.unwrap();
    assert_eq!((status, service.typing(general)), (204, true));
    rest.write(general, json!({"content": "done"})).await;
    assert!(!service.typing(general));
}

#[tokio::test]
async fn roles_are_given_below_ones_own_and_with_a_reason() {
    let service = start().await;
    let guild = &service.guilds()[0];
    let role = |name: &str| guild.roles.iter().find(|role| role.name == name).unwrap().id;
    let ada = member(&service, "Ada");
    let rest = Rest::of(&service);
    let path = |role| format!("/guilds/{}/members/{ada}/roles/{role}", guild.id);
    let request =
        rest.request(Method::PUT, &path(role("restricted"))).header("x-audit-log-reason", "too%20many%20messages");
    assert_eq!(request.send().await.unwrap().status(), 204);
    assert!(service.members().iter().any(|member| member.id == ada && member.roles == [role("restricted")]));
    assert_eq!(service.role_changes()[0].reason.as_deref(), Some("too many messages"));
    assert_eq!(rest.send(Method::DELETE, &path(role("restricted")), None).await.unwrap().0, 204);
    assert_eq!(service.role_changes().len(), 2);
    let (status, _, body) = rest.send(Method::PUT, &path(role("staffai")), None).await.unwrap();
    assert_eq!((status, code(&body)), (403, 50_013));
}

#[tokio::test]
async fn a_channel_takes_five_writes_in_its_window_and_edits_share_it() {
    let service = start().await;
    let (general, help) = (channel(&service, "general"), channel(&service, "help"));
    let rest = Rest::of(&service);
    let mut last = Value::Null;
    for left in (1..5).rev() {
        let (status, headers, body) = rest.write(general, json!({"content": "x"})).await;
        assert_eq!(status, 200);
        assert_eq!(
            (headers["x-ratelimit-limit"].as_bytes(), headers["x-ratelimit-remaining"].to_str().unwrap()),
            (&b"5"[..], &*left.to_string())
        );
        last = body;
    }
    let edit = format!("/channels/{general}/messages/{}", last["id"].as_str().unwrap());
    let (status, headers, _) = rest.send(Method::PATCH, &edit, Some(json!({"content": "y"}))).await.unwrap();
    assert_eq!((status, headers["x-ratelimit-remaining"].to_str().unwrap()), (200, "0"));
    let (status, headers, body) = rest.write(general, json!({"content": "x"})).await;
    assert_eq!((status, headers["x-ratelimit-scope"].to_str().unwrap()), (429, "user"));
    let wait = body["retry_after"].as_f64().unwrap();
    assert!(wait > 0.0 && wait <= 5.0 && body["global"] == false, "{body}");
    assert_eq!(rest.write(help, json!({"content": "x"})).await.0, 200, "another channel has its own bucket");
    assert_eq!(service.stats().by_status[&429], 1);
}

#[tokio::test]
async fn waiting_as_told_is_enough() {
    let budgets = Budgets { writes: (1, Duration::from_millis(80)), ..Budgets::default() };
    let service = Service::start(Options { budgets, ..options() }).await.unwrap();
    let (general, rest) = (channel(&service, "general"), Rest::of(&service));
    for _ in 0..10 {
        while let (429, _, body) = rest.write(general, json!({"content": "x"})).await {
            tokio::time::sleep(Duration::from_secs_f64(body["retry_after"].as_f64().unwrap())).await;
        }
    }
    assert_eq!(service.messages(general).len(), 10);
    assert!(service.stats().by_status[&429] <= 10, "one refusal for each wait at most");
}

#[tokio::test]
async fn the_global_budget_says_that_it_is_global() {
    let budgets = Budgets { global: (3, Duration::from_secs(60)), ..Budgets::default() };
    let service = Service::start(Options { budgets, ..options() }).await.unwrap();
    let rest = Rest::of(&service);
    for _ in 0..3 {
        assert_eq!(rest.get("/users/@me").await.0, 200);
    }
    let (status, headers, body) = rest.get("/users/@me").await;
    assert_eq!((status, &body["global"]), (429, &json!(true)));
    assert_eq!(headers["x-ratelimit-global"], "true");
    assert_eq!(headers["x-ratelimit-scope"], "global");
    assert_eq!(service.stats().busiest_second, 4);
}
