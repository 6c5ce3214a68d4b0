//! One request in progress: submits a turn and reads its events.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::failure::{Failure, TOO_MUCH};
use super::room::RoomReservation;
use super::{DOOR, ModelApi, TEXT_LIMIT, us};
use domain::answer_end::AnswerEnd;
use domain::api_key::{Caller, Right};
use domain::completion::{ToolCall, Usage};
use domain::ending::Dropped;
use domain::given::{Given, GivenConversation};
use domain::ids::{MessageId, Person, Place};
use domain::incoming::{Author, AuthorKind, Deletion, Incoming, Posted, WantedModels};
use domain::layout::lay_out;
use domain::outgoing::{Capabilities, Part};
use domain::turn::Effort;
use domain::turn_event::{TurnEvent, TurnUpdate};
use ports::{NotAccepted, Reading, TurnEventReader};

/// The longest time to await the first event before the head of a stream is sent; a failure before it gets its own
/// status.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of computing when a limit admits the next request.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason of a turn that was cancelled by a client or with its session.
const STOPPED: &str = "the answer was stopped; ask again";
/// The number of submission attempts, and the pause between them.
const TRIES: u32 = 3;
const AGAIN: Duration = Duration::from_millis(300);
/// Maximum length of the question by which tools are selected, in Unicode scalar values.
const QUESTION_MAX: usize = 8_000;

/// An event of a request. Nothing follows the last two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// More text of the answer.
    Text(String),
    Answered(Box<Answered>),
    /// There is no answer.
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answered {
    /// The text that was not streamed yet.
    pub rest: String,
    /// The whole text.
    pub text: String,
    /// Calls of the client's own tools.
    pub calls: Vec<ToolCall>,
    /// The tokens of all model calls.
    pub usage: Usage,
    /// The row that answered.
    pub model: Option<String>,
    /// The model's reason for ending.
    pub end: AnswerEnd,
}

/// A request in progress. Dropping it before the answer cancels the turn.
pub(super) struct Asking {
    reader: TurnEventReader,
    under_way: UnderWay,
    until: Instant,
    written: Written,
    /// An event that was read ahead.
    first: Option<Progress>,
}

/// The part of the answer that was streamed.
#[derive(Debug, Default)]
struct Written {
    text: String,
    /// Further text does not continue it.
    broken: bool,
    /// The turn was restarted after part of it was streamed.
    again: bool,
    accepted: bool,
}

/// The resources of a request in progress.
struct UnderWay {
    api: Arc<ModelApi>,
    holder: String,
    place: Place,
    message: MessageId,
    /// Nothing to cancel: not submitted yet, or answered.
    over: bool,
    _taken: RoomReservation,
}

impl ModelApi {
    /// Submits a conversation. If it has no tools of its own, the bot's tools are offered as far as the caller may use
    /// them.
    pub(super) async fn ask(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: GivenConversation,
        taken: RoomReservation,
    ) -> Result<Asking, Failure> {
        Self::opens(caller)?;
        self.check_size(caller, &conversation)?;
        let mut under_way = self.begin(caller, taken);
        let posted = self.posted(caller, conversation, &under_way).await?;
        self.fits(&posted)?;
        let events = Arc::clone(&self.parts.events);
        events.open(&under_way.place);
        let reader = TurnEventReader::new(events, under_way.place.clone(), 0);
        let gone = || Failure::Busy("temporarily unavailable; try again in a moment".to_owned());
        let reader = reader.ok_or_else(gone)?;
        under_way.over = false;
        self.hand_in(&posted).await.map_err(|_| gone())?;
        let until = Instant::now() + self.parts.bounds.answer;
        Ok(Asking { reader, under_way, until, written: Written::default(), first: None })
    }

    /// Refuses a request that exceeds a limit of its key by itself, so that retries are useless.
    fn fits(&self, posted: &Posted) -> Result<(), Failure> {
        let tokens = posted.given.as_ref().map_or(0, |given| given.tokens());
        match self.parts.meter.most_tokens(&posted.author.person) {
            Some(most) if tokens > most => Err(Failure::OverKey(tokens, most)),
            Some(_) | None => Ok(()),
        }
    }

    /// Retries, because the gateway may be restarting. The id makes the submission idempotent.
    async fn hand_in(&self, posted: &Posted) -> Result<(), NotAccepted> {
        for _ in 1..TRIES {
            match self.parts.intake.accept(Incoming::Posted(posted.clone()), us()).await {
                Ok(()) => return Ok(()),
                Err(NotAccepted) => sleep(AGAIN).await,
            }
        }
        self.parts.intake.accept(Incoming::Posted(posted.clone()), us()).await
    }

    fn begin(self: &Arc<Self>, caller: &Caller, taken: RoomReservation) -> UnderWay {
        let (holder, id) = (caller.name().to_owned(), self.next_id());
        let (place, message) = (Place::new(DOOR, format!("{holder}.{id}")), MessageId::new(DOOR, id));
        UnderWay { api: Arc::clone(self), holder, place, message, over: true, _taken: taken }
    }

    async fn posted(
        &self,
        caller: &Caller,
        mut conversation: GivenConversation,
        under_way: &UnderWay,
    ) -> Result<Posted, Failure> {
        let holder = &under_way.holder;
        conversation.rows = self.answering(caller, &conversation);
        let question = conversation.question().chars().take(QUESTION_MAX).collect();
        let tools = conversation.takes_our_tools() && caller.may(Right::Tools);
        let author = Author {
            person: Person::new(DOOR, holder.clone()),
            name: holder.clone(),
            roles: Vec::new(),
            joined: None,
            kind: AuthorKind::Member,
        };
        Ok(Posted {
            id: under_way.message.clone(),
            place: under_way.place.clone(),
            // Rules for the holder's place apply to all of the holder's requests.
            parent: Some(Place::new(DOOR, holder.clone())),
            // Not a direct message: every authorized caller is answered.
            guild: Some(DOOR.as_str().to_owned()),
            author,
            text: question,
            mentions_us: true,
            reply_to: None,
            attachments: Vec::new(),
            locale: None,
            may_answer: true,
            at: self.parts.clock.now(),
            draw: None,
            tools,
            given: Some(shared(conversation).await?),
            models: WantedModels::default(),
            lineage: None,
        })
    }
}

/// Shares a conversation with its JSON, which is part of each record of its turn. A long one is serialized on a thread
/// for blocking work.
async fn shared(conversation: GivenConversation) -> Result<Given, Failure> {
    if !conversation.is_long() {
        return Ok(Given::new(conversation));
    }
    let gone = |_| Failure::Internal("the conversation was not written".to_owned());
    tokio::task::spawn_blocking(move || Given::written(conversation)).await.map_err(gone)
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.api.parts.events.close(&self.place);
        if !self.over {
            let (intake, message) = (Arc::clone(&self.api.parts.intake), self.message.clone());
            tokio::spawn(async move {
                // The turn goes on if this is lost; its answer is discarded.
                let _ = intake.accept(Incoming::Deleted(Deletion::of(message)), us()).await;
            });
        }
    }
}

impl Asking {
    /// Returns the id of the request.
    pub fn id(&self) -> &str {
        &self.under_way.message.id
    }

    /// Awaits the first event, for a bounded time.
    ///
    /// # Errors
    /// The first event is a failure.
    pub async fn begin(&mut self) -> Result<(), Failure> {
        match timeout(HEAD_TIMEOUT, self.next()).await {
            Ok(Progress::Failed(failure)) => Err(failure),
            Ok(progress) => {
                self.first = Some(progress);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// Returns the next event. Cancel safe.
    pub async fn next(&mut self) -> Progress {
        if let Some(first) = self.first.take() {
            return first;
        }
        loop {
            let Ok(reading) = timeout_at(self.until, self.reader.next()).await else {
                return Progress::Failed(Failure::Late("it took too long".to_owned()));
            };
            let progress = match reading {
                Some(Reading::Event(event)) if event.turn.trigger() == self.under_way.message => {
                    self.written.take(&event)
                }
                Some(Reading::Event(_)) => None,
                Some(Reading::Missed(number)) => {
                    self.written.broken = true;
                    let events = Arc::clone(&self.under_way.api.parts.events);
                    match TurnEventReader::new(events, self.under_way.place.clone(), number) {
                        Some(reader) => self.reader = reader,
                        None => return Progress::Failed(lost()),
                    }
                    None
                }
                None => return Progress::Failed(lost()),
            };
            let Some(mut progress) = progress else { continue };
            self.under_way.over |= !matches!(progress, Progress::Text(_));
            if let Progress::Failed(Failure::OverLimit(why, None)) = progress {
                // If this future is dropped here, the next call returns it.
                self.first = Some(Progress::Failed(Failure::OverLimit(why.clone(), None)));
                let UnderWay { api, holder, .. } = &self.under_way;
                let person = Person::new(DOOR, holder.clone());
                let wait = timeout(LOOK_TIMEOUT, api.parts.meter.refused_for(&person)).await.ok().flatten();
                self.first = None;
                progress = Progress::Failed(Failure::OverLimit(why, wait));
            }
            return progress;
        }
    }

    /// Returns the end of the request, skipping partial text.
    pub async fn whole(&mut self) -> Result<Answered, Failure> {
        loop {
            match self.next().await {
                Progress::Text(_) => {}
                Progress::Answered(answered) => return Ok(*answered),
                Progress::Failed(failure) => return Err(failure),
            }
        }
    }
}

fn lost() -> Failure {
    Failure::Busy("the answer was lost; ask again".to_owned())
}

impl Written {
    fn take(&mut self, event: &TurnEvent) -> Option<Progress> {
        match &event.update {
            TurnUpdate::Accepted => {
                self.again |= self.accepted && !self.text.is_empty();
                self.accepted = true;
                None
            }
            TurnUpdate::Draft { text, anew } => {
                let begins = *anew && !self.text.is_empty();
                self.broken |= begins && self.again;
                if self.broken {
                    return None;
                }
                if begins {
                    // Text after a tool call follows the earlier text.
                    self.text.clone_from(text);
                    return Some(Progress::Text(format!("\n\n{text}")));
                }
                self.text.push_str(text);
                Some(Progress::Text(text.clone()))
            }
            TurnUpdate::Final { parts, effort } => Some(self.end(parts, effort)),
            TurnUpdate::Apology { why, again, .. } => Some(Progress::Failed(Failure::of(*why, *again))),
            TurnUpdate::Done { unanswered: Some(Dropped::TriggerDeleted) } => {
                Some(Progress::Failed(Failure::Busy(STOPPED.to_owned())))
            }
            TurnUpdate::Done { .. } => Some(Progress::Failed(Failure::Busy(TOO_MUCH.to_owned()))),
            TurnUpdate::Queued { .. } | TurnUpdate::Tool { .. } | TurnUpdate::Gate { .. } | TurnUpdate::Task { .. } => {
                None
            }
        }
    }

    fn end(&self, parts: &[Part], effort: &Effort) -> Progress {
        let said = |part: &&Part| !matches!(part, Part::Calls { .. });
        let text = words(&parts.iter().filter(said).cloned().collect::<Vec<_>>());
        let rest = match text.strip_prefix(self.text.as_str()) {
            Some(rest) => rest.to_owned(),
            None if self.again || self.broken => {
                let why = "the answer was restarted after a part was sent; ask again";
                return Progress::Failed(Failure::Internal(why.to_owned()));
            }
            // Text before a tool call precedes the answer.
            None => format!("\n\n{text}"),
        };
        let calls = parts.iter().filter_map(|part| match part {
            Part::Calls { calls } => Some(calls.clone()),
            _ => None,
        });
        Progress::Answered(Box::new(Answered {
            rest,
            calls: calls.flatten().collect(),
            text,
            usage: effort.usage,
            model: effort.model.clone(),
            end: effort.end,
        }))
    }
}

/// Formats parts as text; a single text part is unchanged.
fn words(parts: &[Part]) -> String {
    match parts {
        [] => String::new(),
        [Part::Text { text }] => text.clone(),
        parts => {
            let pieces = lay_out(parts, &Capabilities::text_only(TEXT_LIMIT));
            pieces.into_iter().map(|piece| piece.text).collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ending::{Ending, ModelErrorKind, OverLimit};
    use domain::ids::TurnId;
    use domain::turn_event::NoAnswer;

    fn played(updates: Vec<TurnUpdate>) -> Vec<Progress> {
        let (mut written, turn) = (Written::default(), TurnId::of(&MessageId::new(DOOR, "1")));
        let event = |update| TurnEvent { number: 1, turn: turn.clone(), update };
        updates.into_iter().filter_map(|update| written.take(&event(update))).collect()
    }

    fn draft(text: &str, anew: bool) -> TurnUpdate {
        TurnUpdate::Draft { text: text.to_owned(), anew }
    }

    fn whole(text: &str) -> TurnUpdate {
        let parts = [Part::Text { text: text.to_owned() }].as_slice().into();
        TurnUpdate::Final { parts, effort: Effort::default() }
    }

    fn rest(progress: Option<&Progress>) -> Option<(&str, &str)> {
        match progress {
            Some(Progress::Answered(answered)) => Some((&answered.rest, &answered.text)),
            _ => None,
        }
    }

    #[test]
    fn what_is_given_is_the_answer_in_order_and_once() {
        let told = played(vec![TurnUpdate::Accepted, draft("The ", true), draft("tide", false), whole("The tide.")]);
        assert_eq!(told[..2], [Progress::Text("The ".to_owned()), Progress::Text("tide".to_owned())]);
        assert_eq!(rest(told.last()), Some((".", "The tide.")));
        // A tool was called after some text.
        let told = played(vec![draft("Let me look.", true), whole("A boat.")]);
        assert_eq!(rest(told.last()), Some(("\n\nA boat.", "A boat.")));
        // The text after it is streamed as well.
        let told = played(vec![draft("Let me look.", true), draft("A ", true), draft("bo", false), whole("A boat.")]);
        assert_eq!(told[1..3], [Progress::Text("\n\nA ".to_owned()), Progress::Text("bo".to_owned())]);
        assert_eq!(rest(told.last()), Some(("at.", "A boat.")));
    }

    #[test]
    fn a_turn_that_begins_anew_goes_on_where_it_may_and_else_says_so() {
        let again = |end: &str| {
            played(vec![
                TurnUpdate::Accepted,
                draft("The", true),
                TurnUpdate::Accepted,
                draft("The t", true),
                whole(end),
            ])
        };
        assert_eq!(again("The tide").len(), 2, "nothing is given twice");
        assert_eq!(rest(again("The tide").last()), Some((" tide", "The tide")));
        assert!(matches!(again("A tide").last(), Some(Progress::Failed(Failure::Internal(_)))));
    }

    #[test]
    fn why_there_is_no_answer_decides_the_status() {
        for (why, status) in [
            (NoAnswer::OverLimit(OverLimit::Messages), 429),
            (NoAnswer::NotTaken, 503),
            (NoAnswer::Ended(Ending::Deadline), 504),
            (NoAnswer::Ended(Ending::Unusable), 502),
            (NoAnswer::Ended(Ending::Model(ModelErrorKind::ContextOverflow)), 400),
            (NoAnswer::Ended(Ending::Model(ModelErrorKind::RateLimited)), 429),
            (NoAnswer::Ended(Ending::Model(ModelErrorKind::Refused)), 502),
            (NoAnswer::Ended(Ending::Model(ModelErrorKind::OutOfQuota)), 502),
            (NoAnswer::Ended(Ending::Model(ModelErrorKind::NoMemory)), 503),
            (NoAnswer::Ended(Ending::BreakersOpen), 503),
            (NoAnswer::Ended(Ending::Panicked), 500),
        ] {
            let parts = [Part::Text { text: "sorry".to_owned() }].as_slice().into();
            match played(vec![TurnUpdate::Apology { parts, why, again: None }]).as_slice() {
                [Progress::Failed(failure)] => {
                    assert_eq!(failure.status().as_u16(), status, "{why:?}");
                    assert!(!failure.text().contains("sorry"), "what members are told is not for programs");
                    let again = failure.headers().get("x-should-retry").map(|again| again == "true");
                    let tried_here = matches!(why, NoAnswer::Ended(Ending::Model(kind)) if !matches!(kind, ModelErrorKind::ContextOverflow | ModelErrorKind::NoMemory));
                    assert!(!tried_here || again == Some(false), "{why:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
