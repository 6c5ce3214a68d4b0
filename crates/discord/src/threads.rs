//! Data of the gateway that messages lack: the channel of each thread and the preferred language of a guild.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use domain::fair_share;
use domain::ids::Place;

/// The most known threads, shared by guilds: one guild has at most half of them. Its oldest thread is evicted for its
/// next one, never a thread of another guild.
const KNOWN: usize = 100_000;

/// The most guilds with a known language; later ones are not stored.
const GUILDS: usize = 100_000;

/// A bounded store of threads and guild languages.
#[derive(Debug, Default)]
pub struct Threads {
    known: Mutex<Known>,
    locales: Mutex<HashMap<String, String>>,
}

#[derive(Debug, Default)]
struct Known {
    parents: HashMap<Place, Place>,
    /// The threads of each guild, oldest first.
    guilds: HashMap<String, VecDeque<Place>>,
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

    pub fn learn(&self, guild: &str, thread: Place, parent: Place) {
        let mut known = self.known.lock();
        let Known { parents, guilds } = &mut *known;
        if let Some(known) = parents.get_mut(&thread) {
            *known = parent;
            return;
        }
        let held = guilds.get(guild).map_or(0, VecDeque::len);
        if !fair_share::admits(held, KNOWN.saturating_sub(parents.len())) {
            let Some(oldest) = guilds.get_mut(guild).and_then(VecDeque::pop_front) else { return };
            parents.remove(&oldest);
        }
        guilds.entry(guild.to_owned()).or_default().push_back(thread.clone());
        parents.insert(thread, parent);
    }

    /// Returns the channel of a place, if the place is a known thread.
    #[must_use]
    pub fn parent(&self, place: &Place) -> Option<Place> {
        self.known.lock().parents.get(place).cloned()
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
        assert!(threads.known.lock().parents.len() <= KNOWN / 2 + 1);
        threads.learn("late", place(0), place(5));
        assert_eq!(threads.parent(&place(0)), Some(place(5)), "there is room for the next guild");
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
