//! Files of messages, read with the bot's token: only from Slack's file server, or from the configured service. Files of
//! private answers, which are sent to the direct conversation with their member.
//!
//! Source: `docs.slack.dev/messaging/working-with-files`.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::web_api::{Arguments, Call, CallError};
use super::{Slack, ids};
use domain::outgoing::File;
use ports::{Attachments, FetchError};

#[async_trait]
impl Attachments for Slack {
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        self.api.download(url, most).await
    }
}

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
        #[derive(Deserialize)]
        struct Room {
            upload_url: String,
            file_id: String,
        }
        #[derive(Deserialize)]
        struct Nothing {}
        if !ids::is_id(user) {
            return Err(CallError::unsent("the member is not of this door".to_owned()));
        }
        let opened: Opened = self.api.call(Call::reads("conversations.open"), vec![("users", user.into())]).await?;
        let length = file.bytes.len().to_string();
        let arguments: Arguments<'_> = vec![("filename", file.name.as_str().into()), ("length", length.into())];
        let room: Room = self.api.call(Call::reads("files.getUploadURLExternal"), arguments).await?;
        self.api.upload(&room.upload_url, file).await?;
        let files = json!([{"id": room.file_id, "title": file.name}]).to_string();
        let arguments: Arguments<'_> = vec![("files", files.into()), ("channel_id", opened.channel.id.into())];
        self.api.call::<Nothing>(Call::changes("files.completeUploadExternal"), arguments).await?;
        Ok(())
    }
}
