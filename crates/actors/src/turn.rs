//! A turn in flight: the task that finds one answer. It loads, asks, validates and saves; every wait has a deadline.
//!
//! The task borrows: the journal has custody of the turn, and the conversation that started the task reports its answer.
//!
//! While the answer is being written, what can be shown of it stands in the turn's draft slot. Once some of it was shown, no
//! model is asked again for the same thing: a fallback row is asked for the rest, and if there is none, the turn keeps the text
//! and apologises below it. A turn whose trigger was deleted leaves its draft as it stands.

mod ask;
mod asking;
mod clean;
mod files;
mod memory;
mod overheard;
mod parked;
mod showing;
mod tally;

mod tools;

use std::sync::Arc;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::asking::Round;
use self::parked::GoingOn;
pub use self::tally::Tally;
use self::tools::Tools;
use crate::account::Account;
use crate::door::Doors;
use crate::messages::deadline::Deadline;
use crate::messages::draft::Slot;
use crate::messages::journal::{JournalMsg, Parking};
use crate::messages::llm_dispatcher::LlmDispatcherMsg;
use crate::messages::outbox::OutboxMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::observation::timeline::Timeline;
use crate::observation::turn_events::TurnEvents;
use crate::outbox::{ClosedPlaces, Outboxes, PlaceAccess};
use crate::rate_limiter;
use crate::runtime::blocking::blocking;
use crate::runtime::handle::Handle;
use crate::services::allowances::Allowances;
use crate::services::busy::Busy;
use crate::services::clean_calls::OpenCalls;
use crate::services::facts::FactKeeper;
use crate::services::forgotten::{Forgotten, Moment};
use crate::services::in_flight::InFlight;
use crate::services::interjections::Interjections;
use crate::services::prompt_sections;
use crate::services::running::{Live, Running};
use crate::services::tool_use::ToolUse;
use crate::services::toolbox::Toolbox;
use domain::completion::{Completion, ToolCall};
use domain::dialogue::{Dialogue, Event, Finished, Resumed, Step};
use domain::draft;
use domain::ending::{Dropped, Ending};
use domain::gate::Parked;
use domain::happening::Happening;
use domain::history::History;
use domain::ids::Timestamp;
use domain::ledger;
use domain::notice::{self, Apology};
use domain::outgoing::Part;
use domain::prompt::{self, Question, Scene, Transcript};
use domain::reply::{self, Reply};
use domain::tool::round::Planned;
use domain::tool::turn_tools::Told;
use domain::turn::{Answer, Effort, Exchange, HistoryScope, Outcome, Turn};
use ports::{Clock, Dice, ProgressSink, Store, Write};

pub use files::KIB_MAX as ATTACHMENT_KIB_MAX;

/// What a turn needs of its surroundings.
pub struct TurnParts {
    /// What this process runs with.
    pub live: Live,
    /// Where memory is kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// Who lets it ask.
    pub dispatcher: Handle<LlmDispatcherMsg>,
    /// Who shows typing, and reads from the platform.
    pub outboxes: Outboxes,
    /// The places in which no answer could be posted now.
    pub closed: Arc<ClosedPlaces>,
    /// Where the files that came with a question are read.
    pub doors: Doors,
    /// One permit for each KiB of such files in memory.
    pub attachment_kib: Arc<Semaphore>,
    /// Who has custody.
    pub journal: Handle<JournalMsg>,
    /// The facts of members.
    pub facts: Arc<FactKeeper>,
    /// What may not be remembered any more.
    pub forgotten: Arc<Forgotten>,
    /// Who hears of turns that ended before they began.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// The turns in flight.
    pub in_flight: Arc<InFlight>,
    /// Where the texts of calls of models are kept, if anywhere.
    pub timeline: Arc<Timeline>,
    /// Who was told lately that there is too much to do.
    pub busy: Arc<Busy>,
    /// What is remembered of answers that nobody asked for.
    pub interjections: Arc<Interjections>,
    /// Where those who read along learn of each step.
    pub events: TurnEvents,
    /// The tools that there are now.
    pub toolbox: Arc<Toolbox>,
    /// Who called which of them lately.
    pub tool_use: Arc<ToolUse>,
    /// Which calls approvers let run for a while.
    pub allowances: Arc<Allowances>,
    /// Where what happens is told.
    pub account: Account,
    /// The calls whose tools may have models asked.
    pub clean_calls: Arc<OpenCalls>,
}

/// A turn on its way to its answer.
#[derive(Clone)]
pub struct Started {
    /// The turn.
    pub turn: Arc<Turn>,
    /// Some of an answer may stand in the channel already.
    pub again: bool,
    /// Since when it waited for its lane.
    pub waited_since: Instant,
    /// Where its draft stands.
    pub slot: Slot,
    /// What it has spent.
    pub tally: Tally,
    /// What it waited for, when it goes on with that.
    pub resumed: Option<Box<Parked>>,
}

/// How the task of a turn ended.
pub enum Driven {
    /// With an answer.
    Answered(Box<Answer>),
    /// It waits for a decision.
    Parked(Box<Parking>),
    /// It was cancelled, or the journal knows its end.
    Over,
}

/// Finds the answer to one turn, within its deadline, or what it has to wait for.
pub async fn drive(parts: &TurnParts, started: Started, cancel: &CancellationToken) -> Driven {
    let Started { mut turn, again, waited_since, slot, tally, resumed } = started;
    let running = parts.live.now();
    let settings = &running.settings.turn;
    tally.queued(waited_since.elapsed());
    if waited_since.elapsed() > settings.queue && resumed.is_none() {
        return not_begun(&tally, &turn, Ending::WaitedTooLong);
    }
    if let Some(over) = closed(parts, &tally, &turn) {
        return over;
    }
    if again && resumed.is_none() {
        // What was shown of it before is not gone on with.
        parts.account.tell(&Happening::TurnBegunAnew(&turn));
    }
    let deadline = Deadline::new(settings.deadline, settings.longest);
    parts.in_flight.due(&turn.id, &deadline);
    let outbox = parts.outboxes.of(&turn.place.door);
    if turn.trigger.is_asked() {
        let typing = OutboxMsg::Typing { place: turn.place.clone(), turn: turn.id.clone(), until: deadline.clone() };
        // Typing is a courtesy: an outbox that is down shows none.
        let _ = outbox.cast(typing);
    }
    memory::choose_row(parts, &running, &mut turn).await;
    let parked = resumed.clone();
    let thinking = async {
        let going_on = GoingOn::ready(parts, &running, &mut turn, resumed).await;
        let (running, turn, slot, tally, deadline) = (&*running, &turn, &slot, &tally, &deadline);
        let (tools, facts) = (Tools::of(parts, running, turn).await, OnceCell::new());
        let thinking =
            Thinking { parts, running, turn, again, slot, tally, deadline, tools, depth: 0, watcher: None, facts };
        thinking.think(going_on.as_ref()).await
    };
    let thought = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        thought = thinking => Some(Some(thought)),
        () = deadline.passed() => Some(None),
    };
    // Whatever was under way is dropped by now, and has told what it took.
    let effort = tally.effort();
    let answer = match thought {
        Some(Some(Thought::Answer(answer))) => answer,
        Some(None) => tally.apology(&turn, Ending::Deadline),
        Some(Some(Thought::Wait(parking))) => {
            let _ = outbox.cast(forget(&turn));
            return Driven::Parked(parking);
        }
        None => {
            spent_in_vain(parts, &turn, parked.as_deref(), &effort);
            let _ = outbox.cast(forget(&turn));
            return Driven::Over;
        }
    };
    let _ = outbox.cast(OutboxMsg::Quiet(turn.place.clone(), turn.id.clone()));
    let answer = with_draft(&turn, &slot, Answer { effort, ..answer }, parts.clock.now());
    remember_apologised(parts, &running, &turn, &answer).await;
    if !turn.trigger.is_asked() {
        interjected(parts, &turn, &answer);
    }
    Driven::Answered(Box::new(answer))
}

/// What has been shown of this turn is not gone on with.
fn forget(turn: &Turn) -> OutboxMsg {
    OutboxMsg::Forget(turn.place.clone(), turn.id.clone())
}

/// How a turn ends whose place takes no answer; none where it takes one.
fn closed(parts: &TurnParts, tally: &Tally, turn: &Arc<Turn>) -> Option<Driven> {
    match parts.closed.access(&turn.place, turn.trigger.is_asked().then_some(&turn.person)) {
        PlaceAccess::Open => None,
        PlaceAccess::Notice => Some(not_begun(tally, turn, Ending::PlaceClosed)),
        PlaceAccess::Silent => {
            dropped(parts, turn);
            Some(Driven::Over)
        }
    }
}

/// Saves the exchange of an answer that ended with an apology after text was shown.
async fn remember_apologised(parts: &TurnParts, running: &Running, turn: &Arc<Turn>, answer: &Answer) {
    if let (Outcome::Apologised(_), Some(exchange)) = (&answer.outcome, &answer.exchange)
        && turn.policy.history == HistoryScope::PersonInPlace
    {
        let read = parts.forgotten.now();
        let history = memory::load(parts, turn).await;
        memory::remember(parts, running, turn, exchange, (history, read));
    }
}

/// Counts what nobody asked for against the bounds of interjections.
fn interjected(parts: &TurnParts, turn: &Turn, answer: &Answer) {
    let usage = answer.effort.usage;
    parts.interjections.spent(usage.prompt.saturating_add(usage.completion));
    if answer.outcome == Outcome::Replied {
        parts.interjections.said(&turn.place, &turn.id);
    }
}

/// A turn that is not answered, and not told of: its place takes no answer.
fn dropped(parts: &TurnParts, turn: &Arc<Turn>) {
    // A journal that is down offers the turn again. The message counts, as one that is answered does.
    let settle = RateLimiterMsg::Settle { turn: Arc::clone(turn), effort: Effort::default() };
    let _ = parts.rate_limiter.cast(settle);
    let _ = parts.journal.cast(JournalMsg::Dropped(turn.id.clone(), Dropped::Silent(Ending::PlaceClosed)));
}

/// The end of a turn that cannot be worked on now.
fn not_begun(tally: &Tally, turn: &Turn, why: Ending) -> Driven {
    Driven::Answered(Box::new(Answer { effort: tally.effort(), ..tally.apology(turn, why) }))
}

/// What a cancelled turn took is counted all the same: its end is closed already, and knows nothing of it.
fn spent_in_vain(parts: &TurnParts, turn: &Arc<Turn>, goes_on: Option<&Parked>, effort: &Effort) {
    if effort.usage.total() > 0 {
        let used = ledger::writes(turn, effort, parts.clock.now());
        drop(parts.store.write(used.into_iter().map(Write::from).collect()));
    }
    // Settled also where nothing was spent: the reservation expected a whole answer.
    // A limiter that is down leaves the estimate, which ages out.
    let (turn, effort) = rate_limiter::counted(turn, goes_on, effort);
    let _ = parts.rate_limiter.cast(RateLimiterMsg::Settle { turn, effort });
}

/// The answer to a turn of which something may have been shown: an apology keeps that text and stands below it.
#[must_use]
pub fn with_draft(turn: &Turn, slot: &Slot, answer: Answer, now: Timestamp) -> Answer {
    let mut answer = answer;
    // What nobody has shown yet will not be shown any more.
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

/// Who asks, where and when, as prompts may tell it.
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

/// An answer that is longer than this, in bytes, is read on a thread of its own: no task holds a core for as long as that may take.
const LONG_ANSWER: usize = 32 * 1024;

/// Tells a dialogue what happened.
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

/// What a turn in flight works with.
struct Thinking<'a> {
    parts: &'a TurnParts,
    running: &'a Running,
    turn: &'a Turn,
    again: bool,
    slot: &'a Slot,
    tally: &'a Tally,
    deadline: &'a Deadline,
    tools: Tools,
    /// How many clean calls it stands in; zero for the turn itself.
    depth: u32,
    /// Hears what a model writes in a clean call.
    watcher: Option<ProgressSink>,
    /// The facts of the member as a prompt has them, read when a row is asked that cannot look for them.
    facts: OnceCell<Option<String>>,
}

/// What came of thinking.
#[expect(clippy::large_enum_variant, reason = "most of them are answers, and it lives for a moment")]
enum Thought {
    Answer(Answer),
    /// A call has to be approved first.
    Wait(Box<Parking>),
}

/// What a dialogue is at.
enum Work {
    /// It begins.
    Asking,
    /// Something happened.
    Told(Event),
    /// Calls are to be run, behind those that are done.
    Round(Vec<Planned>, Vec<Told>),
}

/// What a turn knows before it asks a model.
struct Gathered {
    /// What a model is shown.
    transcript: Transcript,
    /// The history that the answer belongs to, and when it was read.
    history: (History, Moment),
    /// The room that files take in memory, for as long as the transcript holds them.
    _room: Option<OwnedSemaphorePermit>,
}

impl Thinking<'_> {
    /// What is known to answer a question.
    async fn asked(&self) -> Gathered {
        let Self { parts, running, turn, .. } = *self;
        if let Some(given) = &turn.given {
            let prompts = prompt_sections::in_force(running, &*parts.store).await;
            let transcript = prompt::given(&prompts, &scene(turn, parts.clock.now()), given);
            return Gathered { transcript, history: (History::default(), parts.forgotten.now()), _room: None };
        }
        // What is read of the store is asked for together.
        let prompts = prompt_sections::in_force(running, &*parts.store);
        let (recalled, prompts) = tokio::join!(memory::recall(parts, running, turn), prompts);
        let files = files::read(parts, running, turn, recalled.quoted.as_ref()).await;
        let now = parts.clock.now();
        let most = running.history_most(turn.policy.model.as_deref());
        let max_age = running.settings.history.message_max_age;
        let question = Question {
            scene: scene(turn, now),
            contract: turn.policy.reply,
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

    async fn think(&self, going_on: Option<&GoingOn>) -> Thought {
        let Self { parts, running, turn, .. } = *self;
        if let Some(going_on) = going_on {
            return match self.go_on().await {
                Ok((Resumed { dialogue, mut done, mut left, .. }, Gathered { history, .. })) => {
                    done.extend(self.run_decided(&mut left, going_on).await);
                    self.work(dialogue, Work::Round(left, done), history).await
                }
                Err(why) => Thought::Answer(self.tally.apology(turn, why)),
            };
        }
        let Gathered { transcript, history, _room } = if turn.trigger.is_asked() {
            self.asked().await
        } else {
            match self.overheard().await {
                Ok(transcript) => {
                    Gathered { transcript, history: (History::default(), parts.forgotten.now()), _room: None }
                }
                Err(why) => {
                    return Thought::Answer(turn.apology(notice::apology(Apology::of(why), turn.locale()), why));
                }
            }
        };
        let schema = Arc::clone(&running.schema);
        let dialogue = Dialogue::new(transcript, turn.policy.reply, schema, self.offered_tools().await);
        let dialogue = dialogue.about(turn.given.clone());
        self.work(dialogue, Work::Asking, history).await
    }

    /// Does what the dialogue says, until there is an answer or something to wait for.
    async fn work(&self, mut dialogue: Dialogue, begin: Work, history: (History, Moment)) -> Thought {
        let Self { turn, .. } = *self;
        let mut next = begin;
        loop {
            let event = match next {
                Work::Asking => Event::Begin,
                Work::Told(event) => event,
                Work::Round(left, done) => match self.run_tools(left, done).await {
                    Round::Ran(told) => Event::Ran(told),
                    Round::Ask(asking) => match self.parking(&dialogue, asking) {
                        Ok(parking) => return Thought::Wait(Box::new(parking)),
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
                Step::AskModel => Work::Told(self.ask(&dialogue).await.unwrap_or_else(Event::Failed)),
                Step::RunTools(planned) => {
                    self.tell_status(notice::tools_at_work(turn.locale()));
                    Work::Round(planned, Vec::new())
                }
                Step::Finish(Finished { reply, calls, repairs }) => {
                    if repairs > 0 {
                        self.parts.account.tell(&Happening::ReplyRepaired(&turn.id, repairs));
                    }
                    return Thought::Answer(self.finish(&reply, calls, history));
                }
                Step::GiveUp(why) => return Thought::Answer(self.tally.apology(turn, why)),
            };
        }
    }

    fn finish(&self, reply: &Reply, calls: Vec<ToolCall>, history: (History, Moment)) -> Answer {
        let Self { parts, running, turn, .. } = *self;
        let exchange = exchange(turn, reply.response.clone(), parts.clock.now());
        if turn.policy.history == HistoryScope::PersonInPlace {
            memory::remember(parts, running, turn, &exchange, history);
        }
        let mut outgoing = turn.reply_with("");
        outgoing.parts = reply::to_parts(reply);
        outgoing.parts.extend((!calls.is_empty()).then_some(Part::Calls { calls }));
        outgoing.parts.extend(self.tools.pictures());
        Answer { outgoing, exchange: Some(exchange), outcome: Outcome::Replied, effort: Effort::default() }
    }
}
