//! Posts by Slack's streaming calls. A draft begins a stream in its thread and grows by what is new; the answer ends it.
//! Where a stream cannot go on (the workspace has none, Slack closed it, the text changed), `chat.update` shows the whole
//! text in the same message, so no character is lost or repeated.

use tokio::time::Instant;

use super::{Nothing, POST_EVERY, POSTS, Told, replied, reply};
use crate::Slack;
use crate::events::Wire;
use crate::ids::{self, At};
use crate::marks::Mark;
use crate::streams::{lasting, neutral};
use crate::web_api::{Arguments, Call, CallError};
use domain::ids::{MessageId, Place};
use domain::outgoing::Piece;
use ports::{PostError, PostReply, PostResult};
use telemetry::events::SLACK_STREAM;

/// The error of a call for a stream that Slack closed, or that ended before.
const CLOSED: &str = "message_not_in_streaming_state";

impl Slack {
    /// Begins a stream with a draft; `None` if the draft must be a plain post.
    pub(super) async fn begin_stream(
        &self,
        at: At<'_>,
        place: &Place,
        piece: &Piece,
        mark: &Mark,
    ) -> Result<Option<PostReply>, PostError> {
        let Some(thread) = at.thread.filter(|_| piece.unfinished) else { return Ok(None) };
        let text = self.streamed(piece);
        let mut arguments: Arguments<'_> =
            vec![("channel", at.channel.into()), ("thread_ts", thread.into()), ("markdown_text", text.clone().into())];
        // Outside of direct conversations, a stream names its recipient.
        if !ids::is_direct(at.channel) {
            let recipient = mark.trigger().and_then(|trigger| self.streams.author(&trigger));
            let (Some(user), Ok(us)) = (recipient, self.account().await) else { return Ok(None) };
            arguments.push(("recipient_user_id", user.into()));
            arguments.push(("recipient_team_id", us.team.clone().into()));
        }
        let now = Instant::now();
        if text.is_empty() || !self.streams.admits(now) {
            return Ok(None);
        }
        let attempt = self.marks.begin(mark);
        match self.api.call::<Told>(Call::changes("chat.startStream"), arguments).await {
            Ok(Told { channel, ts }) if ids::is_id(&channel) && ids::moment(&ts).is_some() => {
                let message = ids::message(&channel, &ts);
                attempt.stands(message.clone());
                self.streams.open(message.clone(), place.clone(), text);
                Ok(Some(replied(PostResult::Message(message), POSTS, POST_EVERY)))
            }
            Ok(_) => Err(PostError::Unsure("the answer of slack names no message".to_owned())),
            Err(error @ CallError::Lost { may_have_worked: true, .. }) => Err(error.into()),
            Err(error) => {
                attempt.failed();
                match &error {
                    CallError::Limited(wait) => self.streams.pause(now + *wait),
                    // A place that takes no message says so to the plain post.
                    CallError::Refused(_) if error.concerns_place() => {}
                    CallError::Refused(_) | CallError::Unexplained(_) => {
                        tracing::info!(event = SLACK_STREAM, %error, "slack begins no stream; messages are edited for an hour");
                        self.streams.refuse(now);
                    }
                    CallError::Lost { .. } | CallError::TooLarge => return Err(error.into()),
                }
                Ok(None)
            }
        }
    }

    /// Brings a message to this content: a draft grows its stream, an answer ends it.
    pub(super) async fn change(
        &self,
        message: &MessageId,
        piece: &Piece,
        mark: Option<&Mark>,
    ) -> Result<(), PostError> {
        let Some(stream) = self.streams.get(message) else { return self.update(message, piece, mark).await };
        let text = self.streamed(piece);
        let rest = text.strip_prefix(stream.text.as_str()).filter(|_| !stream.unsure);
        match (piece.unfinished, rest) {
            (true, Some("")) => Ok(()),
            (true, Some(rest)) => self.append(message, rest, piece, mark).await,
            // The answer shows the changed text.
            (true, None) if !stream.unsure => Ok(()),
            // Control sequences were broken in the stream; the update escapes them.
            (false, Some(rest)) if piece.is_plain() && !["<@", "<!", "<#"].iter().any(|c| piece.text.contains(c)) => {
                match self.end_stream(message, rest, mark).await {
                    Err(error) if error.name() == Some(CLOSED) => self.update(message, piece, mark).await,
                    ended => ended.map_err(PostError::from),
                }
            }
            _ => {
                match self.end_stream(message, "", mark).await {
                    Err(error) if error.name() != Some(CLOSED) => return Err(error.into()),
                    Ok(()) | Err(_) => {}
                }
                self.update(message, piece, mark).await
            }
        }
    }

    async fn append(
        &self,
        message: &MessageId,
        rest: &str,
        piece: &Piece,
        mark: Option<&Mark>,
    ) -> Result<(), PostError> {
        let (channel, ts) = ids::posted(message)?;
        let arguments: Arguments<'_> =
            vec![("channel", channel.into()), ("ts", ts.into()), ("markdown_text", rest.into())];
        // A call without an answer may have appended the text: it must not be appended again.
        self.streams.unsure(message);
        self.appends.spend(Instant::now());
        let result = self.api.call::<Nothing>(Call::changes("chat.appendStream"), arguments).await;
        match result {
            Ok(Nothing {}) => {
                self.streams.appended(message, rest);
                Ok(())
            }
            Err(error) if error.name() == Some(CLOSED) => {
                self.streams.ended(message);
                self.update(message, piece, mark).await
            }
            Err(error) => {
                if let CallError::Limited(wait) = &error {
                    self.appends.limited(Instant::now() + *wait);
                }
                if !matches!(error, CallError::Lost { may_have_worked: true, .. }) {
                    self.streams.sure(message);
                }
                Err(error.into())
            }
        }
    }

    /// Ends a stream with this last text. A stream that Slack closed is removed as well.
    async fn end_stream(&self, message: &MessageId, rest: &str, mark: Option<&Mark>) -> Result<(), CallError> {
        let (channel, ts) = ids::posted(message).map_err(|error| CallError::unsent(error.to_string()))?;
        let mut arguments: Arguments<'_> = vec![("channel", channel.into()), ("ts", ts.into())];
        if !rest.is_empty() {
            arguments.push(("markdown_text", rest.into()));
        }
        arguments.extend(mark.map(|mark| ("metadata", mark.metadata().to_string().into())));
        let result = self.api.call::<Nothing>(Call::changes("chat.stopStream"), arguments).await;
        match &result {
            Err(CallError::Lost { may_have_worked: true, .. }) => self.streams.unsure(message),
            Err(CallError::Limited(wait)) => self.streams.pause(Instant::now() + *wait),
            Err(error) if error.name().is_none() => {}
            Ok(_) | Err(_) => self.streams.ended(message),
        }
        result.map(|Nothing {}| ())
    }

    /// Ends the stream of a message that is about to be deleted.
    pub(super) async fn abandon_stream(&self, message: &MessageId) {
        if self.streams.is_open(message)
            && let Err(error) = self.end_stream(message, "", None).await
        {
            tracing::debug!(event = SLACK_STREAM, %error, "a stream could not be ended");
        }
        self.streams.ended(message);
    }

    /// Removes the streams of this thread whose start had no conclusive answer, or that an earlier process left: only a
    /// finished stream has a mark.
    pub(super) async fn remove_orphans(&self, wires: &[Wire], us: &str) -> Result<(), PostError> {
        let orphans = wires.iter().filter(|wire| {
            let message = ids::message(&wire.channel, &wire.ts);
            wire.user.as_deref() == Some(us)
                && wire.subtype.is_none()
                && wire.files.is_empty()
                && wire.metadata.as_ref().is_none_or(|metadata| Mark::read(metadata).is_none())
                && self.marks.of(&message).is_none()
        });
        for wire in orphans {
            let message = ids::message(&wire.channel, &wire.ts);
            // A stream that ended before gives an error.
            let _ = self.end_stream(&message, "", None).await;
            self.delete(&message).await?;
        }
        Ok(())
    }

    /// Returns the text of a piece as a stream shows it.
    fn streamed(&self, piece: &Piece) -> String {
        let written = self.written_out(piece);
        neutral(if piece.unfinished { lasting(&written.text) } else { &written.text })
    }

    pub(super) async fn edit(&self, at: At<'_>, message: &MessageId, piece: &Piece) -> Result<PostReply, PostError> {
        self.change(message, piece, self.marks.of(message).as_ref()).await?;
        self.attach_all(message, at, piece).await?;
        Ok(reply(PostResult::Message(message.clone())))
    }
}
