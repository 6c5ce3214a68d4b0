//! Guild data that the start of a session contains, read over the request API. A session resumed by another process
//! does not send it again, and messages contain neither the channel of their thread nor the bot's permissions.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serenity::model::id::UserId;

use super::answer::RestResponse;
use super::{Rest, answer, channel, foreign, number};
use crate::DOOR;
use crate::events;
use crate::rights::{Change, wire};
use domain::ids::Place;
use ports::{GuildField, PostError, PostReply, PostResult};

impl Rest {
    /// Reads one aspect of a guild and stores it as if it had come over the gateway.
    ///
    /// # Errors
    /// See [`PostError`].
    pub(super) async fn learn(&self, guild: &str, aspect: &GuildField) -> Result<PostReply, PostError> {
        let guild = number(guild).ok_or_else(|| foreign("the community"))?;
        let me = self.me().await?;
        let path = match aspect {
            GuildField::Itself => format!("/guilds/{guild}"),
            GuildField::Places => format!("/guilds/{guild}/channels"),
            GuildField::Threads => format!("/guilds/{guild}/threads/active"),
            GuildField::Ourselves => format!("/guilds/{guild}/members/{me}"),
            GuildField::Place(place) => format!("/channels/{}", channel(place)?),
        };
        let answer = self.send(Method::GET, &path, None).await?;
        self.learn_from(&answer, aspect, guild, me)?;
        Ok(answer.reply(PostResult::Done))
    }

    /// Stores one aspect of a guild.
    ///
    /// # Errors
    /// The body contains something else.
    pub(super) fn learn_from(
        &self,
        answer: &RestResponse,
        aspect: &GuildField,
        guild: u64,
        me: UserId,
    ) -> Result<(), PostError> {
        match aspect {
            GuildField::Itself => {
                let text = answer.json::<&RawValue>()?.get();
                let told = events::places(text).map_err(|error| answer::undecodable(&error))?;
                let rights = wire::guild(text, me).map_err(|error| answer::undecodable(&error))?;
                self.rights.learn(rights);
                if let Some(told) = told {
                    self.threads.prefers(&told.guild, told.locale);
                }
            }
            GuildField::Places => {
                // An unreadable entry is a channel of an unknown kind.
                for change in
                    answer.json::<Vec<&RawValue>>()?.iter().filter_map(|raw| wire::channel(raw.get(), guild).ok())
                {
                    self.rights.learn(change);
                }
            }
            GuildField::Threads => {
                #[derive(Deserialize)]
                struct Active<'a> {
                    #[serde(borrow)]
                    threads: Vec<&'a RawValue>,
                }
                let Active { threads } = answer.json()?;
                let known = threads.iter().filter_map(|raw| events::thread(raw.get()).ok().flatten());
                self.threads.learn_all(&guild.to_string(), known.flat_map(|known| known.threads));
            }
            GuildField::Place(_) => {
                let text = answer.json::<&RawValue>()?.get();
                match events::thread(text).map_err(|error| answer::undecodable(&error))? {
                    Some(thread) => self.threads.learn_all(&guild.to_string(), thread.threads),
                    None => self.rights.learn(wire::channel(text, guild).map_err(|error| answer::undecodable(&error))?),
                }
            }
            GuildField::Ourselves => {
                let text = answer.json::<&RawValue>()?.get();
                let change = wire::ourselves(text, guild).map_err(|error| answer::undecodable(&error))?;
                self.rights.learn(change);
            }
        }
        Ok(())
    }

    /// Records a change of permissions. The threads of a removed channel or guild end with it.
    pub(crate) fn learn_change(&self, change: Change) {
        match &change {
            Change::GuildGone(guild) => self.threads.forget_guild(&guild.to_string()),
            Change::ChannelGone(guild, channel) => {
                self.threads.forget_channel(&guild.to_string(), &Place::new(DOOR, channel.to_string()));
            }
            _ => {}
        }
        self.rights.learn(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{access, answer, serve};
    use domain::ids::Timestamp;
    use ports::{PlaceKind, PostRequest, Poster};

    const ME: &str = r#"{"id":"1","username":"bot"}"#;
    /// All members may write, except in channel 12, where a role of the bot may.
    const GUILD: &str = r#"{"id":"5","owner_id":"2","preferred_locale":"de","roles":[{"id":"5","permissions":"3072"},{"id":"9","permissions":"0"}]}"#;
    const CHANNELS: &str = r#"[{"id":"11","type":0},{"id":"12","type":0,"permission_overwrites":[{"id":"5","type":0,"allow":"0","deny":"2048"},{"id":"9","type":0,"allow":"2048","deny":"0"}]},{"odd":1}]"#;
    const THREADS: &str = r#"{"threads":[{"id":"20","type":11,"parent_id":"12"},{"id":"odd"}],"members":[]}"#;

    fn learn(aspect: GuildField) -> PostRequest {
        PostRequest::FetchGuild { community: "5".to_owned(), aspect }
    }

    #[tokio::test]
    async fn a_place_that_no_list_contains_is_read_alone() {
        let answers = [
            ME,
            GUILD,
            r#"{"id":"21","type":12,"parent_id":"12","name":"\ud800"}"#,
            r#"{"id":"13","type":0,"guild_id":"5"}"#,
            r#"{"id":"22","type":11}"#,
        ];
        let (base, mut seen) = serve(answers.map(|body| answer(200, "", body)).to_vec()).await;
        let rest = Rest::new(&access(&base)).unwrap();
        rest.perform(&learn(GuildField::Itself)).await.unwrap();
        for id in ["21", "13"] {
            rest.perform(&learn(GuildField::Place(place(id)))).await.unwrap();
        }
        assert_eq!(rest.threads.parent(&place("21")), Some(place("12")));
        let channels = ["13", "21"].map(|id| rest.rights.knows_channel("5", &place(id)));
        assert_eq!(channels, [true, false]);
        let kinds = ["13", "21", "22"].map(|id| rest.kind(&place(id)));
        assert_eq!(kinds, [PlaceKind::Channel, PlaceKind::Thread(place("12")), PlaceKind::Unknown]);
        let lost = rest.perform(&learn(GuildField::Place(place("22")))).await;
        assert!(matches!(lost, Err(PostError::Unsure(_))), "a thread without its channel");
        assert!(!rest.rights.knows_channel("5", &place("22")));
        let mut lines = Vec::new();
        while let Ok(request) = seen.try_recv() {
            lines.push(request.line);
        }
        assert_eq!(lines[2..], ["21", "13", "22"].map(|id| format!("GET /api/v10/channels/{id}")));
        rest.learn_change(Change::ChannelGone(5, 12));
        assert_eq!(rest.threads.parent(&place("21")), None);
    }

    fn place(id: &str) -> Place {
        Place::new(DOOR, id)
    }

    #[tokio::test]
    async fn what_is_read_is_known_as_if_the_gateway_had_told_it() {
        let without = r#"{"user":{"id":"1"},"roles":[]}"#;
        let with = r#"{"user":{"id":"1"},"roles":["9"]}"#;
        let answers = [ME, GUILD, CHANNELS, THREADS, without, with].map(|body| answer(200, "", body)).to_vec();
        let (base, mut seen) = serve(answers).await;
        let rest = Rest::new(&access(&base)).unwrap();
        assert!(!rest.rights.knows("5"));
        for aspect in [GuildField::Itself, GuildField::Places, GuildField::Threads, GuildField::Ourselves] {
            assert_eq!(rest.perform(&learn(aspect)).await.unwrap().result, PostResult::Done);
        }
        let mut lines = Vec::new();
        while lines.len() < 5 {
            lines.push(seen.recv().await.unwrap().line);
        }
        let paths = ["", "/channels", "/threads/active", "/members/1"];
        assert_eq!(lines[1..], paths.map(|path| format!("GET /api/v10/guilds/5{path}")));

        assert!(rest.rights.knows("5"));
        assert_eq!(rest.threads.locale("5").as_deref(), Some("de"));
        assert_eq!(rest.threads.parent(&place("20")), Some(place("12")));
        let may = |channel| rest.rights.may_answer(Some("5"), &place(channel), None, Timestamp(0));
        assert!(may("11"));
        assert!(!may("12"));
        rest.perform(&learn(GuildField::Ourselves)).await.unwrap();
        assert!(may("12"), "a role of the bot may");
    }

    #[tokio::test]
    async fn what_makes_no_sense_changes_nothing() {
        let answers = [ME, "[]", r#"{"threads":7}"#].map(|body| answer(200, "", body)).to_vec();
        let (base, _seen) = serve(answers).await;
        let rest = Rest::new(&access(&base)).unwrap();
        for aspect in [GuildField::Itself, GuildField::Threads] {
            assert!(matches!(rest.perform(&learn(aspect)).await, Err(PostError::Unsure(_))));
        }
        assert!(!rest.rights.knows("5"));
    }
}
