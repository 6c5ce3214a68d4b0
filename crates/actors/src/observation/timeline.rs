//! The time lines of the last turns: the moments of acceptance, start, model call, answer and post. An observer
//! of events; the pages read it. It holds moments, labels, counts and the ids of message, place and member. It
//! holds no names, and text only if the operator allows it. The ids of a turn are hidden when its member asks to be
//! forgotten.

mod noting;
mod transcripts;

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(crate) use self::transcripts::KEPT;
use self::transcripts::Transcripts;
pub use self::transcripts::{Excerpt, Texts};
use domain::experiment::Trial;
use domain::ids;
use domain::ids::{Person, Place, Timestamp, TurnId};
use domain::turn::{Times, Turn};
use ports::samples::{Counters, Figures};
use ports::vitals::{Counted, Limit, Moments, Spend, Step, StepCost, Today, TurnTimes, Turns};

/// The maximum number of turns, newest first.
pub const TURNS: usize = 200;
/// The maximum number of steps of one turn; later steps are dropped.
const STEPS: usize = 32;
/// The maximum number of model rows with separate totals; a changed configuration can add rows.
const ROWS: usize = 64;

/// The maximum age of an ended turn whose time to first words counts for a sample.
const RECENT: Duration = Duration::from_secs(60);

/// The record of the last turns. Texts are lost with the process.
#[derive(Default)]
pub struct Timeline {
    /// The prompts and answers of models, if the operator allows texts. Turns then also show the id of their message.
    transcripts: Option<Transcripts>,
    book: Mutex<Book>,
    limits: Mutex<Vec<(&'static str, usize, Arc<Semaphore>)>>,
    today: Mutex<Option<Today>>,
}

#[derive(Default)]
struct Book {
    /// The number of turns dropped so far, which is the number of the first turn in the record.
    forgotten: u64,
    turns: VecDeque<Line>,
    numbers: HashMap<TurnId, u64>,
    spent: Vec<Spend>,
    /// Turns up to this number show no texts, because a member asked to be forgotten after their acceptance.
    texts_forgotten_through: u64,
}

struct Line {
    id: TurnId,
    place: Place,
    person: Person,
    trigger: &'static str,
    accepted: Instant,
    /// The same moment on the wall clock, fixed at the first read, so that all readers get the same value.
    at: OnceCell<Timestamp>,
    decided: Option<Duration>,
    reserved: Option<Instant>,
    started: Option<Instant>,
    charged: Option<Instant>,
    answered: Option<Instant>,
    visible: Option<Instant>,
    ended: Option<Instant>,
    outcome: &'static str,
    reason: Option<String>,
    counted: Option<Counted>,
    effort: Option<Spent>,
    steps: Vec<Mark>,
    /// True if the ended turn was handed to [`super::past`].
    kept: bool,
    /// True if only the moments are shown, because the member asked to be forgotten.
    forgotten: bool,
}

/// The known effort of an answered turn.
struct Spent {
    times: Times,
    model: Option<String>,
    trial: Option<Trial>,
    dollars: Option<f64>,
}

struct Mark {
    kind: &'static str,
    name: String,
    from: Instant,
    to: Option<Instant>,
    failed: Option<String>,
    cost: Option<StepCost>,
}

impl Timeline {
    /// An empty record that also shows the message id of each turn and the prompts and answers of its model calls.
    #[must_use]
    pub fn showing_texts(excerpt: Excerpt) -> Self {
        Self { transcripts: Some(Transcripts::new(excerpt)), ..Self::default() }
    }

    /// Creates a semaphore with this many permits and reports how many are in use. Call it once for each name.
    pub fn limit(&self, name: &'static str, max: usize) -> Arc<Semaphore> {
        let permits = Arc::new(Semaphore::new(max));
        self.limits.lock().push((name, max, Arc::clone(&permits)));
        permits
    }

    /// Sets today's totals from the usage ledger.
    pub fn summed(&self, today: Today) {
        *self.today.lock() = Some(today);
    }

    /// Records that the journal accepted a turn.
    fn accepted(&self, turn: &Turn, decided: Option<Duration>) {
        let mut book = self.book.lock();
        if book.numbers.contains_key(&turn.id) {
            return;
        }
        if book.turns.len() == TURNS
            && let Some(oldest) = book.turns.pop_front()
        {
            book.numbers.remove(&oldest.id);
            book.forgotten += 1;
        }
        let number = book.forgotten + book.turns.len() as u64;
        book.numbers.insert(turn.id.clone(), number);
        book.turns.push_back(Line {
            id: turn.id.clone(),
            place: turn.place.clone(),
            person: turn.person.clone(),
            trigger: turn.trigger.as_str(),
            accepted: Instant::now(),
            at: OnceCell::new(),
            decided,
            reserved: None,
            started: None,
            charged: None,
            answered: None,
            visible: None,
            ended: None,
            outcome: "open",
            reason: None,
            counted: None,
            effort: None,
            steps: Vec::new(),
            kept: false,
            forgotten: false,
        });
    }

    /// Returns the whole record, newest turn first. `now` is the current wall-clock time.
    #[must_use]
    pub fn turns(&self, now: Timestamp) -> Turns {
        let book = self.book.lock();
        let turns = book.turns.iter().enumerate().rev();
        let turns = turns
            .map(|(at, line)| {
                let number = book.forgotten + at as u64 + 1;
                line.times(number, now)
            })
            .collect();
        let accepted = book.forgotten + book.turns.len() as u64;
        let spent = book.spent.clone();
        drop(book);
        let limits = self.limits.lock();
        let used = |max: usize, permits: &Semaphore| max.saturating_sub(permits.available_permits()) as u64;
        let limits = limits.iter().map(|(name, max, permits)| Limit {
            name: (*name).to_owned(),
            used: used(*max, permits),
            max: *max as u64,
        });
        Turns { accepted, newest: turns, spent, today: self.today.lock().clone(), limits: limits.collect() }
    }

    /// Returns the ended turns that were not returned before, oldest first. Turns of a member who asked to be forgotten
    /// after their acceptance are never returned.
    pub(crate) fn ended_anew(&self, now: Timestamp) -> Vec<TurnTimes> {
        let book = &mut *self.book.lock();
        let mut ended = Vec::new();
        for (line, number) in book.turns.iter_mut().zip(book.forgotten + 1..) {
            if line.ended.is_some() && !line.kept {
                line.kept = true;
                ended.extend((!line.forgotten).then(|| line.times(number, now)));
            }
        }
        ended
    }

    /// Returns the time for which the oldest turn has waited for its start.
    pub(crate) fn lag(&self) -> Duration {
        let book = self.book.lock();
        let waiting = |line: &&Line| line.started.is_none() && line.answered.is_none() && line.ended.is_none();
        book.turns.iter().find(waiting).map_or(Duration::ZERO, |line| line.accepted.elapsed())
    }

    /// Returns the figures of a sample, except the counters of metrics.
    pub(crate) fn figures(&self) -> Figures {
        let book = self.book.lock();
        let spent = |of: fn(&Spend) -> u64| book.spent.iter().map(of).sum();
        let mut words: Vec<u64> = book.turns.iter().filter_map(Line::first_words).collect();
        words.sort_unstable();
        let part = |hundredth: usize| words.get((words.len() * hundredth).div_ceil(100).saturating_sub(1)).copied();
        let dollars = book.spent.iter().filter_map(|spend| spend.dollars);
        Figures {
            turns: book.forgotten + book.turns.len() as u64,
            open: book.turns.iter().filter(|line| line.ended.is_none()).count() as u64,
            first_words_p50_ms: part(50),
            first_words_p99_ms: part(99),
            prompt_tokens: spent(|spend| spend.prompt_tokens),
            completion_tokens: spent(|spend| spend.completion_tokens),
            dollars: dollars.reduce(|all, more| all + more),
            counters: Counters::default(),
        }
    }

    /// Changes the line of a turn that has not ended.
    fn with(&self, turn: &TurnId, change: impl FnOnce(&mut Line, Instant)) {
        self.with_any(turn, |line, now| {
            if line.ended.is_none() {
                change(line, now);
            }
        });
    }

    /// Changes the line of a turn, also after its end.
    fn with_any(&self, turn: &TurnId, change: impl FnOnce(&mut Line, Instant)) {
        let mut book = self.book.lock();
        let Some(number) = book.numbers.get(turn).copied() else { return };
        let at = usize::try_from(number - book.forgotten).unwrap_or(usize::MAX);
        if let Some(line) = book.turns.get_mut(at) {
            change(line, Instant::now());
        }
    }
}

impl Line {
    fn end(&mut self, now: Instant, outcome: &'static str, reason: Option<&str>) {
        self.ended = Some(now);
        self.outcome = outcome;
        self.reason = reason.map(str::to_owned);
    }

    /// The time to the first visible words in milliseconds, if the turn ended in the last minute after it made a
    /// request.
    fn first_words(&self) -> Option<u64> {
        let ended = self.ended.filter(|ended| ended.elapsed() <= RECENT && !self.steps.is_empty())?;
        Some(ids::millis(self.visible.unwrap_or(ended).saturating_duration_since(self.accepted)))
    }

    fn times(&self, number: u64, now: Timestamp) -> TurnTimes {
        let names = !self.forgotten;
        let after = |moment: Instant| moment.saturating_duration_since(self.accepted);
        let (since, us) = (|moment| ids::millis(after(moment)), |moment| micros(after(moment)));
        let step = |mark: &Mark| Step {
            kind: mark.kind.to_owned(),
            name: mark.name.clone(),
            from_ms: since(mark.from),
            to_ms: mark.to.map(since),
            from_us: Some(us(mark.from)),
            to_us: mark.to.map(us),
            failed: mark.failed.clone(),
            cost: mark.cost.clone(),
        };
        TurnTimes {
            number,
            door: self.id.door.as_str().to_owned(),
            message: names.then(|| self.id.id.as_str().to_owned()),
            place: names.then(|| self.place.to_string()),
            member: names.then(|| self.person.to_string()),
            trigger: self.trigger.to_owned(),
            at: *self.at.get_or_init(|| Timestamp(now.0.saturating_sub(ids::millis(self.accepted.elapsed())))),
            age_ms: ids::millis(self.accepted.elapsed()),
            outcome: self.outcome.to_owned(),
            reason: self.reason.clone(),
            counted: self.counted,
            started_ms: self.started.map(since),
            answered_ms: self.answered.map(since),
            visible_ms: self.visible.map(since),
            ended_ms: self.ended.map(since),
            lane_ms: self.effort.as_ref().map(|spent| spent.times.lane_ms),
            permit_ms: self.effort.as_ref().map(|spent| spent.times.permit_ms),
            model_ms: self.effort.as_ref().map(|spent| spent.times.model_ms),
            tools_ms: self.effort.as_ref().map(|spent| spent.times.tools_ms),
            post_ms: self.answered.zip(self.ended).map(|(from, to)| ids::millis(to.saturating_duration_since(from))),
            model: self.effort.as_ref().and_then(|spent| spent.model.clone()),
            trial: self.effort.as_ref().and_then(|spent| spent.trial.clone()),
            dollars: self.effort.as_ref().and_then(|spent| spent.dollars),
            steps: self.steps.iter().map(step).collect(),
            us: Moments {
                decided: self.decided.map(micros),
                reserved: self.reserved.map(us),
                started: self.started.map(us),
                charged: self.charged.map(us),
                answered: self.answered.map(us),
                ended: self.ended.map(us),
            },
            earlier: false,
        }
    }
}

/// Returns a duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
