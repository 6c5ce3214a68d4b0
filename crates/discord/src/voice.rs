//! The part of the gateway that concerns voice channels: requests to move the bot, and its position in each guild.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::DOOR;
use super::events::voice::VoiceChange;
use super::rest::Rest;
use domain::ids::{Person, Place};
use ports::PostError;
use ports::voice_calls::{VoiceAccess, VoiceSignals, VoiceStanding};

/// The most guilds with a position; the least recently requested is dropped first. More guilds than that at once would
/// need more connections than one process should have.
const GUILDS_MAX: usize = 1_024;

/// The voice channels of the bot, shared by all shards.
#[derive(Debug)]
pub struct Voice {
    rest: Arc<Rest>,
    known: Mutex<Known>,
    /// Wakes the shards after a request.
    requested: Notify,
}

#[derive(Debug, Default)]
struct Known {
    guilds: HashMap<String, Position>,
    /// The requests that are not sent yet, at most one for each guild.
    requests: VecDeque<(String, Option<String>)>,
}

#[derive(Debug)]
struct Position {
    session: Option<String>,
    server: Option<(String, SecretString)>,
    standing: watch::Sender<VoiceStanding>,
}

impl Default for Position {
    fn default() -> Self {
        Self { session: None, server: None, standing: watch::channel(VoiceStanding::default()).0 }
    }
}

impl Known {
    fn position(&mut self, guild: &str) -> &mut Position {
        if self.guilds.len() >= GUILDS_MAX {
            self.guilds.retain(|known, position| known == guild || position.standing.receiver_count() > 0);
        }
        self.guilds.entry(guild.to_owned()).or_default()
    }
}

impl Voice {
    pub(super) fn new(rest: Arc<Rest>) -> Self {
        Self { rest, known: Mutex::default(), requested: Notify::new() }
    }

    /// Returns the next request of a shard as a gateway payload. Cancel safe.
    pub(super) async fn due(&self, shard: ports::Shard) -> String {
        loop {
            let requested = self.requested.notified();
            tokio::pin!(requested);
            // Before the look, so that no later request is missed.
            requested.as_mut().enable();
            if let Some(request) = self.take(shard) {
                return request;
            }
            requested.await;
        }
    }

    fn take(&self, shard: ports::Shard) -> Option<String> {
        let requests = &mut self.known.lock().requests;
        let ours = |guild: &str| {
            let id: u64 = guild.parse().unwrap_or_default();
            (id >> 22) % u64::from(shard.total.max(1)) == u64::from(shard.number)
        };
        let at = requests.iter().position(|(guild, _)| ours(guild))?;
        let (guild, channel) = requests.remove(at)?;
        Some(payload(&guild, channel.as_deref()).to_string())
    }

    /// Applies a change of the gateway.
    pub(super) fn learn(&self, change: VoiceChange) {
        let known = &mut *self.known.lock();
        let (guild, position) = match change {
            VoiceChange::State { guild, channel, session } => {
                let position = known.position(&guild);
                position.session = Some(session);
                position.standing.send_modify(|standing| standing.channel = channel);
                (guild, position)
            }
            VoiceChange::Server { guild, endpoint, token } => {
                let position = known.position(&guild);
                position.server = endpoint.map(|endpoint| (endpoint, SecretString::from(token.0)));
                (guild, position)
            }
        };
        let me = self.rest.known_me();
        position.standing.send_modify(|standing| {
            let parts = (&standing.channel, &position.session, &position.server, me);
            standing.access = match parts {
                (Some(channel), Some(session), Some((endpoint, token)), Some(me)) => Some(VoiceAccess {
                    guild,
                    channel: channel.clone(),
                    user: me.to_string(),
                    session: session.clone(),
                    endpoint: endpoint.clone(),
                    token: token.clone(),
                }),
                _ => None,
            };
        });
    }
}

/// Returns the gateway operation that moves the bot. It hears members, because it may have their consent.
fn payload(guild: &str, channel: Option<&str>) -> Value {
    json!({"op": 4, "d": {"guild_id": guild, "channel_id": channel, "self_mute": false, "self_deaf": false}})
}

#[async_trait]
impl VoiceSignals for Voice {
    fn request(&self, guild: &str, channel: Option<&str>) {
        {
            let known = &mut *self.known.lock();
            if channel.is_some() {
                // An earlier voice server does not admit a new session.
                let position = known.position(guild);
                (position.session, position.server) = (None, None);
                position.standing.send_replace(VoiceStanding::default());
            }
            known.requests.retain(|(known, _)| known != guild);
            if known.requests.len() >= GUILDS_MAX {
                known.requests.pop_front();
            }
            known.requests.push_back((guild.to_owned(), channel.map(str::to_owned)));
        }
        self.requested.notify_waiters();
    }

    fn standing(&self, guild: &str) -> watch::Receiver<VoiceStanding> {
        self.known.lock().position(guild).standing.subscribe()
    }

    async fn channel_of(&self, guild: &str, member: &Person) -> Result<Option<Place>, PostError> {
        let channel = self.rest.voice_channel(guild, member).await?;
        Ok(channel.map(|channel| Place::new(DOOR, channel)))
    }
}

#[cfg(test)]
mod tests {
    use serenity::model::id::UserId;

    use super::*;
    use crate::Access;
    use crate::events::voice::{server, state};
    use ports::Shard;

    fn voice() -> Voice {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let access =
            Access { api_url: "http://127.0.0.1:1".to_owned(), token: "t".to_owned().into(), allow_insecure: false };
        let rest = Rest::new(&access).unwrap();
        rest.know_me(UserId::new(9));
        Voice::new(Arc::new(rest))
    }

    fn moved(guild: &str, channel: Option<&str>) -> VoiceChange {
        let data = json!({"guild_id": guild, "channel_id": channel, "user_id": "9", "session_id": "s"}).to_string();
        state(&data, UserId::new(9)).unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_request_is_sent_once_by_the_shard_of_its_guild() {
        let voice = voice();
        // The guild of shard 1 of 2.
        let guild = (1_u64 << 22).to_string();
        voice.request(&guild, Some("5"));
        voice.request(&guild, None);
        voice.request("1", Some("6"));
        let first = voice.due(Shard { number: 1, total: 2 }).await;
        let first: Value = serde_json::from_str(&first).unwrap();
        assert_eq!(
            (&first["op"], &first["d"]["guild_id"], &first["d"]["channel_id"]),
            (&json!(4), &json!(guild), &json!(null))
        );
        assert!(voice.take(Shard { number: 1, total: 2 }).is_none());
        assert!(voice.take(Shard { number: 0, total: 2 }).is_some());
    }

    #[tokio::test]
    async fn access_needs_the_channel_and_its_server_in_any_order() {
        let voice = voice();
        let standing = voice.standing("1");
        voice.request("1", Some("5"));
        voice.learn(server(r#"{"guild_id": "1", "endpoint": "voice.example:443", "token": "secret"}"#).unwrap());
        assert!(standing.borrow().access.is_none());
        voice.learn(moved("1", Some("5")));
        let access = standing.borrow().access.clone().unwrap();
        assert_eq!(
            (&*access.channel, &*access.session, &*access.endpoint, &*access.user),
            ("5", "s", "voice.example:443", "9")
        );
        assert!(!format!("{access:?}").contains("secret"));
        voice.learn(server(r#"{"guild_id": "1", "endpoint": null, "token": "secret"}"#).unwrap());
        assert!(standing.borrow().access.is_none(), "the server is being replaced");
        voice.learn(moved("1", None));
        assert_eq!(standing.borrow().channel, None);
    }

    #[test]
    fn other_accounts_and_malformed_events_change_nothing() {
        let other = r#"{"guild_id": "1", "channel_id": "5", "user_id": "10", "session_id": "s"}"#;
        assert_eq!(state(other, UserId::new(9)).unwrap(), None);
        for hostile in ["{}", "[]", r#"{"user_id": "x", "session_id": "s"}"#] {
            assert!(state(hostile, UserId::new(9)).is_err() && server(hostile).is_err(), "{hostile}");
        }
        let told = server(r#"{"guild_id": "1", "endpoint": "e", "token": "secret"}"#).unwrap();
        assert!(!format!("{told:?}").contains("secret"));
    }
}
