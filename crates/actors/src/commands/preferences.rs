//! The commands about a member's own settings: `/settings` and `/model`.

use super::{CommandParts, dialogue};
use domain::command::{CHANGE, Command, ROW, Typing};
use domain::keys;
use domain::menu::{CHOICES_MAX, Choice};
use domain::model::Row;
use domain::notice::commands as words;
use domain::outgoing::Piece;
use domain::preferences::{self, Change, DEFAULT, Holder, Record, Refused, Setting};

/// Shows or sets the caller's model.
pub(super) async fn model(parts: &CommandParts, command: &Command) -> String {
    let running = parts.basics.live.now();
    let rows = running.models.rows();
    let allowed = preferences::allowed(rows, &running.settings.members.models);
    let names: Vec<&str> = allowed.iter().map(|row| row.key.as_str()).collect();
    let default = rows.first().map_or("", |row: &Row| row.key.as_str());
    let linked = parts.basics.live.linked(&command.caller.person);
    let key = keys::preferences(linked.lead(&command.caller.person));
    let locale = command.caller.locale();
    let Some(asked) = command.option(ROW).filter(|asked| !asked.is_empty()) else {
        let chosen = parts.basics.store.get(&key).await.and_then(|stored| Record::parse(&stored)).unwrap_or_default();
        let rows: Vec<_> = allowed.iter().map(|row| (row.key.as_str(), row.description.as_deref())).collect();
        return words::models(&rows, default, chosen.own.model.as_deref(), locale);
    };
    let value = (asked != DEFAULT || names.contains(&DEFAULT)).then(|| asked.to_owned());
    let change = Change { here: false, setting: Setting::Model, value };
    match (parts.settings.change(&holder(command), std::slice::from_ref(&change)).await, change.value) {
        (Ok(durable), Some(row)) => words::model_chosen(&row, durable, locale),
        (Ok(_), None) => words::model_default(default, locale),
        (Err(refused), _) => words::setting_refused(&refused, locale),
    }
}

/// Returns the caller of a command in its place.
fn holder(command: &Command) -> Holder {
    let (person, place) = (command.caller.person.clone(), command.place.clone());
    let (parent, guild) = (command.parent.clone(), command.guild.clone());
    Holder { person, place, parent, guild, roles: command.caller.roles.clone() }
}

/// Shows or changes the caller's settings. The list has the buttons of the dialogue.
pub(super) async fn settings(parts: &CommandParts, command: &Command) -> Piece {
    let (holder, locale) = (holder(command), command.caller.locale());
    let Some(asked) = command.option(CHANGE).filter(|asked| !asked.is_empty()) else {
        return match parts.settings.show(&holder).await {
            Ok(all) => {
                let buttons = dialogue::buttons(parts, &command.place.door, &holder, locale).await;
                Piece { buttons, ..Piece::text(words::settings(&all, locale)) }
            }
            Err(refused) => Piece::text(words::setting_refused(&refused, locale)),
        };
    };
    let changed = async {
        let change = Change::parse(asked)?;
        let durable = parts.settings.change(&holder, std::slice::from_ref(&change)).await?;
        Ok::<_, Refused>((change, durable))
    };
    Piece::text(match changed.await {
        Ok((change, durable)) => words::setting_changed(&change, durable, locale),
        Err(refused) => words::setting_refused(&refused, locale),
    })
}

/// Returns the changes that contain the typed text.
pub(super) fn changes(parts: &CommandParts, typing: &Typing) -> Vec<Choice> {
    let running = parts.basics.live.now();
    let members = &running.settings.members;
    let open = Setting::ALL.into_iter().filter(|setting| members.opens(*setting, &typing.caller.roles));
    let values = |setting: Setting| match setting {
        Setting::Model => running.choices().iter().map(|row| row.key.clone()).collect(),
        _ => setting.suggested().iter().map(|value| (*value).to_owned()).collect::<Vec<_>>(),
    };
    let all =
        open.flat_map(|setting| values(setting).into_iter().map(move |value| format!("{} {value}", setting.name())));
    let typed = typing.typed.trim().to_lowercase();
    let fitting = all.filter(|change| change.to_lowercase().contains(&typed));
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
