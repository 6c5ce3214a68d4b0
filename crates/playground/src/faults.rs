//! Injected faults between a bot and Discord.
//!
//! Each fault stays until its count is used up, it is switched off, or [`Faults::clear`] is called.

use std::{sync::Arc, time::Duration};

use crate::guild::ids::ChannelId;
use crate::hub::Order;
use crate::script::{FileFault, PlannedAnswer, Script, Target};
use crate::world::{Core, World};

/// Maximum number of copies of an event.
const MOST_COPIES: u32 = 100;

/// The handle for faults. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Faults {
    core: Arc<Core>,
}

impl Faults {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Removes all faults. Deleted channels stay deleted.
    pub fn clear(&self) {
        self.core.world().script = Script::default();
        self.core.frozen.send_replace(false);
    }

    /// Resets every gateway connection (TCP RST). The sessions can be resumed.
    pub fn cut_gateways(&self) {
        self.core.world().hub.cut_all();
    }

    /// Resets each gateway connection with a chance of one in `one_in` at each event, just before or after it. The seed
    /// makes it reproducible. Zero stops it.
    pub fn cut_randomly(&self, seed: u64, one_in: u32) {
        self.script(|script| script.cut_randomly(seed, one_in));
    }

    /// Replaces the delivery of messages' files; `None` restores it.
    pub fn files(&self, fault: Option<FileFault>) {
        self.script(|script| script.files = fault);
    }

    /// Closes every gateway connection with `code`. As on Discord, 4004, 4007, 4009 and 4010 to 4014 end the session;
    /// with any other it can be resumed.
    pub fn close_gateways(&self, code: u16) {
        self.core.world().hub.close_all(code, "closed on command");
    }

    /// Sends RECONNECT (op 7) to every connection.
    pub fn reconnect(&self) {
        self.core.world().hub.order_all(&Order::Control(r#"{"op":7,"d":null,"s":null,"t":null}"#.into()));
    }

    /// Sends `INVALID_SESSION` (op 9) to every connection. Unless `resumable`, the sessions are removed.
    pub fn invalidate_sessions(&self, resumable: bool) {
        self.core.world().hub.invalidate_all(resumable);
    }

    /// Removes sessions silently: the next RESUME is refused.
    pub fn forget_sessions(&self) {
        self.core.world().hub.forget_idle();
    }

    /// Stops acknowledging heartbeats, or resumes it.
    pub fn stop_acks(&self, stop: bool) {
        self.script(|script| script.stop_acks = stop);
    }

    /// Makes every gateway connection half-open, including new ones: nothing is read, sent or closed.
    pub fn freeze(&self, frozen: bool) {
        self.core.frozen.send_replace(frozen);
    }

    /// Answers the next `times` RESUMEs with `INVALID_SESSION`.
    pub fn refuse_resumes(&self, times: u32) {
        self.script(|script| script.refuse_resumes = times);
    }

    /// Closes the next `times` connections that RESUME with `code`.
    pub fn close_resumes(&self, times: u32, code: u16) {
        self.script(|script| script.close_resumes = (times, code));
    }

    /// Answers the next `times` WebSocket upgrades with 503.
    pub fn refuse_connects(&self, times: u32) {
        self.script(|script| script.refuse_connects = times);
    }

    /// Closes IDENTIFYs with any of these intents with 4014. Zero allows them again.
    pub fn disallow_intents(&self, bits: u64) {
        self.script(|script| script.disallowed_intents = bits);
    }

    /// Closes IDENTIFYs with fewer shards than this with 4011. Zero allows them again.
    pub fn require_shards(&self, shards: u32) {
        self.script(|script| script.required_shards = shards);
    }

    /// Treats the right token as a wrong one: 4004 at the gateway, 401 on REST.
    pub fn reject_token(&self, reject: bool) {
        self.script(|script| script.reject_token = reject);
    }

    /// Sends this text unchanged, even if malformed, in place of an event. It has no sequence number of its own.
    pub fn send_text(&self, text: &str) {
        self.core.world().hub.order_all(&Order::Control(text.into()));
    }

    /// Sends these bytes as one binary frame, outside of any compression.
    pub fn send_binary(&self, bytes: &[u8]) {
        self.core.world().hub.order_all(&Order::Raw(bytes.to_vec().into()));
    }

    /// Sends every event this many additional times, at most 100. Zero stops it.
    pub fn duplicate_events(&self, copies: u32) {
        self.script(|script| script.copies = copies.min(MOST_COPIES));
    }

    /// Loses the responses of the next `times` created messages: the message exists, but the connection breaks before
    /// the response.
    pub fn drop_answers(&self, times: u32) {
        self.script(|script| script.drop_answers = times);
    }

    /// Answers the next `times` requests of `route` (as in the stats, or `*` for any) with `status`, without effect.
    pub fn answer_next(&self, route: &str, times: u32, status: u16, retry_after: Option<Duration>) {
        self.plan(route, times, PlannedAnswer { status, code: 0, retry_after });
    }

    /// Like [`answer_next`](Self::answer_next), with one of Discord's error codes, such as 400 and 30046 for an edit of
    /// an old message.
    pub fn refuse_next(&self, route: &str, times: u32, status: u16, code: u32) {
        self.plan(route, times, PlannedAnswer { status, code, retry_after: None });
    }

    /// Answers every post and edit whose body contains this text with `status`, without effect; `None` stops it.
    pub fn refuse_text(&self, text: Option<(&str, u16)>) {
        self.script(|script| script.refused_text = text.map(|(text, status)| (text.to_owned(), status)));
    }

    /// Gives new sessions the oldest message of each channel as its newest, and none in threads, as a platform with a
    /// stale `last_message_id`.
    pub fn stale_hints(&self, stale: bool) {
        self.script(|script| script.withheld.newest_messages = stale);
    }

    /// Opens threads without a `THREAD_CREATE`, as for a bot that cannot see them yet.
    pub fn quiet_threads(&self, quiet: bool) {
        self.script(|script| script.withheld.new_threads = quiet);
    }

    /// Delays every request of `route` (as in the stats, or `*` for any), at most ten minutes. Zero stops it.
    pub fn delay_route(&self, route: &str, by: Duration) {
        self.script(|script| script.delay_by(Target::Route(route.to_owned()), by));
    }

    /// Delays every request about a channel, at most ten minutes. Zero stops it.
    pub fn delay_channel(&self, channel: ChannelId, by: Duration) {
        self.script(|script| script.delay_by(Target::Channel(channel), by));
    }

    /// Answers writes in a channel with 403 (code 50013), or allows them again.
    pub fn forbid_channel(&self, channel: ChannelId, forbidden: bool) {
        self.script(|script| script.forbid(channel, forbidden));
    }

    /// Deletes a channel permanently: `CHANNEL_DELETE`, then 404 (code 10003).
    pub fn delete_channel(&self, channel: ChannelId) {
        self.core.world().remove_channel(channel);
    }

    fn plan(&self, route: &str, times: u32, answer: PlannedAnswer) {
        self.script(|script| script.plan(route, times, answer));
    }

    fn script(&self, change: impl FnOnce(&mut Script)) {
        let world: &mut World = &mut self.core.world();
        change(&mut world.script);
    }
}
