//! User groups of the workspace, which stand where another platform has roles. Read all at once; after a failed reading,
//! the last known ones stay in force.
//!
//! Source: `docs.slack.dev/reference/methods/usergroups.list` (tier 2).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::ids;
use super::web_api::{Arguments, Call, WebApi};

/// The time for which the groups are used.
const FRESH: Duration = Duration::from_secs(120);
/// The longest wait for the groups: an event must be acknowledged within three seconds.
const WITHIN: Duration = Duration::from_secs(1);
/// The most groups of one member.
const GROUPS_MAX: usize = 100;

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
    /// The groups of each user.
    of: HashMap<String, Vec<String>>,
}

impl Groups {
    /// Returns the ids of a member's groups.
    pub(super) async fn of(&self, api: &WebApi, user: &str) -> Vec<String> {
        if self.is_due() {
            let _reading = self.reading.lock().await;
            if self.is_due() {
                let read = timeout(WITHIN, read(api)).await.ok().flatten();
                let mut known = self.known.lock();
                known.until = Some(Instant::now() + FRESH);
                if let Some(of) = read {
                    known.of = of;
                }
            }
        }
        self.known.lock().of.get(user).cloned().unwrap_or_default()
    }

    fn is_due(&self) -> bool {
        self.known.lock().until.is_none_or(|until| until <= Instant::now())
    }
}

async fn read(api: &WebApi) -> Option<HashMap<String, Vec<String>>> {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        usergroups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        id: String,
        #[serde(default)]
        users: Vec<String>,
    }
    let arguments: Arguments<'_> = vec![("include_users", "true".into()), ("include_disabled", "false".into())];
    let Told { usergroups } = api.call(Call::reads("usergroups.list"), arguments).await.ok()?;
    let mut of: HashMap<String, Vec<String>> = HashMap::new();
    for group in usergroups.into_iter().filter(|group| ids::is_id(&group.id)) {
        for user in group.users {
            let groups = of.entry(user).or_default();
            if groups.len() < GROUPS_MAX {
                groups.push(group.id.clone());
            }
        }
    }
    Some(of)
}
