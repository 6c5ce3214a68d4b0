//! What a session tells of a guild when it begins, read over the request API. A session that another process resumes tells
//! nothing of it, and a message says neither which channel its thread belongs to, nor what we may do there.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Rest, answer, foreign, number};
use crate::discord::events;
use crate::discord::rights::wire;
use crate::ports::{Aspect, PostError, PostReply, PostResult};

impl Rest {
    /// Reads one aspect of a guild and takes note of it, as if the gateway had told it.
    ///
    /// # Errors
    /// See [`PostError`].
    pub(super) async fn learn(&self, guild: &str, aspect: Aspect) -> Result<PostReply, PostError> {
        let guild = number(guild).ok_or_else(|| foreign("the community"))?;
        let me = self.me().await?;
        let path = match aspect {
            Aspect::Itself => format!("/guilds/{guild}"),
            Aspect::Places => format!("/guilds/{guild}/channels"),
            Aspect::Threads => format!("/guilds/{guild}/threads/active"),
            Aspect::Ourselves => format!("/guilds/{guild}/members/{me}"),
        };
        let answer = self.send(Method::GET, &path, None).await?;
        match aspect {
            Aspect::Itself => {
                let text = answer.json::<&RawValue>()?.get();
                let told = events::places(text).map_err(|error| answer::undecodable(&error))?;
                let rights = wire::guild(text, me).map_err(|error| answer::undecodable(&error))?;
                self.rights.learn(rights);
                if let Some(told) = told {
                    self.threads.prefers(&told.guild, told.locale);
                }
            }
            Aspect::Places => {
                // What cannot be read is no channel of a kind that we know.
                for change in
                    answer.json::<Vec<&RawValue>>()?.iter().filter_map(|raw| wire::channel(raw.get(), guild).ok())
                {
                    self.rights.learn(change);
                }
            }
            Aspect::Threads => {
                #[derive(Deserialize)]
                struct Active<'a> {
                    #[serde(borrow)]
                    threads: Vec<&'a RawValue>,
                }
                let Active { threads } = answer.json()?;
                for (thread, parent) in threads.iter().filter_map(|raw| events::thread(raw.get()).ok().flatten()) {
                    self.threads.learn(thread, parent);
                }
            }
            Aspect::Ourselves => {
                let text = answer.json::<&RawValue>()?.get();
                let change = wire::ourselves(text, guild).map_err(|error| answer::undecodable(&error))?;
                self.rights.learn(change);
            }
        }
        Ok(answer.reply(PostResult::Done))
    }
}
