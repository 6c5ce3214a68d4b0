//! Files of messages, read with the bot's token: only from Slack's file server, or from the configured service. Files of
//! answers, which are shared below the answer in its thread, and those of private answers, which are sent to the direct
//! conversation with their member.
//!
//! Source: `docs.slack.dev/messaging/working-with-files`.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::events::Wire;
use super::ids::At;
use super::marks::Files;
use super::poster::SETTLES;
use super::reading::Span;
use super::web_api::{Arguments, Call, CallError};
use super::{Slack, ids};
use domain::ids::MessageId;
use domain::outgoing::File;
use ports::{Attachments, FetchError};

/// The longest description of a file, in characters.
const ALT_MAX: usize = 1_000;

#[async_trait]
impl Attachments for Slack {
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        self.api.download(url, most).await
    }
}

/// The place of an upload.
#[derive(Deserialize)]
struct Room {
    upload_url: String,
    file_id: String,
}

#[derive(Deserialize)]
struct Nothing {}

impl Slack {
    /// Sends a file to the direct conversation with a member. A repetition sends it again.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn send_file(&self, user: &str, file: &File) -> Result<(), CallError> {
        #[derive(Deserialize)]
        struct Opened {
            channel: Channel,
        }
        #[derive(Deserialize)]
        struct Channel {
            id: String,
        }
        if !ids::is_id(user) {
            return Err(CallError::unsent("the member is not of this door".to_owned()));
        }
        let opened: Opened = self.api.call(Call::reads("conversations.open"), vec![("users", user.into())]).await?;
        self.share(At { channel: &opened.channel.id, thread: None }, &[file]).await
    }

    /// Adds the files of a post below it in its thread, except those that are there.
    ///
    /// # Errors
    /// See [`CallError`]. Files whose sharing has no conclusive answer are looked for at the next try.
    pub(super) async fn attach(&self, message: &MessageId, at: At<'_>, files: &[File]) -> Result<(), CallError> {
        let Ok((_, ts)) = ids::posted(message) else { return Ok(()) };
        let at = At { thread: Some(at.thread.unwrap_or(ts)), ..at };
        let mut there: Vec<String> = match self.marks.files(message) {
            Files::Shared => return Ok(()),
            Files::New => Vec::new(),
            Files::Unknown => {
                sleep(SETTLES).await;
                let us = self.account().await?;
                let wires = self.read(at, Span { oldest: Some(ts), ..Span::default() }).await?;
                let ours = wires.iter().filter(|wire| wire.user.as_deref() == Some(us.user.as_str()));
                ours.flat_map(Wire::attachments).map(|file| file.name).collect()
            }
        };
        let is_there = |file: &&File| {
            let known = there.iter().position(|name| *name == file.name);
            known.map(|index| there.swap_remove(index)).is_none()
        };
        let missing: Vec<&File> = files.iter().filter(is_there).collect();
        self.marks.note_files(message, Files::Unknown);
        if !missing.is_empty() {
            self.share(at, &missing).await?;
        }
        self.marks.note_files(message, Files::Shared);
        Ok(())
    }

    /// Uploads files and shares them in a conversation, all at once.
    async fn share(&self, at: At<'_>, files: &[&File]) -> Result<(), CallError> {
        let mut shared = Vec::with_capacity(files.len());
        for file in files {
            let length = file.bytes.len().to_string();
            let mut arguments: Arguments<'_> = vec![("filename", file.name.as_str().into()), ("length", length.into())];
            if !file.description.is_empty() {
                arguments.push(("alt_txt", file.description.chars().take(ALT_MAX).collect::<String>().into()));
            }
            let room: Room = self.api.call(Call::reads("files.getUploadURLExternal"), arguments).await?;
            self.api.upload(&room.upload_url, file).await?;
            shared.push(json!({"id": room.file_id, "title": file.name}));
        }
        let files = Value::Array(shared).to_string();
        let mut arguments: Arguments<'_> = vec![("files", files.into()), ("channel_id", at.channel.into())];
        arguments.extend(at.thread.map(|ts| ("thread_ts", ts.into())));
        self.api.call::<Nothing>(Call::changes("files.completeUploadExternal"), arguments).await?;
        Ok(())
    }
}
