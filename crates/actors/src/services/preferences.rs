//! Shows and changes the settings of members. The values in force are computed by
//! [`Running::preferences`](super::running::Running::preferences), for a turn and here alike.

use std::sync::Arc;

use async_trait::async_trait;

use super::basics::Basics;
use super::locks::Locks;
use super::running::Running;
use super::toolbox::{Toolbox, Toolset};
use domain::hosted::WEB_SEARCH;
use domain::keys;
use domain::preferences::dialogue::Choosable;
use domain::preferences::{
    Abilities, Change, Holder, Level, Preferences, Record, Refused, Setting, Shown, allowed, is_served,
};
use domain::tool::Source;
use ports::{MemberSettings, Store, Stored, Write};

/// Reads and changes the settings of members.
pub struct PreferenceKeeper {
    basics: Basics,
    toolbox: Arc<Toolbox>,
    changing: Locks,
}

impl PreferenceKeeper {
    /// Uses these services.
    #[must_use]
    pub fn new(basics: Basics, toolbox: Arc<Toolbox>) -> Self {
        Self { basics, toolbox, changing: Locks::default() }
    }

    /// Returns the key of the settings of a person: those of the leading account.
    fn key(&self, holder: &Holder) -> String {
        keys::preferences(self.basics.live.linked(&holder.person).lead(&holder.person))
    }

    /// Returns the stored settings of a person.
    async fn record(&self, key: &str) -> Result<Record, Refused> {
        // A record that cannot be read is not overwritten.
        stored(&*self.basics.store, key).await.ok_or(Refused::Away)
    }

    /// Checks a change against the rules of the operator and the abilities of the row.
    fn check(&self, running: &Running, record: &Record, holder: &Holder, change: &Change) -> Result<(), Refused> {
        let setting = change.setting;
        let members = &running.settings.members;
        if !members.opens(setting, &holder.roles) {
            return Err(Refused::Closed(setting));
        }
        let Some(value) = &change.value else { return Ok(()) };
        if setting == Setting::Model {
            let rows = allowed(running.models.rows(), &members.models).into_iter().map(|row| row.key.clone());
            let rows: Vec<String> = rows.collect();
            return if rows.contains(value) { Ok(()) } else { Err(Refused::NoSuchModel(value.clone(), rows)) };
        }
        let tools = self.toolbox.now();
        let with = abilities(running, &tools, &in_force(running, record, holder));
        if is_served(setting, &with) {
            return Ok(());
        }
        Err(Refused::NotServed(setting, with.row.map(|row| row.key.clone()).unwrap_or_default()))
    }
}

/// Returns the settings stored under a key; `None` if they cannot be read now.
pub(crate) async fn stored(store: &dyn Store, key: &str) -> Option<Record> {
    match store.read(key).await {
        Stored::Absent => Some(Record::default()),
        Stored::Value(text) | Stored::Part(text) => Record::parse(&text),
        Stored::Unreadable(_) => None,
    }
}

/// Returns the settings in force for a person with this record.
fn in_force(running: &Running, record: &Record, holder: &Holder) -> Preferences {
    running.preferences(record, &holder.place, holder.parent.as_ref(), holder.guild.as_deref(), &holder.roles)
}

/// Returns the abilities of the row that answers with these settings.
fn abilities<'a>(running: &'a Running, tools: &Toolset, chosen: &Preferences) -> Abilities<'a> {
    Abilities {
        row: running.row_with(chosen),
        choices: !running.choices().is_empty(),
        tools: !tools.catalogue.entries().is_empty(),
        web_search: tools.catalogue.get(WEB_SEARCH).is_some(),
    }
}

/// Returns the tool servers that have tools, in their order.
fn servers(tools: &Toolset) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in tools.catalogue.entries() {
        if let Source::Server(server) = &entry.tool.source
            && names.iter().all(|known| *known != server.to_string())
        {
            names.push(server.to_string());
        }
    }
    names
}

#[async_trait]
impl MemberSettings for PreferenceKeeper {
    async fn show(&self, holder: &Holder) -> Result<Vec<Shown>, Refused> {
        let (running, tools) = (self.basics.live.now(), self.toolbox.now());
        let record = self.record(&self.key(holder)).await?;
        let chosen = in_force(&running, &record, holder);
        let with = abilities(&running, &tools, &chosen);
        let here = record.in_force(&holder.place, holder.parent.as_ref(), record.own.clone());
        let shown = |setting: Setting| {
            let open = running.settings.members.opens(setting, &holder.roles);
            let level = match (record.own.value(setting), here.value(setting)) {
                _ if !open => Level::Default,
                (own, here) if here.is_some() && own != here => Level::Here,
                (Some(_), _) => Level::Own,
                (None, _) => Level::Default,
            };
            let value = chosen.value(setting);
            (open || value.is_some()).then_some(Shown { setting, value, level, open })
        };
        Ok(Setting::ALL.into_iter().filter(|setting| is_served(*setting, &with)).filter_map(shown).collect())
    }

    async fn choosable(&self, holder: &Holder) -> Result<Vec<Choosable>, Refused> {
        let (running, tools) = (self.basics.live.now(), self.toolbox.now());
        let record = self.record(&self.key(holder)).await?;
        let with = abilities(&running, &tools, &in_force(&running, &record, holder));
        let defaults = in_force(&running, &Record::default(), holder);
        let members = &running.settings.members;
        let names = |setting: Setting| match setting {
            Setting::Model => {
                allowed(running.models.rows(), &members.models).into_iter().map(|row| row.key.clone()).collect()
            }
            Setting::Tools => servers(&tools),
            _ => Vec::new(),
        };
        let choosable = |setting: Setting| Choosable {
            setting,
            own: record.own.value(setting),
            default: defaults.value(setting),
            names: names(setting),
        };
        let shown = |setting: &Setting| members.opens(*setting, &holder.roles) && is_served(*setting, &with);
        Ok(Setting::ALL.into_iter().filter(shown).map(choosable).collect())
    }

    async fn change(&self, holder: &Holder, changes: &[Change]) -> Result<bool, Refused> {
        let running = self.basics.live.now();
        let key = self.key(holder);
        let _changing = self.changing.lock(&key).await;
        let mut record = self.record(&key).await?;
        for change in changes {
            self.check(&running, &record, holder, change)?;
            record.apply(change, &holder.place)?;
        }
        record.at = self.basics.clock.now();
        let write = match record.to_json() {
            Some(value) => Write::Put { key, value, ttl: Some(keys::PREFERENCES_TTL) },
            None => Write::Delete { key },
        };
        Ok(self.basics.store.write(vec![write]).await)
    }
}
