//! The acts of members.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::state::{State, View};
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

    /// Writes a message with a file of this name, media type and content.
    pub fn attaches(&self, user: &str, channel: &str, text: &str, (name, mime): (&str, &str), content: &[u8]) -> Said {
        let path = format!("/files/{name}");
        self.puts(&path, content);
        let url = format!("{}{path}", self.url);
        let file = json!({"name": name, "mimetype": mime, "size": content.len(), "url_private_download": url});
        self.writes(user, channel, None, text, file)
    }

    /// Changes the text of a message of a member.
    pub fn edits(&self, said: &Said, text: &str) {
        let text = text.replace("@bot", &format!("<@{BOT}>"));
        let mut state = self.state.lock();
        let Some(message) = state.messages.iter_mut().find(|message| message.ts == said.ts) else { return };
        message.text = text;
        let message = message.wire();
        drop(state);
        self.deliver(json!({
            "type": "message", "subtype": "message_changed", "channel": said.channel, "message": message,
        }));
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

    /// Delivers the events of a message to each app: a mention has two.
    pub(super) fn deliver_message(&self, message: &Message) {
        let mut event = message.wire();
        event["channel"] = message.channel.clone().into();
        let mut mention = event.clone();
        event["channel_type"] = if message.channel.starts_with('D') { "im" } else { "channel" }.into();
        event["type"] = "message".into();
        mention["type"] = "app_mention".into();
        for (number, app) in self.apps.iter().enumerate() {
            self.deliver_to(number, event.clone());
            if message.text.contains(&format!("<@{}>", app.user)) && !message.channel.starts_with('D') {
                self.deliver_to(number, mention.clone());
            }
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

    /// Adds a reaction of a member, by the name of its emoji, to a message.
    pub fn reacts(&self, user: &str, on: &Message, emoji: &str) {
        let item = json!({"type": "message", "channel": on.channel, "ts": on.ts});
        self.deliver(json!({
            "type": "reaction_added", "user": user, "reaction": emoji, "item_user": on.user, "item": item,
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
            "trigger_id": self.state.lock().trigger(user),
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

    /// Uses the shortcut with this name on a message.
    pub fn uses_shortcut(&self, user: &str, name: &str, on: &Message) {
        let trigger = self.state.lock().trigger(user);
        self.send(
            "interactive",
            json!({
                "type": "message_action", "callback_id": name, "trigger_id": trigger, "user": {"id": user},
                "channel": {"id": on.channel}, "message": on.wire(), "message_ts": on.ts,
                "response_url": self.response_url(user, &on.channel),
            }),
        );
    }

    /// Submits the newest dialogue with this question. Returns false if none is open.
    #[must_use]
    pub fn submits(&self, question: &str) -> bool {
        let Some(View { user, content: mut view, .. }) = self.state.lock().views.back().cloned() else { return false };
        view["state"] = json!({"values": {"ask": {"ask": {"type": "plain_text_input", "value": question}}}});
        self.send("interactive", json!({"type": "view_submission", "user": {"id": user}, "view": view}));
        true
    }

    /// Uses a shortcut that belongs to no message.
    pub fn uses_global_shortcut(&self, user: &str, name: &str) {
        let trigger = self.state.lock().trigger(user);
        let payload = json!({
            "type": "shortcut", "callback_id": name, "trigger_id": trigger, "user": {"id": user, "team_id": TEAM},
        });
        self.send("interactive", payload);
    }

    /// Opens the bot's page in the app home.
    pub fn opens_home(&self, user: &str) {
        self.deliver(json!({"type": "app_home_opened", "user": user, "channel": format!("D{user}"), "tab": "home"}));
    }

    /// Opens the direct conversation with the bot.
    pub fn opens_conversation(&self, user: &str) {
        let channel = format!("D{user}");
        self.deliver(json!({"type": "app_home_opened", "user": user, "channel": channel, "tab": "messages"}));
    }

    /// Presses the first button of the bot's page in the app home. Returns false if it has none.
    #[must_use]
    pub fn presses_at_home(&self, user: &str) -> bool {
        let Some(home) = self.home(user) else { return false };
        let blocks = home["blocks"].as_array().cloned().unwrap_or_default();
        let mut elements = blocks.iter().filter_map(|block| block["elements"].as_array()).flatten();
        let Some(button) = elements.next() else { return false };
        let (trigger, ts) = {
            let mut state = self.state.lock();
            (state.trigger(user), state.next_ts())
        };
        let payload = json!({
            "type": "block_actions", "user": {"id": user, "team_id": TEAM}, "trigger_id": trigger,
            "container": {"type": "view", "view_id": "VHOME"},
            "actions": [{"action_id": button["action_id"], "value": button["value"], "action_ts": ts}],
        });
        self.send("interactive", payload);
        true
    }

    /// Sends the newest open dialogue of a member with these values; the other fields keep theirs. Returns false if none
    /// is open, or if it lacks a field.
    #[must_use]
    pub fn fills_in(&self, user: &str, values: &[(&str, &str)]) -> bool {
        let Some((mut view, _)) = self.dialogue(user) else { return false };
        let fields = view["blocks"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = fields.iter().filter_map(|field| field["block_id"].as_str()).collect();
        if values.iter().any(|(name, _)| !names.contains(name)) {
            return false;
        }
        let mut state = Map::new();
        for field in &fields {
            let (name, element) = (field["block_id"].as_str().unwrap_or_default(), &field["element"]);
            let given = values.iter().find(|(known, _)| *known == name).map(|(_, value)| Value::from(*value));
            let told = if element["type"] == "static_select" {
                let kept = element["initial_option"]["value"].clone();
                json!({"type": element["type"], "selected_option": {"value": given.unwrap_or(kept)}})
            } else {
                json!({"type": element["type"], "value": given.unwrap_or_else(|| element["initial_value"].clone())})
            };
            let action = element["action_id"].as_str().unwrap_or_default();
            state.insert(name.to_owned(), json!({action: told}));
        }
        view["state"] = json!({"values": state});
        let trigger = self.state.lock().trigger(user);
        let payload = json!({"type": "view_submission", "user": {"id": user}, "trigger_id": trigger, "view": view});
        self.state.lock().sent = Some(payload.clone());
        self.send("interactive", payload);
        true
    }

    /// Delivers the last sent dialogue once more, as if its acknowledgement was lost.
    pub fn sends_again(&self) {
        let sent = self.state.lock().sent.clone();
        if let Some(payload) = sent {
            self.send("interactive", payload);
        }
    }

    /// Closes the newest open dialogue of a member.
    pub fn closes_dialogue(&self, user: &str) {
        let mut state = self.state.lock();
        if let Some(known) = state.views.iter_mut().rev().find(|known| known.user == user && known.open) {
            known.open = false;
        }
        drop(state);
        self.change();
    }

    /// Puts members into a user group.
    pub fn groups(&self, group: &str, users: &[&str]) {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        self.state.lock().groups.insert(group.to_owned(), users);
    }

    /// Delivers an event to the bot.
    pub fn deliver(&self, event: Value) {
        self.deliver_to(0, event);
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers write the event in place")]
    fn deliver_to(&self, app: usize, event: Value) {
        let id = format!("Ev{}", self.envelopes.load(Ordering::SeqCst));
        let payload = json!({"type": "event_callback", "team_id": TEAM, "event_id": id, "event": event});
        self.send_to(app, "events_api", payload);
    }

    fn send(&self, kind: &'static str, payload: Value) {
        self.send_to(0, kind, payload);
    }

    fn send_to(&self, app: usize, kind: &'static str, payload: Value) {
        let id = self.envelopes.fetch_add(1, Ordering::SeqCst);
        self.state.lock().await_ack(id, app, (kind, payload));
        self.change();
    }
}
