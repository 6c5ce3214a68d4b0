//! The task of one conversation: it asks the row of the settings for the summary of the oldest exchanges, merges parts,
//! and renews the TTL of the summary. One spare permit and one attempt for each call; the next turn tries again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Reserved, SummaryParts};
use crate::messages::llm_dispatcher::{Lease, LlmDispatcherMsg, Priority, Report, Summary as CallSummary};
use crate::messages::summaries::Conversation;
use crate::services::forgotten::{HistoryRead, Moment, Question, StoredWishes};
use crate::services::running::Running;
use domain::completion::{Item, Request, Usage};
use domain::forgetting::Forgetting;
use domain::happening::{CallPurpose, Happening, Summarised};
use domain::history::History;
use domain::ids::Person;
use domain::keys;
use domain::ledger::{self, Tally};
use domain::summary::{PARTS_MAX, Summary, SummaryOutcome, SummaryPart, asking};
use domain::turn::Effort;
use ports::{StoreStatus, Stored, Write};

/// The timeout of the dispatcher's reply; the request is not queued.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest reply that is read, in bytes.
const CONTENT_BYTES_MAX: usize = 256 * 1024;

/// Summarises what the history of this conversation will evict next, if it is due, and stores the summary with the
/// remaining TTL of the history, which was saved at this time.
pub(super) async fn keep(parts: &SummaryParts, conversation: &Conversation, saved: Instant) {
    let running = parts.basics.live.now();
    let Some(row) = running.settings.summaries.row() else { return };
    let (store, Conversation { person, place }) = (&parts.basics.store, conversation);
    let key = keys::history(person, place);
    let own = keys::conversations::summary(&key);
    let read = parts.forgotten.now();
    let (history, stored) = tokio::join!(store.read(&key), store.read(&own));
    let is_unread = [&history, &stored].iter().any(|stored| matches!(stored, Stored::Unreadable(_)));
    if is_unread || store.status() != StoreStatus::Ready {
        // Both may exist although they were not read.
        return;
    }
    let (history, stored) = (history.value(), stored.value());
    let history = history.and_then(|stored| History::parse(&stored).ok()).map(|parsed| parsed.history);
    let (bounds, now) = (running.history_bounds(), parts.basics.clock.now());
    let mut summary = Summary::default();
    if let Some(history) = &history {
        summary = Summary::parse(stored.as_deref());
        summary.expire(bounds, now);
        let call = Call { parts, running: &running, conversation, row };
        if let Some(batch) = summary.due(history, bounds, now)
            && let Some(text) = call.text(asking::of_exchanges(&batch, call.characters()), batch.len()).await
        {
            summary.add(SummaryPart::new(text, &batch));
        }
        if let Some(at) = summary.crowded()
            && let [first, second] = &summary.parts()[at..at + 2]
            && let Some(text) = call
                .text(asking::of_parts([first, second], call.characters()), first.exchanges + second.exchanges)
                .await
        {
            summary.merge(at, text);
        }
    }
    let ttl = running.settings.history.ttl;
    let left = (!ttl.is_zero()).then(|| ttl.saturating_sub(saved.elapsed()));
    if stored.is_some() || !summary.parts().is_empty() {
        Save { parts, conversation, key, own, left }.save(summary, read).await;
    }
}

/// The write of a summary.
struct Save<'a> {
    parts: &'a SummaryParts,
    conversation: &'a Conversation,
    /// The key of the history.
    key: String,
    /// The key of the summary.
    own: String,
    /// The remaining TTL of the history; `None` for no expiry.
    left: Option<Duration>,
}

impl Save<'_> {
    /// Stores the summary, without the parts of which a source was to be forgotten since `read`.
    async fn save(&self, mut summary: Summary, read: Moment) {
        let Self { parts, conversation, .. } = self;
        let made = summary.parts().len();
        let sent = {
            let saving = parts.forgotten.saving();
            saving.clean(&conversation.person, &conversation.place, read, &mut summary);
            parts.basics.store.send(self.writes(&summary))
        };
        sent.await;
        // Another process may have recorded a request; that process removes what this check cannot see yet.
        let Conversation { person, place } = conversation;
        let others: Vec<Person> = self.others(&summary).collect();
        let now = parts.basics.clock.now();
        let (asked, history) = (Question { person, place, at: now }, HistoryRead { others: &others, read });
        let wished = StoredWishes::of(&*parts.basics.store, now, asked, history).await;
        let before = summary.clone();
        wished.clean(&mut summary);
        if summary != before {
            drop(parts.basics.store.write(self.writes(&summary)));
        }
        if summary.parts().len() < made {
            let outcome = SummaryOutcome::Forgotten;
            let summarised = Summarised { person, place, exchanges: 0, tokens: 0, outcome };
            parts.observers.tell(&Happening::Summarised(summarised));
        }
    }

    fn writes(&self, summary: &Summary) -> Vec<Write> {
        let Self { key, own, left, .. } = self;
        if summary.parts().is_empty() || left.is_some_and(|left| left.is_zero()) {
            return vec![Write::Delete { key: own.clone() }];
        }
        // A request of the author of quoted text must find this summary after the text has left the history.
        let quote = |person| Write::Put { key: keys::quote_of(&person, key), value: String::new(), ttl: *left };
        let mut writes: Vec<Write> = self.others(summary).map(quote).collect();
        writes.push(Write::Put { key: own.clone(), value: summary.to_json(), ttl: *left });
        writes
    }

    fn others<'a>(&'a self, summary: &'a Summary) -> impl Iterator<Item = Person> + 'a {
        let door = &self.conversation.person.door;
        summary.others().into_iter().map(|id| Person::new(door.clone(), id))
    }
}

/// A model call for a conversation.
struct Call<'a> {
    parts: &'a SummaryParts,
    running: &'a Running,
    conversation: &'a Conversation,
    /// The key of the row.
    row: &'a str,
}

impl Call<'_> {
    /// The maximum length of one part in characters.
    fn characters(&self) -> usize {
        (self.running.settings.summaries.characters / PARTS_MAX).max(1)
    }

    /// Asks for one text, and reports the outcome.
    async fn text(&self, messages: Vec<Item>, exchanges: usize) -> Option<String> {
        let Conversation { person, place } = self.conversation;
        let (text, outcome, usage) = match self.ask(messages).await {
            Ok((Some(text), usage)) => (Some(text), SummaryOutcome::Written, usage),
            Ok((None, usage)) => (None, SummaryOutcome::Unusable, usage),
            Err(outcome) => (None, outcome, Usage::default()),
        };
        let summarised = Summarised { person, place, exchanges, tokens: usage.total(), outcome };
        self.parts.observers.tell(&Happening::Summarised(summarised));
        text
    }

    async fn ask(&self, messages: Vec<Item>) -> Result<(Option<String>, Usage), SummaryOutcome> {
        let Self { parts, running, row, .. } = self;
        let limit = running.settings.summaries.tokens_per_day;
        let expected = asking::tokens(&messages, self.characters());
        // Released after the used tokens are counted.
        let _reserved = reserve(parts, limit, expected).await.ok_or(SummaryOutcome::Budget)?;
        let lease = self.permit().await.ok_or(SummaryOutcome::Busy)?;
        let begun = Instant::now();
        let result = running.models.complete(row, &Request { messages, ..Request::default() }).await;
        drop(lease);
        let report = Report {
            turn: None,
            purpose: CallPurpose::Summary,
            person: None,
            row: (*row).to_owned(),
            tries: 1,
            took: begun.elapsed(),
            streamed: None,
            result: result.as_ref().map(CallSummary::from).map_err(Clone::clone),
        };
        // A dispatcher that restarts loses the counts of this row; a full one uses the row's other reports.
        parts.dispatcher.tell(LlmDispatcherMsg::Report(report));
        let completion = result.map_err(|_| SummaryOutcome::Failed)?;
        self.charge(completion.usage);
        let usable = completion.refusal.is_none() && completion.content.len() <= CONTENT_BYTES_MAX;
        let text = usable.then(|| asking::read(&completion.content, self.characters())).flatten();
        Ok((text, completion.usage))
    }

    async fn permit(&self) -> Option<Lease> {
        let row = self.row.to_owned();
        // Only this row: a fallback row may cost more.
        let (among, tried, priority) = (vec![row.clone()], Vec::new(), Priority::Spare);
        let ask = |reply| LlmDispatcherMsg::Acquire { row: Some(row), among, tried, priority, reply };
        self.parts.dispatcher.call(ask, ACQUIRE_TIMEOUT).await.ok()?.ok()
    }

    /// Charges the call to the bot's own account, which is also the record of the daily budget.
    fn charge(&self, usage: Usage) {
        let Self { parts, running, row, .. } = self;
        let mut effort = Effort { usage, ..Effort::default() };
        ledger::charge(&mut effort, running.price(row), usage);
        let now = parts.basics.clock.now();
        let used = ledger::own(&parts.home, None, ledger::SUMMARIES, Tally::of(&effort), now);
        drop(parts.basics.store.write(used.into_iter().map(Write::from).collect()));
    }
}

/// Tokens reserved for a call. Dropping it releases them.
struct Reservation<'a>(&'a Reserved, u64);

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.tokens.fetch_sub(self.1, Ordering::SeqCst);
    }
}

/// Reserves the expected tokens of a call, if today's tokens, those of calls in progress and these are within the
/// limit; zero is unlimited.
async fn reserve(parts: &SummaryParts, limit: u64, expected: u64) -> Option<Reservation<'_>> {
    let reserved = &*parts.reserved;
    let _admitting = reserved.admitting.lock().await;
    // Read in this order, a call that ends meanwhile is counted twice, never left out.
    let open = reserved.tokens.load(Ordering::SeqCst);
    let today = ledger::own_today(&parts.home, ledger::SUMMARIES, parts.basics.clock.now());
    let spent = parts.basics.store.read(&today).await;
    let is_unknown = matches!(spent, Stored::Unreadable(_)) || parts.basics.store.status() != StoreStatus::Ready;
    if limit > 0 && is_unknown {
        return None;
    }
    let spent = spent.value().as_deref().map_or(0, ledger::tokens);
    if limit > 0 && spent.saturating_add(open).saturating_add(expected) > limit {
        return None;
    }
    reserved.tokens.fetch_add(expected, Ordering::SeqCst);
    Some(Reservation(reserved, expected))
}
