//! What is being talked about in a place where nobody asked us anything.

use std::collections::HashSet;
use std::time::Duration;

use super::{Thinking, scene};
use crate::messages::outbox::OutboxMsg;
use crate::services::prompt_sections;
use domain::ending::Ending;
use domain::ids::Person;
use domain::incoming::{AuthorKind, Posted};
use domain::prompt::{self, Transcript};
use domain::restriction::Member;
use ports::{HistoryRange, PostRequest, PostResult};

/// How long reading the place may take; after that the moment is over.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Messages read, so that enough of them are from people.
const READ: u8 = 50;
/// The most authors whose roles are asked for.
const AUTHORS_MAX: usize = 10;

impl Thinking<'_> {
    /// What a model is shown to join in: the last messages of people, as they stand at this moment.
    ///
    /// # Errors
    /// Why there is nothing to join in.
    pub(super) async fn overheard(&self) -> Result<Transcript, Ending> {
        let Self { parts, running, turn, .. } = *self;
        let request = PostRequest::History { place: turn.place.clone(), range: HistoryRange::Newest, limit: READ };
        let ask = |reply| OutboxMsg::Read(request, reply);
        let Ok(Ok(PostResult::Messages(mut messages))) =
            parts.outboxes.of(&turn.place.door).call(ask, READ_WITHIN).await
        else {
            return Err(Ending::PlaceUnreadable);
        };
        let ignored = running.rules(&turn.place.door).map(|rules| &rules.ignored_roles);
        if let Some(ignored) = ignored.filter(|roles| !roles.is_empty()) {
            let heard = self.not_ignored(&messages, ignored).await;
            messages.retain(|posted| heard.contains(&posted.author.person));
        }
        let now = parts.clock.now();
        let heard = prompt::heard(messages, now, running.settings.history.message_max_age);
        if heard.is_empty() {
            return Err(Ending::NothingHeard);
        }
        let prompts = prompt_sections::in_force(running, &*parts.store).await;
        Ok(prompt::interjection(&prompts, turn.policy.reply, &scene(turn, now), &heard))
    }

    /// The members among these authors who hold no ignored role. Messages that are read do not tell roles, so they are asked for, those
    /// of the newest authors alone; whose roles cannot be known is left out.
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
            let ignored = match parts.outboxes.of(&turn.place.door).call(ask, READ_WITHIN).await {
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
