//! Threads, files, roles, commands and buttons, with the page's requests.

use super::*;

/// The smallest picture: a signature is sufficient.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\nand so on";

fn coded(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

impl Place {
    /// Sends a request as the bot.
    async fn bot(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.request(method, format!("{}/api/v10{path}", self.service.api_url()));
        let request = request.header("authorization", format!("Bot {}", self.service.token()));
        let response = request.json(body).send().await.expect("an answer");
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }
}

#[tokio::test]
async fn files_keep_their_bytes_and_only_pictures_are_shown() {
    let place = Place::open().await;
    let (ada, general) = (place.member("Ada"), place.channel("general"));
    let files = json!([
        {"name": "boat.png", "kind": "image/png", "data": coded(PICTURE)},
        {"name": "évil page.html", "kind": "image/png", "data": coded(b"<script>1</script>")},
    ]);
    let (status, answer) = place.say(&json!({"member": ada, "channel": general, "text": "", "files": files})).await;
    assert_eq!(status, 201, "{answer}");
    let message = &place.service.messages(place.service.channels()[0].id)[0];
    let seen: Vec<_> = message.attachments.iter().map(|file| (file.filename.as_str(), file.size)).collect();
    assert_eq!(seen, [("boat.png", PICTURE.len()), ("évil page.html", 18)]);

    let expected =
        [("image/png", "inline", PICTURE), ("application/octet-stream", "attachment", &b"<script>1</script>"[..])];
    let (_, told) = place.bot(Method::GET, &format!("/channels/{general}/messages/{}", message.id), &Value::Null).await;
    for (n, (kind, shown, bytes)) in expected.into_iter().enumerate() {
        let own = place.url(&format!("/playground/files/{}/x", message.attachments[n].id));
        let for_bots = told["attachments"][n]["url"].as_str().expect("an address").to_owned();
        assert!(for_bots.starts_with(&place.service.api_url()), "{for_bots}");
        for url in [own, for_bots] {
            let response = place.client.get(&url).send().await.expect("an answer");
            assert_eq!(
                (response.status().as_u16(), &response.headers()["content-type"]),
                (200, &kind.parse().expect("a value")),
                "{url}"
            );
            assert_eq!(response.headers()["content-disposition"], shown);
            assert_eq!(response.headers()["x-content-type-options"], "nosniff");
            assert_eq!(response.bytes().await.expect("bytes"), bytes);
        }
    }
    let (status, _) = place
        .say(&json!({"member": ada, "channel": general, "text": "x",
        "files": [{"name": "x", "kind": "", "data": coded(&vec![0; (8 << 20) + 1])}]}))
        .await;
    assert_eq!(status, 413);
    let five: Vec<Value> = (0..5).map(|_| json!({"name": "x", "kind": "", "data": ""})).collect();
    for files in [json!(five), json!([{"name": "x", "kind": "", "data": "not base64"}])] {
        let (status, _) = place.say(&json!({"member": ada, "channel": general, "text": "x", "files": files})).await;
        assert_eq!(status, 400);
    }
    let response = place.client.get(place.url("/playground/files/5/x")).send().await.expect("an answer");
    assert_eq!(response.status(), 404);
}

#[tokio::test]
async fn what_the_bot_attaches_can_be_seen_on_the_page() {
    let place = Place::open().await;
    let general = place.channel("general");
    let body = [
        b"--b\r\ncontent-disposition: form-data; name=\"payload_json\"\r\n\r\n{\"content\":\"\"}\r\n".as_slice(),
        b"--b\r\ncontent-disposition: form-data; name=\"files[0]\"; filename=\"map.gif\"\r\ncontent-type: image/gif\r\n\r\n",
        b"GIF89a, more or less\r\n--b--\r\n",
    ];
    let url = format!("{}/api/v10/channels/{general}/messages", place.service.api_url());
    let request = place.client.post(url).header("authorization", format!("Bot {}", place.service.token()));
    let request = request.header("content-type", "multipart/form-data; boundary=b").body(body.concat());
    let sent: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    let shown = &place.state().await["messages"][&general][0]["attachments"][0];
    assert_eq!((shown["filename"].as_str(), &shown["id"]), (Some("map.gif"), &sent["attachments"][0]["id"]));
    let url = place.url(&format!("/playground/files/{}/map.gif", shown["id"].as_str().expect("an id")));
    let response = place.client.get(url).send().await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "image/gif");
    assert_eq!(response.bytes().await.expect("bytes"), b"GIF89a, more or less".as_slice());
}

#[tokio::test]
async fn threads_begin_with_a_message_and_have_its_number() {
    let place = Place::open().await;
    let (ada, ben, general) = (place.member("Ada"), place.member("Ben"), place.channel("general"));
    let (_, said) = place.say(&json!({"member": ada, "channel": general, "text": "shall we sail?"})).await;
    let opening = json!({"member": ben, "channel": general, "name": "Sailing", "message": said["id"]});
    let (status, thread) = place.send(Method::POST, "/playground/threads", &opening).await;
    assert_eq!((status, &thread["id"], &thread["parent"]), (201, &said["id"], &json!(general)), "{thread}");
    let (_, again) = place.send(Method::POST, "/playground/threads", &opening).await;
    assert_eq!(again, thread, "a message has one thread");
    let (status, _) = place.say(&json!({"member": ada, "channel": thread["id"], "text": "aye"})).await;
    assert_eq!(status, 201);

    let id = thread["id"].as_str().expect("an id").to_owned();
    let (_, told) = place.bot(Method::GET, &format!("/channels/{id}"), &Value::Null).await;
    assert_eq!((&told["type"], &told["parent_id"], &told["message_count"]), (&json!(11), &json!(general), &json!(1)));
    let guild = place.service.guilds()[0].id;
    let (_, active) = place.bot(Method::GET, &format!("/guilds/{guild}/threads/active"), &Value::Null).await;
    assert_eq!(active["threads"][0]["id"], *id);
    let (_, channels) = place.bot(Method::GET, &format!("/guilds/{guild}/channels"), &Value::Null).await;
    assert_eq!(channels.as_array().map(Vec::len), Some(3), "a thread is no channel");
    let (status, own) =
        place.bot(Method::POST, &format!("/channels/{general}/threads"), &json!({"name": "mine"})).await;
    assert_eq!((status, &own["owner_id"]), (200, &json!(place.member("staffai"))));

    for (body, expected) in [
        (json!({"member": ben, "channel": id, "name": "deeper"}), 403),
        (json!({"member": ben, "channel": general, "name": " "}), 400),
        (json!({"member": ben, "channel": general, "name": "x", "message": "5"}), 404),
    ] {
        assert_eq!(place.send(Method::POST, "/playground/threads", &body).await.0, expected);
    }
}

#[tokio::test]
async fn only_a_moderator_gives_and_takes_roles() {
    let place = Place::open().await;
    let guild = place.service.guilds().remove(0);
    let role = |name: &str| guild.roles.iter().find(|role| role.name == name).expect("a role").id.to_string();
    let (ada, ben, chloe) = (place.member("Ada"), place.member("Ben"), place.member("Chloe"));
    let ask = async |member: &str, role: String, held: bool| {
        let body = json!({"member": member, "user": ben, "role": role, "held": held});
        place.send(Method::POST, "/playground/roles", &body).await.0
    };
    assert_eq!(ask(&ada, role("restricted"), true).await, 403);
    assert_eq!(ask(&chloe, role("staffai"), true).await, 403, "a bot's role");
    assert_eq!(ask(&chloe, role("@everyone"), true).await, 403);
    assert_eq!(ask(&chloe, role("restricted"), true).await, 204);
    let roles = || place.service.members().into_iter().find(|member| member.name == "Ben").expect("Ben").roles;
    assert_eq!(roles().len(), 1);
    assert_eq!(ask(&chloe, role("restricted"), false).await, 204);
    assert_eq!(roles(), []);
    assert_eq!(place.service.role_changes().len(), 2);
}

#[tokio::test]
async fn commands_and_buttons_reach_the_bot_with_their_values() {
    let place = Place::open().await;
    let (ada, general) = (place.member("Ada"), place.channel("general"));
    let options = json!([{"name": "who", "type": 6, "required": true}, {"name": "times", "type": 4}]);
    let commands =
        json!([{"name": "greet", "description": "says hello", "options": options}, {"name": "menu", "type": 3}]);
    let bot = place.member("staffai");
    place.bot(Method::PUT, &format!("/applications/{bot}/commands"), &commands).await;
    let known: Value = place
        .client
        .get(place.url("/playground/commands"))
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    assert_eq!(known.as_array().map(Vec::len), Some(1), "what is in menus is not typed");

    let run = async |name: &str, options: Value| {
        let body = json!({"member": ada, "channel": general, "name": name, "options": options});
        place.send(Method::POST, "/playground/commands", &body).await
    };
    for (name, options, expected) in [
        ("none", json!({}), 404),
        ("greet", json!({}), 400),
        ("greet", json!({"who": "<@7>", "times": "often"}), 400),
        ("greet", json!({"who": "<@7>", "colour": "red"}), 400),
    ] {
        assert_eq!(run(name, options).await.0, expected, "{name}");
    }
    let (status, begun) = run("greet", json!({"who": format!("<@{ada}>"), "times": "2"})).await;
    assert_eq!(status, 201, "{begun}");
    let path = format!("/playground/interactions/{}", begun["id"].as_str().expect("an id"));
    let state: Value = place.client.get(place.url(&path)).send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(state["answered"], false);

    let row = json!([{"type": 1, "components": [
        {"type": 2, "style": 1, "label": "Aye", "custom_id": "aye"},
        {"type": 2, "style": 2, "label": "Nay", "custom_id": "nay", "disabled": true},
    ]}]);
    let path = format!("/channels/{general}/messages");
    let (_, asked) = place.bot(Method::POST, &path, &json!({"content": "sail?", "components": row})).await;
    for (button, expected) in [("aye", 201), ("nay", 403), ("perhaps", 404)] {
        let body = json!({"member": ada, "channel": general, "message": asked["id"], "custom_id": button});
        assert_eq!(place.send(Method::POST, "/playground/presses", &body).await.0, expected, "{button}");
    }
}

#[tokio::test]
async fn reactions_of_the_bot_and_of_members_stand_below_a_message() {
    let place = Place::open().await;
    let (ada, ben, general) = (place.member("Ada"), place.member("Ben"), place.channel("general"));
    let (_, said) = place.say(&json!({"member": ada, "channel": general, "text": "hello"})).await;
    let message = said["id"].as_str().unwrap().to_owned();
    let path = format!("/channels/{general}/messages/{message}/reactions/%E2%8F%B3/@me");
    assert_eq!(place.bot(Method::PUT, &path, &Value::Null).await.0, 204);
    let react = |member: &str, emoji: &str, held: bool| json!({"member": member, "channel": general, "message": message, "emoji": emoji, "held": held});
    for (body, status) in [
        (react(&ben, "⏳", true), 204),
        (react(&ada, "👍", true), 204),
        (react(&ada, "👍", true), 204),
        (react(&ben, "👍", true), 204),
        (react(&ada, "👍", false), 204),
        (react(&ada, "", true), 400),
        (react(&ada, &"x".repeat(17), true), 400),
    ] {
        assert_eq!(place.send(Method::POST, "/playground/reactions", &body).await.0, status, "{body}");
    }
    let shown = async || place.state().await["messages"][&general][0]["reactions"].clone();
    let bot = place.service.bot().to_string();
    assert_eq!(shown().await, json!([{"emoji": "⏳", "by": [bot, ben]}, {"emoji": "👍", "by": [ben]}]));
    assert_eq!(place.bot(Method::DELETE, &path, &Value::Null).await.0, 204);
    assert_eq!(shown().await[0], json!({"emoji": "⏳", "by": [ben]}));
}

#[tokio::test]
async fn a_member_whom_a_moderator_added_is_there_after_a_restart() {
    let place = Place::open().await;
    let (ada, chloe) = (place.member("Ada"), place.member("Chloe"));
    let guild = place.service.guilds().remove(0);
    let role = |name: &str| guild.roles.iter().find(|role| role.name == name).unwrap().id.to_string();
    for (member, name, roles, status) in [
        (&ada, "Dana", vec![], 403),
        (&chloe, "", vec![], 400),
        (&chloe, "ada", vec![], 400),
        (&chloe, "Dana", vec![role("staffai")], 403),
        (&chloe, "Dana", vec![role("restricted")], 201),
        (&chloe, "Dana", vec![], 400),
    ] {
        let body = json!({"member": member, "name": name, "roles": roles});
        assert_eq!(place.send(Method::POST, "/playground/members", &body).await.0, status, "{body}");
    }
    let dana = place.member("Dana");
    let (status, _) = place.say(&json!({"member": dana, "channel": place.channel("general"), "text": "hello"})).await;
    assert_eq!(status, 201);
    let mut options = Options::new(Arc::new(|| 1_760_000_000_000));
    options.kept = Some(place.service.kept());
    let again = Service::start(options).await.expect("a loopback port");
    let known = again.members().into_iter().find(|member| member.name == "Dana").expect("she is there");
    assert_eq!((known.id.to_string(), known.roles.len()), (dana, 1));
}

#[tokio::test]
async fn a_conversation_with_the_bot_alone_is_of_one_member() {
    let place = Place::open().await;
    let (ada, ben) = (place.member("Ada"), place.member("Ben"));
    let (status, channel) = place.send(Method::POST, "/playground/direct", &json!({"member": ada})).await;
    assert_eq!((status, &channel["kind"]), (201, &json!("direct")));
    let again = place.send(Method::POST, "/playground/direct", &json!({"member": ada})).await;
    assert_eq!(again.1["id"], channel["id"]);
    for (member, status) in [(ada, 201), (ben, 403)] {
        let body = json!({"member": member, "channel": channel["id"], "text": "between us"});
        assert_eq!(place.say(&body).await.0, status);
    }
}
