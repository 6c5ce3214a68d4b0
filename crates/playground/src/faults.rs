//! Faults on command: what can go wrong between a bot and Discord, made to happen here.
//!
//! Each fault stays until its count is used up, it is switched off, or [`Faults::clear`] is called.

use std::{sync::Arc, time::Duration};

use crate::guild::ids::ChannelId;
use crate::hub::Order;
use crate::script::{FileFault, PlannedAnswer, Script, Target};
use crate::world::{Core, World};

/// The most copies of an event.
const MOST_COPIES: u32 = 100;

/// The handle by which faults are made. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Faults {
    core: Arc<Core>,
}

impl Faults {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Takes every standing fault back. Channels that were deleted stay deleted.
    pub fn clear(&self) {
        self.core.world().script = Script::default();
        self.core.frozen.send_replace(false);
    }

    /// Breaks every gateway connection with a TCP reset. The sessions can be resumed.
    pub fn cut_gateways(&self) {
        self.core.world().hub.cut_all();
    }

    /// Breaks each gateway connection with a chance of one in `one_in` at each event, just before
    /// or just after it. The same seed gives the same dice. Zero stops it.
    pub fn cut_randomly(&self, seed: u64, one_in: u32) {
        self.script(|script| script.cut_randomly(seed, one_in));
    }

    /// Does this in place of giving the files of messages; none gives them again.
    pub fn files(&self, fault: Option<FileFault>) {
        self.script(|script| script.files = fault);
    }

    /// Closes every gateway connection with `code`. 4004, 4007, 4009 and 4010 to 4014 end the
    /// session, as on Discord; with any other it can be resumed.
    pub fn close_gateways(&self, code: u16) {
        self.core.world().hub.close_all(code, "closed on command");
    }

    /// Sends RECONNECT (op 7) to everybody.
    pub fn reconnect(&self) {
        self.core.world().hub.order_all(&Order::Control(r#"{"op":7,"d":null,"s":null,"t":null}"#.into()));
    }

    /// Sends `INVALID_SESSION` (op 9) to everybody. Unless `resumable` the sessions are forgotten.
    pub fn invalidate_sessions(&self, resumable: bool) {
        self.core.world().hub.invalidate_all(resumable);
    }

    /// Forgets sessions without telling anybody: the next RESUME is refused.
    pub fn forget_sessions(&self) {
        self.core.world().hub.forget_idle();
    }

    /// Stops acknowledging heartbeats, or begins again.
    pub fn stop_acks(&self, stop: bool) {
        self.script(|script| script.stop_acks = stop);
    }

    /// Makes every gateway connection half-open: nothing is read and nothing is sent, but nothing
    /// is closed either. Connections that are made meanwhile are silent too.
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

    /// Closes IDENTIFYs that ask for any of these intents with 4014. Zero allows them again.
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

    /// Sends this text as it is, malformed or not, in place of an event. It has no sequence number
    /// of its own.
    pub fn send_text(&self, text: &str) {
        self.core.world().hub.order_all(&Order::Control(text.into()));
    }

    /// Sends these bytes as one binary frame, outside any compression.
    pub fn send_binary(&self, bytes: &[u8]) {
        self.core.world().hub.order_all(&Order::Raw(bytes.to_vec().into()));
    }

    /// Sends every event this many times more, at most 100. Zero stops it.
    pub fn duplicate_events(&self, copies: u32) {
        self.script(|script| script.copies = copies.min(MOST_COPIES));
    }

    /// Makes the next `times` created messages unanswered: the message is there, but the
    /// connection breaks before the response.
    pub fn drop_answers(&self, times: u32) {
        self.script(|script| script.drop_answers = times);
    }

    /// Answers the next `times` requests of `route` (as in the stats, or `*` for any) with `status`
    /// and nothing done.
    pub fn answer_next(&self, route: &str, times: u32, status: u16, retry_after: Option<Duration>) {
        self.plan(route, times, PlannedAnswer { status, code: 0, retry_after });
    }

    /// The same with one of Discord's error codes, such as 400 and 30046 for an edit of an old
    /// message.
    pub fn refuse_next(&self, route: &str, times: u32, status: u16, code: u32) {
        self.plan(route, times, PlannedAnswer { status, code, retry_after: None });
    }

    /// Answers every post and edit whose body has this text with `status` and nothing done; none takes it back.
    pub fn refuse_text(&self, text: Option<(&str, u16)>) {
        self.script(|script| script.refused_text = text.map(|(text, status)| (text.to_owned(), status)));
    }

    /// Tells new sessions of the oldest message of each channel in place of its newest, and of none in threads, as a platform whose
    /// `last_message_id` lags.
    pub fn stale_hints(&self, stale: bool) {
        self.script(|script| script.withheld.newest_messages = stale);
    }

    /// Opens threads without a `THREAD_CREATE`, as for a bot that may not see them yet.
    pub fn quiet_threads(&self, quiet: bool) {
        self.script(|script| script.withheld.new_threads = quiet);
    }

    /// Makes every request of `route` (as in the stats, or `*` for any) wait first, at most ten
    /// minutes. Zero takes it back.
    pub fn delay_route(&self, route: &str, by: Duration) {
        self.script(|script| script.delay_by(Target::Route(route.to_owned()), by));
    }

    /// Makes every request about a channel wait first, at most ten minutes. Zero takes it back.
    pub fn delay_channel(&self, channel: ChannelId, by: Duration) {
        self.script(|script| script.delay_by(Target::Channel(channel), by));
    }

    /// Answers writing in a channel with 403 (code 50013), or allows it again.
    pub fn forbid_channel(&self, channel: ChannelId, forbidden: bool) {
        self.script(|script| script.forbid(channel, forbidden));
    }

    /// Deletes a channel for good: `CHANNEL_DELETE`, then 404 (code 10003).
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
