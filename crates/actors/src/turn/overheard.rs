//! The current conversation of a place, read for an interjection.

use std::collections::HashSet;
use std::time::Duration;

use super::{TurnTask, scene};
use crate::messages::outbox::OutboxMsg;
use crate::services::prompt_sections;
use domain::ending::Ending;
use domain::ids::Person;
use domain::incoming::{AuthorKind, Posted};
use domain::prompt::{self, Transcript};
use domain::restriction::Member;
use ports::{HistoryRange, PostRequest, PostResult};

/// The timeout for reading the place; after that the interjection is dropped.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of messages read, so that enough of them are written by people.
const READ: u8 = 50;
/// The maximum number of authors whose roles are requested.
const AUTHORS_MAX: usize = 10;

impl TurnTask<'_> {
    /// Returns the transcript for an interjection: the last messages of people at this moment.
    ///
    /// # Errors
    /// The reason why an interjection is not possible.
    pub(super) async fn overheard(&self) -> Result<Transcript, Ending> {
        let Self { parts, running, turn, .. } = *self;
        let request = PostRequest::History { place: turn.place.clone(), range: HistoryRange::Newest, limit: READ };
        let ask = |reply| OutboxMsg::Read(request, reply);
        let Ok(Ok(PostResult::Messages(mut messages))) =
            parts.neighbors.outboxes.of(&turn.place.door).call(ask, READ_TIMEOUT).await
        else {
            return Err(Ending::PlaceUnreadable);
        };
        let ignored = running.rules(&turn.place.door).map(|rules| &rules.ignored_roles);
        if let Some(ignored) = ignored.filter(|roles| !roles.is_empty()) {
            let heard = self.not_ignored(&messages, ignored).await;
            messages.retain(|posted| heard.contains(&posted.author.person));
        }
        let now = parts.basics.clock.now();
        let heard = prompt::heard(messages, now, running.settings.history.message_max_age);
        if heard.is_empty() {
            return Err(Ending::NothingHeard);
        }
        let prompts = prompt_sections::in_force(running, &parts.basics.live, &*parts.basics.store).await;
        Ok(prompt::interjection(&prompts, turn.policy.reply, &scene(turn, now), &heard))
    }

    /// Returns the authors who hold no ignored role. Messages from the platform do not include roles, so the roles of
    /// the newest authors are requested; authors with unknown roles are left out.
    async fn not_ignored(&self, messages: &[Posted], ignored: &HashSet<String>) -> HashSet<Person> {
        let Self { parts, turn, .. } = *self;
        let mut asked = HashSet::new();
        let mut heard = HashSet::new();
        let members = messages.iter().rev().filter(|posted| posted.author.kind == AuthorKind::Member);
        for person in members.map(|posted| &posted.author.person) {
            if asked.len() >= AUTHORS_MAX {
                break;
            }
            let Some(guild) = turn.guild.clone().filter(|_| asked.insert(person)) else { continue };
            let request = PostRequest::Roles(Member { guild, person: person.clone() });
            let ask = |reply| OutboxMsg::Read(request, reply);
            let ignored = match parts.neighbors.outboxes.of(&turn.place.door).call(ask, READ_TIMEOUT).await {
                Ok(Ok(PostResult::Roles(roles))) => roles.iter().any(|role| ignored.contains(role)),
                Ok(Ok(PostResult::Absent)) => false,
                Ok(_) | Err(_) => true,
            };
            if !ignored {
                heard.insert(person.clone());
            }
        }
        heard
    }
}
