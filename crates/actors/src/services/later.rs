//! Deletions that must be repeated, because the store did not allow them or too many were in progress. Communities share
//! the record: mass deletions in one of them neither evict nor delay those of others.

use domain::fair_queue::FairQueue;
use domain::ids::MessageId;
use domain::incoming::Deletion;
use domain::shared_map::SharedMap;

/// The maximum number of deletions; the community with most loses its oldest one first.
const LATER_MAX: usize = 10_000;

/// The deletions, each once.
#[derive(Debug)]
pub(crate) struct Later(SharedMap<MessageId, Deletion>);

impl Default for Later {
    fn default() -> Self {
        Self(SharedMap::new(LATER_MAX))
    }
}

impl Later {
    /// Adds a deletion. Beyond its share, a community loses its oldest one.
    pub(crate) fn add(&mut self, deletion: Deletion) {
        let (holder, message) = (deletion.holder().to_owned(), deletion.message.clone());
        // Without any room, all deletions are of other communities.
        let _ = self.0.insert(&holder, message, deletion);
    }

    /// Takes all deletions: the first one of each community comes before the second one of any other.
    pub(crate) fn take(&mut self) -> Vec<Deletion> {
        let mut fair = FairQueue::default();
        self.0.retain(|_, deletion| {
            fair.push(deletion.holder().to_owned(), deletion.clone());
            false
        });
        std::iter::from_fn(|| fair.pop(|_, _| true)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::message;

    fn deletion(guild: &str, id: usize) -> Deletion {
        Deletion { message: message(&id.to_string()), guild: Some(guild.to_owned()) }
    }

    #[test]
    fn a_mass_deletion_neither_evicts_nor_delays_those_of_other_communities() {
        let mut later = Later(SharedMap::new(100));
        later.add(deletion("quiet", 1));
        for id in 0..1_000 {
            later.add(deletion("loud", 10 + id));
        }
        later.add(deletion("late", 2));
        later.add(deletion("late", 2));
        let taken = later.take();
        assert!(taken.len() <= 52 && taken.contains(&deletion("loud", 1_009)), "the newest stay");
        let first = taken.iter().take(3).filter(|deletion| deletion.holder() != "loud").count();
        assert_eq!(first, 2);
        assert!(later.take().is_empty());
    }
}
