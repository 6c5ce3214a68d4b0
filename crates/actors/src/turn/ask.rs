//! One question to a model: a permit for each call, a few tries for each row, then the row's fallbacks, all within the turn's
//! deadline, which each piece of an answer moves on. After text was shown there is no further try, because members would see it begin
//! again: a fallback is asked for the rest.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::tally::Flow;
use super::{Thinking, TurnParts};
use crate::messages::deadline::Deadline;
use crate::messages::draft::Slot;
use crate::messages::llm_dispatcher::{Lease, LlmDispatcherMsg, NoModel, Priority, Report, Summary};
use crate::messages::outbox::{Draft, OutboxMsg};
use domain::clean::tail;
use domain::completion::{Completion, Request, Usage};
use domain::dialogue::{Begun, Dialogue, Event};
use domain::ending::Ending;
use domain::happening::Happening;
use domain::model::Row;
use domain::partial::{Partial, Plain};
use domain::restart::Backoff;
use domain::turn::{ReplyContract, Turn};
use domain::turn_event::TurnUpdate;
use ports::tools::Progress;
use ports::{Delta, DeltaSink, ModelError, ModelErrorKind, ProgressSink};

/// The most tries of one row.
const TRIES: u32 = 3;
/// Waits between tries when the provider does not say how long.
const RETRY: Backoff = Backoff { base: Duration::from_millis(300), cap: Duration::from_secs(4) };
/// A provider that asks for a longer wait than this is passed over for the next row.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(20);
/// Pause before a dispatcher that is down is asked again.
const DISPATCHER_AGAIN: Duration = Duration::from_millis(50);

/// How often a draft is announced while it grows: an outbox that was restarted meanwhile has not heard of it.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// A draft is copied into its slot when it has grown by this part of itself, so that copying costs no more than writing.
const GROWTH: usize = 32;
/// Or when so much time has passed since the last copy.
const WRITE_EVERY: Duration = Duration::from_millis(50);
/// How many characters of what a clean call wrote so far are shown.
const WATCHED_CHARS: usize = 160;

impl Thinking<'_> {
    /// Asks until a model answers, each row with the request for it. The error is the last failure.
    pub(super) async fn ask(&self, dialogue: &Dialogue) -> Result<Event, Ending> {
        let Self { parts, turn, slot, deadline, .. } = *self;
        let mut tried: Vec<String> = Vec::new();
        // Rows whose providers refused tools just now.
        let mut without_tools: HashSet<String> = HashSet::new();
        let mut tries = 0;
        let mut last_failure = Ending::NoModel;
        // What was shown of an answer that broke off.
        let mut broken: Option<Begun> = None;
        loop {
            let lease = self.lease(&tried, last_failure).await?;
            if tries == 0 && !tried.is_empty() {
                parts.account.tell(&Happening::ModelFellBack { turn: &turn.id, row: &lease.row.key, after: &tried });
            }
            tries += 1;
            let row = lease.row.clone();
            parts.account.tell(&Happening::ModelAsked(&turn.id, &row.key));
            let takes_tools = self.running.models.takes_tools(&row.key) && !without_tools.contains(&row.key);
            let (request, asked) = match &broken {
                Some(begun) => dialogue.rest(&row, begun),
                None => {
                    let facts = if dialogue.offers_recall(&row, takes_tools) { None } else { self.facts().await };
                    dialogue.request(&row, takes_tools, facts)
                }
            };
            let kept = parts.timeline.prompted(&turn.id, &row.key, &request);
            let flow = Flow::new(deadline);
            let (begun, over) = (Instant::now(), false);
            let sent = (&request, asked.tool_bytes);
            let call = Underway { thinking: self, row: &row, sent, tries, begun, flow: flow.clone(), over };
            let result = match &broken {
                Some(begun) => self.complete_rest(&row.key, &request, begun, flow).await,
                None => {
                    let shown = (asked.may_answer(turn.policy.reply), dialogue.goes_on());
                    self.complete(&row.key, &request, shown, flow).await
                }
            };
            drop(lease);
            parts.timeline.completed(&turn.id, kept, &result);
            call.ended(&result);
            let error = match (result, broken.take()) {
                (Ok(completion), Some(begun)) => return Ok(Event::WentOn(completion, begun)),
                (Ok(completion), None) => return Ok(Event::Completed(completion, asked)),
                (Err(error), _) => error,
            };
            last_failure = Ending::Model(error.kind);
            self.tally.ask_again(error.retry_after);
            // What stands there is not of a clean call.
            let shown = self.depth == 0 && !slot.withdraw();
            if shown {
                broken = self.begun(dialogue, error.kind);
                if broken.is_none() {
                    return Err(last_failure);
                }
            } else if error.kind == ModelErrorKind::ToolsRefused && without_tools.insert(row.key.clone()) {
                // Not a failure of the model: the same row is asked again, for the same thing without tools.
                tries -= 1;
                continue;
            }
            // The row that broke off is not asked for the rest.
            match pause(parts, &error, tries).filter(|_| !shown) {
                Some(pause) if pause < deadline.left() => {
                    tokio::time::sleep(pause).await;
                    self.tally.modelled(pause);
                }
                _ => {
                    tried.push(row.key);
                    tries = 0;
                }
            }
        }
    }

    /// A permit to ask a row that was not tried. `last_failure` is the error once all were.
    async fn lease(&self, tried: &[String], last_failure: Ending) -> Result<Lease, Ending> {
        let waits = self.tally.waits_for_permit();
        let leased = permit(self.parts, self.turn, tried, self.deadline).await;
        drop(waits);
        match leased {
            Some(Ok(lease)) => Ok(lease),
            Some(Err(NoModel::Exhausted)) => Err(last_failure),
            Some(Err(NoModel::Open(rest))) => {
                self.tally.ask_again(Some(rest));
                Err(Ending::BreakersOpen)
            }
            Some(Err(NoModel::Busy)) => Err(Ending::NoPermit),
            None => Err(Ending::Deadline),
        }
    }

    /// What was shown of an answer that broke off, if another row can go on with it.
    fn begun(&self, dialogue: &Dialogue, kind: ModelErrorKind) -> Option<Begun> {
        let may = kind.is_about_the_model() && dialogue.may_go_on();
        self.slot.visible().filter(|_| may).and_then(|shown| Begun::of(&shown))
    }

    /// One call for the rest of an answer. Where a growing message is edited, the rest is shown as it grows.
    async fn complete_rest(
        &self,
        row: &str,
        request: &Request,
        begun: &Begun,
        flow: Flow,
    ) -> Result<Completion, ModelError> {
        let Self { parts, turn, slot, .. } = *self;
        parts.account.tell(&Happening::AnswerContinued(&turn.id, row));
        let heard: DeltaSink = if parts.events.streams(&turn.place.door) {
            Arc::new(move |delta: Delta<'_>| flow.add(delta.chars()))
        } else {
            let (slot, begun, reading) =
                (slot.clone(), begun.clone(), Mutex::new((Partial::default(), None::<Instant>)));
            Arc::new(move |delta: Delta<'_>| {
                flow.add(delta.chars());
                let Delta::Text(more) = delta else { return };
                let (rest, written_at) = &mut *reading.lock();
                rest.push(more);
                if written_at.is_some_and(|at| at.elapsed() < WRITE_EVERY) {
                    return;
                }
                if let Some(text) = begun.growing(rest.visible()) {
                    *written_at = Some(Instant::now());
                    slot.write(&text);
                }
            })
        };
        self.running.models.stream(row, request, heard).await
    }

    /// One call, and what comes of it is counted. It is shown as a draft only while nothing was
    /// shown yet: a repair replaces what stands there in one step. Those who read events are shown what follows on calls as well, since
    /// an event says that it begins anew.
    async fn complete(
        &self,
        row: &str,
        request: &Request,
        (may_answer, goes_on): (bool, bool),
        flow: Flow,
    ) -> Result<Completion, ModelError> {
        let unseen =
            (self.depth == 0 && self.slot.withdraw()) || (goes_on && self.parts.events.streams(&self.turn.place.door));
        // What replies to no message is posted whole.
        let may_answer = may_answer && self.turn.trigger.has_message();
        let grows = !self.turn.given.as_ref().is_some_and(|given| given.whole);
        let heard = match self.turn.policy.reply {
            ReplyContract::Typed | ReplyContract::Verbatim if unseen && may_answer && grows => self.reader(flow),
            ReplyContract::Typed | ReplyContract::Verbatim | ReplyContract::Plain => match &self.watcher {
                Some(watcher) => watched(row, flow, Arc::clone(watcher)),
                None => Arc::new(move |delta: Delta<'_>| flow.add(delta.chars())),
            },
        };
        self.running.models.stream(row, request, heard).await
    }

    /// Shows what is going on, where nobody reads along by events, until there is text to show.
    pub(super) fn tell_status(&self, status: &str) {
        if !self.turn.trigger.has_message() || self.parts.events.streams(&self.turn.place.door) {
            return;
        }
        self.slot.tell(status);
        // An outbox that is down hears of the text that follows.
        let _ = self.parts.outboxes.of(&self.turn.place.door).cast(OutboxMsg::Draft(self.draft()));
    }

    pub(super) fn draft(&self) -> Draft {
        let Self { turn, again, .. } = *self;
        let (id, place, slot) = (turn.id.clone(), turn.place.clone(), self.slot.clone());
        let until = self.deadline.clone();
        Draft { turn: id, place, reply_to: Some(turn.id.trigger()), slot, again, until }
    }

    /// Reads along, and writes what can be shown into the slot.
    fn reader(&self, flow: Flow) -> DeltaSink {
        if self.parts.events.streams(&self.turn.place.door) {
            return self.publisher(flow);
        }
        let (slot, outbox) = (self.slot.clone(), self.parts.outboxes.of(&self.turn.place.door).clone());
        let draft = self.draft();
        let reading: Mutex<(Growing, Option<Instant>)> = Mutex::new((Growing::of(self.turn.policy.reply), None));
        Arc::new(move |delta: Delta<'_>| {
            flow.add(delta.chars());
            let Delta::Text(more) = delta else { return };
            let (growing, announced) = &mut *reading.lock();
            let changed = growing.push(more, &slot);
            if changed.is_some() && announced.is_none_or(|at| at.elapsed() >= ANNOUNCE_EVERY) {
                *announced = Some(Instant::now());
                // An outbox that is down hears of it the next time.
                let _ = outbox.cast(OutboxMsg::Draft(draft.clone()));
            }
        })
    }

    /// Reads along, and publishes what can be shown to those who read along at the door.
    fn publisher(&self, flow: Flow) -> DeltaSink {
        let (events, slot, turn) = (self.parts.events.clone(), self.slot.clone(), self.turn.clone());
        let reading = Mutex::new(Growing::of(self.turn.policy.reply));
        Arc::new(move |delta: Delta<'_>| {
            flow.add(delta.chars());
            let Delta::Text(more) = delta else { return };
            let growing = &mut *reading.lock();
            let anew = growing.written == 0;
            let Some(text) = growing.push(more, &slot) else { return };
            slot.mark_shown();
            events.publish(&turn.place, &turn.id, || TurnUpdate::Draft { text: text.to_owned(), anew });
        })
    }
}

/// Reads along with a clean call, and tells whoever waits for it how it goes on.
fn watched(row: &str, flow: Flow, watcher: ProgressSink) -> DeltaSink {
    let (row, written) = (row.to_owned(), Mutex::<String>::default());
    Arc::new(move |delta: Delta<'_>| {
        flow.add(delta.chars());
        let Delta::Text(more) = delta else { return };
        let end = {
            let written = &mut *written.lock();
            let whole = format!("{written}{more}");
            *written = tail(&whole, WATCHED_CHARS);
            written.clone()
        };
        watcher(Progress { done: 0.0, total: None, message: Some(format!("{row}: {end}")) });
    })
}

/// A draft that grows, and how much of it stands in its slot.
struct Growing {
    read: Read,
    written: usize,
    written_at: Option<Instant>,
}

/// As far as it was read.
enum Read {
    Typed(Partial),
    Plain(Plain),
}

impl Read {
    fn push(&mut self, more: &str) {
        match self {
            Self::Typed(partial) => partial.push(more),
            Self::Plain(plain) => plain.push(more),
        }
    }

    fn visible(&self) -> &str {
        match self {
            Self::Typed(partial) => partial.visible(),
            Self::Plain(plain) => plain.visible(),
        }
    }
}

impl Growing {
    fn of(contract: ReplyContract) -> Self {
        let read = match contract {
            ReplyContract::Typed => Read::Typed(Partial::default()),
            ReplyContract::Plain | ReplyContract::Verbatim => Read::Plain(Plain::default()),
        };
        Self { read, written: 0, written_at: None }
    }

    /// Takes in what came next. Gives what was added to the text in the slot; none while that stays as it is.
    fn push(&mut self, more: &str, slot: &Slot) -> Option<&str> {
        self.read.push(more);
        let visible = self.read.visible();
        let before = self.written;
        let grown = visible.len().saturating_sub(before);
        let due = grown >= before / GROWTH || self.written_at.is_none_or(|at| at.elapsed() >= WRITE_EVERY);
        if grown == 0 || !due {
            return None;
        }
        (self.written, self.written_at) = (visible.len(), Some(Instant::now()));
        slot.write(visible);
        visible.get(before..)
    }
}

/// A call that is under way. What cuts it off drops it: what had been streamed by then is spent, and a call that the turn's
/// deadline cut off is reported as well. A turn that was cancelled says nothing about the model.
struct Underway<'a> {
    thinking: &'a Thinking<'a>,
    row: &'a Row,
    /// The request, and how many bytes of it tools added.
    sent: (&'a Request, usize),
    tries: u32,
    begun: Instant,
    flow: Flow,
    over: bool,
}

impl Underway<'_> {
    /// The call ended by itself.
    fn ended(mut self, result: &Result<Completion, ModelError>) {
        self.over = true;
        self.thinking.tally.modelled(self.begun.elapsed());
        let streamed = match result {
            Ok(completion) => {
                let took = (self.begun.elapsed(), self.tool_tokens(completion.usage));
                self.thinking.tally.completed(self.row, completion, took);
                None
            }
            Err(_) => self.cut_off(),
        };
        self.report(result.as_ref().map(Summary::from).map_err(Clone::clone), streamed);
    }

    /// The prompt tokens that tools added.
    fn tool_tokens(&self, usage: Usage) -> u64 {
        let (request, tool_bytes) = self.sent;
        request.share(tool_bytes, usage.prompt, self.row.vision)
    }

    /// Without a completion it took at least what had been streamed; none when nothing had.
    fn cut_off(&self) -> Option<Usage> {
        let chars = self.flow.chars();
        let at_least = (chars > 0).then(|| Usage::of_streamed(self.sent.0.chars(self.row.vision), chars))?;
        self.thinking.tally.cut_off(self.row, at_least, self.tool_tokens(at_least));
        Some(at_least)
    }

    fn report(&self, result: Result<Summary, ModelError>, streamed: Option<Usage>) {
        let turn = self.thinking.turn;
        let report = Report {
            turn: Some(turn.id.clone()),
            person: Some(turn.person.clone()),
            row: self.row.key.clone(),
            tries: self.tries,
            took: self.begun.elapsed(),
            streamed,
            result,
        };
        // A dispatcher that is down forgets what it knew of this row anyway.
        let _ = self.thinking.parts.dispatcher.cast(LlmDispatcherMsg::Report(report));
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.thinking.tally.modelled(self.begun.elapsed());
        let streamed = self.cut_off();
        if streamed.is_none() && !self.row.stream {
            // What comes all at once may have been written already: the prompt at least was read.
            let prompt = Usage::of_streamed(self.sent.0.chars(self.row.vision), 0);
            self.thinking.tally.cut_off(self.row, prompt, self.tool_tokens(prompt));
        }
        if self.thinking.deadline.has_passed() {
            let late = ModelError::new(ModelErrorKind::Timeout, "the turn's deadline came first");
            self.report(Err(late), streamed);
        }
    }
}

/// A permit for the next row, or why there is none; none when the deadline came first.
async fn permit(
    parts: &TurnParts,
    turn: &Turn,
    tried: &[String],
    deadline: &Deadline,
) -> Option<Result<Lease, NoModel>> {
    loop {
        let row = turn.policy.model.clone();
        let among = turn.policy.among.clone();
        let tried = tried.to_vec();
        let asked = turn.trigger.is_asked();
        let priority = if asked { Priority::Waits(turn.person.clone()) } else { Priority::IfFree };
        let ask = |reply| LlmDispatcherMsg::Acquire { row, among, tried, priority, reply };
        let within = deadline.left();
        if within.is_zero() {
            return None;
        }
        match parts.dispatcher.call(ask, within).await {
            Ok(answer) => return Some(answer),
            Err(_) => tokio::time::sleep(DISPATCHER_AGAIN).await,
        }
    }
}

/// How long to wait before this row is tried again; none when it is not worth another try.
fn pause(parts: &TurnParts, error: &ModelError, tries: u32) -> Option<Duration> {
    if tries >= TRIES || !error.kind.retryable() {
        return None;
    }
    match error.retry_after {
        Some(wait) if wait > RETRY_AFTER_MAX => None,
        Some(wait) => Some(wait),
        None => Some(RETRY.base + RETRY.delay(tries, parts.dice.roll())),
    }
}
