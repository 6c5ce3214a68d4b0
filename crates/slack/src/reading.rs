//! Reads messages of channels and threads, and converts them.

use serde::Deserialize;
use serde_json::value::RawValue;

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

/// The most pages of one reading.
const PAGES: u32 = 5;
/// The messages of a page, as Slack recommends at most.
const PAGE: &str = "200";

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

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    messages: Vec<Box<RawValue>>,
    #[serde(default)]
    response_metadata: Cursor,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cursor {
    next_cursor: String,
}

impl Slack {
    /// Returns the messages of a channel or a thread, oldest first, with their metadata. Reads at most five pages: of a
    /// channel the newest messages, of a thread the oldest.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn read(&self, at: At<'_>, span: Span<'_>) -> Result<Vec<Wire>, CallError> {
        let call = Call::reads(if at.thread.is_some() { "conversations.replies" } else { "conversations.history" });
        let mut wires: Vec<Wire> = Vec::new();
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let mut arguments: Arguments<'_> = vec![
                ("channel", at.channel.into()),
                ("limit", PAGE.into()),
                ("include_all_metadata", "true".into()),
                ("inclusive", if span.inclusive { "true" } else { "false" }.into()),
            ];
            arguments.extend(at.thread.map(|ts| ("ts", ts.into())));
            arguments.extend(span.oldest.map(|ts| ("oldest", ts.into())));
            arguments.extend(span.latest.map(|ts| ("latest", ts.into())));
            if !cursor.is_empty() {
                arguments.push(("cursor", std::mem::take(&mut cursor).into()));
            }
            let page: Page = self.api.call(call, arguments).await?;
            wires.extend(page.messages.iter().filter_map(|raw| wire(at.channel, raw)));
            cursor = page.response_metadata.next_cursor;
            if cursor.is_empty() {
                break;
            }
        }
        // Each page of a thread repeats the first message.
        wires.retain(|wire| span.contains(&wire.ts));
        wires.sort_by(|one, other| order(&one.ts).cmp(&order(&other.ts)));
        wires.dedup_by(|one, other| one.ts == other.ts);
        Ok(wires)
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

fn wire(channel: &str, raw: &RawValue) -> Option<Wire> {
    let read = serde_json::from_str::<Wire>(raw.get()).map_err(Unreadable::from);
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
    match (ours, wire.is_talk()) {
        (true, _) => AuthorKind::Ourselves,
        (false, false) => AuthorKind::System,
        (false, true) if wire.bot_id.is_some() || profile.is_some_and(|profile| profile.bot) => AuthorKind::Bot,
        (false, true) => AuthorKind::Member,
    }
}
