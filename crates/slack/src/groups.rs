//! User groups of the workspace, which this door uses as roles. Read all at once; after a failed reading,
//! the last known ones stay in force. Before the first reading that succeeds, the groups of a member are unknown, and
//! rules about roles cannot be applied. An app that may not read them has none.
//!
//! Source: `docs.slack.dev/reference/methods/usergroups.list` (tier 2).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::ids;
use super::web_api::{Arguments, Call, CallError, WebApi};
use telemetry::events::SLACK_GROUPS;

/// The time for which the groups are used.
const FRESH: Duration = Duration::from_secs(120);
/// The pause after a failed reading while no groups are known.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest wait for the groups: an event must be acknowledged within three seconds.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The most groups of one member.
const GROUPS_MAX: usize = 100;

/// The longest handle of a group, in characters.
const HANDLE_MAX: usize = 80;

/// The known groups.
#[derive(Default)]
pub(super) struct Groups {
    known: Mutex<Known>,
    /// Held by the reader, so that events that arrive together read once.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// The time of the next reading.
    until: Option<Instant>,
    /// The groups of each user; `None` before the first reading that succeeds.
    of: Option<HashMap<String, Vec<String>>>,
    /// The handle of each group.
    handles: HashMap<String, String>,
    /// True once a refusal was reported.
    told: bool,
}

impl Groups {
    /// Returns the ids of a member's groups; `None` if they are unknown.
    pub(super) async fn of(&self, api: &WebApi, user: &str) -> Option<Vec<String>> {
        if self.is_due() {
            let _reading = self.reading.lock().await;
            if self.is_due() {
                let read = timeout(TIMEOUT, read(api)).await;
                self.known.lock().note(read.unwrap_or_else(|_| Err(CallError::unsent("no answer in time".to_owned()))));
            }
        }
        let known = self.known.lock();
        known.of.as_ref().map(|of| of.get(user).cloned().unwrap_or_default())
    }

    /// Returns the handle of a group, if it is known.
    pub(super) fn handle(&self, group: &str) -> Option<String> {
        self.known.lock().handles.get(group).cloned()
    }

    fn is_due(&self) -> bool {
        self.known.lock().until.is_none_or(|until| until <= Instant::now())
    }
}

impl Known {
    fn note(&mut self, read: Result<ReadGroups, CallError>) {
        match read {
            Ok(ReadGroups { of, handles }) => (self.of, self.handles, self.told) = (Some(of), handles, false),
            Err(error) if error.name().is_some() => {
                self.of.get_or_insert_default();
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(event = SLACK_GROUPS, %error, "rules about user groups apply to no member");
                }
            }
            Err(error) => tracing::debug!(event = SLACK_GROUPS, %error, "the user groups cannot be read now"),
        }
        let pause = if self.of.is_some() { FRESH } else { AGAIN };
        self.until = Some(Instant::now() + pause);
    }
}

/// The groups as they were read.
struct ReadGroups {
    of: HashMap<String, Vec<String>>,
    handles: HashMap<String, String>,
}

async fn read(api: &WebApi) -> Result<ReadGroups, CallError> {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        usergroups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        id: String,
        #[serde(default)]
        handle: String,
        #[serde(default)]
        users: Vec<String>,
    }
    let arguments: Arguments<'_> = vec![("include_users", "true".into()), ("include_disabled", "false".into())];
    let Told { usergroups } = api.call(Call::reads("usergroups.list"), arguments).await?;
    let mut of: HashMap<String, Vec<String>> = HashMap::new();
    let mut handles = HashMap::new();
    for group in usergroups.into_iter().filter(|group| ids::is_id(&group.id)) {
        if !group.handle.is_empty() {
            handles.insert(group.id.clone(), group.handle.chars().take(HANDLE_MAX).collect());
        }
        for user in group.users {
            let groups = of.entry(user).or_default();
            if groups.len() < GROUPS_MAX {
                groups.push(group.id.clone());
            }
        }
    }
    Ok(ReadGroups { of, handles })
}
