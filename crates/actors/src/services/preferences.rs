//! Shows and changes the settings of members. The values in force are computed by
//! [`Running::preferences`](super::running::Running::preferences), for a turn and here alike.

use std::sync::Arc;

use async_trait::async_trait;

use super::basics::Basics;
use super::person_locks::PersonLocks;
use super::running::Running;
use super::toolbox::Toolbox;
use domain::hosted::WEB_SEARCH;
use domain::keys;
use domain::preferences::{Abilities, Change, Holder, Invalid, Level, Record, Refused, Setting, Shown, is_served};
use ports::{MemberSettings, Stored, Write};

/// Reads and changes the settings of members.
pub struct PreferenceKeeper {
    basics: Basics,
    toolbox: Arc<Toolbox>,
    changing: PersonLocks,
}

impl PreferenceKeeper {
    /// Uses these services.
    #[must_use]
    pub fn new(basics: Basics, toolbox: Arc<Toolbox>) -> Self {
        Self { basics, toolbox, changing: PersonLocks::default() }
    }

    /// Returns the stored settings of a person.
    async fn record(&self, holder: &Holder) -> Result<Record, Refused> {
        match self.basics.store.read(&keys::preferences(&holder.person)).await {
            Stored::Absent => Ok(Record::default()),
            Stored::Value(text) | Stored::Part(text) => Ok(Record::parse(&text)),
            Stored::Unreadable(_) => Err(Refused::Away),
        }
    }

    /// True if a setting has an effect on the row that answers with this record.
    fn served(&self, running: &Running, record: &Record, holder: &Holder, setting: Setting) -> bool {
        let chosen = running.preferences(record, &holder.place, holder.parent.as_ref(), holder.guild.as_deref());
        let tools = self.toolbox.now();
        let with = Abilities {
            row: running.row_with(&chosen),
            choices: !running.choices().is_empty(),
            tools: !tools.catalogue.entries().is_empty(),
            web_search: tools.catalogue.get(WEB_SEARCH).is_some(),
        };
        is_served(setting, &with)
    }

    /// Checks a change against the rules of the operator and the abilities of the row.
    fn check(&self, running: &Running, record: &Record, holder: &Holder, change: &Change) -> Result<(), Refused> {
        let setting = change.setting;
        if !running.settings.members.settings.contains(&setting) {
            return Err(Refused::Closed(setting));
        }
        let Some(value) = &change.value else { return Ok(()) };
        if setting == Setting::Model {
            let rows: Vec<String> = running.choices().iter().map(|row| row.key.clone()).collect();
            if !rows.contains(value) {
                return Err(Refused::NoSuchModel(rows));
            }
        }
        if !self.served(running, record, holder, setting) {
            let chosen = running.preferences(record, &holder.place, holder.parent.as_ref(), holder.guild.as_deref());
            let row = running.row_with(&chosen).map(|row| row.key.clone()).unwrap_or_default();
            return Err(Refused::NotServed(setting, row));
        }
        Ok(())
    }
}

#[async_trait]
impl MemberSettings for PreferenceKeeper {
    async fn show(&self, holder: &Holder) -> Result<Vec<Shown>, Refused> {
        let running = self.basics.live.now();
        let record = self.record(holder).await?;
        let in_force = running.preferences(&record, &holder.place, holder.parent.as_ref(), holder.guild.as_deref());
        let here = record.in_force(&holder.place, holder.parent.as_ref(), record.own.clone());
        let shown = |setting: Setting| {
            let open = running.settings.members.settings.contains(&setting);
            let level = match (record.own.value(setting), here.value(setting)) {
                _ if !open => Level::Default,
                (own, here) if here.is_some() && own != here => Level::Here,
                (Some(_), _) => Level::Own,
                (None, _) => Level::Default,
            };
            let value = in_force.value(setting);
            let served = self.served(&running, &record, holder, setting);
            (served && (open || value.is_some())).then_some(Shown { setting, value, level, open })
        };
        Ok(Setting::ALL.into_iter().filter_map(shown).collect())
    }

    async fn change(&self, holder: &Holder, changes: &[Change]) -> Result<bool, Refused> {
        let running = self.basics.live.now();
        let _changing = self.changing.lock(&holder.person).await;
        let mut record = self.record(holder).await?;
        for change in changes {
            self.check(&running, &record, holder, change)?;
            record.apply(change, &holder.place).map_err(|invalid| match invalid {
                Invalid::Name => Refused::Name,
                Invalid::Value(setting) => Refused::Value(setting),
            })?;
        }
        let key = keys::preferences(&holder.person);
        let write = match record.to_json() {
            Some(value) => Write::Put { key, value, ttl: Some(keys::PREFERENCES_TTL) },
            None => Write::Delete { key },
        };
        Ok(self.basics.store.write(vec![write]).await)
    }
}
