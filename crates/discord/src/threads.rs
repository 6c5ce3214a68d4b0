//! Data of the gateway that messages lack: the channel of each thread and the preferred language of a guild.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use domain::ids::Place;

/// The most known threads; the oldest are evicted first.
const KNOWN: usize = 20_000;

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
    order: VecDeque<Place>,
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

    pub fn learn(&self, thread: Place, parent: Place) {
        let mut known = self.known.lock();
        if known.parents.insert(thread.clone(), parent).is_some() {
            return;
        }
        known.order.push_back(thread);
        if known.order.len() > KNOWN
            && let Some(oldest) = known.order.pop_front()
        {
            known.parents.remove(&oldest);
        }
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
    fn the_newest_threads_are_known() {
        let threads = Threads::default();
        let place = |number: usize| Place::new(DOOR, number.to_string());
        for number in 1..=KNOWN + 1 {
            threads.learn(place(number), place(0));
            threads.learn(place(number), place(number + 7));
        }
        assert_eq!(threads.parent(&place(1)), None);
        assert_eq!(threads.parent(&place(2)), Some(place(9)));
        assert_eq!(threads.parent(&place(KNOWN + 1)), Some(place(KNOWN + 8)));
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
