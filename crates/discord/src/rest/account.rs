//! What Discord says about the account behind a token, for a person who asks whether everything is set up.

use http::Method;
use serde::Deserialize;

use super::Rest;
use ports::PostError;

/// The most communities that are looked at: what one page of the list holds.
pub const GUILDS_PAGE: usize = 200;

/// The application may read what messages say.
const CONTENT_FULL: u64 = 1 << 18;
/// The same for applications in fewer than a hundred communities.
const CONTENT_LIMITED: u64 = 1 << 19;

/// May do everything.
const ADMINISTRATOR: u64 = 1 << 3;
/// What answering in a channel takes, with the names that Discord's settings use.
const NEEDED: [(u64, &str); 6] = [
    (1 << 10, "View Channels"),
    (1 << 11, "Send Messages"),
    (1 << 38, "Send Messages in Threads"),
    (1 << 14, "Embed Links"),
    (1 << 15, "Attach Files"),
    (1 << 16, "Read Message History"),
];

/// The account of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// How its application may read what messages say.
    pub content: Content,
}

/// How an application may read what messages say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Not at all: the gateway will refuse us.
    Off,
    /// Yes, as long as it is in fewer than a hundred communities.
    Limited,
    /// Yes, with Discord's approval.
    Full,
}

/// What Discord advises for connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Shards it advises.
    pub shards: u32,
    /// Sessions that may still be begun.
    pub left: u32,
    /// Sessions that may be begun in a day.
    pub total: u32,
}

/// A community in which the bot lacks something everywhere; single channels may still differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Its name, as its members chose it.
    pub guild: String,
    /// What is missing.
    pub permissions: Vec<&'static str>,
}

/// The communities of the bot, as far as one page shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guilds {
    /// How many were looked at, at most [`GUILDS_PAGE`].
    pub seen: usize,
    /// Their ids.
    pub ids: Vec<String>,
    /// Those in which something is missing.
    pub lacking: Vec<Lacking>,
}

#[derive(Deserialize)]
struct User {
    id: String,
    username: String,
}

#[derive(Deserialize)]
struct Application {
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
    /// Who we are, and whether we may read messages.
    ///
    /// # Errors
    /// See [`PostError`]; a token that Discord does not know is [`Rejection::Credentials`](domain::rejection::Rejection::Credentials).
    pub async fn account(&self) -> Result<Account, PostError> {
        let me: User = self.send(Method::GET, "/users/@me", None).await?.json()?;
        let application: Application = self.send(Method::GET, "/applications/@me", None).await?.json()?;
        Ok(Account { id: me.id, name: me.username, content: content(application.flags) })
    }

    /// Where we stand with the gateway.
    ///
    /// # Errors
    /// See [`PostError`].
    pub async fn standing(&self) -> Result<Standing, PostError> {
        let told = self.gateway().await?;
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let limit = told.session_start_limit;
        Ok(Standing { shards: told.shards, left: count(limit.remaining), total: count(limit.total) })
    }

    /// Where we are, and what we lack there.
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
