//! Reads the missed messages of one place over the request API.

use std::collections::HashMap;
use std::time::Duration;

use super::ShardParts;
use super::activity::DIRECT;
use crate::messages::outbox::OutboxMsg;
use domain::ids::{Person, Place, Timestamp};
use domain::incoming::{AuthorKind, Posted};
use domain::restriction::Member;
use domain::triage::{self, TriageDecision};
use ports::{HistoryRange, PostError, PostRequest, PostResult};

/// The timeout for one request, including its retries and the delays by request budgets: a place that hangs delays the
/// next one no longer.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of messages in one request.
pub(super) const PAGE: usize = 100;
/// The maximum number of messages read back for one place, regardless of the configuration.
const PER_PLACE_MAX: usize = 5_000;

/// The missed messages of one place.
#[derive(Default)]
pub struct PlaceRead {
    /// The messages that were read, oldest first; they may include some from before the gap.
    pub(super) messages: Vec<Posted>,
    /// The reason why the place could not be read completely. A place without read permission contains nothing for the
    /// bot, and counts as read.
    pub(super) unread: Option<String>,
    /// True if older messages of the gap exceed the configured number for each place.
    pub(super) exceeds: bool,
}

/// Reads the messages of a place since a time, page by page from the newest. With `until`, later messages are known: they
/// are left out, and do not count against the configured number.
pub(super) async fn read_place(
    parts: &ShardParts,
    place: &Place,
    since: Timestamp,
    until: Option<Timestamp>,
) -> PlaceRead {
    let most = parts.basics.live.now().settings.catch_up.per_channel.min(PER_PLACE_MAX);
    let is_missed = |posted: &Posted| until.is_none_or(|until| posted.at <= until);
    let mut pages: Vec<Vec<Posted>> = Vec::new();
    let (mut range, mut many, mut visited) = (HistoryRange::Newest, 0, 0);
    let mut read = PlaceRead { exceeds: most > 0, ..PlaceRead::default() };
    while many < most && visited < PER_PLACE_MAX {
        let asked = if until.is_some() { PAGE } else { PAGE.min(most - many) };
        let page = match read_page(parts, place, &range, asked).await {
            Ok(page) => page,
            Err(reason) => {
                (read.unread, read.exceeds) = (Some(reason), false);
                break;
            }
        };
        let first = page.first().map(|oldest| (oldest.id.clone(), oldest.at));
        // Unreadable messages are missing from a page, so a page that lacks a few may not be the last.
        let last_page = page.len() * 2 < asked;
        visited += page.len();
        let page: Vec<Posted> = page.into_iter().filter(is_missed).collect();
        many += page.len();
        pages.push(page);
        match first {
            Some((oldest, at)) if at >= since && !last_page => range = HistoryRange::Before(oldest),
            Some(_) | None => {
                read.exceeds = false;
                break;
            }
        }
    }
    read.messages = pages.into_iter().rev().flatten().collect();
    read
}

/// Reads one page.
///
/// # Errors
/// The reason why it cannot be read for the time being.
async fn read_page(
    parts: &ShardParts,
    place: &Place,
    range: &HistoryRange,
    limit: usize,
) -> Result<Vec<Posted>, String> {
    let limit = u8::try_from(limit).unwrap_or(u8::MAX);
    let request = PostRequest::History { place: place.clone(), range: range.clone(), limit };
    match parts.outbox.call(|reply| OutboxMsg::Read(request, reply), READ_TIMEOUT).await {
        Ok(Ok(PostResult::Messages(messages))) => Ok(messages),
        Ok(Ok(_)) => Ok(Vec::new()),
        Ok(Err(PostError::Rejected { reason, .. })) if !reason.may_pass() => Ok(Vec::new()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes the messages from before the gap, and adds what the request API leaves out: community, place and roles.
pub(super) async fn complete(
    parts: &ShardParts,
    guild: &str,
    since: Timestamp,
    messages: &mut Vec<Posted>,
    roles: &mut Roles,
) {
    messages.retain(|posted| posted.at >= since);
    for posted in messages {
        posted.guild = Some(guild.to_owned()).filter(|guild| guild != DIRECT);
        parts.source.complete(posted);
        roles.complete(parts, posted).await;
    }
}

/// The roles of authors, each requested once; at most one request for each message.
#[derive(Clone, Default)]
pub(super) struct Roles(HashMap<Person, Vec<String>>);

impl Roles {
    /// Adds the roles of its author to a message that the bot may answer. An author who has left has no roles. If the
    /// lookup fails, the author also counts as without roles, because one answer too many is less harmful than a
    /// missing one.
    async fn complete(&mut self, parts: &ShardParts, posted: &mut Posted) {
        let running = parts.basics.live.now();
        let Some(us) = parts.source.us() else { return };
        let Some(rules) = running.rules(&parts.door) else { return };
        let is_answered = !matches!(triage::triage(posted, rules, &us), TriageDecision::Ignore(_));
        let Some(guild) = posted.guild.clone().filter(|_| is_answered && running.roles_matter()) else { return };
        if posted.author.kind != AuthorKind::Member {
            return;
        }
        let person = posted.author.person.clone();
        if !self.0.contains_key(&person) {
            let request = PostRequest::Roles(Member { guild, person: person.clone() });
            let told = parts.outbox.call(|reply| OutboxMsg::Read(request, reply), READ_TIMEOUT).await;
            let roles = if let Ok(Ok(PostResult::Roles(roles))) = told { roles } else { Vec::new() };
            self.0.insert(person.clone(), roles);
        }
        posted.author.roles = self.0.get(&person).cloned().unwrap_or_default();
    }
}
