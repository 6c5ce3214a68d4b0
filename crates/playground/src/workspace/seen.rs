//! The view of members and tests: messages, and the calls of the bot.

use std::time::Duration;

use serde_json::Value;

use super::state::Whisper;
use super::{Arguments, BOT, Message, OTHER_BOT, Person, Place, Said, Workspace};

impl Workspace {
    /// Returns all messages, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.state.lock().messages.iter().cloned().collect()
    }

    /// Returns a message.
    #[must_use]
    pub fn message(&self, said: &Said) -> Option<Message> {
        self.state.lock().messages.iter().find(|message| message.ts == said.ts).cloned()
    }

    /// Returns the bot's messages in the thread of a message, after it.
    #[must_use]
    pub fn answers(&self, said: &Said) -> Vec<Message> {
        let state = self.state.lock();
        let in_thread = |message: &&Message| {
            message.user == BOT && message.channel == said.channel && message.thread.as_deref() == Some(&said.root)
        };
        state.messages.iter().filter(in_thread).filter(|message| message.ts > said.ts).cloned().collect()
    }

    /// Returns the messages of the bot of the other app.
    #[must_use]
    pub fn spoken_by_other(&self) -> Vec<Message> {
        self.state.lock().messages.iter().filter(|message| message.user == OTHER_BOT).cloned().collect()
    }

    /// Returns all messages of the bot.
    #[must_use]
    pub fn spoken(&self) -> Vec<Message> {
        self.state.lock().messages.iter().filter(|message| message.user == BOT).cloned().collect()
    }

    /// Returns the messages that one member alone sees.
    #[must_use]
    pub fn only_for(&self, user: &str) -> Vec<Whisper> {
        self.state.lock().whispers.iter().filter(|whisper| whisper.user == user).cloned().collect()
    }

    /// Returns the private answers to interactions and commands so far.
    #[must_use]
    pub fn whispers(&self) -> Vec<Value> {
        self.whispered(true)
    }

    /// Returns the fields of the private messages so far.
    #[must_use]
    pub fn notices(&self) -> Vec<Value> {
        self.whispered(false)
    }

    fn whispered(&self, response: bool) -> Vec<Value> {
        let state = self.state.lock();
        let wanted = state.whispers.iter().filter(|whisper| whisper.response == response);
        wanted.map(|whisper| whisper.body.clone()).collect()
    }

    /// Returns the members.
    #[must_use]
    pub fn people(&self) -> Vec<Person> {
        self.state.lock().options.people.clone()
    }

    /// Returns the channels.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        self.state.lock().options.places.clone()
    }

    /// Returns the status of the bot: channel, thread and words.
    #[must_use]
    pub fn status(&self) -> Option<(String, String, String)> {
        self.state.lock().status.clone()
    }

    /// Returns the files that the bot sent to this conversation: the content of each.
    #[must_use]
    pub fn sent_files(&self, channel: &str) -> Vec<String> {
        let calls = self.calls("files.completeUploadExternal");
        let to_channel = calls.iter().filter(|call| call.get("channel_id").is_some_and(|named| named == channel));
        let named = to_channel.filter_map(|call| serde_json::from_str::<Value>(call.get("files")?).ok());
        let content = |files: Value| Some(self.stored(files[0]["id"].as_str()?));
        named.filter_map(content).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
    }

    /// Returns the content of an uploaded file; empty if there is none.
    #[must_use]
    pub fn stored(&self, name: &str) -> Vec<u8> {
        self.state.lock().file(&format!("/upload/{name}")).unwrap_or_default()
    }

    /// Returns the number of dialogues that are open.
    #[must_use]
    pub fn dialogues(&self) -> usize {
        self.state.lock().views.len()
    }

    /// Returns the newest open dialogue of a member: its content, and the reasons to correct fields.
    #[must_use]
    pub fn dialogue(&self, user: &str) -> Option<(Value, Value)> {
        let state = self.state.lock();
        let newest = state.views.iter().rev().find(|known| known.user == user && known.open);
        newest.map(|known| (known.content.clone(), known.errors.clone()))
    }

    /// Returns the bot's page in the app home of a member.
    #[must_use]
    pub fn home(&self, user: &str) -> Option<Value> {
        self.state.lock().homes.get(user).cloned()
    }

    /// Returns the answers to interactions.
    #[must_use]
    pub fn payloads(&self) -> Vec<Value> {
        self.state.lock().recorded.payloads.iter().cloned().collect()
    }

    /// Returns for each acknowledgement if it came on the connection of its envelope.
    #[must_use]
    pub fn acks(&self) -> Vec<bool> {
        self.state.lock().recorded.acks.iter().copied().collect()
    }

    /// Returns the times from the last delivery of an envelope to its acknowledgement, in no order.
    #[must_use]
    pub fn ack_times(&self) -> Vec<Duration> {
        self.state.lock().recorded.ack_times.iter().copied().collect()
    }

    /// Returns the number of events without an acknowledgement.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Returns the recorded calls of a method.
    #[must_use]
    pub fn calls(&self, method: &str) -> Vec<Arguments> {
        let state = self.state.lock();
        let of_method = state.recorded.calls.iter().filter(|(name, _)| name == method);
        of_method.map(|(_, arguments)| arguments.clone()).collect()
    }

    /// Returns the names of the recorded calls, oldest first.
    #[must_use]
    pub fn call_order(&self) -> Vec<String> {
        self.state.lock().recorded.calls.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the number of open connections, of connections ever opened, and the most that were open at once.
    #[must_use]
    pub fn connections(&self) -> (usize, u64, usize) {
        let state = self.state.lock();
        (state.sockets.len(), state.opened, state.recorded.most_open)
    }

    /// Returns how often the last connection ended, so that none was open.
    #[must_use]
    pub fn deserted(&self) -> usize {
        self.state.lock().recorded.deserted
    }
}
