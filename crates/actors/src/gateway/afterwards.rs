//! Events about earlier messages: deletions, interruptions of answers, votes. Each takes its time in the background.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Gateway, GatewayState};
use crate::messages::journal::JournalMsg;
use crate::messages::receipt::Receipt;
use crate::runtime::supervisor::ActorContext;
use crate::services::conversation_records::ConversationRecords;
use crate::services::experiments;
use crate::services::preferences;
use domain::ids::{Person, TurnId};
use domain::incoming::{Deletion, Interruption, Reaction};
use domain::keys;
use domain::preferences::Record;
use domain::triage;
use ports::shares::Shares;

/// The maximum number of deleted messages under lookup at a time; those of further ones are looked up later.
const DELETIONS_MAX: usize = 1_000;
/// The maximum number of votes that are counted at a time; further ones are not counted.
const VOTES_MAX: usize = 64;

/// The work in flight.
pub(super) struct Afterwards {
    /// One permit for each lookup of facts from a deleted message, shared by the communities.
    deletions: Shares<String>,
    /// One permit for each vote that is being counted.
    votes: Arc<Semaphore>,
}

impl Default for Afterwards {
    fn default() -> Self {
        Self {
            deletions: Shares::new(Arc::new(Semaphore::new(DELETIONS_MAX))),
            votes: Arc::new(Semaphore::new(VOTES_MAX)),
        }
    }
}

impl Gateway {
    /// Deletes the facts learned from a deleted message, and the exchange of its question.
    pub(super) fn forget_what_it_told(&self, ctx: &mut ActorContext<Self>, state: &GatewayState, deletion: Deletion) {
        self.facts.forgotten().deleted(&deletion.message);
        let Some(room) = state.afterwards.deletions.take(Some(&deletion.holder().to_owned())) else {
            self.facts.forgotten().withdraw_later(deletion.clone());
            return self.facts.delete_later(deletion);
        };
        let (facts, store, running) = (Arc::clone(&self.facts), Arc::clone(&self.store), self.live.now());
        ctx.background(async move {
            facts.deleted(&deletion).await;
            ConversationRecords::new(&*store, &running).withdraw(facts.forgotten(), &deletion).await;
            drop(room);
        });
    }

    /// Cancels the turn of an interrupted answer, and remembers what was heard of it, unless the person's settings forbid
    /// it. A call that changes something finishes first. The receipt is settled afterwards, so that the next question finds it.
    pub(super) fn interrupted(
        &self,
        ctx: &mut ActorContext<Self>,
        mut interruption: Interruption,
        us: &Person,
        receipt: Receipt,
    ) {
        // The dropped receipt tells the door that the event was not accepted.
        let turn = TurnId::of(&interruption.message);
        self.acts.interrupt(&turn, true);
        if self.journal.cast(JournalMsg::Cancel(turn.clone())).is_err() {
            return self.acts.interrupt(&turn, false);
        }
        interruption.heard.asked = triage::words_of(&interruption.heard.asked, us);
        let (facts, store, running) = (Arc::clone(&self.facts), Arc::clone(&self.store), self.live.now());
        let acts = Arc::clone(&self.acts);
        let person = &interruption.heard.person;
        let settings = keys::preferences(self.live.linked(person).lead(person));
        ctx.background(async move {
            let record = preferences::stored(&*store, &settings).await.unwrap_or_else(Record::unread);
            // The roles of a speaker are unknown, and any role may permit to forbid it.
            let roles: Vec<String> = running.settings.members.role_settings.keys().cloned().collect();
            if !running.preferences(&record, &interruption.place, None, None, &roles).remembers() {
                return receipt.settle();
            }
            let records = ConversationRecords::new(&*store, &running);
            if records.interrupt(facts.forgotten(), &interruption, &running, || acts.of(&turn)).await {
                receipt.settle();
            }
        });
    }

    /// Counts a vote for the arm of an experiment.
    pub(super) fn voted(&self, ctx: &mut ActorContext<Self>, state: &GatewayState, reaction: Reaction) {
        if reaction.vote.is_none() || self.live.now().settings.llm.experiments.is_empty() {
            return;
        }
        let Ok(room) = Arc::clone(&state.afterwards.votes).try_acquire_owned() else { return };
        let store = Arc::clone(&self.store);
        ctx.background(async move {
            experiments::count_vote(&*store, &reaction).await;
            drop(room);
        });
    }
}
