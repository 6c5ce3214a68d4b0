//! One question to a model: a lease for each call, limited attempts for each row, then the row's fallbacks, all within
//! the turn's deadline, which each piece of an answer extends. After text was shown the question is not retried,
//! because members would see the answer start over: a fallback is called for the rest.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::TurnTask;
use super::parts::{Readers, TurnParts};
use super::tally::Flow;
use crate::messages::deadline::Deadline;
use crate::messages::draft::Slot;
use crate::messages::llm_dispatcher::{Lease, LlmDispatcherMsg, NoModel, Priority, Report, Summary};
use crate::messages::outbox::{OutboxMsg, TurnDraft};
use domain::clean::tail;
use domain::completion::{Completion, Request, Usage};
use domain::dialogue::{Dialogue, Event, RequestFacts, ShownPart};
use domain::ending::Ending;
use domain::happening::{CallPurpose, Happening};
use domain::model::Row;
use domain::outgoing::Medium;
use domain::partial::{Partial, Plain};
use domain::restart::Backoff;
use domain::turn::{ReplyContract, Turn};
use domain::turn_event::TurnUpdate;
use ports::tools::Progress;
use ports::{Delta, DeltaSink, ModelError, ModelErrorKind, ProgressSink};

/// The maximum number of attempts at one row.
const TRIES: u32 = 3;
/// The backoff between attempts if the provider names no delay.
const RETRY: Backoff = Backoff { base: Duration::from_millis(300), cap: Duration::from_secs(4) };
/// The longest delay that a provider may request; if it is longer, the next row is used.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(20);
/// The pause before a request to a dispatcher that is down is repeated.
const DISPATCHER_AGAIN: Duration = Duration::from_millis(50);

/// The interval at which a growing draft is announced again, for an outbox that has restarted in the meantime.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// A draft is copied into its slot when it has grown by this fraction of its length, so that copying costs no more than
/// writing.
const GROWTH: usize = 32;
/// The maximum time between two copies of a growing draft.
const WRITE_EVERY: Duration = Duration::from_millis(50);
/// The number of characters of a clean call's text that are shown as progress.
const WATCHED_CHARS: usize = 160;

impl TurnTask<'_> {
    /// Calls models until one answers, with a request built for each row. The error is the last failure.
    pub(super) async fn ask(&self, dialogue: &Dialogue) -> Result<Event, Ending> {
        let Self { parts, turn, slot, deadline, .. } = *self;
        let Readers { observers, timeline, .. } = &parts.readers;
        let mut tried: Vec<String> = Vec::new();
        // The rows whose providers just refused tools.
        let mut without_tools: HashSet<String> = HashSet::new();
        let mut tries = 0;
        let mut last_failure = Ending::NoModel;
        // The shown part of an interrupted answer.
        let mut broken: Option<ShownPart> = None;
        loop {
            let lease = self.lease(&tried, last_failure).await?;
            if tries == 0 && !tried.is_empty() {
                observers.tell(&Happening::ModelFellBack { turn: &turn.id, row: &lease.row.key, after: &tried });
            }
            tries += 1;
            let row = lease.row.clone();
            observers.tell(&Happening::ModelAsked(&turn.id, &row.key));
            let takes_tools = self.running.models.takes_tools(&row.key) && !without_tools.contains(&row.key);
            let (request, asked) = match &broken {
                Some(shown_part) => dialogue.rest(&row, shown_part),
                None => {
                    let facts = if dialogue.offers_recall(&row, takes_tools) { None } else { self.facts().await };
                    dialogue.request(&row, takes_tools, self.notes(facts).as_deref())
                }
            };
            self.keep_tools(&asked);
            let kept = timeline.prompted(&turn.id, &row.key, &request);
            let flow = Flow::new(deadline);
            let (started_at, over, sent) = (Instant::now(), false, (&request, asked.tool_bytes));
            let call = Underway { task: self, row: &row, sent, tries, started_at, flow: flow.clone(), over };
            let result = match &broken {
                Some(shown_part) => self.complete_rest(&row.key, &request, shown_part, flow).await,
                None => {
                    let may_answer = asked.may_answer(turn.policy.reply);
                    self.complete(&row.key, &request, may_answer, dialogue.goes_on(), flow).await
                }
            };
            drop(lease);
            timeline.completed(&turn.id, kept, &result);
            call.ended(&result);
            self.tell_hosted_calls(&row.key, &result);
            let error = match (result, broken.take()) {
                (Ok(completion), Some(shown_part)) => return Ok(Event::WentOn(completion, shown_part)),
                (Ok(completion), None) => return Ok(Event::Completed(completion, asked)),
                (Err(error), _) => error,
            };
            last_failure = Ending::Model(error.kind);
            self.tally.ask_again(error.retry_after);
            // A clean call shows no text in the slot.
            let shown = self.depth == 0 && !slot.withdraw();
            if shown {
                broken = self.resumable_part(dialogue, error.kind);
                if broken.is_none() {
                    return Err(last_failure);
                }
            } else if error.kind == ModelErrorKind::ToolsRefused && without_tools.insert(row.key.clone()) {
                // This is no failure of the model: the same row is called again without tools.
                tries -= 1;
                continue;
            }
            // The row whose answer was interrupted is not called for the rest.
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

    /// Keeps the choice of tools for the next prompts of the lane. A clean call has tools of its own.
    fn keep_tools(&self, asked: &RequestFacts) {
        if let Some(tools) = asked.lane_tools.as_deref().filter(|_| self.depth == 0) {
            self.parts.tools.lane_tools.keep(self.turn, tools.clone());
        }
    }

    /// Records the calls that the provider made itself.
    fn tell_hosted_calls(&self, row: &str, result: &Result<Completion, ModelError>) {
        let calls = result.as_ref().map(|completion| completion.hosted.calls.as_slice()).unwrap_or_default();
        let role = self.role();
        for call in calls {
            self.parts.readers.observers.tell(&Happening::HostedToolCalled { turn: self.turn, row, role, call });
        }
    }

    /// Returns a lease on a row that was not tried yet. `last_failure` is the error after all rows were tried.
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

    /// Returns the shown part of an interrupted answer if another row can continue it.
    fn resumable_part(&self, dialogue: &Dialogue, kind: ModelErrorKind) -> Option<ShownPart> {
        let may = (kind.is_about_the_model() || kind.retryable()) && dialogue.may_go_on();
        self.slot.visible().filter(|_| may).and_then(|shown| ShownPart::of(&shown))
    }

    /// Makes one call for the rest of an answer. If the place edits a growing message, the rest is shown as it grows.
    async fn complete_rest(
        &self,
        row: &str,
        request: &Request,
        shown_part: &ShownPart,
        flow: Flow,
    ) -> Result<Completion, ModelError> {
        let Self { parts, turn, slot, .. } = *self;
        parts.readers.observers.tell(&Happening::AnswerContinued(&turn.id, row));
        let heard: DeltaSink = if self.draws() {
            let (slot, shown_part) = (slot.clone(), shown_part.clone());
            text_sink(flow, (Partial::default(), LastWrite::default()), move |(rest, last_write), more| {
                rest.push(more);
                if !last_write.is_due() {
                    return;
                }
                if let Some(text) = shown_part.growing(rest.visible()) {
                    last_write.note();
                    slot.write(&text);
                }
            })
        } else {
            counting_sink(flow)
        };
        self.running.models.stream(row, request, heard).await
    }

    /// Makes one call and counts its result. The text is shown as a draft only if nothing was shown yet: a repair
    /// replaces the shown text in one step. Subscribers of events also receive the text of later calls, because an
    /// event announces the restart.
    async fn complete(
        &self,
        row: &str,
        request: &Request,
        may_answer: bool,
        goes_on: bool,
        flow: Flow,
    ) -> Result<Completion, ModelError> {
        let unseen = self.depth == 0 && self.slot.withdraw();
        let followed = goes_on && self.parts.readers.events.has(&self.turn.place);
        // An answer that replies to no message is posted whole.
        let may_answer = may_answer && self.turn.trigger.has_message();
        let grows = !self.turn.given.as_ref().is_some_and(|given| given.whole);
        let heard = match self.turn.policy.reply {
            ReplyContract::Typed | ReplyContract::Verbatim if (unseen || followed) && may_answer && grows => {
                self.reader(flow, unseen)
            }
            ReplyContract::Typed | ReplyContract::Verbatim | ReplyContract::Plain => match &self.watcher {
                Some(watcher) => watched(row, flow, Arc::clone(watcher)),
                None => counting_sink(flow),
            },
        };
        self.running.models.stream(row, request, heard).await
    }

    /// Shows a status until there is text, if the door draws drafts.
    pub(super) fn tell_status(&self, status: &str) {
        if !self.turn.trigger.has_message() || !self.draws() {
            return;
        }
        self.slot.tell(status);
        // If the outbox refuses this, the announcement of the later text replaces it.
        self.parts.neighbors.outboxes.of(&self.turn.place.door).tell(OutboxMsg::Draft(self.draft()));
    }

    pub(super) fn draft(&self) -> TurnDraft {
        let Self { turn, again, .. } = *self;
        let (id, place, slot) = (turn.id.clone(), turn.place.clone(), self.slot.clone());
        let until = self.deadline.clone();
        TurnDraft { turn: id, place, reply_to: Some(turn.id.trigger()), slot, again, until }
    }

    /// Returns the notes on the member for a prompt: these facts, and the member's settings.
    fn notes<'a>(&self, facts: Option<&'a str>) -> Option<Cow<'a, str>> {
        match (facts, self.turn.policy.preferences.block()) {
            (facts, None) => facts.map(Cow::Borrowed),
            (None, Some(settings)) => Some(settings.into()),
            (Some(facts), Some(settings)) => Some(format!("{facts}\n\n{settings}").into()),
        }
    }

    /// True if the messages of the door show drafts and statuses.
    pub(super) fn draws(&self) -> bool {
        self.parts.neighbors.outboxes.medium(&self.turn.place.door) == Medium::Messages
    }

    /// Returns the sink that publishes the visible part of the stream as events, and draws it if the door can.
    /// If messages show the text of an earlier call (`unseen` is false), they keep it until the final answer.
    fn reader(&self, flow: Flow, unseen: bool) -> DeltaSink {
        let draws = self.draws();
        let slot = (unseen || !draws).then(|| self.slot.clone());
        let wanted = self.turn.policy.preferences.streaming != Some(false);
        let outbox =
            (unseen && draws && wanted).then(|| self.parts.neighbors.outboxes.of(&self.turn.place.door).clone());
        let (events, turn, draft) = (self.parts.readers.events.clone(), self.turn.clone(), self.draft());
        let reading = (Growing::of(self.turn.policy.reply), None::<Instant>);
        text_sink(flow, reading, move |(growing, announced), more| {
            let anew = growing.written == 0;
            let Some(text) = growing.push(more, slot.as_ref()) else { return };
            match (&outbox, &slot) {
                (Some(outbox), _) if announced.is_none_or(|at| at.elapsed() >= ANNOUNCE_EVERY) => {
                    *announced = Some(Instant::now());
                    // If the outbox refuses this, the announcement is repeated when the text has grown.
                    outbox.tell(OutboxMsg::Draft(draft.clone()));
                }
                (None, Some(slot)) => slot.mark_shown(),
                _ => {}
            }
            events.publish(&turn.place, &turn.id, || TurnUpdate::Draft { text: text.to_owned(), anew });
        })
    }
}

/// Returns the sink that reports the progress of a clean call to its caller.
fn watched(row: &str, flow: Flow, watcher: ProgressSink) -> DeltaSink {
    let row = row.to_owned();
    text_sink(flow, String::new(), move |end, more| {
        *end = tail(&format!("{end}{more}"), WATCHED_CHARS);
        watcher(Progress { done: 0.0, total: None, message: Some(format!("{row}: {end}")) });
    })
}

/// Returns the sink that counts the pieces of a stream.
fn counting_sink(flow: Flow) -> DeltaSink {
    Arc::new(move |delta: Delta<'_>| flow.add(delta.chars()))
}

/// Returns the sink that counts the pieces of a stream and passes its text on, with the state of the reader.
fn text_sink<S: Send + 'static>(
    flow: Flow,
    state: S,
    read: impl Fn(&mut S, &str) + Send + Sync + 'static,
) -> DeltaSink {
    let state = Mutex::new(state);
    Arc::new(move |delta: Delta<'_>| {
        flow.add(delta.chars());
        if let Delta::Text(more) = delta {
            read(&mut *state.lock(), more);
        }
    })
}

/// The time of the last copy of a growing draft into its slot.
#[derive(Default)]
struct LastWrite(Option<Instant>);

impl LastWrite {
    /// True if [`WRITE_EVERY`] has passed since, or if there was no copy.
    fn is_due(&self) -> bool {
        self.0.is_none_or(|at| at.elapsed() >= WRITE_EVERY)
    }

    fn note(&mut self) {
        self.0 = Some(Instant::now());
    }
}

/// A growing draft, with the length that its slot holds.
struct Growing {
    read: Read,
    written: usize,
    last_write: LastWrite,
}

/// The state of the parsed stream.
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
        Self { read, written: 0, last_write: LastWrite::default() }
    }

    /// Adds the next piece, and writes the text into the slot. Returns the added text; `None` until the next copy is due.
    fn push(&mut self, more: &str, slot: Option<&Slot>) -> Option<&str> {
        self.read.push(more);
        let visible = self.read.visible();
        let before = self.written;
        let grown = visible.len().saturating_sub(before);
        let due = grown >= before / GROWTH || self.last_write.is_due();
        if grown == 0 || !due {
            return None;
        }
        self.written = visible.len();
        self.last_write.note();
        if let Some(slot) = slot {
            slot.write(visible);
        }
        visible.get(before..)
    }
}

/// A call in flight. An interruption drops it: the tokens streamed so far are counted, and a call interrupted by the
/// turn's deadline is also reported. A cancelled turn reports nothing about the model.
struct Underway<'a> {
    task: &'a TurnTask<'a>,
    row: &'a Row,
    /// The request, and the number of bytes in it that tools added.
    sent: (&'a Request, usize),
    tries: u32,
    started_at: Instant,
    flow: Flow,
    over: bool,
}

impl Underway<'_> {
    /// Records that the call completed by itself.
    fn ended(mut self, result: &Result<Completion, ModelError>) {
        self.over = true;
        self.task.tally.modelled(self.started_at.elapsed());
        let streamed = match result {
            Ok(completion) => {
                let (took, tool_tokens) = (self.started_at.elapsed(), self.tool_tokens(completion.usage));
                self.task.tally.completed(self.row, completion, took, tool_tokens);
                None
            }
            Err(_) => self.cut_off(),
        };
        self.report(result.as_ref().map(Summary::from).map_err(Clone::clone), streamed);
    }

    /// Returns the number of prompt tokens that tools added.
    fn tool_tokens(&self, usage: Usage) -> u64 {
        let (request, tool_bytes) = self.sent;
        request.share(tool_bytes, usage.prompt, self.row.accepts())
    }

    /// Returns the minimum use of a call without a completion: the streamed tokens; `None` if there were none.
    fn cut_off(&self) -> Option<Usage> {
        let chars = self.flow.chars();
        let at_least = (chars > 0).then(|| Usage::of_streamed(self.sent.0.chars(self.row.accepts()), chars))?;
        self.task.tally.cut_off(self.row, at_least, self.tool_tokens(at_least));
        Some(at_least)
    }

    fn report(&self, result: Result<Summary, ModelError>, streamed: Option<Usage>) {
        let turn = self.task.turn;
        let report = Report {
            turn: Some(turn.id.clone()),
            purpose: CallPurpose::Turn,
            person: Some(turn.person.clone()),
            row: self.row.key.clone(),
            tries: self.tries,
            took: self.started_at.elapsed(),
            streamed,
            result,
        };
        // A restarted dispatcher has lost the counts of this row; a full one judges the row by its other reports.
        self.task.parts.neighbors.dispatcher.tell(LlmDispatcherMsg::Report(report));
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.task.tally.modelled(self.started_at.elapsed());
        let streamed = self.cut_off();
        if streamed.is_none() && !self.row.stream {
            // A completion that arrives in one piece may be written already: the prompt at least was processed.
            let prompt = Usage::of_streamed(self.sent.0.chars(self.row.accepts()), 0);
            self.task.tally.cut_off(self.row, prompt, self.tool_tokens(prompt));
        }
        if self.task.deadline.has_passed() {
            let late = ModelError::new(ModelErrorKind::Timeout, "the turn's deadline came first");
            self.report(Err(late), streamed);
        }
    }
}

/// Returns a lease on the next row, or the reason for the refusal; `None` if the deadline came first.
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
        match parts.neighbors.dispatcher.call(ask, within).await {
            Ok(answer) => return Some(answer),
            Err(_) => tokio::time::sleep(DISPATCHER_AGAIN).await,
        }
    }
}

/// Returns the delay before the next attempt at this row; `None` if the row should not be retried.
fn pause(parts: &TurnParts, error: &ModelError, tries: u32) -> Option<Duration> {
    if tries >= TRIES || !error.kind.retryable() {
        return None;
    }
    match error.retry_after {
        Some(wait) if wait > RETRY_AFTER_MAX => None,
        Some(wait) => Some(wait),
        None => Some(RETRY.base + RETRY.delay(tries, parts.basics.dice.roll())),
    }
}
