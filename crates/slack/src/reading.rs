//! Reads messages of channels and threads, and converts them.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::bounded::at_most;
use super::events::Wire;
use super::ids::{self, At};
use super::marks::{Fate, Mark};
use super::people::Profile;
use super::unreadable::Unreadable;
use super::web_api::{Arguments, Call, CallError};
use super::{Account, Slack};
use domain::ids::Timestamp;
use domain::incoming::{Author, AuthorKind, Posted, Quoted, WantedModels};
use telemetry::events::SLACK_MESSAGE_DROPPED;

/// The most messages of one reading.
const MESSAGES: usize = 1_000;
/// The longest texts of one reading in sum, in bytes.
const TEXT_BYTES: usize = 32 * 1024 * 1024;
/// The most pages of one reading.
const PAGES: u32 = 100;
/// The numbers of messages of a page, of which Slack recommends the first one. A page that is too large is read in
/// smaller ones: forty of the longest messages are. One message never is.
const SIZES: [&str; 5] = ["200", "50", "12", "3", "1"];

/// Slack's own bot, which members let speak by reminders and custom responses. Slack's data about it do not say that it
/// is a bot.
const SLACKBOT: &str = "USLACKBOT";

/// The bounds of a reading, each a timestamp of Slack.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span<'a> {
    /// Messages after this one.
    pub(super) oldest: Option<&'a str>,
    /// Messages before this one.
    pub(super) latest: Option<&'a str>,
    /// True if the bounds are read too.
    pub(super) inclusive: bool,
}

/// A page of messages.
#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(default, deserialize_with = "at_most::<_, _, MESSAGES>")]
    messages: Vec<Row>,
    #[serde(default)]
    response_metadata: Cursor,
}

/// A message of a page. One that cannot be read leaves the others readable.
struct Row(Result<Wire, Unreadable>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(raw.get()).map_err(Unreadable::from)))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cursor {
    next_cursor: String,
}

/// A reading of messages, page by page.
pub(super) struct Reading<'a> {
    at: At<'a>,
    span: Span<'a>,
    /// The position of the next page; empty for the first one.
    cursor: String,
    /// The size of the next page, an index of [`SIZES`].
    size: usize,
    pages: u32,
    wires: Vec<Wire>,
    /// The length of their texts.
    texts: usize,
}

impl<'a> Reading<'a> {
    /// Begins a reading of a channel or a thread: at most a thousand messages, of a channel the newest, of a thread the
    /// oldest.
    pub(super) fn new(at: At<'a>, span: Span<'a>) -> Self {
        Self { at, span, cursor: String::new(), size: 0, pages: 0, wires: Vec::new(), texts: 0 }
    }

    /// Requests the next page.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn page(&self, slack: &Slack) -> Result<Page, CallError> {
        let Self { at, span, .. } = self;
        let call = Call::reads(if at.thread.is_some() { "conversations.replies" } else { "conversations.history" });
        let mut arguments: Arguments<'_> = vec![
            ("channel", at.channel.into()),
            ("limit", SIZES[self.size].into()),
            ("include_all_metadata", "true".into()),
            ("inclusive", if span.inclusive { "true" } else { "false" }.into()),
        ];
        arguments.extend(at.thread.map(|ts| ("ts", ts.into())));
        arguments.extend(span.oldest.map(|ts| ("oldest", ts.into())));
        arguments.extend(span.latest.map(|ts| ("latest", ts.into())));
        if !self.cursor.is_empty() {
            arguments.push(("cursor", self.cursor.as_str().into()));
        }
        slack.api.call(call, arguments).await
    }

    /// Takes a page, without the texts and files of messages for which `keeps` is false. Returns true if there is
    /// another one.
    ///
    /// # Errors
    /// The page was not read, and smaller pages would not help.
    pub(super) fn take(
        &mut self,
        page: Result<Page, CallError>,
        keeps: impl Fn(&Wire) -> bool,
    ) -> Result<bool, CallError> {
        let page = match page {
            Err(CallError::TooLarge) if self.size + 1 < SIZES.len() => {
                self.size += 1;
                return Ok(true);
            }
            page => page?,
        };
        self.pages += 1;
        for mut wire in page.messages.into_iter().filter_map(|row| wire(self.at.channel, row)) {
            if !keeps(&wire) {
                (wire.text, wire.files) = (String::new(), Vec::new());
            }
            self.texts += wire.text.len();
            self.wires.push(wire);
        }
        self.cursor = page.response_metadata.next_cursor;
        let is_full = self.wires.len() >= MESSAGES || self.texts >= TEXT_BYTES || self.pages >= PAGES;
        Ok(!self.cursor.is_empty() && !is_full)
    }

    /// Returns the messages, oldest first.
    pub(super) fn messages(self) -> Vec<Wire> {
        let Self { span, mut wires, .. } = self;
        // Each page of a thread repeats the first message.
        wires.retain(|wire| span.contains(&wire.ts));
        wires.sort_by(|one, other| order(&one.ts).cmp(&order(&other.ts)));
        wires.dedup_by(|one, other| one.ts == other.ts);
        wires
    }
}

impl Slack {
    /// Returns the messages of a channel or a thread, oldest first, with their metadata, within the bounds of a
    /// [`Reading`].
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn read(&self, at: At<'_>, span: Span<'_>) -> Result<Vec<Wire>, CallError> {
        let mut reading = Reading::new(at, span);
        loop {
            let page = reading.page(self).await;
            if !reading.take(page, |_| true)? {
                return Ok(reading.messages());
            }
        }
    }

    /// Converts a message. `profile` is the author's data.
    pub(super) fn posted(&self, wire: &Wire, profile: Option<Profile>, us: &Account) -> Posted {
        let kind = kind(wire, profile.as_ref(), us);
        let id = ids::message(&wire.channel, &wire.ts);
        let mark = wire.metadata.as_ref().filter(|_| kind == AuthorKind::Ourselves).and_then(Mark::read);
        if let Some(mark) = &mark {
            self.marks.note(mark, Fate::Stands(id.clone()));
        }
        let answers = mark.and_then(|mark| mark.answers);
        if let Some(user) = wire.user.as_deref().filter(|_| kind == AuthorKind::Member) {
            self.streams.note_author(&id, user);
        }
        let person = wire.user.as_deref().or(wire.bot_id.as_deref()).unwrap_or("unknown");
        // A rule may deny the tools of a role that is unknown.
        let tools = profile.as_ref().is_none_or(|profile| profile.roles_known);
        let (name, locale, roles) = profile.map_or_else(
            || (person.to_owned(), None, Vec::new()),
            |profile| (profile.name, profile.locale, profile.roles),
        );
        let text = wire.plain();
        Posted {
            id,
            place: ids::thread(&wire.channel, wire.root()),
            parent: Some(ids::channel(&wire.channel)),
            guild: (!wire.is_direct()).then(|| us.team.clone()),
            author: Author { person: ids::person(person), name, roles, joined: None, kind },
            mentions_us: wire.mention || text.contains(&format!("<@{}>", us.user)),
            text,
            reply_to: answers.map(|id| Quoted { id, seen: None }),
            attachments: wire.attachments(),
            locale,
            may_answer: true,
            at: ids::moment(&wire.ts).unwrap_or(Timestamp(0)),
            draw: None,
            tools,
            given: None,
            models: WantedModels::default(),
            lineage: None,
        }
    }
}

impl Span<'_> {
    fn contains(&self, ts: &str) -> bool {
        let after = |bound: &str| order(ts) > order(bound) || (self.inclusive && ts == bound);
        let before = |bound: &str| order(ts) < order(bound) || (self.inclusive && ts == bound);
        self.oldest.is_none_or(after) && self.latest.is_none_or(before)
    }
}

/// The order of timestamps, which have six digits after the point.
fn order(ts: &str) -> (usize, &str) {
    (ts.len(), ts)
}

fn wire(channel: &str, Row(read): Row) -> Option<Wire> {
    match read.and_then(|wire| Wire { channel: channel.to_owned(), ..wire }.checked()) {
        Ok(wire) => Some(wire),
        Err(reason) => {
            tracing::debug!(event = SLACK_MESSAGE_DROPPED, reason = reason.0, "a message could not be read");
            None
        }
    }
}

fn kind(wire: &Wire, profile: Option<&Profile>, us: &Account) -> AuthorKind {
    let ours = wire.user.as_deref() == Some(us.user.as_str()) || (wire.bot_id.is_some() && wire.bot_id == us.bot);
    let is_bot =
        wire.bot_id.is_some() || wire.user.as_deref() == Some(SLACKBOT) || profile.is_some_and(|profile| profile.bot);
    match (ours, wire.is_talk()) {
        (true, _) => AuthorKind::Ourselves,
        (false, false) => AuthorKind::System,
        (false, true) if is_bot => AuthorKind::Bot,
        (false, true) => AuthorKind::Member,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(first: usize, many: usize, text: &str, cursor: &str) -> Page {
        let message = |number: usize| json!({"user": "U1", "ts": format!("{number}.5"), "text": text});
        let messages: Vec<_> = (first..first + many).map(message).collect();
        let page = json!({"messages": messages, "response_metadata": {"next_cursor": cursor}});
        serde_json::from_str(&page.to_string()).unwrap()
    }

    fn reading() -> Reading<'static> {
        Reading::new(At { channel: "C1", thread: None }, Span::default())
    }

    #[test]
    fn a_page_that_is_too_large_is_read_in_smaller_ones() {
        let mut reading = reading();
        for size in ["200", "50", "12", "3"] {
            assert_eq!(SIZES[reading.size], size);
            assert_eq!(reading.take(Err(CallError::TooLarge), |_| true), Ok(true));
        }
        assert_eq!(SIZES[reading.size], "1");
        assert_eq!(reading.take(Ok(page(1, 1, "a", "next")), |_| true), Ok(true));
        assert_eq!((reading.cursor.as_str(), SIZES[reading.size]), ("next", "1"));
        assert_eq!(reading.take(Err(CallError::TooLarge), |_| true), Err(CallError::TooLarge));
    }

    #[test]
    fn a_reading_ends_at_its_bounds() {
        let mut reading = self::reading();
        for number in 0..4 {
            assert_eq!(reading.take(Ok(page(number * 200, 200, "a", "next")), |_| true), Ok(true));
        }
        assert_eq!(reading.take(Ok(page(800, 200, "a", "next")), |_| true), Ok(false));
        assert_eq!(reading.messages().len(), MESSAGES);
        let long = "x".repeat(256 * 1024);
        let read = |keeps: bool| {
            let mut reading = self::reading();
            let mut pages = 1;
            while reading.take(Ok(page(pages * 12, 12, &long, "next")), |_| keeps).unwrap() {
                pages += 1;
            }
            pages
        };
        assert_eq!((read(true), read(false)), (TEXT_BYTES.div_ceil(long.len() * 12), MESSAGES.div_ceil(12)));
    }

    #[test]
    fn a_message_that_cannot_be_read_leaves_the_others_readable() {
        let page = r#"{"messages": [0, {"ts": "1.5", "text": "a"}, {"ts": "later"}, [[]]]}"#;
        let mut reading = reading();
        assert_eq!(reading.take(Ok(serde_json::from_str(page).unwrap()), |_| true), Ok(false));
        assert_eq!(reading.messages().len(), 1);
    }

    #[test]
    fn slackbot_is_a_bot_although_its_data_do_not_say_so() {
        let us = Account {
            user: "UBOT".to_owned(),
            bot: None,
            team: "T1".to_owned(),
            name: "staffai".to_owned(),
            workspace: "w".to_owned(),
        };
        let of = |user: &str| kind(&Wire { user: Some(user.to_owned()), ..Wire::default() }, None, &us);
        assert_eq!([of(SLACKBOT), of("U1"), of("UBOT")], [AuthorKind::Bot, AuthorKind::Member, AuthorKind::Ourselves]);
    }
}
