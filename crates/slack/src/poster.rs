//! Requests of the outbox. A post is idempotent by its nonce, which Slack does not know: the nonce is in the metadata
//! of the message, and this poster looks for it before a post that may have been made already.

mod content;

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::events::Wire;
use super::ids::{self, foreign};
use super::marks::{self, Fate, Mark};
use super::mrkdwn::TEXT_LIMIT;
use super::reading::Span;
use super::web_api::{Arguments, Call, CallError};
use super::{DOOR, Slack};
use domain::ids::{MessageId, Place, Timestamp};
use domain::notice::template::spelled_out;
use domain::outgoing::{Capabilities, Medium, Piece};
use domain::rejection::Rejection;
use ports::{Bucket, HistoryRange, PostError, PostReply, PostRequest, PostResult, Poster};

/// The most buttons below a message.
const BUTTONS_MAX: usize = 5;
/// The time in which a request without an answer takes effect, if ever. A look before that could miss its message.
const SETTLES: Duration = Duration::from_secs(2);
/// The time by which the clock of Slack may be ahead of this one.
const CLOCKS_APART: u64 = 5_000;
/// The time before now in which a post without a question is looked for, in milliseconds.
const LOOK_BACK: u64 = 3_600_000;
/// The shortest time between two posts in one channel, as Slack limits them.
const POST_EVERY: Duration = Duration::from_secs(1);

impl Slack {
    /// Posts a message, unless one with this nonce stands: that gets the content.
    async fn create(
        &self,
        place: &Place,
        piece: &Piece,
        reply_to: Option<&MessageId>,
        nonce: &str,
    ) -> Result<PostReply, PostError> {
        let at = ids::at(place)?;
        let mark = Mark { nonce: nonce.to_owned(), answers: reply_to.cloned() };
        if let Some(message) = self.earlier(place, &mark).await? {
            match self.update(&message, piece, Some(&mark)).await {
                Err(PostError::Rejected { reason: Rejection::MessageGone, .. }) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(replied(PostResult::Message(message), POSTS, POST_EVERY)),
            }
        }
        let mut arguments = content::arguments(&self.written_out(piece));
        arguments.push(("channel", at.channel.into()));
        arguments.extend(at.thread.map(|ts| ("thread_ts", ts.into())));
        arguments.push(("metadata", mark.metadata().to_string().into()));
        arguments.push(("unfurl_links", "false".into()));
        match self.api.call::<Told>(Call::changes("chat.postMessage"), arguments).await {
            Ok(Told { channel, ts }) if ids::is_id(&channel) && ids::moment(&ts).is_some() => {
                let message = ids::message(&channel, &ts);
                self.marks.note(&mark, Fate::Stands(message.clone()));
                Ok(replied(PostResult::Message(message), POSTS, POST_EVERY))
            }
            Ok(_) => {
                self.marks.note(&mark, Fate::Unknown(Instant::now()));
                Err(PostError::Unsure("the answer of slack names no message".to_owned()))
            }
            Err(error) => {
                if matches!(error, CallError::Lost { may_have_worked: true, .. }) {
                    self.marks.note(&mark, Fate::Unknown(Instant::now()));
                }
                Err(error.into())
            }
        }
    }

    /// Returns the message of an earlier request with this nonce. A post whose question is older than this process may
    /// have been made by an earlier one.
    async fn earlier(&self, place: &Place, mark: &Mark) -> Result<Option<MessageId>, PostError> {
        match self.marks.fate(&mark.nonce) {
            Some(Fate::Stands(message)) => return Ok(Some(message)),
            Some(Fate::Unknown(since)) => sleep_until(since + SETTLES).await,
            None => {
                let began = Timestamp(self.began.0.saturating_add(CLOCKS_APART));
                if marks::asked_at(&mark.nonce).is_some_and(|asked| asked > began) {
                    return Ok(None);
                }
            }
        }
        let since =
            marks::asked_at(&mark.nonce).unwrap_or_else(|| Timestamp(self.clock.now().0.saturating_sub(LOOK_BACK)));
        let oldest = format!("{}.000000", since.0 / 1_000);
        let span = Span { oldest: Some(&oldest), ..Span::default() };
        let wires = match self.read(ids::at(place)?, span).await {
            Ok(wires) => wires,
            Err(error) if error.name() == Some("thread_not_found") => Vec::new(),
            Err(error) => return Err(looking(error)),
        };
        let us = self.account().await.map_err(looking)?;
        for wire in wires {
            // Converting a message also stores its mark.
            let _ = self.posted(&wire, None, us);
        }
        Ok(match self.marks.fate(&mark.nonce) {
            Some(Fate::Stands(message)) => Some(message),
            Some(Fate::Unknown(_)) | None => None,
        })
    }

    /// Replaces the content of a message.
    async fn update(&self, message: &MessageId, piece: &Piece, mark: Option<&Mark>) -> Result<(), PostError> {
        let (channel, ts) = ids::posted(message)?;
        let mut arguments = content::arguments(&self.written_out(piece));
        arguments.push(("channel", channel.into()));
        arguments.push(("ts", ts.into()));
        arguments.extend(mark.map(|mark| ("metadata", mark.metadata().to_string().into())));
        // A repeated edit has the same effect.
        self.api.call::<Nothing>(Call::changes("chat.update"), arguments).await?;
        Ok(())
    }

    /// Returns a piece whose countdowns and mentions are words: Slack has no countdowns, and a mention would notify.
    fn written_out(&self, piece: &Piece) -> Piece {
        let text = self.people.named(&spelled_out(&piece.text, self.clock.now()));
        Piece { text, ..piece.clone() }
    }

    async fn edit(&self, message: &MessageId, piece: &Piece) -> Result<PostReply, PostError> {
        self.update(message, piece, self.marks.of(message).as_ref()).await?;
        let wait = self.edits.spend(Instant::now());
        Ok(replied(PostResult::Message(message.clone()), EDITS, wait))
    }

    async fn history(&self, place: &Place, range: &HistoryRange, limit: u8) -> Result<PostReply, PostError> {
        let at = ids::at(place)?;
        let (bound, is_newest) = match range {
            HistoryRange::Newest => (None, true),
            HistoryRange::After(message) => (Some(ids::posted(message)?.1), false),
            HistoryRange::Before(message) => (Some(ids::posted(message)?.1), true),
        };
        let span = if is_newest {
            Span { latest: bound, ..Span::default() }
        } else {
            Span { oldest: bound, ..Span::default() }
        };
        let mut wires = match self.read(at, span).await {
            Ok(wires) => wires,
            // A thread whose first message was deleted without replies.
            Err(error) if error.name() == Some("thread_not_found") => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let limit = usize::from(limit);
        if is_newest {
            wires.drain(..wires.len().saturating_sub(limit));
        } else {
            wires.truncate(limit);
        }
        let us = self.account().await?;
        let messages = wires.iter().map(|wire| self.posted(wire, None, us)).collect();
        Ok(reply(PostResult::Messages(messages)))
    }

    async fn fetch(&self, place: &Place, message: &MessageId) -> Result<PostReply, PostError> {
        let (_, ts) = ids::posted(message)?;
        let span = Span { oldest: Some(ts), latest: Some(ts), inclusive: true };
        let found: Option<Wire> = self.read(ids::at(place)?, span).await?.into_iter().find(|wire| wire.ts == ts);
        let tombstone = |wire: &Wire| wire.subtype.as_deref() == Some("tombstone");
        let Some(wire) = found.filter(|wire| !tombstone(wire)) else {
            return Err(PostError::unsent(Rejection::MessageGone, "the message is not in its channel".to_owned()));
        };
        let us = self.account().await?;
        Ok(reply(PostResult::Messages(vec![self.posted(&wire, None, us)])))
    }

    async fn react(&self, message: &MessageId, emoji: &str) -> Result<PostReply, PostError> {
        let (channel, ts) = ids::posted(message)?;
        let Some(name) = content::emoji_name(emoji) else {
            return Err(PostError::unsent(Rejection::Content, "slack has no name for this emoji".to_owned()));
        };
        let arguments: Arguments<'_> =
            vec![("channel", channel.into()), ("timestamp", ts.into()), ("name", name.into())];
        done_if(self.api.call::<Nothing>(Call::changes("reactions.add"), arguments).await, "already_reacted")
    }

    async fn delete(&self, message: &MessageId) -> Result<PostReply, PostError> {
        let (channel, ts) = ids::posted(message)?;
        let arguments: Arguments<'_> = vec![("channel", channel.into()), ("ts", ts.into())];
        done_if(self.api.call::<Nothing>(Call::changes("chat.delete"), arguments).await, "message_not_found")
    }
}

#[async_trait]
impl Poster for Slack {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            text_limit: TEXT_LIMIT,
            cards: 0,
            files: 0,
            file_bytes: 0,
            buttons: BUTTONS_MAX,
            forms: false,
            medium: Medium::Messages,
        }
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        match request {
            PostRequest::Create { place, piece, reply_to, nonce } => {
                self.create(place, piece, reply_to.as_ref(), nonce).await
            }
            PostRequest::Edit { message, piece, .. } => self.edit(message, piece).await,
            PostRequest::Delete { message, .. } => self.delete(message).await,
            PostRequest::React { message, emoji, .. } => self.react(message, emoji).await,
            PostRequest::History { place, range, limit } => self.history(place, range, *limit).await,
            PostRequest::Fetch { place, message } => self.fetch(place, message).await,
            // The acknowledgement of the envelope told the member that the command arrived.
            PostRequest::Defer(callback) if callback.id.door == DOOR => {
                let is_first = self.marks.is_first(&callback.id);
                Ok(reply(if is_first { PostResult::Done } else { PostResult::Already }))
            }
            PostRequest::Respond { to, piece } if to.id.door == DOOR => {
                for file in &piece.files {
                    self.send_file(&to.application, file).await?;
                }
                self.api.respond(to.token.expose(), &content::private(&self.written_out(piece))).await?;
                Ok(reply(PostResult::Done))
            }
            PostRequest::Defer(_) | PostRequest::Respond { .. } | PostRequest::OpenForm { .. } => {
                Err(foreign("the request"))
            }
            PostRequest::Roles(_) | PostRequest::AddRole(_) | PostRequest::RemoveRole(_) => {
                Ok(reply(PostResult::Absent))
            }
            // Slack shows no typing of bots, the manifest of the app has its commands, and messages need no more facts.
            PostRequest::Typing { .. }
            | PostRequest::FetchGuild { .. }
            | PostRequest::RegisterCommands(_)
            | PostRequest::Suggest { .. } => Ok(reply(PostResult::Done)),
        }
    }
}

/// The edits of the last minute. Slack accepts about fifty a minute in a workspace (`chat.update`, tier 3).
#[derive(Default)]
pub(super) struct EditBudget(Mutex<VecDeque<Instant>>);

impl EditBudget {
    /// The number of edits in a minute up to which each place may have the next one after this time.
    const STEPS: [(usize, Duration); 3] =
        [(30, Duration::from_millis(1_200)), (40, Duration::from_millis(2_400)), (usize::MAX, Duration::from_secs(4))];

    /// Counts an edit. Returns the time until the next one in the same place.
    fn spend(&self, now: Instant) -> Duration {
        let mut edits = self.0.lock();
        while edits.front().is_some_and(|at| now.duration_since(*at) > Duration::from_secs(60)) {
            edits.pop_front();
        }
        edits.push_back(now);
        let many = edits.len();
        Self::STEPS.iter().find(|(most, _)| many <= *most).map_or(Duration::ZERO, |(_, wait)| *wait)
    }
}

/// The name of the limit on posts.
const POSTS: &str = "posts";
/// The name of the limit on edits.
const EDITS: &str = "edits";

/// The message that a call named.
#[derive(Deserialize)]
struct Told {
    channel: String,
    ts: String,
}

/// A result that says nothing more.
#[derive(Deserialize)]
struct Nothing {}

fn reply(result: PostResult) -> PostReply {
    PostReply { result, bucket: None }
}

/// Returns a reply with the time until the next request of its kind.
fn replied(result: PostResult, id: &str, wait: Duration) -> PostReply {
    PostReply { result, bucket: Some(Bucket { id: Some(id.to_owned()), remaining: 0, reset_after: wait }) }
}

/// Returns success also for an error that says that it was done before.
fn done_if(result: Result<Nothing, CallError>, before: &str) -> Result<PostReply, PostError> {
    match result {
        Ok(Nothing {}) => Ok(reply(PostResult::Done)),
        Err(error) if error.name() == Some(before) => Ok(reply(PostResult::Done)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the error of a look before a post: nothing was posted, and the look is worth another try.
fn looking(error: CallError) -> PostError {
    match PostError::from(error) {
        PostError::Unsure(words) => PostError::Transient(words),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_slow_down_before_slack_refuses_them() {
        let (budget, now) = (EditBudget::default(), Instant::now());
        let waits: Vec<Duration> = (0..45).map(|_| budget.spend(now)).collect();
        assert_eq!([waits[0], waits[29]], [Duration::from_millis(1_200); 2]);
        assert_eq!([waits[30], waits[44]], [Duration::from_millis(2_400), Duration::from_secs(4)]);
        assert_eq!(budget.spend(now + Duration::from_secs(61)), Duration::from_millis(1_200));
    }
}
