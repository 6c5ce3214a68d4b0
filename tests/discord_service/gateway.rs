//! Identify, heartbeat, resume, close codes, routing to shards, and the events of each intent.

use std::time::Duration;

use playground::{
    guild::seed::Seed,
    service::{Options, Service},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{DEADLINE, Gateway, INTENTS, Rest, channel, member, options, start};

#[tokio::test]
async fn a_session_begins_with_hello_ready_and_the_guild() {
    let service = start().await;
    let (url, more) = (service.api_url().replace("http", "ws") + "/gateway", "&compress=zlib-stream");
    for more in ["", more] {
        let mut gateway = Gateway::connect_to(&url, more).await;
        assert_eq!(gateway.op(10).await["d"]["heartbeat_interval"], 41_250);
        gateway.send(json!({"op": 1, "d": null})).await;
        assert_eq!(gateway.next().await.unwrap()["op"], 11);
        gateway.identify(service.token(), INTENTS).await;
        let ready = gateway.event("READY").await;
        let guild = gateway.event("GUILD_CREATE").await;
        assert_eq!(gateway.seq, 2);
        assert_eq!(ready["guilds"], json!([{"id": guild["id"], "unavailable": true}]));
        assert_eq!(guild["member_count"], 4);
        assert_eq!(guild["channels"].as_array().unwrap().len(), 3);
        timeout(DEADLINE, service.connected(0)).await.unwrap();
        gateway.close(1000).await;
        timeout(DEADLINE, service.disconnected(0)).await.unwrap();
    }
    assert_eq!(service.stats().identifies, 2);
    assert_eq!(service.stats().client_closes[&1000], 2);
}

#[tokio::test]
async fn what_happened_while_away_is_replayed_once_and_in_order() {
    let service = start().await;
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let (mut gateway, ready) = Gateway::login(&service).await;
    let heard = service.says(ada, general, "heard", None);
    assert_eq!(gateway.event("MESSAGE_CREATE").await["id"], heard.to_string());
    let seq = gateway.seq;
    service.faults().cut_gateways();
    assert_eq!(gateway.end().await, None);
    timeout(DEADLINE, service.disconnected(0)).await.unwrap();
    let missed: Vec<String> =
        (0..50).map(|n| service.says(ada, general, &format!("missed {n}"), None).to_string()).collect();

    let mut gateway = Gateway::connect_to(ready["resume_gateway_url"].as_str().unwrap(), "").await;
    gateway.resume(&service, &ready["session_id"], seq).await;
    gateway.op(10).await;
    let mut replayed = Vec::new();
    loop {
        let payload = gateway.next().await.unwrap();
        assert_eq!(payload["s"], seq + 1 + replayed.len() as u64);
        if payload["t"] == "RESUMED" {
            break;
        }
        replayed.push(payload["d"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(replayed, missed);
    let stats = service.stats();
    assert_eq!((stats.identifies, stats.resumes, stats.resumes_at_resume_url, stats.replayed), (1, 1, 1, 50));
}

#[tokio::test]
async fn sessions_that_cannot_be_resumed_are_refused_in_discords_ways() {
    let service = Service::start(Options { replay: 8, ..options() }).await.unwrap();
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));

    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &json!("never was"), 1).await;
    assert_eq!(gateway.op(9).await["d"], false);

    let (gateway, ready) = Gateway::login(&service).await;
    drop(gateway);
    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &ready["session_id"], 1_000).await;
    assert_eq!(gateway.end().await, Some(4007));

    let (gateway, ready) = Gateway::login(&service).await;
    gateway.close(1000).await;
    timeout(DEADLINE, service.disconnected(0)).await.unwrap();
    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &ready["session_id"], 1).await;
    assert_eq!(gateway.op(9).await["d"], false, "a close with 1000 ends the session");

    let (gateway, ready) = Gateway::login(&service).await;
    gateway.close(4000).await;
    timeout(DEADLINE, service.disconnected(0)).await.unwrap();
    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &ready["session_id"], 2).await;
    gateway.event("RESUMED").await;
    let seq = gateway.seq;
    drop(gateway);
    timeout(DEADLINE, service.disconnected(0)).await.unwrap();
    for n in 0..9 {
        service.says(ada, general, &n.to_string(), None);
    }
    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &ready["session_id"], seq).await;
    assert_eq!(gateway.op(9).await["d"], false, "nine events do not fit into a replay of eight");
}

#[tokio::test]
async fn misbehaviour_is_closed_with_the_proper_code() {
    let service = Service::start(Options { privileged: 1 << 15, ..options() }).await.unwrap();
    let token = service.token();
    let identify = |token: &str, intents: u64, shard: Value| {
        json!({"op": 2, "d": {"token": token, "intents": intents, "shard": shard, "properties": {}}}).to_string()
    };
    let ok = identify(token, INTENTS & !2, json!([0, 1]));
    let long = json!({"op": 3, "d": {"status": "x".repeat(5_000)}}).to_string();
    let cases = [
        (vec![identify("wrong", 1, json!([0, 1]))], 4004),
        (vec![identify(token, 1, json!([2, 2]))], 4010),
        (vec![identify(token, 1 << 40, json!([0, 1]))], 4013),
        (vec![identify(token, 1 << 1, json!([0, 1]))], 4014),
        (vec!["no json".to_owned()], 4002),
        (vec![ok.clone(), long], 4002),
        (vec![json!({"op": 3, "d": {}}).to_string()], 4003),
        (vec![ok.clone(), ok.clone()], 4005),
        (vec![ok.clone(), json!({"op": 77, "d": {}}).to_string()], 4001),
        (vec![json!({"op": 1, "d": null}).to_string(); 121], 4008),
        ([vec![ok.clone()], vec![json!({"op": 3, "d": {}}).to_string(); 6]].concat(), 4008),
    ];
    for (payloads, code) in cases {
        let mut gateway = Gateway::connect(&service).await;
        for payload in &payloads {
            gateway.send_text(payload.clone()).await;
        }
        assert_eq!(gateway.end().await, Some(code), "after {}", payloads[0]);
    }
    service.faults().require_shards(2);
    let mut gateway = Gateway::connect(&service).await;
    gateway.send_text(ok).await;
    assert_eq!(gateway.end().await, Some(4011));
}

#[tokio::test]
async fn identifies_of_one_kind_keep_their_distance() {
    let period = Duration::from_secs(600);
    let service = Service::start(Options { max_concurrency: 2, identify_period: period, ..options() }).await.unwrap();
    let shard = async |shard: u32| {
        let mut gateway = Gateway::connect(&service).await;
        let data = json!({"token": service.token(), "intents": 1, "shard": [shard, 4], "properties": {}});
        gateway.send(json!({"op": 2, "d": data})).await;
        gateway.op(10).await;
        gateway.next().await.unwrap()
    };
    assert_eq!(shard(0).await["t"], "READY");
    assert_eq!(shard(1).await["t"], "READY");
    assert_eq!(shard(2).await["op"], 9, "2 and 0 are of one kind");
    assert_eq!(service.stats().identifies_refused, 1);
}

#[tokio::test]
async fn a_client_without_heartbeats_is_closed() {
    let service = Service::start(Options { heartbeat: Duration::from_millis(50), ..options() }).await.unwrap();
    let (mut gateway, _) = Gateway::login(&service).await;
    assert_eq!(gateway.end().await, Some(4009));
}

#[tokio::test]
async fn every_guild_speaks_to_its_own_shard() {
    let service = Service::start(Options { seed: Seed::many(8, 1), ..options() }).await.unwrap();
    let ada = member(&service, "Ada");
    let mut shards = Vec::new();
    for shard in 0..4_u64 {
        let mut gateway = Gateway::connect(&service).await;
        let data = json!({"token": service.token(), "intents": INTENTS, "shard": [shard, 4], "properties": {}});
        gateway.send(json!({"op": 2, "d": data})).await;
        let ready = gateway.event("READY").await;
        assert_eq!(ready["guilds"].as_array().unwrap().len(), 2);
        shards.push(gateway);
    }
    for channel in service.channels() {
        let home = usize::try_from((channel.guild.unwrap().0 >> 22) % 4).unwrap();
        let id = service.says(ada, channel.id, "hello", None);
        assert_eq!(shards[home].event("MESSAGE_CREATE").await["id"], id.to_string());
    }
}

#[tokio::test]
async fn without_the_content_intent_only_mentions_and_direct_messages_are_readable() {
    let service = start().await;
    let (general, ada, bot) = (channel(&service, "general"), member(&service, "Ada"), service.bot());
    let mut gateway = Gateway::connect(&service).await;
    gateway.identify(service.token(), INTENTS & !(1 << 15)).await;
    gateway.event("GUILD_CREATE").await;
    let direct = service.direct(ada).unwrap().id;
    for (channel, text, heard) in [
        (general, "a secret".to_owned(), ""),
        (general, format!("<@{bot}> hello"), &*format!("<@{bot}> hello")),
        (direct, "psst".to_owned(), "psst"),
    ] {
        service.says(ada, channel, &text, None);
        assert_eq!(gateway.event("MESSAGE_CREATE").await["content"], heard);
    }
}

#[tokio::test]
async fn messages_carry_what_bots_look_at() {
    let service = start().await;
    let (general, chloe, bot) = (channel(&service, "general"), member(&service, "Chloe"), service.bot());
    let (mut gateway, _) = Gateway::login(&service).await;
    let rest = Rest::of(&service);
    let (.., written) = rest.write(general, json!({"content": "first"})).await;
    gateway.event("MESSAGE_CREATE").await;
    let original = written["id"].as_str().unwrap().parse().unwrap();
    let moderator = service.guilds()[0].roles.iter().find(|role| role.name == "moderator").unwrap().id;
    let text = format!("<@{bot}> and <@&{moderator}> @everyone");
    let reply = service.says(chloe, general, &text, Some(original));
    let heard = gateway.event("MESSAGE_CREATE").await;
    assert_eq!(heard["type"], 19);
    assert_eq!(heard["referenced_message"]["id"], written["id"]);
    assert_eq!(heard["message_reference"]["message_id"], written["id"]);
    assert_eq!(heard["member"]["roles"], json!([moderator]));
    assert_eq!(heard["mentions"][0]["id"], bot.to_string());
    assert!(heard["mentions"][0]["member"]["roles"].is_array());
    assert_eq!(heard["mention_roles"], json!([moderator]));
    assert_eq!(heard["mention_everyone"], true);

    service.types(chloe, general);
    assert_eq!(gateway.event("TYPING_START").await["member"]["user"]["id"], chloe.to_string());
    service.edits(reply, general, "no mention any more");
    let edited = gateway.event("MESSAGE_UPDATE").await;
    assert_eq!((&edited["content"], &edited["mention_roles"]), (&json!("no mention any more"), &json!([])));
    assert!(edited["edited_timestamp"].is_string());
    service.deletes(general, reply);
    assert_eq!(gateway.event("MESSAGE_DELETE").await["id"], reply.to_string());
}

#[tokio::test]
async fn presences_are_kept_and_members_can_be_asked_for() {
    let service = start().await;
    let (mut gateway, ready) = Gateway::login(&service).await;
    let presence =
        json!({"since": null, "activities": [{"name": "chess", "type": 0}], "status": "online", "afk": false});
    gateway.send(json!({"op": 3, "d": presence})).await;
    let guild = &ready["guilds"][0]["id"];
    gateway.send(json!({"op": 8, "d": {"guild_id": guild, "query": "", "limit": 0, "nonce": "n"}})).await;
    let chunk = gateway.event("GUILD_MEMBERS_CHUNK").await;
    assert_eq!((chunk["members"].as_array().unwrap().len(), &chunk["nonce"]), (4, &json!("n")));
    assert_eq!(service.presence(0), Some(presence));
    assert_eq!(service.stats().presence_updates, 1);
}
