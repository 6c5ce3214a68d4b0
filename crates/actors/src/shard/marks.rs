//! The watermarks of a shard: for each community, the time up to which all of its messages have a durable owner.
//!
//! While a session lasts, the platform delivers everything, so each live message raises the watermark to its time. A
//! message that was read back is no such evidence: a later gap may have begun before it was posted, and in other places
//! the messages of that gap are not read yet. So it raises the watermark at most to the newest message that the
//! platform reported when the session announced the community.

use std::collections::HashMap;

use super::activity::DIRECT;
use super::catch_up::Newest;
use domain::ids::Timestamp;

/// The watermarks that are not saved yet, and their limits.
#[derive(Default)]
pub(super) struct Watermarks {
    unsaved: HashMap<String, Timestamp>,
    /// The time of the newest message of each community that the current session announced.
    announced: HashMap<String, Timestamp>,
    /// True if this shard began the current session, so that each community is announced before its gap is known.
    began: bool,
}

impl Watermarks {
    /// Resets the limits for a new session: until it announces a community, messages of that community may be missing.
    pub(super) fn session_began(&mut self) {
        self.announced.clear();
        self.began = true;
    }

    /// Records that the session announced a community with these places.
    pub(super) fn announced(&mut self, guild: &str, newest: &Newest) {
        let newest = newest.iter().map(|(_, last)| *last).max().unwrap_or(Timestamp(0));
        self.announced.insert(guild.to_owned(), newest);
    }

    /// Raises the watermark of a community for a live message of this time.
    pub(super) fn raise_live(&mut self, guild: String, at: Timestamp) {
        let mark = self.unsaved.entry(guild).or_insert(at);
        *mark = (*mark).max(at);
    }

    /// Raises the watermark of a community for a message of this time that was read back.
    pub(super) fn raise_read_back(&mut self, guild: String, at: Timestamp) {
        if let Some(newest) = self.announced.get(&guild).copied().filter(|newest| newest.0 > 0) {
            self.raise_live(guild, at.min(newest));
        }
    }

    /// Calls `save` with each watermark that can be saved; keeps those for which it returns true.
    pub(super) fn save(&mut self, mut save: impl FnMut(&str, Timestamp) -> bool) {
        let Self { unsaved, announced, began } = self;
        unsaved.retain(|guild, at| {
            // The catch-up of direct messages begins with the session.
            let is_complete = !*began || guild == DIRECT || announced.contains_key(guild);
            !is_complete || save(guild, *at)
        });
    }
}
