//! Account data of a token, for operators who check their setup.

use http::Method;
use serde::Deserialize;

use super::Rest;
use super::invite::{ADMINISTRATOR, NEEDED};
use ports::PostError;

/// The most guilds checked: one page of the list.
pub const GUILDS_PAGE: usize = 200;

/// The flag of an application that may read message content.
const CONTENT_FULL: u64 = 1 << 18;
/// The same for applications in fewer than a hundred guilds.
const CONTENT_LIMITED: u64 = 1 << 19;

/// The account of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: String,
    /// The id of its application, which an invite address names.
    pub application: String,
    /// Its name.
    pub name: String,
    /// Its access to message content.
    pub content: Content,
}

/// An application's access to message content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Disabled: the gateway will reject the bot.
    Off,
    /// Enabled while it is in fewer than a hundred guilds.
    Limited,
    /// Enabled with Discord's approval.
    Full,
}

/// Discord's connection advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The advised number of shards.
    pub shards: u32,
    /// The remaining sessions that may be started.
    pub left: u32,
    /// The sessions that may be started in a day.
    pub total: u32,
}

/// A guild in which the bot lacks permissions guild-wide; single channels may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Its name, chosen by its members.
    pub guild: String,
    /// The missing permissions.
    pub permissions: Vec<&'static str>,
}

/// The bot's guilds, as far as one page lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guilds {
    /// The number of checked guilds, at most [`GUILDS_PAGE`].
    pub seen: usize,
    /// Their ids.
    pub ids: Vec<String>,
    /// Those that lack permissions.
    pub lacking: Vec<Lacking>,
}

#[derive(Deserialize)]
struct User {
    id: String,
    username: String,
}

#[derive(Deserialize)]
struct Application {
    id: String,
    #[serde(default)]
    flags: u64,
}

#[derive(Deserialize)]
struct Guild {
    id: String,
    name: String,
    permissions: String,
}

impl Rest {
    /// Returns the bot's account and its access to message content.
    ///
    /// # Errors
    /// See [`PostError`]; an unknown token is [`Rejection::Credentials`](domain::rejection::Rejection::Credentials).
    pub async fn account(&self) -> Result<Account, PostError> {
        let me: User = self.send(Method::GET, "/users/@me", None).await?.json()?;
        let application: Application = self.send(Method::GET, "/applications/@me", None).await?.json()?;
        Ok(Account { id: me.id, application: application.id, name: me.username, content: content(application.flags) })
    }

    /// Returns the connection advice of the gateway.
    ///
    /// # Errors
    /// See [`PostError`].
    pub async fn standing(&self) -> Result<Standing, PostError> {
        let told = self.gateway().await?;
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let limit = told.session_start_limit;
        Ok(Standing { shards: told.shards, left: count(limit.remaining), total: count(limit.total) })
    }

    /// Returns the bot's guilds and the permissions that it lacks there.
    ///
    /// # Errors
    /// See [`PostError`].
    pub async fn guilds(&self) -> Result<Guilds, PostError> {
        let path = format!("/users/@me/guilds?limit={GUILDS_PAGE}");
        let guilds: Vec<Guild> = self.send(Method::GET, &path, None).await?.json()?;
        let lacking = guilds.iter().filter_map(|guild| {
            let permissions = missing(guild.permissions.parse().unwrap_or(0));
            (!permissions.is_empty()).then(|| Lacking { guild: guild.name.clone(), permissions })
        });
        let lacking = lacking.collect();
        Ok(Guilds { seen: guilds.len(), lacking, ids: guilds.into_iter().map(|guild| guild.id).collect() })
    }
}

fn content(flags: u64) -> Content {
    if flags & CONTENT_FULL != 0 {
        Content::Full
    } else if flags & CONTENT_LIMITED != 0 {
        Content::Limited
    } else {
        Content::Off
    }
}

fn missing(permissions: u64) -> Vec<&'static str> {
    if permissions & ADMINISTRATOR != 0 {
        return Vec::new();
    }
    NEEDED.iter().filter(|(bit, _)| permissions & bit == 0).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{access, answer, serve};
    use domain::rejection::Rejection;

    #[test]
    fn the_flags_of_an_application_say_whether_messages_can_be_read() {
        assert_eq!(content(0), Content::Off);
        assert_eq!(content(1 << 12 | 1 << 19), Content::Limited);
        assert_eq!(content(1 << 18), Content::Full);
    }

    const ENOUGH: u64 = 1 << 10 | 1 << 11 | 1 << 14 | 1 << 15 | 1 << 16 | 1 << 38;

    #[test]
    fn missing_permissions_are_named() {
        assert_eq!(missing(ENOUGH & !(1 << 11)), ["Send Messages"]);
        assert_eq!(missing(ENOUGH & !(1 << 38 | 1 << 14)), ["Send Messages in Threads", "Embed Links"]);
        assert!(missing(ADMINISTRATOR).is_empty());
        assert_eq!(missing(0).len(), NEEDED.len());
    }

    #[tokio::test]
    async fn guilds_without_a_permission_are_told() {
        let body = format!(
            r#"[{{"id":"1","name":"A","permissions":"{ENOUGH}"}},{{"id":"2","name":"B","permissions":"{}"}}]"#,
            ENOUGH & !(1 << 11 | 1 << 16)
        );
        let (base, mut requests) = serve(vec![answer(200, "", &body)]).await;
        let guilds = Rest::new(&access(&base)).unwrap().guilds().await.unwrap();
        let lacking = Lacking { guild: "B".to_owned(), permissions: vec!["Send Messages", "Read Message History"] };
        assert_eq!(guilds, Guilds { seen: 2, ids: vec!["1".to_owned(), "2".to_owned()], lacking: vec![lacking] });
        assert_eq!(requests.recv().await.unwrap().line, "GET /api/v10/users/@me/guilds?limit=200");
    }

    #[tokio::test]
    async fn a_rejected_token_is_told_apart() {
        let (base, _requests) = serve(vec![answer(401, "", r#"{"message":"401: Unauthorized","code":0}"#)]).await;
        let error = Rest::new(&access(&base)).unwrap().account().await.unwrap_err();
        assert!(matches!(error, PostError::Rejected { reason: Rejection::Credentials, .. }), "{error}");
    }
}
