//! The work on one event of a connection, until the event needs no redelivery.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::commands::Run;
use super::events::{Content, Wire};
use super::ids::{self, At};
use super::interactions::Press;
use super::marks::Mark;
use super::reading::Span;
use super::shortcuts::Shortcut;
use super::views::{self, Submission};
use super::web_api::CallError;
use super::{Account, Slack, dialogue};
use domain::incoming::{Deletion, Incoming, Posted};
use domain::keys::{CATCH_UP_AGE_MAX, TURN_TTL};
use domain::locale::Locale;
use domain::manners::Draw;
use domain::notice::workspace;
use domain::rejection::Rejection;
use ports::{Intake, Lottery, PostError};
use telemetry::events::GATEWAY_DROPPED;
use telemetry::metrics::GATEWAY_EVENTS_TOTAL;

/// The age from which no member expects an unasked answer.
const LATE: Duration = Duration::from_secs(60);
/// The longest wait for the answer to a modal: its envelope must be acknowledged within three seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2_200);

/// The result of the work on an event.
pub(super) enum EventOutcome {
    /// It needs no redelivery.
    Settled,
    /// It needs no redelivery, and Slack gets this answer.
    Answered(Value),
    /// It was not accepted: Slack delivers it again.
    Returned,
}

impl EventOutcome {
    fn of(accepted: bool) -> Self {
        if accepted { Self::Settled } else { Self::Returned }
    }
}

/// The neighbours of a connection.
pub(super) struct Work {
    pub(super) slack: Arc<Slack>,
    pub(super) us: Account,
    pub(super) intake: Arc<dyn Intake>,
    /// Names that address the bot without a mention, in lower case.
    pub(super) names: Arc<[String]>,
    /// The draws for messages that do not address the bot; `None` never draws.
    pub(super) lottery: Option<Lottery>,
    /// Cancelled once another connection has replaced this one.
    pub(super) replaced: CancellationToken,
    /// Receives a message if Slack asks for another connection.
    pub(super) refresh: mpsc::Sender<()>,
}

impl Work {
    /// Returns the work on an event; `None` if the event does not concern the bot.
    pub(super) fn taking(&self, content: Content) -> Option<BoxFuture<'static, EventOutcome>> {
        let (slack, us, intake) = (Arc::clone(&self.slack), self.us.clone(), Arc::clone(&self.intake));
        let person = Slack::us(&us);
        let accept = move |incoming: Incoming| async move { intake.accept(incoming, person).await.is_ok() };
        match content {
            Content::Posted(wire) => {
                if !concerns(&wire, &us, &self.names) {
                    let draw = self.draw(&wire, &us)?;
                    let overheard =
                        async move { accept(Incoming::Posted(slack.overheard(&wire, draw, &us).await)).await };
                    return Some(overheard.map(EventOutcome::of).boxed());
                }
                let age = slack.clock.now().since(ids::moment(&wire.ts).unwrap_or_default());
                if age > TURN_TTL {
                    count("slack_too_old");
                    tracing::info!(event = GATEWAY_DROPPED, reason = "too old", "a message of slack came too late");
                    return None;
                }
                if age > CATCH_UP_AGE_MAX {
                    return Some(async move { EventOutcome::of(slack.late(&wire, &us, accept).await) }.boxed());
                }
                let posted = async move { accept(Incoming::Posted(slack.completed(&wire, &us).await)).await };
                Some(posted.map(EventOutcome::of).boxed())
            }
            Content::Deleted(message) => {
                let deletion = Deletion { message, guild: Some(us.team.clone()) };
                Some(accept(Incoming::Deleted(deletion)).map(EventOutcome::of).boxed())
            }
            Content::Reacted(reaction) => Some(accept(Incoming::Reacted(reaction)).map(EventOutcome::of).boxed()),
            Content::Pressed(press) => {
                Some(async move { EventOutcome::of(slack.pressed(*press, &us, accept).await) }.boxed())
            }
            Content::Ran(run) => Some(async move { EventOutcome::of(slack.ran(*run, &us, accept).await) }.boxed()),
            Content::Sent(sent) => Some(async move { slack.sent(*sent, &us, accept).await }.boxed()),
            Content::Home(user) => {
                Some(async move { slack.publish_home(&user).await }.map(|()| EventOutcome::Settled).boxed())
            }
            Content::Shortcut(shortcut) => Some(open_dialogue(slack, *shortcut).boxed()),
            Content::Asked(asked) => {
                let asked = async move {
                    let user = asked.user.clone();
                    match slack.ask(*asked, &us).await {
                        Ok(posted) => EventOutcome::of(accept(Incoming::Posted(posted)).await),
                        Err(error) => not_asked(&error, Locale::of(slack.member(&user).await.locale.as_deref())),
                    }
                };
                Some(asked.boxed())
            }
            Content::Opened(channel) => {
                Some(async move { slack.suggest(&channel).await }.map(|()| EventOutcome::Settled).boxed())
            }
            Content::RateLimited => {
                tracing::warn!(event = GATEWAY_DROPPED, reason = "rate limited", "slack holds events back: too many");
                None
            }
            Content::Other => None,
        }
    }
}

impl Work {
    /// Draws for a message that does not address the bot: a member's own talk in a channel, unless Slack delivers it late.
    fn draw(&self, wire: &Wire, us: &Account) -> Option<Draw> {
        let ours = wire.user.as_deref() == Some(us.user.as_str());
        let talk = wire.is_talk() && wire.bot_id.is_none() && wire.user.is_some() && !ours && wire.is_in_channel();
        let age = self.slack.clock.now().since(ids::moment(&wire.ts).unwrap_or_default());
        self.lottery.as_ref().filter(|_| talk && age <= LATE)?.draw()
    }
}

/// Opens the modal of a press, before any other request. Returns false if Slack does not open it.
async fn open_modal(slack: &Slack, us: &Account, press: &mut Press) -> bool {
    match slack.open_modal(us, &press.trigger, &press.place).await {
        Ok(modal) => {
            press.opened(modal);
            true
        }
        Err(error) => {
            tracing::warn!(event = GATEWAY_DROPPED, %error, "a dialogue could not be opened");
            false
        }
    }
}

async fn open_dialogue(slack: Arc<Slack>, shortcut: Shortcut) -> EventOutcome {
    if let Err(error) = slack.open_dialogue(&shortcut).await {
        tracing::warn!(event = GATEWAY_DROPPED, %error, "the dialogue of a shortcut could not be opened");
    }
    EventOutcome::Settled
}

fn not_asked(error: &CallError, locale: Locale) -> EventOutcome {
    tracing::info!(event = GATEWAY_DROPPED, %error, "a question about a message could not be posted");
    let reason = match PostError::from(error.clone()) {
        PostError::Rejected { reason: Rejection::PlaceGone | Rejection::Forbidden, .. } => {
            workspace::not_invited(locale)
        }
        _ => workspace::not_asked(locale),
    };
    EventOutcome::Answered(dialogue::refusal(reason))
}

impl Slack {
    /// Passes on a pressed button. Returns true if it needs no redelivery.
    async fn pressed<A: Future<Output = bool>>(
        &self,
        mut press: Press,
        us: &Account,
        accept: impl FnOnce(Incoming) -> A,
    ) -> bool {
        if press.opens() {
            open_modal(self, us, &mut press).await;
        }
        let member = self.member(&press.user).await;
        accept(press.step(member, us)).await
    }

    /// Passes on a command, or the opening of the dialogue that it asks for. Returns true if it needs no redelivery.
    async fn ran<A: Future<Output = bool>>(&self, run: Run, us: &Account, accept: impl FnOnce(Incoming) -> A) -> bool {
        let mut opening = Press::of_command(&run);
        let opened = match &mut opening {
            Some(press) => open_modal(self, us, press).await,
            None => false,
        };
        let member = self.member(&run.user).await;
        let step = match opening.filter(|_| opened) {
            Some(press) => press.step(member, us),
            None => Incoming::Command(Box::new(run.command(member, self.clock.now()))),
        };
        accept(step).await
    }

    /// Passes on a modal that a member sent. Its acknowledgement carries the answer, if there is one in time.
    async fn sent<A: Future<Output = bool>>(
        &self,
        sent: Submission,
        us: &Account,
        accept: impl FnOnce(Incoming) -> A,
    ) -> EventOutcome {
        let (id, place) = (sent.callback().id, sent.place.clone());
        let mut answer = self.submissions.begin(&id);
        let until = Instant::now() + ANSWER_TIMEOUT;
        let member = self.member(&sent.user).await;
        let Some(step) = sent.step(member, us) else { return EventOutcome::Settled };
        if !accept(step).await {
            return EventOutcome::Returned;
        }
        let answered = timeout_at(until, answer.wait_for(Option::is_some)).await;
        let answered = answered.ok().and_then(Result::ok).and_then(|answer| answer.clone());
        EventOutcome::Answered(answered.unwrap_or_else(|| views::told_later(us, &place.id)))
    }

    /// Passes on a message whose record may be gone, unless its thread shows that it was answered or that it was
    /// deleted. Returns true if it needs no redelivery.
    async fn late<A: Future<Output = bool>>(
        &self,
        wire: &Wire,
        us: &Account,
        accept: impl FnOnce(Incoming) -> A,
    ) -> bool {
        let message = ids::message(&wire.channel, &wire.ts);
        let at = At { channel: &wire.channel, thread: Some(wire.root()) };
        let span = Span { oldest: Some(&wire.ts), inclusive: true, ..Span::default() };
        let thread = match self.read(at, span).await {
            Ok(thread) => thread,
            Err(error) if error.name() == Some("thread_not_found") => Vec::new(),
            Err(_) => return false,
        };
        let stands = thread.iter().any(|known| known.ts == wire.ts && known.subtype.as_deref() != Some("tombstone"));
        let answered = thread.iter().filter(|known| known.user.as_deref() == Some(us.user.as_str()));
        let mut marks = answered.filter_map(|known| known.metadata.as_ref().and_then(Mark::read));
        if !stands || marks.any(|mark| mark.trigger().as_ref() == Some(&message)) {
            count("slack_too_old");
            return true;
        }
        accept(Incoming::Posted(self.completed(wire, us).await)).await
    }

    /// Converts a message that does not address the bot. An interjection to a message that is in no thread stands in the
    /// channel, among the messages that it is about.
    async fn overheard(&self, wire: &Wire, draw: Draw, us: &Account) -> Posted {
        let posted = Posted { draw: Some(draw), ..self.completed(wire, us).await };
        if wire.thread_ts.is_some() {
            return posted;
        }
        Posted { place: ids::channel(&wire.channel), parent: None, ..posted }
    }

    /// Converts a message of an event, with the data of its author.
    pub(super) async fn completed(&self, wire: &Wire, us: &Account) -> Posted {
        let profile = match &wire.user {
            Some(user) if *user != us.user => Some(self.member(user).await),
            _ => None,
        };
        self.posted(wire, profile, us)
    }
}

/// True if a message may be for the bot: a direct one, or one that mentions or names it.
pub(super) fn concerns(wire: &Wire, us: &Account, names: &[String]) -> bool {
    if !wire.is_talk() || wire.user.as_deref() == Some(us.user.as_str()) {
        return false;
    }
    let mentioned = || wire.text.contains(&format!("<@{}", us.user));
    let named = || {
        let text = wire.text.to_lowercase();
        names.iter().any(|name| text.contains(name.as_str()))
    };
    wire.is_direct() || wire.mention || mentioned() || named()
}

pub(super) fn count(kind: &'static str) {
    metrics::counter!(GATEWAY_EVENTS_TOTAL, "kind" => kind).increment(1);
}
