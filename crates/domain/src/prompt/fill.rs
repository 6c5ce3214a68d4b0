//! Place-holders in prompts. Braces that name none of them stay as they are: prompts show examples of JSON.

use jiff::tz::TimeZone;

use super::{MAX_NAME_CHARS, Prompts};
use crate::clean::clean;
use crate::ids::{Place, Timestamp};

/// Who asks, where and when.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Where it is asked.
    pub place: &'a Place,
    /// The place above it; none also when it is unknown.
    pub parent: Option<&'a Place>,
    /// The community's id, when there is one.
    pub guild: Option<&'a str>,
    /// The id of the person.
    pub person: &'a str,
    /// The name others see.
    pub name: &'a str,
    /// When it is asked.
    pub now: Timestamp,
    /// The profile that was asked for.
    pub profile: Option<&'a str>,
}

impl<'a> Scene<'a> {
    /// No person asks: for a preview of the prompt of a place.
    #[must_use]
    pub const fn nobody(place: &'a Place) -> Self {
        Self { place, parent: None, guild: None, person: "0", name: "nobody", now: Timestamp(0), profile: None }
    }
}

/// What a place-holder stands for.
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

/// All place-holders by their name, as the operator's guide lists them.
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
    /// The same for every question of one configuration.
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

/// The text with its place-holders replaced, in one pass: what stands for one is not looked at again.
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

/// Whether the text says the same to everybody at any time.
pub(super) fn is_stable(text: &str) -> bool {
    text.split('{').skip(1).filter_map(holder).all(|(holder, _)| holder.is_stable())
}

/// The place-holder that begins behind a brace, and what follows it.
fn holder(after: &str) -> Option<(Holder, &str)> {
    HOLDERS.into_iter().find_map(|(name, holder)| Some((holder, after.strip_prefix(name)?.strip_prefix('}')?)))
}

/// A name that members choose themselves becomes a part of our instructions: one line, no brackets, no quotation marks.
fn name(name: &str) -> String {
    let plain = clean(name, MAX_NAME_CHARS).replace(|c: char| c.is_control() || "[]{}<>\"`".contains(c), " ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn moment(now: Timestamp, form: &str) -> String {
    let moment = i64::try_from(now.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    moment.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC).strftime(form).to_string()
}
