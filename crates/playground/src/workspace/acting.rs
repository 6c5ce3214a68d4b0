//! The acts of members.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::state::State;
use super::{BOT, Message, Said, TEAM, Workspace};

impl Workspace {
    /// Writes a message in a channel; `@bot` mentions the bot.
    pub fn says(&self, user: &str, channel: &str, text: &str) -> Said {
        self.writes(user, channel, None, text, Value::Null)
    }

    /// Writes a message in the thread of another.
    pub fn replies(&self, user: &str, to: &Said, text: &str) -> Said {
        self.writes(user, &to.channel, Some(&to.root), text, Value::Null)
    }

    /// Writes a message with a file; an address without a host is one of this workspace.
    pub fn sends(&self, user: &str, channel: &str, text: &str, name: &str, url: &str) -> Said {
        let url = if url.starts_with('/') { format!("{}{url}", self.url) } else { url.to_owned() };
        let file = json!({"name": name, "mimetype": "text/plain", "size": 19, "url_private_download": url});
        self.writes(user, channel, None, text, file)
    }

    /// Stores a file.
    pub fn puts(&self, path: &str, content: &[u8]) {
        self.state.lock().store(path.to_owned(), content.to_vec());
    }

    /// Writes a message in a channel that is this old, and delivers its events now.
    pub fn said_before(&self, user: &str, channel: &str, text: &str, age: Duration) -> Said {
        let now = (self.state.lock().options.clock)();
        let ts = format!("{}.000100", (now / 1_000).saturating_sub(age.as_secs()));
        self.writes_at(|_| ts, (user, channel, None), text, Value::Null)
    }

    fn writes(&self, user: &str, channel: &str, thread: Option<&str>, text: &str, file: Value) -> Said {
        self.writes_at(State::next_ts, (user, channel, thread), text, file)
    }

    fn writes_at(
        &self,
        ts: impl FnOnce(&mut State) -> String,
        (user, channel, thread): (&str, &str, Option<&str>),
        text: &str,
        file: Value,
    ) -> Said {
        let message = {
            let mut state = self.state.lock();
            let message = Message {
                channel: channel.to_owned(),
                ts: ts(&mut state),
                thread: thread.map(str::to_owned),
                user: user.to_owned(),
                text: text.replace("@bot", &format!("<@{BOT}>")),
                blocks: Value::Null,
                metadata: Value::Null,
                edits: 0,
                file,
                streamed: false,
                streams: None,
            };
            state.add(message.clone());
            message
        };
        self.deliver_message(&message);
        let root = message.thread.clone().unwrap_or_else(|| message.ts.clone());
        Said { channel: message.channel, ts: message.ts, root }
    }

    /// Delivers the events of a message: a mention has two.
    fn deliver_message(&self, message: &Message) {
        let mut event = message.wire();
        event["channel"] = message.channel.clone().into();
        event["channel_type"] = if message.channel.starts_with('D') { "im" } else { "channel" }.into();
        event["type"] = "message".into();
        self.deliver(event.clone());
        if message.text.contains(&format!("<@{BOT}>")) && !message.channel.starts_with('D') {
            event["type"] = "app_mention".into();
            if let Some(event) = event.as_object_mut() {
                event.remove("channel_type");
            }
            self.deliver(event);
        }
    }

    /// Delivers the events of a message once more, as new envelopes.
    pub fn repeats(&self, said: &Said) {
        if let Some(message) = self.message(said) {
            self.deliver_message(&message);
        }
    }

    /// Deletes a message of a member.
    pub fn deletes(&self, said: &Said) {
        self.state.lock().messages.retain(|message| message.ts != said.ts);
        self.deliver(json!({
            "type": "message", "subtype": "message_deleted", "channel": said.channel, "deleted_ts": said.ts,
        }));
    }

    /// Presses a button of a message of the bot. Returns false if it has no button with this label.
    #[must_use]
    pub fn presses(&self, user: &str, message: &Message, label: &str) -> bool {
        let blocks = message.blocks.as_array().cloned().unwrap_or_default();
        let elements = blocks.iter().filter_map(|block| block["elements"].as_array()).flatten();
        let button = elements.into_iter().find(|button| button["text"]["text"] == label);
        let Some(button) = button else { return false };
        let payload = json!({
            "type": "block_actions",
            "user": {"id": user, "team_id": TEAM},
            "container": {
                "type": "message", "channel_id": message.channel, "message_ts": message.ts, "thread_ts": message.thread,
            },
            "actions": [{
                "action_id": button["action_id"], "value": button["value"], "action_ts": self.state.lock().next_ts(),
            }],
            "response_url": self.response_url(user, &message.channel),
        });
        self.send("interactive", payload);
        true
    }

    /// Runs a slash command in a channel.
    pub fn runs(&self, user: &str, channel: &str, text: &str) {
        let payload = json!({
            "command": "/staffai", "text": text, "user_id": user, "channel_id": channel, "team_id": TEAM,
            "response_url": self.response_url(user, channel), "trigger_id": self.state.lock().trigger(user),
        });
        self.send("slash_commands", payload);
    }

    fn response_url(&self, user: &str, channel: &str) -> String {
        format!("{}/api/response_url?user={user}&channel={channel}", self.url)
    }

    /// Uses the shortcut on a message.
    pub fn uses_shortcut(&self, user: &str, on: &Message) {
        let trigger = self.state.lock().trigger(user);
        self.send(
            "interactive",
            json!({
                "type": "message_action", "callback_id": "ask", "trigger_id": trigger, "user": {"id": user},
                "channel": {"id": on.channel}, "message": on.wire(), "message_ts": on.ts,
            }),
        );
    }

    /// Submits the newest dialogue with this question. Returns false if none is open.
    #[must_use]
    pub fn submits(&self, question: &str) -> bool {
        let Some((user, mut view)) = self.state.lock().views.back().cloned() else { return false };
        view["state"] = json!({"values": {"ask": {"ask": {"type": "plain_text_input", "value": question}}}});
        self.send("interactive", json!({"type": "view_submission", "user": {"id": user}, "view": view}));
        true
    }

    /// Puts members into a user group.
    pub fn groups(&self, group: &str, users: &[&str]) {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        self.state.lock().groups.insert(group.to_owned(), users);
    }

    /// Delivers an event.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the event in place")]
    pub fn deliver(&self, event: Value) {
        let id = format!("Ev{}", self.envelopes.load(Ordering::SeqCst));
        self.send("events_api", json!({"type": "event_callback", "team_id": TEAM, "event_id": id, "event": event}));
    }

    fn send(&self, kind: &'static str, payload: Value) {
        let id = self.envelopes.fetch_add(1, Ordering::SeqCst);
        self.state.lock().await_ack(id, kind, payload);
        self.change();
    }
}
