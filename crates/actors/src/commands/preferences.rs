//! The commands about a member's own settings: `/settings` and `/model`.

use super::CommandParts;
use domain::command::{CHANGE, Command, ROW, Typing};
use domain::keys;
use domain::menu::{CHOICES_MAX, Choice};
use domain::model::Row;
use domain::notice::commands as words;
use domain::preferences::{self, Change, DEFAULT, Holder, Invalid, Record, Refused, Setting};

/// Shows or sets the caller's model.
pub(super) async fn model(parts: &CommandParts, command: &Command) -> String {
    let running = parts.basics.live.now();
    let rows = running.models.rows();
    let allowed = preferences::allowed(rows, &running.settings.members.models);
    let names: Vec<&str> = allowed.iter().map(|row| row.key.as_str()).collect();
    let default = rows.first().map_or("", |row: &Row| row.key.as_str());
    let (key, holder) = (keys::preferences(&command.caller.person), holder(command));
    let locale = command.caller.locale();
    let Some(asked) = command.option(ROW).filter(|asked| !asked.is_empty()) else {
        let chosen = parts.basics.store.get(&key).await.map(|stored| Record::parse(&stored).own).unwrap_or_default();
        let rows: Vec<_> = allowed.iter().map(|row| (row.key.as_str(), row.description.as_deref())).collect();
        return words::models(&rows, default, chosen.model.as_deref(), locale);
    };
    if asked == DEFAULT && !names.contains(&DEFAULT) {
        return match parts.settings.change(&holder, &[chosen(None)]).await {
            Ok(_) => words::model_default(default, locale),
            Err(refused) => words::setting_refused(&refused, locale),
        };
    }
    if !names.contains(&asked) {
        return words::no_such_model(asked, &names, locale);
    }
    match parts.settings.change(&holder, &[chosen(Some(asked.to_owned()))]).await {
        Ok(durable) => words::model_chosen(asked, durable, locale),
        Err(refused) => words::setting_refused(&refused, locale),
    }
}

/// Returns the caller of a command in its place.
fn holder(command: &Command) -> Holder {
    let (person, place) = (command.caller.person.clone(), command.place.clone());
    Holder { person, place, parent: command.parent.clone(), guild: command.guild.clone() }
}

/// Returns the choice of this model, for all places.
const fn chosen(value: Option<String>) -> Change {
    Change { here: false, setting: Setting::Model, value }
}

/// Shows or changes the caller's settings.
pub(super) async fn settings(parts: &CommandParts, command: &Command) -> String {
    let (holder, locale) = (holder(command), command.caller.locale());
    let Some(asked) = command.option(CHANGE).filter(|asked| !asked.is_empty()) else {
        return match parts.settings.show(&holder).await {
            Ok(all) => words::settings(&all, locale),
            Err(refused) => words::setting_refused(&refused, locale),
        };
    };
    let change = match Change::parse(asked) {
        Ok(change) => change,
        Err(Invalid::Name) => return words::setting_refused(&Refused::Name, locale),
        Err(Invalid::Value(setting)) => return words::setting_refused(&Refused::Value(setting), locale),
    };
    match parts.settings.change(&holder, std::slice::from_ref(&change)).await {
        Ok(durable) => words::setting_changed(&change, durable, locale),
        Err(refused) => words::setting_refused(&refused, locale),
    }
}

/// Returns the changes that begin like the typed text.
pub(super) fn changes(parts: &CommandParts, typing: &Typing) -> Vec<Choice> {
    let running = parts.basics.live.now();
    let open = Setting::ALL.into_iter().filter(|setting| running.settings.members.settings.contains(setting));
    let values = |setting: Setting| match setting {
        Setting::Model => running.choices().iter().map(|row| row.key.clone()).collect(),
        Setting::Instructions | Setting::Temperature => vec!["...".to_owned()],
        _ => setting.values().split('|').map(|value| value.trim().to_owned()).collect::<Vec<_>>(),
    };
    let all =
        open.flat_map(|setting| values(setting).into_iter().map(move |value| format!("{} {value}", setting.name())));
    let typed = typing.typed.trim().to_lowercase();
    let fitting = all.filter(|change| !change.contains("...") && change.to_lowercase().contains(&typed));
    fitting.take(CHOICES_MAX).map(|change| Choice { name: change.clone(), value: change }).collect()
}

/// Returns the rows whose names contain the typed text.
pub(super) fn rows(parts: &CommandParts, typing: &Typing) -> Vec<Choice> {
    let running = parts.basics.live.now();
    let allowed = preferences::allowed(running.models.rows(), &running.settings.members.models);
    let typed = typing.typed.trim().to_lowercase();
    let keys = allowed.iter().map(|row| row.key.as_str());
    let named_so = allowed.iter().any(|row| row.key == DEFAULT);
    let keys = keys.chain((!named_so).then_some(DEFAULT)).filter(|key| key.to_lowercase().contains(&typed));
    keys.take(CHOICES_MAX).map(|key| Choice { name: key.to_owned(), value: key.to_owned() }).collect()
}
