//! The gateway library that the bot uses: compressed connection, identify, cut, resume.

use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::timeout;
use twilight_gateway::{ConfigBuilder, Intents, Message, Shard, ShardId};

use crate::support::{DEADLINE, Rest, channel, member, start};

async fn event(shard: &mut Shard, name: &str) -> Value {
    loop {
        let message = timeout(DEADLINE, shard.next()).await.expect("a message in time").expect("an open stream");
        if let Ok(Message::Text(text)) = message {
            let payload: Value = serde_json::from_str(&text).unwrap();
            if payload["t"] == name {
                return payload["d"].clone();
            }
        }
    }
}

#[tokio::test]
async fn a_shard_identifies_is_cut_and_resumes_on_a_new_connection() {
    let service = start().await;
    // Only for its effect: the library needs a crypto provider even without encryption.
    let _ = Rest::of(&service);
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let intents = Intents::GUILDS | Intents::GUILD_MESSAGES | Intents::MESSAGE_CONTENT;
    let gateway = service.api_url().replace("http", "ws") + "/gateway";
    let config = || ConfigBuilder::new(service.token().to_owned(), intents).proxy_url(gateway.clone());
    let mut shard = Shard::with_config(ShardId::ONE, config().build());
    event(&mut shard, "GUILD_CREATE").await;
    service.faults().cut_gateways();
    timeout(DEADLINE, service.disconnected(0)).await.unwrap();
    let missed = service.says(ada, general, "missed", None);

    let (session, url) = (shard.session().unwrap().clone(), shard.resume_url().unwrap().to_owned());
    drop(shard);
    let mut shard = Shard::with_config(ShardId::ONE, config().session(session).resume_url(url).build());
    assert_eq!(event(&mut shard, "MESSAGE_CREATE").await["id"], missed.to_string());
    event(&mut shard, "RESUMED").await;
    let stats = service.stats();
    assert_eq!((stats.identifies, stats.resumes), (1, 1));
}
