//! Requests of the outbox. A post is idempotent by its nonce, which Slack does not know: the nonce is in the metadata
//! of the message, and this poster looks for it before a post that may have been made already.

pub(super) mod budget;

mod content;

mod streaming;

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::events::Wire;
use super::ids::{self, At, foreign};
use super::marks::{self, Fate, Files, Mark};
use super::mrkdwn::TEXT_LIMIT;
use super::reading::Span;
use super::web_api::{Arguments, Call, CallError};
use super::{DOOR, Slack, views};
use domain::command::Callback;
use domain::ids::{MessageId, Place, Timestamp};
use domain::notice::template::spelled_out;
use domain::outgoing::{Capabilities, FILE_BYTES_MAX, Medium, Piece};
use domain::rejection::Rejection;
use ports::{Bucket, HistoryRange, PostError, PostReply, PostRequest, PostResult, Poster};

/// The most files of a message, and their bytes in total: they are uploaded one after the other.
const FILES_MAX: usize = 10;
const FILES_BYTES: usize = 2 * FILE_BYTES_MAX;
/// The most buttons below a message.
const BUTTONS_MAX: usize = 5;
/// The time in which a request without an answer takes effect, if ever. A look before that could miss its message.
pub(super) const SETTLES: Duration = Duration::from_secs(2);
/// The time by which the clock of Slack may be ahead of this one.
const CLOCKS_APART: u64 = 5_000;
/// The age of the oldest message searched for a post without a question, in milliseconds.
const LOOK_BACK: u64 = 3_600_000;
/// The shortest time between two posts in one channel, as Slack limits them.
const POST_EVERY: Duration = Duration::from_secs(1);

impl Slack {
    /// Posts a message. If one with this nonce exists, edits it to this content instead.
    async fn create(
        &self,
        place: &Place,
        piece: &Piece,
        reply_to: Option<&MessageId>,
        nonce: &str,
    ) -> Result<PostReply, PostError> {
        let at = ids::at(place)?;
        let mark = Mark { nonce: nonce.to_owned(), answers: reply_to.cloned() };
        if piece.private
            && let Some(reply) = self.whisper(at, piece, &mark).await?
        {
            return Ok(reply);
        }
        if let Some(message) = self.earlier(place, &mark).await? {
            match self.change(&message, piece, Some(&mark)).await {
                Err(PostError::Rejected { reason: Rejection::MessageGone, .. }) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.attach_all(&message, at, piece).await?;
                    return Ok(replied(PostResult::Message(message), POSTS, POST_EVERY));
                }
            }
        }
        if let Some(reply) = self.begin_stream(at, place, piece, &mark).await? {
            self.statuses.reset(place);
            return Ok(reply);
        }
        let message = self.say(at, piece, &mark).await?;
        self.statuses.reset(place);
        if !piece.files.is_empty() {
            self.marks.note_files(&message, Files::New);
            self.attach_all(&message, at, piece).await?;
        }
        Ok(replied(PostResult::Message(message), POSTS, POST_EVERY))
    }

    /// Posts a message without a look for an earlier one.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn say(&self, at: At<'_>, piece: &Piece, mark: &Mark) -> Result<MessageId, CallError> {
        let mut arguments = content::arguments(&self.written_out(piece));
        arguments.push(("channel", at.channel.into()));
        arguments.extend(at.thread.map(|ts| ("thread_ts", ts.into())));
        arguments.push(("metadata", mark.metadata().to_string().into()));
        arguments.push(("unfurl_links", "false".into()));
        let (call, attempt) = (Call::changes("chat.postMessage"), self.marks.begin(mark));
        match self.api.call::<Told>(call, arguments).await {
            Ok(Told { channel, ts }) if ids::is_id(&channel) && ids::moment(&ts).is_some() => {
                let message = ids::message(&channel, &ts);
                attempt.stands(message.clone());
                Ok(message)
            }
            Ok(_) => Err(CallError::lost(call, "the answer of slack names no message".to_owned())),
            Err(error) => {
                if !matches!(error, CallError::Lost { may_have_worked: true, .. }) {
                    attempt.failed();
                }
                Err(error)
            }
        }
    }

    /// Shows a notice to the author of the answered message alone; `None` if it must be a post, because the author is
    /// not known, the conversation has no other members, or Slack refuses.
    ///
    /// A notice is in no history. So one whose request has no conclusive answer is sent again, and may be shown twice.
    async fn whisper(&self, at: At<'_>, piece: &Piece, mark: &Mark) -> Result<Option<PostReply>, PostError> {
        let asked = mark.trigger().filter(|_| !ids::is_direct(at.channel));
        let Some((asked, user)) = asked.and_then(|asked| Some((asked.clone(), self.streams.author(&asked)?))) else {
            return Ok(None);
        };
        if let Some(Fate::Stands(message)) = self.marks.fate(&mark.nonce) {
            return Ok(Some(replied(PostResult::Message(message), POSTS, POST_EVERY)));
        }
        let mut arguments = content::arguments(&self.written_out(piece));
        arguments.push(("channel", at.channel.into()));
        arguments.push(("user", user.into()));
        // The notice to a message that begins a thread stands beside it: the thread is not open yet.
        let begins = |ts: &&str| ids::posted(&asked).is_ok_and(|(_, asked)| asked == *ts);
        arguments.extend(at.thread.filter(|ts| !begins(ts)).map(|ts| ("thread_ts", ts.into())));
        match self.api.call::<Whispered>(Call::changes("chat.postEphemeral"), arguments).await {
            Ok(Whispered { message_ts }) if ids::moment(&message_ts).is_some() => {
                let message = ids::message(at.channel, &message_ts);
                self.marks.note(mark, Fate::Stands(message.clone()));
                Ok(Some(replied(PostResult::Message(message), POSTS, POST_EVERY)))
            }
            Ok(_) | Err(CallError::Refused(_) | CallError::Unexplained(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn attach_all(&self, message: &MessageId, at: At<'_>, piece: &Piece) -> Result<(), PostError> {
        if piece.files.is_empty() {
            return Ok(());
        }
        // The message exists, so another try only adds the missing files.
        self.attach(message, at, &piece.files).await.map_err(PostError::from)
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
        let at = ids::at(place)?;
        let wires = match self.read(at, span).await {
            Ok(wires) => wires,
            Err(error) if error.name() == Some("thread_not_found") => Vec::new(),
            Err(error) => return Err(looking(error)),
        };
        let us = self.account().await.map_err(looking)?;
        for wire in &wires {
            // Converting a message also stores its mark.
            let _ = self.posted(wire, None, us);
        }
        // A stream is in a thread.
        if at.thread.is_some()
            && marks::asked_at(&mark.nonce).is_some()
            && !matches!(self.marks.fate(&mark.nonce), Some(Fate::Stands(_)))
        {
            self.remove_orphans(&wires, &us.user).await?;
        }
        Ok(match self.marks.fate(&mark.nonce) {
            Some(Fate::Stands(message)) => Some(message),
            Some(Fate::Unknown(_)) | None => None,
        })
    }

    /// Replaces the content of a message.
    async fn update(&self, message: &MessageId, piece: &Piece, mark: Option<&Mark>) -> Result<(), PostError> {
        let (channel, ts) = ids::posted(message)?;
        let mut arguments = content::replacing(&self.written_out(piece));
        arguments.push(("channel", channel.into()));
        arguments.push(("ts", ts.into()));
        arguments.extend(mark.map(|mark| ("metadata", mark.metadata().to_string().into())));
        self.edits.spend(Instant::now());
        // A repeated edit has the same effect.
        let updated = self.api.call::<Nothing>(Call::changes("chat.update"), arguments).await;
        if let Err(CallError::Limited(wait)) = &updated {
            self.edits.limited(Instant::now() + *wait);
        }
        updated.map(drop).map_err(PostError::from)
    }

    /// Returns a piece whose countdowns and mentions are words: Slack has no countdowns, and a mention would notify.
    fn written_out(&self, piece: &Piece) -> Piece {
        let text = self.people.named(&spelled_out(&piece.text, self.clock.now()), |group| self.groups.handle(group));
        // Slack accepts no post without text.
        let named = || piece.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", ");
        let text = if text.trim().is_empty() { named() } else { text };
        Piece { text, ..piece.clone() }
    }

    /// Answers a modal: in the acknowledgement of what its member sent, or else by a change of the modal.
    async fn answer_modal(
        &self,
        to: &Callback,
        (view, place): (&str, &str),
        piece: &Piece,
        problems: &[(String, String)],
    ) -> Result<(), PostError> {
        let (us, text) = (self.account().await?, self.written_out(piece).text);
        let answer = if problems.is_empty() { views::told(us, &text, place) } else { views::to_correct(problems) };
        if !self.submissions.answer(&to.id, answer) {
            self.replace_modal(view, &views::bare(us, &text, place)).await?;
        }
        Ok(())
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
        self.abandon_stream(message).await;
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
            files: FILES_MAX,
            file_bytes: FILES_BYTES,
            buttons: BUTTONS_MAX,
            forms: views::FIELDS_MAX,
            medium: Medium::Messages,
        }
    }

    fn admits_draft(&self, place: &Place) -> bool {
        let budget = if self.streams.is_open_in(place) { &self.appends } else { &self.edits };
        budget.admits(place, Instant::now())
    }

    fn is_unfinished(&self, message: &MessageId) -> bool {
        self.streams.is_open(message)
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        match request {
            PostRequest::Create { place, piece, reply_to, nonce } => {
                self.create(place, piece, reply_to.as_ref(), nonce).await
            }
            PostRequest::Edit { place, message, piece } => self.edit(ids::at(place)?, message, piece).await,
            PostRequest::Typing { place } => {
                self.show_status(place, ids::at(place)?).await?;
                Ok(reply(PostResult::Done))
            }
            PostRequest::Delete { message, .. } => self.delete(message).await,
            PostRequest::React { message, emoji, .. } => self.react(message, emoji).await,
            PostRequest::History { place, range, limit } => self.history(place, range, *limit).await,
            PostRequest::Fetch { place, message } => self.fetch(place, message).await,
            // The acknowledgement of the envelope told the member that the command arrived.
            PostRequest::Defer(callback) if callback.id.door == DOOR => {
                let is_first = self.marks.is_first(&callback.id);
                Ok(reply(if is_first { PostResult::Done } else { PostResult::Already }))
            }
            PostRequest::OpenForm { to, name, title, form, locale } if to.id.door == DOOR => {
                let Some((view, place)) = views::of_token(&to.token) else {
                    return Err(PostError::unsent(Rejection::Content, "no dialogue is open".to_owned()));
                };
                self.replace_modal(view, &views::modal(name, title, form, place, *locale)).await?;
                Ok(reply(PostResult::Done))
            }
            PostRequest::Respond { to, piece, problems } if to.id.door == DOOR => {
                if let Some((view, place)) = views::of_token(&to.token) {
                    self.answer_modal(to, (view, place), piece, problems).await?;
                    return Ok(reply(PostResult::Done));
                }
                for file in &piece.files {
                    self.send_file(&to.application, file).await?;
                }
                self.api.respond(to.token.expose(), &content::private(&self.written_out(piece))).await?;
                Ok(reply(PostResult::Done))
            }
            PostRequest::Defer(_) | PostRequest::Respond { .. } | PostRequest::OpenForm { .. } => {
                Err(foreign("the request"))
            }
            PostRequest::Roles(member) if member.person.door == DOOR => {
                let profile = self.member(&member.person.id).await;
                if profile.roles_known {
                    return Ok(reply(PostResult::Roles(profile.roles)));
                }
                Err(PostError::Transient("the user groups are not known".to_owned()))
            }
            PostRequest::Roles(_) => Ok(reply(PostResult::Absent)),
            // The manifest of the app has its commands, messages need no more facts, and a restriction is a record.
            PostRequest::AddRole(_)
            | PostRequest::RemoveRole(_)
            | PostRequest::FetchGuild { .. }
            | PostRequest::RegisterCommands(_)
            | PostRequest::Suggest { .. } => Ok(reply(PostResult::Done)),
        }
    }
}

/// The name of the limit on posts.
const POSTS: &str = "posts";

/// The message that a call named.
#[derive(Deserialize)]
struct Told {
    channel: String,
    ts: String,
}

/// A notice that a call showed to one member.
#[derive(Deserialize)]
struct Whispered {
    #[serde(default)]
    message_ts: String,
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
mod tests;
