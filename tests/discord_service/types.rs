//! serenity's types parse everything that the service emits, field by field.

use reqwest::Method;
use serde_json::{Value, json};
use serenity::model::{
    application::CurrentApplicationInfo,
    channel::{GuildChannel, Message, PrivateChannel},
    event::{Event, GatewayEvent},
    gateway::BotGateway,
    guild::{Member, PartialGuild, Role},
    user::{CurrentUser, User},
};

use crate::support::{Gateway, Rest, channel, member, start};

fn read<T: serde::de::DeserializeOwned>(what: &str, body: impl Into<Value>) -> T {
    let body = body.into();
    serde_json::from_value(body.clone()).unwrap_or_else(|error| panic!("{what}: {error}\n{body:#}"))
}

#[tokio::test]
async fn every_event_is_understood() {
    let service = start().await;
    let (general, random, ada) = (channel(&service, "general"), channel(&service, "random"), member(&service, "Ada"));
    let guild = service.guilds()[0].clone();
    let rest = Rest::of(&service);
    let mut gateway = Gateway::connect(&service).await;
    gateway.send(json!({"op": 1, "d": null})).await;
    gateway.identify(service.token(), crate::support::INTENTS).await;
    let first = service.says(ada, general, &format!("<@{}> <@&{}>", service.bot(), guild.roles[2].id), None);
    let reply = json!({"content": "hm", "nonce": 7, "message_reference": {"message_id": first}, "embeds": [{"title": "t", "description": "d"}]});
    rest.write(general, reply).await;
    service.edits(first, general, "edited");
    service.deletes(general, first);
    service.types(ada, general);
    service.says(ada, service.direct(ada).unwrap().id, "direct", None);
    rest.send(Method::PUT, &format!("/guilds/{}/members/{ada}/roles/{}", guild.id, guild.roles[1].id), None)
        .await
        .unwrap();
    gateway.send(json!({"op": 8, "d": {"guild_id": guild.id, "query": "", "limit": 0}})).await;
    service.faults().reconnect();
    service.faults().invalidate_sessions(true);
    service.faults().delete_channel(random);

    let mut names = Vec::new();
    while !names.contains(&"CHANNEL_DELETE".to_owned()) {
        let payload = gateway.next().await.unwrap();
        let parsed: GatewayEvent = read("event", payload.clone());
        if let GatewayEvent::Dispatch(_, event) = parsed {
            let name = payload["t"].as_str().unwrap().to_owned();
            assert!(!matches!(event, Event::Unknown { .. }), "{name}");
            if let Event::GuildCreate(created) = &event {
                assert_eq!((created.guild.channels.len(), created.guild.members.len()), (3, 4));
            }
            names.push(name);
        }
    }
    for name in [
        "READY",
        "GUILD_CREATE",
        "MESSAGE_CREATE",
        "MESSAGE_UPDATE",
        "MESSAGE_DELETE",
        "TYPING_START",
        "GUILD_MEMBER_UPDATE",
    ] {
        assert!(names.iter().any(|seen| seen == name), "{name} was not among {names:?}");
    }
}

#[tokio::test]
async fn every_body_is_understood() {
    let service = start().await;
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let guild = service.guilds()[0].id;
    let rest = Rest::of(&service);
    let get = async |path: String| rest.get(&path).await.2;
    service.says(ada, general, "a question", None);
    let question = service.messages(general)[0].id;
    let reply = json!({"content": "an answer", "nonce": "n", "message_reference": {"message_id": question}});
    let written: Message = read("create", rest.write(general, reply).await.2);
    assert_eq!(written.referenced_message.unwrap().id.get(), question.0);
    let listed: Vec<Message> = read("list", get(format!("/channels/{general}/messages")).await);
    assert_eq!(listed.len(), 2);
    let _: Message = read("message", get(format!("/channels/{general}/messages/{question}")).await);
    let gateway: BotGateway = read("gateway", get("/gateway/bot".to_owned()).await);
    assert_eq!(gateway.shards, 1);
    let _: CurrentUser = read("me", get("/users/@me".to_owned()).await);
    let _: User = read("user", get(format!("/users/{ada}")).await);
    let _: CurrentApplicationInfo = read("application", get("/oauth2/applications/@me".to_owned()).await);
    let _: PartialGuild = read("guild", get(format!("/guilds/{guild}")).await);
    let _: Vec<Role> = read("roles", get(format!("/guilds/{guild}/roles")).await);
    let _: Vec<GuildChannel> = read("channels", get(format!("/guilds/{guild}/channels")).await);
    let _: GuildChannel = read("channel", get(format!("/channels/{general}")).await);
    let mut members: Vec<Value> = read("members", get(format!("/guilds/{guild}/members?limit=10")).await);
    members.push(get(format!("/guilds/{guild}/members/{ada}")).await);
    for mut member in members {
        // The library adds the guild's id itself, since it is not in the response.
        member["guild_id"] = json!(guild);
        let _: Member = read("member", member);
    }
    let direct = rest.post("/users/@me/channels", json!({"recipient_id": ada})).await.2;
    let _: PrivateChannel = read("direct", direct);
}
