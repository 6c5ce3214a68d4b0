//! A turn in flight: the task that produces one answer. It loads, calls models, validates and saves; every await has a
//! deadline.
//!
//! The task does not own the turn: the journal has custody of it, and the conversation that started the task reports
//! its answer.
//!
//! While a model writes the answer, the turn's draft slot holds the part that can be shown. After some of it was shown,
//! no model is called again for the same text: a fallback row is called for the rest, and if there is none, the turn
//! keeps the text and adds an apology below it. If the trigger of a turn is deleted, its draft stays as it is.

mod approval;
mod begun;
mod clean;
mod earlier;
mod editable;
mod files;
mod memory;
mod model_call;
mod overheard;
mod parked;
pub mod parts;
mod pictures;
mod resources;
mod showing;
mod surroundings;
mod tally;

mod tools;

use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::approval::Round;
use self::begun::TasksUnderWay;
use self::files::{Files, ResourceFile};
use self::parked::GoingOn;
use self::parts::TurnParts;
pub use self::tally::Tally;
use self::tools::Tools;
use crate::messages::deadline::Deadline;
use crate::messages::draft::Slot;
use crate::messages::journal::{JournalMsg, Parking};
use crate::messages::outbox::OutboxMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::outbox::PlaceAccess;
use crate::runtime::blocking::blocking;
use crate::services::forgotten::Moment;
use crate::services::prompt_sections;
use crate::services::running::Running;
use crate::services::settlement;
use domain::completion::{Completion, ToolCall};
use domain::dialogue::{Dialogue, Event, Finished, Resumed, Step};
use domain::draft;
use domain::ending::{Dropped, Ending};
use domain::gate::Parked;
use domain::given::Given;
use domain::happening::Happening;
use domain::history::History;
use domain::ids::{Timestamp, TurnId};
use domain::incoming::Quoted;
use domain::ledger;
use domain::notice::{self, Apology};
use domain::outgoing::Part;
use domain::prompt::{self, Question, Scene, Transcript};
use domain::reply::{self, Reply};
use domain::tool::round::Planned;
use domain::tool::turn_tools::ShownResult;
use domain::turn::{Answer, Effort, Exchange, HistoryScope, Outcome, Turn};
use ports::shares::Share;
use ports::{ProgressSink, Write};

pub use files::KIB_MAX as ATTACHMENT_KIB_MAX;

/// A started turn without an answer.
#[derive(Clone)]
pub struct Started {
    /// The turn.
    pub turn: Arc<Turn>,
    /// True if the channel may already contain some of an answer.
    pub again: bool,
    /// The time at which it entered the queue of its lane.
    pub waited_since: Instant,
    /// The slot of its draft.
    pub slot: Slot,
    /// The resources it has used.
    pub tally: Tally,
    /// The parked state with its decision, if the turn resumes after one.
    pub resumed: Option<Box<Parked>>,
}

/// The result of the task of a turn.
pub enum TurnResult {
    /// An answer.
    Answered(Box<Answer>),
    /// The turn is parked until a decision.
    Parked(Box<Parking>),
    /// The turn was cancelled, or the journal has its end already.
    Over,
}

/// Produces the answer to one turn within its deadline, or the request for a decision that it requires.
pub async fn drive(parts: &TurnParts, started: Started, cancel: &CancellationToken) -> TurnResult {
    let Started { mut turn, again, waited_since, slot, tally, resumed } = started;
    let running = parts.basics.live.now();
    let settings = &running.settings.turn;
    tally.queued(waited_since.elapsed());
    if waited_since.elapsed() > settings.queue && resumed.is_none() {
        return not_begun(&tally, &turn, Ending::WaitedTooLong);
    }
    if let Some(over) = closed(parts, &tally, &turn) {
        return over;
    }
    if again && resumed.is_none() {
        // Text shown by a previous life is not continued.
        parts.readers.observers.tell(&Happening::TurnBegunAnew(&turn));
    }
    let deadline = Deadline::new(settings.deadline, settings.longest);
    parts.shared.in_flight.due(&turn.id, &deadline);
    let outbox = parts.neighbors.outboxes.of(&turn.place.door);
    if turn.trigger.is_asked() {
        let typing = OutboxMsg::Typing { place: turn.place.clone(), turn: turn.id.clone(), until: deadline.clone() };
        // Typing is best effort: if the outbox refuses it, no indicator is shown.
        outbox.tell(typing);
    }
    memory::prefer(parts, &running, &mut turn, &tally).await;
    let parked = resumed.clone();
    let (tasks, id) = (TasksUnderWay::default(), turn.id.clone());
    let work = async {
        if again || resumed.is_some() {
            memory::take_up_requests(parts, &turn).await;
        }
        surroundings::complete(parts, &running, &mut turn).await;
        let going_on = GoingOn::ready(parts, &running, &mut turn, resumed).await;
        let (running, turn, slot, tally, deadline) = (&*running, &turn, &slot, &tally, &deadline);
        let (tools, facts) = (Tools::of(parts, running, turn, tasks.clone()).await, OnceCell::new());
        let task =
            TurnTask { parts, running, turn, again, slot, tally, deadline, tools, depth: 0, watcher: None, facts };
        task.think(going_on.as_ref()).await
    };
    let end = tokio::select! {
        biased;
        () = cut(parts, &id, cancel) => None,
        end = work => Some(Some(end)),
        () = deadline.passed() => (!cancel.is_cancelled()).then_some(None),
    };
    // All running work is dropped at this point and has reported its use.
    tasks.cancel(None, &parts.tools.toolbox.now());
    let effort = tally.effort();
    let answer = match end {
        Some(Some(DialogueEnd::Answer(answer))) => answer,
        Some(None) => tally.apology(&turn, Ending::Deadline),
        Some(Some(DialogueEnd::Wait(parking))) => {
            // If the outbox refuses this, the draft ends at the turn's deadline.
            outbox.tell(forget(&turn));
            return TurnResult::Parked(parking);
        }
        None => {
            spent_in_vain(parts, &turn, parked.as_deref(), &effort);
            memory::remember_acts(parts, &running, &turn).await;
            // If the outbox refuses this, the draft ends at the turn's deadline.
            outbox.tell(forget(&turn));
            return TurnResult::Over;
        }
    };
    // The answer also ends the typing indicator.
    outbox.tell(OutboxMsg::Quiet(turn.place.clone(), turn.id.clone()));
    let mut answer = with_draft(&turn, &slot, Answer { effort, ..answer }, parts.basics.clock.now());
    if !turn.policy.preferences.remembers() {
        answer.exchange = None;
    }
    remember_apologised(parts, &running, &turn, &answer).await;
    if !turn.trigger.is_asked() {
        interjected(parts, &turn, &answer);
    }
    TurnResult::Answered(Box::new(answer))
}

/// Waits until the turn is cancelled. If its answer was interrupted, a call that changes something finishes first.
async fn cut(parts: &TurnParts, turn: &TurnId, cancel: &CancellationToken) {
    cancel.cancelled().await;
    parts.shared.acts.finish(turn).await;
}

/// Returns the message that ends the draft of this turn.
fn forget(turn: &Turn) -> OutboxMsg {
    OutboxMsg::Forget(turn.place.clone(), turn.id.clone())
}

/// Returns the end of a turn whose place accepts no answer; `None` if the place accepts one.
fn closed(parts: &TurnParts, tally: &Tally, turn: &Arc<Turn>) -> Option<TurnResult> {
    match parts.shared.closed.access(&turn.place, turn.trigger.is_asked().then_some(&turn.person)) {
        PlaceAccess::Open => None,
        PlaceAccess::Notice => Some(not_begun(tally, turn, Ending::PlaceClosed)),
        PlaceAccess::Silent => {
            dropped(parts, turn);
            Some(TurnResult::Over)
        }
    }
}

/// Saves the exchange of an answer that ended with an apology after some text was shown.
async fn remember_apologised(parts: &TurnParts, running: &Running, turn: &Arc<Turn>, answer: &Answer) {
    if let (Outcome::Apologised(_), Some(exchange)) = (&answer.outcome, &answer.exchange)
        && turn.policy.history == HistoryScope::PersonInPlace
    {
        let read = parts.facts.forgotten().now();
        let history = memory::load(parts, turn).await;
        memory::remember(parts, running, turn, exchange, history, read);
    }
}

/// Counts an interjection against its limits.
fn interjected(parts: &TurnParts, turn: &Turn, answer: &Answer) {
    let usage = answer.effort.usage;
    parts.shared.interjections.spent(usage.prompt.saturating_add(usage.completion));
    if answer.outcome == Outcome::Replied {
        parts.shared.interjections.said(&turn.place, &turn.id);
    }
}

/// Ends a turn silently because its place accepts no answer.
fn dropped(parts: &TurnParts, turn: &Arc<Turn>) {
    // If the journal refuses this, it offers the turn again. The message counts like an answered one.
    let settle = RateLimiterMsg::Settle { turn: Arc::clone(turn), effort: Effort::default() };
    parts.neighbors.rate_limiter.tell(settle);
    parts.neighbors.journal.tell(JournalMsg::Dropped(turn.id.clone(), Dropped::Silent(Ending::PlaceClosed)));
}

/// Returns the end of a turn that cannot start now.
fn not_begun(tally: &Tally, turn: &Turn, why: Ending) -> TurnResult {
    TurnResult::Answered(Box::new(Answer { effort: tally.effort(), ..tally.apology(turn, why) }))
}

/// Settles the use of a cancelled turn: its record is closed already and includes only the part before the turn was
/// parked.
fn spent_in_vain(parts: &TurnParts, turn: &Arc<Turn>, goes_on: Option<&Parked>, effort: &Effort) {
    if effort.usage.total() > 0 {
        let now = parts.basics.clock.now();
        let used = goes_on.map_or_else(
            || ledger::writes(turn, effort, now),
            |parked| ledger::writes_since(turn, effort, &parked.effort, now),
        );
        drop(parts.basics.store.write(used.into_iter().map(Write::from).collect()));
    }
    // Settled even if nothing was used, because the reservation expected a whole answer. If the limiter refuses this,
    // the estimate stays until it ages out.
    let (turn, effort) = settlement::counted(turn, goes_on, effort);
    parts.neighbors.rate_limiter.tell(RateLimiterMsg::Settle { turn, effort });
}

/// Returns the answer to a turn of which some text may be shown: an apology keeps that text and follows below it.
#[must_use]
pub fn with_draft(turn: &Turn, slot: &Slot, answer: Answer, now: Timestamp) -> Answer {
    let mut answer = answer;
    // Text that is not shown yet is never shown.
    answer.effort.drafted = slot.finish();
    if let (Outcome::Apologised(_), Some(shown)) = (&answer.outcome, slot.visible()) {
        let text = draft::cut_short(&shown, &answer.outgoing.text());
        answer.outgoing = turn.reply_with(&text);
        answer.exchange = Some(exchange(turn, shown, now));
    }
    answer
}

fn exchange(turn: &Turn, answered: String, answered_at: Timestamp) -> Exchange {
    let asked = if turn.trigger.is_asked() { turn.asked() } else { String::new() };
    Exchange { person: turn.person.clone(), asked, asked_at: turn.at, answered, answered_at }
}

/// Returns the member, the place and the time of the question in the form for prompts.
fn scene(turn: &Turn, now: Timestamp) -> Scene<'_> {
    Scene {
        place: &turn.place,
        parent: turn.parent.as_ref(),
        guild: turn.guild.as_deref(),
        person: &turn.person.id,
        name: &turn.name,
        now,
        profile: turn.policy.profile.as_deref(),
    }
}

/// The length in bytes above which an answer is parsed on a thread of its own, so that no task blocks a core for that
/// long.
const LONG_ANSWER: usize = 32 * 1024;

/// Feeds an event to a dialogue.
async fn taken_in(mut dialogue: Dialogue, event: Event) -> (Dialogue, Step) {
    let bytes = |completion: &Completion| {
        completion.content.len() + completion.calls.iter().map(|call| call.arguments.len()).sum::<usize>()
    };
    let long = matches!(&event, Event::Completed(completion, _) | Event::WentOn(completion, _) if bytes(completion) > LONG_ANSWER);
    if !long {
        let step = dialogue.next(event);
        return (dialogue, step);
    }
    let read = move || {
        let step = dialogue.next(event);
        (dialogue, step)
    };
    blocking(read).await
}

/// The context of a turn in flight.
struct TurnTask<'a> {
    parts: &'a TurnParts,
    running: &'a Running,
    turn: &'a Turn,
    again: bool,
    slot: &'a Slot,
    tally: &'a Tally,
    deadline: &'a Deadline,
    tools: Tools,
    /// The nesting depth of clean calls; zero for the turn itself.
    depth: u32,
    /// Receives the text that a model writes in a clean call.
    watcher: Option<ProgressSink>,
    /// The facts of the member in prompt form, read when the turn calls a row that cannot search for them.
    facts: OnceCell<Option<String>>,
}

/// The result of thinking.
#[expect(clippy::large_enum_variant, reason = "most of them are answers, and it lives for a moment")]
enum DialogueEnd {
    Answer(Answer),
    /// A call requires approval first.
    Wait(Box<Parking>),
}

/// The next step of a dialogue.
enum Work {
    /// The dialogue begins.
    Asking,
    /// An event arrived.
    Event(Event),
    /// Calls to run, after those that are done.
    Round(Vec<Planned>, Vec<ShownResult>),
}

/// The data of a turn before its first model call.
struct Gathered {
    /// The transcript for the model.
    transcript: Transcript,
    /// The history that the answer extends, and the time at which it was read.
    history: (History, Moment),
    /// The memory permits of the files, held as long as the transcript.
    _room: Vec<Share>,
}

impl TurnTask<'_> {
    /// Gathers the data to answer a question.
    async fn asked(&self) -> Gathered {
        let Self { parts, running, turn, .. } = *self;
        if let Some(given) = &turn.given {
            self.give_pictures(given);
            let prompts = prompt_sections::in_force(running, &parts.basics.live, &*parts.basics.store).await;
            let transcript = prompt::given(&prompts, &scene(turn, parts.basics.clock.now()), given);
            return Gathered {
                transcript,
                history: (History::default(), parts.facts.forgotten().now()),
                _room: Vec::new(),
            };
        }
        // All reads of the store are issued together.
        let prompts = prompt_sections::in_force(running, &parts.basics.live, &*parts.basics.store);
        let (recalled, prompts) = tokio::join!(memory::recall(parts, running, turn), prompts);
        let files = self.files(self.resources().await, recalled.quoted.as_ref()).await;
        let now = parts.basics.clock.now();
        let most = running.history_most(turn.policy.model.as_deref());
        let max_age = running.settings.history.message_max_age;
        let shown = (most, &*recalled.referred);
        let earlier = earlier::note(parts, running, turn, &recalled.history, shown, now).await;
        let question = Question {
            scene: scene(turn, now),
            contract: turn.policy.reply,
            earlier: earlier.as_deref(),
            history: &recalled.history.shown(now, max_age, most, &recalled.referred),
            referred: &recalled.referred,
            quoted: recalled.quoted.as_ref(),
            quoted_files: &files.quoted,
            text: &turn.text,
            files: &files.own,
        };
        let transcript = prompt::transcript(&prompts, &question);
        Gathered { transcript, history: (recalled.history, recalled.read), _room: files.room }
    }

    /// Lets tools use the pictures of the last question in a given conversation.
    fn give_pictures(&self, given: &Given) {
        // A turn gathers once; a repetition has the same pictures.
        drop(self.tools.asked.set(given.asked_pictures().into()));
    }

    /// Reads the files of the question. Tools may use its pictures from then on.
    async fn files(&self, resources: Vec<ResourceFile>, quoted: Option<&Quoted>) -> Files {
        let files = files::read(self.parts, self.running, self.turn, resources, quoted).await;
        let pictures = files.own.pictures.iter().chain(&files.quoted.pictures).cloned().collect();
        // A turn gathers once; a repetition has the same files.
        drop(self.tools.asked.set(pictures));
        files
    }

    async fn think(&self, going_on: Option<&GoingOn>) -> DialogueEnd {
        let Self { parts, running, turn, .. } = *self;
        if let Some(going_on) = going_on {
            return match self.go_on().await {
                Ok((Resumed { dialogue, mut done, mut left, .. }, Gathered { history, .. })) => {
                    done.extend(self.run_decided(&mut left, going_on).await);
                    self.work(dialogue, Work::Round(left, done), history).await
                }
                Err(why) => DialogueEnd::Answer(self.tally.apology(turn, why)),
            };
        }
        let Gathered { transcript, history, _room } = if turn.trigger.is_asked() {
            self.asked().await
        } else {
            match self.overheard().await {
                Ok(transcript) => Gathered {
                    transcript,
                    history: (History::default(), parts.facts.forgotten().now()),
                    _room: Vec::new(),
                },
                Err(why) => {
                    return DialogueEnd::Answer(turn.apology(notice::apology(Apology::of(why), turn.locale()), why));
                }
            }
        };
        let schema = Arc::clone(&running.schema);
        let dialogue = Dialogue::new(transcript, turn.policy.reply, schema, self.offered_tools().await);
        let dialogue = dialogue.about(turn.given.clone()).sampled(turn.policy.preferences.sampling());
        self.work(dialogue, Work::Asking, history).await
    }

    /// Runs the dialogue until it has an answer or a request for a decision.
    async fn work(&self, mut dialogue: Dialogue, begin: Work, history: (History, Moment)) -> DialogueEnd {
        let Self { turn, .. } = *self;
        let mut next = begin;
        loop {
            let event = match next {
                Work::Asking => Event::Begin,
                Work::Event(event) => event,
                Work::Round(left, done) => match self.run_tools(left, done).await {
                    Round::Ran(told) => Event::Ran(told),
                    Round::Ask(asking) => match self.parking(&dialogue, asking) {
                        Ok(parking) => return DialogueEnd::Wait(Box::new(parking)),
                        Err(too_long) => {
                            let (done, left) = self.refuse(too_long).await;
                            next = Work::Round(left, done);
                            continue;
                        }
                    },
                },
            };
            let step;
            (dialogue, step) = taken_in(dialogue, event).await;
            next = match step {
                Step::AskModel => Work::Event(self.ask(&dialogue).await.unwrap_or_else(Event::Failed)),
                Step::RunTools(planned) => {
                    self.tell_status(notice::tools_at_work(turn.locale()));
                    Work::Round(planned, Vec::new())
                }
                Step::Finish(Finished { reply, calls, repairs }) => {
                    if repairs > 0 {
                        self.tally.repaired(repairs);
                        self.parts.readers.observers.tell(&Happening::ReplyRepaired(&turn.id, repairs));
                    }
                    return DialogueEnd::Answer(self.finish(&reply, calls, history));
                }
                Step::GiveUp(why) => return DialogueEnd::Answer(self.tally.apology(turn, why)),
            };
        }
    }

    fn finish(&self, reply: &Reply, calls: Vec<ToolCall>, history: (History, Moment)) -> Answer {
        let Self { parts, running, turn, .. } = *self;
        let exchange = exchange(turn, reply.response.clone(), parts.basics.clock.now());
        if turn.policy.history == HistoryScope::PersonInPlace {
            let (history, read) = history;
            memory::remember(parts, running, turn, &exchange, history, read);
        }
        let mut outgoing = turn.reply_with("");
        outgoing.parts = reply::to_parts(reply);
        outgoing.parts.extend((!calls.is_empty()).then_some(Part::Calls { calls }));
        outgoing.parts.extend(self.tools.pictures());
        Answer { outgoing, exchange: Some(exchange), outcome: Outcome::Replied, effort: Effort::default() }
    }
}
