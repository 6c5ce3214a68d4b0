//! Slack: receives events over Socket Mode, sends over the Web API. No wire type of Slack leaves this crate.
//!
//! | file | subject |
//! |---|---|
//! | [`socket`] | the source of events: connections that overlap, acknowledgements, dead connections |
//! | `link`, `taking` | one connection, and the work on its events |
//! | `events`, `interactions`, `commands`, `shortcuts` | envelopes as neutral events |
//! | `bounded` | parts of them that could have very many values |
//! | `people`, `groups` | members, and the user groups that are their roles |
//! | `dialogue` | the question of a shortcut |
//! | `views`, `submissions` | forms as modals, and the answers to those that members sent |
//! | `agent_view` | the status of a thread, suggested prompts |
//! | `catch_up`, `reading` | messages that are read back |
//! | `poster` | requests of the outbox, each post marked and never repeated |
//! | `streams` | messages that grow by Slack's streaming calls |
//! | `web_api` | one call of the Web API, and the meaning of its errors |
//! | `mrkdwn`, `incoming_text` | text for Slack, text from Slack |

mod address;

mod agent_view;

mod bounded;

mod catch_up;

mod commands;

mod dialogue;

mod events;

mod files;

mod groups;

mod ids;

mod incoming_text;

mod interactions;

mod link;

mod marks;

mod mrkdwn;

mod people;

mod poster;

mod reading;

pub mod setup;

mod shortcuts;

pub mod socket;

mod streams;

mod submissions;

mod taking;

mod unreadable;

mod views;

mod web_api;

#[cfg(test)]
mod fuzz;

use std::sync::Arc;

use secrecy::SecretString;
use tokio::sync::OnceCell;

use self::agent_view::Pauses;
use self::groups::Groups;
use self::marks::Marks;
use self::people::{People, Profile};
use self::poster::budget::EditBudget;
use self::streams::Streams;
use self::submissions::Submissions;
use self::web_api::{CallError, WebApi};
use domain::ids::{Door, Person, Timestamp};
use ports::Clock;

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("slack");

/// The account and its service.
#[derive(Debug, Clone)]
pub struct Access {
    /// The base address without a trailing slash; `/api/METHOD` is appended.
    pub api_url: String,
    /// The token of the bot user (`xoxb-...`), which reads and posts.
    pub bot_token: SecretString,
    /// The token of the app (`xapp-...`), which opens sockets.
    pub app_token: SecretString,
}

/// The reason why a client cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAccess {
    /// The address cannot be used.
    #[error("the address of Slack ({address}) cannot be used: {reason}")]
    Address {
        /// The address.
        address: String,
        /// The reason.
        reason: &'static str,
    },
    /// A token cannot be sent.
    #[error("{0} is not a token of Slack: it is empty, or has characters that no token has")]
    Token(&'static str),
    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created: {0}")]
    Client(String),
}

/// Slack's Web API with cached workspace data. Its sockets and its poster share one.
pub struct Slack {
    api: WebApi,
    account: OnceCell<Account>,
    people: People,
    groups: Groups,
    marks: Marks,
    streams: Streams,
    /// The statuses of threads.
    statuses: Pauses,
    /// The suggested prompts of direct conversations.
    prompts: Pauses,
    /// The bot's pages in the app homes of members, each by the id of its member.
    homes: Pauses,
    submissions: Submissions,
    edits: EditBudget,
    appends: EditBudget,
    /// The time from which posts of this process exist. An answer to an earlier message may have been posted by an
    /// earlier process.
    began: Timestamp,
    clock: Arc<dyn Clock>,
}

/// The bot's own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The id of the bot user (`U...`).
    pub user: String,
    /// The id of the bot (`B...`), which some messages carry instead.
    pub bot: Option<String>,
    /// The id of the workspace (`T...`).
    pub team: String,
    /// The name of the bot user.
    pub name: String,
    /// The name of the workspace.
    pub workspace: String,
}

impl Slack {
    /// Creates a client. Sends nothing yet.
    ///
    /// # Errors
    /// The address or a token is invalid.
    pub fn new(access: &Access, clock: Arc<dyn Clock>) -> Result<Self, BadAccess> {
        Ok(Self {
            api: WebApi::new(access)?,
            account: OnceCell::new(),
            people: People::default(),
            groups: Groups::default(),
            marks: Marks::default(),
            streams: Streams::default(),
            statuses: Pauses::default(),
            prompts: Pauses::default(),
            homes: Pauses::default(),
            submissions: Submissions::default(),
            edits: EditBudget::of_updates(),
            appends: EditBudget::of_appends(),
            began: clock.now(),
            clock,
        })
    }

    /// Returns the bot's account, requested once.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn account(&self) -> Result<&Account, CallError> {
        self.account.get_or_try_init(|| self.api.account()).await
    }

    /// Returns a member's data, with the user groups as roles.
    async fn member(&self, user: &str) -> Profile {
        let team = self.account().await.map_or("", |account| account.team.as_str());
        let (mut profile, groups) =
            tokio::join!(self.people.get(&self.api, team, user), self.groups.of(&self.api, user));
        profile.roles_known = groups.is_some();
        profile.roles.extend(groups.into_iter().flatten());
        profile
    }

    fn us(account: &Account) -> Person {
        Person::new(DOOR, account.user.as_str())
    }
}
