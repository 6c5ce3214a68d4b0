//! Data of the gateway that messages lack: the channel of each thread and the preferred language of a guild.

use std::collections::HashMap;

use parking_lot::Mutex;

use domain::ids::Place;
use domain::shared_map::{NoRoom, SharedMap};

/// The most known threads, shared by guilds: one guild has at most half of them. Its oldest thread is evicted for its
/// next one, never a thread of another guild.
const KNOWN: usize = 100_000;

/// The most guilds with a known language; later ones are not stored.
const GUILDS: usize = 100_000;

/// A bounded store of threads and guild languages.
#[derive(Debug)]
pub struct Threads {
    /// The channel of each thread, grouped by guild.
    parents: Mutex<SharedMap<Place, Place>>,
    locales: Mutex<HashMap<String, String>>,
}

impl Default for Threads {
    fn default() -> Self {
        Self { parents: Mutex::new(SharedMap::new(KNOWN)), locales: Mutex::default() }
    }
}

impl Threads {
    /// Stores the preferred language of a guild.
    pub fn prefers(&self, guild: &str, locale: Option<String>) {
        let mut locales = self.locales.lock();
        match locale {
            Some(locale) if locales.len() < GUILDS || locales.contains_key(guild) => {
                locales.insert(guild.to_owned(), locale);
            }
            _ => {
                locales.remove(guild);
            }
        }
    }

    /// Returns the tag of the language that a guild prefers.
    #[must_use]
    pub fn locale(&self, guild: &str) -> Option<String> {
        self.locales.lock().get(guild).cloned()
    }

    /// Stores the channel of a thread. A thread without room stays unknown, and its channel is requested when a message
    /// needs it.
    pub fn learn(&self, guild: &str, thread: Place, parent: Place) {
        let (Ok(_) | Err(NoRoom)) = self.parents.lock().insert(guild, thread, parent);
    }

    /// Stores the channels of several threads.
    pub fn learn_all(&self, guild: &str, threads: impl IntoIterator<Item = (Place, Place)>) {
        threads.into_iter().for_each(|(thread, parent)| self.learn(guild, thread, parent));
    }

    /// Removes a deleted thread.
    pub fn forget(&self, thread: &Place) {
        self.parents.lock().remove(thread);
    }

    /// Removes the threads of a deleted channel.
    pub fn forget_channel(&self, guild: &str, channel: &Place) {
        self.parents.lock().retain_in(guild, |_, parent| parent != channel);
    }

    /// Removes the data of a guild that the bot left.
    pub fn forget_guild(&self, guild: &str) {
        self.parents.lock().retain_in(guild, |_, _| false);
        self.locales.lock().remove(guild);
    }

    /// Returns the channel of a place, if the place is a known thread.
    #[must_use]
    pub fn parent(&self, place: &Place) -> Option<Place> {
        self.parents.lock().get(place).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DOOR;

    #[test]
    fn the_newest_threads_of_a_guild_are_known_and_evict_none_of_another() {
        let threads = Threads::default();
        let place = |number: usize| Place::new(DOOR, number.to_string());
        threads.learn("quiet", place(1), place(0));
        for number in 2..=2 * KNOWN {
            threads.learn("loud", place(number), place(0));
            threads.learn("loud", place(number), place(number + 7));
        }
        assert_eq!(threads.parent(&place(1)), Some(place(0)));
        assert_eq!((threads.parent(&place(2)), threads.parent(&place(2 * KNOWN))), (None, Some(place(2 * KNOWN + 7))));
        assert!(threads.parents.lock().len() <= KNOWN / 2 + 1);
        threads.learn("late", place(0), place(5));
        assert_eq!(threads.parent(&place(0)), Some(place(5)), "there is room for the next guild");
    }

    #[test]
    fn threads_end_with_their_channel_and_their_guild() {
        let threads = Threads::default();
        let place = |number: usize| Place::new(DOOR, number.to_string());
        for (guild, thread, channel) in [("5", 1, 10), ("5", 2, 10), ("5", 3, 11), ("6", 4, 12)] {
            threads.learn(guild, place(thread), place(channel));
        }
        threads.prefers("5", Some("de".to_owned()));
        let known = || [1, 2, 3, 4].map(|thread| threads.parent(&place(thread)).is_some());
        threads.forget(&place(1));
        assert_eq!(known(), [false, true, true, true]);
        threads.forget_channel("5", &place(10));
        assert_eq!(known(), [false, false, true, true]);
        threads.forget_guild("5");
        assert_eq!((known(), threads.locale("5")), ([false, false, false, true], None));
        assert_eq!(threads.parents.lock().len(), 1);
    }

    #[test]
    fn the_language_of_a_guild_is_the_last_that_was_told() {
        let threads = Threads::default();
        assert_eq!(threads.locale("5"), None);
        threads.prefers("5", Some("de".to_owned()));
        threads.prefers("6", Some("fr".to_owned()));
        threads.prefers("5", Some("es-ES".to_owned()));
        threads.prefers("6", None);
        assert_eq!((threads.locale("5"), threads.locale("6")), (Some("es-ES".to_owned()), None));
    }
}
