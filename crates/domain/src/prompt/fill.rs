//! The placeholders of prompts. Braces around other text are unchanged, because prompts contain examples of JSON.

use jiff::tz::TimeZone;

use super::{MAX_NAME_CHARS, Prompts};
use crate::clean::clean;
use crate::ids::{Place, Timestamp};

/// The person, place and time of a question.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The place of the question.
    pub place: &'a Place,
    /// The parent place; `None` also if it is unknown.
    pub parent: Option<&'a Place>,
    /// The community's id; `None` in direct conversations.
    pub guild: Option<&'a str>,
    /// The id of the person.
    pub person: &'a str,
    /// The display name of the person.
    pub name: &'a str,
    /// The time of the question.
    pub now: Timestamp,
    /// The requested profile.
    pub profile: Option<&'a str>,
}

impl<'a> Scene<'a> {
    /// Returns a scene without a person, for a preview of a place's prompt.
    #[must_use]
    pub const fn nobody(place: &'a Place) -> Self {
        Self { place, parent: None, guild: None, person: "0", name: "nobody", now: Timestamp(0), profile: None }
    }
}

/// The meaning of a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    BotName,
    Words,
    UserName,
    UserId,
    ChannelId,
    ServerId,
    Date,
    Time,
}

/// All placeholders by name, as the operator's guide lists them.
const HOLDERS: [(&str, Holder); 8] = [
    ("bot_name", Holder::BotName),
    ("words", Holder::Words),
    ("user_name", Holder::UserName),
    ("user_id", Holder::UserId),
    ("channel_id", Holder::ChannelId),
    ("server_id", Holder::ServerId),
    ("date", Holder::Date),
    ("time", Holder::Time),
];

impl Holder {
    /// True if the value is equal for every question of one configuration.
    const fn is_stable(self) -> bool {
        matches!(self, Self::BotName | Self::Words)
    }

    fn value(self, prompts: &Prompts, scene: &Scene<'_>) -> String {
        match self {
            Self::BotName => prompts.bot_name.to_string(),
            Self::Words => prompts.words.to_string(),
            Self::UserName => name(scene.name),
            Self::UserId => scene.person.to_owned(),
            Self::ChannelId => scene.place.id.to_string(),
            Self::ServerId => scene.guild.unwrap_or("none").to_owned(),
            Self::Date => moment(scene.now, "%A, %Y-%m-%d"),
            Self::Time => moment(scene.now, "%H:%M UTC"),
        }
    }
}

/// Replaces the placeholders of a text in one pass; placeholders inside the inserted values are not replaced.
pub(super) fn fill(text: &str, prompts: &Prompts, scene: &Scene<'_>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match holder(after) {
            Some((holder, behind)) => {
                filled.push_str(&holder.value(prompts, scene));
                rest = behind;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// True if the text is equal for all persons at all times.
pub(super) fn is_stable(text: &str) -> bool {
    text.split('{').skip(1).filter_map(holder).all(|(holder, _)| holder.is_stable())
}

/// Returns the placeholder that begins after a brace, and the text after it.
fn holder(after: &str) -> Option<(Holder, &str)> {
    HOLDERS.into_iter().find_map(|(name, holder)| Some((holder, after.strip_prefix(name)?.strip_prefix('}')?)))
}

/// Cleans a display name for use in the instructions: one line, without brackets and quotation marks, because members
/// choose it.
fn name(name: &str) -> String {
    let plain = clean(name, MAX_NAME_CHARS).replace(|c: char| c.is_control() || "[]{}<>\"`".contains(c), " ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn moment(now: Timestamp, form: &str) -> String {
    let moment = i64::try_from(now.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    moment.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC).strftime(form).to_string()
}
