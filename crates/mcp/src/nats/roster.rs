//! The current providers of tools.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::wire::{Announcement, Instance};
use domain::tool::{ServerName, Tool};
use ports::tools::Listing;

/// The most providers; further ones are refused.
const PROVIDERS_MAX: usize = 64;
/// The most instances of one provider.
const INSTANCES_MAX: usize = 64;
/// The most bytes of the tools of all providers.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// The time without a heartbeat after which an instance is removed.
const LIVES_FOR: Duration = Duration::from_secs(15);

#[derive(Default)]
pub(super) struct Roster(BTreeMap<ServerName, Known>);

struct Known {
    /// The time of each instance's last message.
    instances: HashMap<String, Instant>,
    tools: Listing,
    bytes: usize,
    /// Counts changes of the list; closed when the provider is removed.
    changes: watch::Sender<u64>,
}

impl Roster {
    /// Records an announcement; the latest of all instances of a provider counts. Returns true if the set of providers
    /// changed.
    ///
    /// # Errors
    /// The bounds are exceeded: the earlier list stays.
    pub(super) fn announced(&mut self, announcement: Announcement, now: Instant) -> Result<bool, String> {
        let Announcement { by: Instance { provider, instance }, tools } = announcement;
        let is_new = !self.0.contains_key(&provider);
        if is_new && self.0.len() == PROVIDERS_MAX {
            return Err(format!("{provider}: there are {PROVIDERS_MAX} providers already"));
        }
        let others: usize = self.0.iter().filter(|(name, _)| **name != provider).map(|(_, known)| known.bytes).sum();
        let bytes = tools.tools.iter().map(Tool::bytes).sum();
        let overfull = (others.saturating_add(bytes) > BYTES_MAX)
            .then(|| format!("{provider}: the tools of all providers take more than {BYTES_MAX} bytes; offer fewer"));
        if is_new && let Some(why) = overfull {
            return Err(why);
        }
        let known = self.0.entry(provider).or_insert_with(|| Known {
            instances: HashMap::new(),
            tools: Listing::default(),
            bytes: 0,
            changes: watch::Sender::new(0),
        });
        if known.instances.len() < INSTANCES_MAX || known.instances.contains_key(&instance) {
            known.instances.insert(instance, now);
        }
        // The heartbeat of a process that offers too much still counts.
        if let Some(why) = overfull {
            return Err(why);
        }
        let tools = Listing { tools: tools.tools, warnings: tools.warnings };
        if known.tools != tools {
            (known.tools, known.bytes) = (tools, bytes);
            known.changes.send_modify(|count| *count += 1);
        }
        Ok(is_new)
    }

    /// Records a heartbeat. Returns false if the instance is unknown.
    pub(super) fn alive(&mut self, by: &Instance, now: Instant) -> bool {
        let known = self.0.get_mut(&by.provider).and_then(|known| known.instances.get_mut(&by.instance));
        known.map(|seen| *seen = now).is_some()
    }

    /// Removes an instance. Returns true if it was the last one of its provider.
    pub(super) fn withdrawn(&mut self, by: &Instance) -> bool {
        if let Some(known) = self.0.get_mut(&by.provider) {
            known.instances.remove(&by.instance);
        }
        self.forget_empty()
    }

    /// Removes instances without heartbeats. Returns true if the set of providers changed.
    pub(super) fn forget_silent(&mut self, now: Instant) -> bool {
        for known in self.0.values_mut() {
            known.instances.retain(|_, seen| now.saturating_duration_since(*seen) < LIVES_FOR);
        }
        self.forget_empty()
    }

    /// Restarts the time of all instances, because no message could be received for a while.
    pub(super) fn all_alive(&mut self, now: Instant) {
        for seen in self.0.values_mut().flat_map(|known| known.instances.values_mut()) {
            *seen = now;
        }
    }

    fn forget_empty(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|_, known| !known.instances.is_empty());
        self.0.len() != before
    }

    pub(super) fn names(&self) -> Vec<ServerName> {
        self.0.keys().cloned().collect()
    }

    /// Subscribes to changes of a provider's list.
    pub(super) fn known(&self, provider: &ServerName) -> Option<watch::Receiver<u64>> {
        self.0.get(provider).map(|known| known.changes.subscribe())
    }

    pub(super) fn tools(&self, provider: &ServerName) -> Option<Listing> {
        self.0.get(provider).map(|known| known.tools.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Heard, heard};
    use super::*;

    fn announcement(provider: &str, instance: &str, tool: &str) -> Announcement {
        let text = format!(r#"{{"provider":"{provider}","instance":"{instance}","tools":[{{"name":"{tool}"}}]}}"#);
        let Ok(Heard::Announced(announcement)) = heard("staffai.tools.announce", text.as_bytes()) else {
            panic!("an announcement")
        };
        *announcement
    }

    fn instance(provider: &str, instance: &str) -> Instance {
        Instance { provider: ServerName::new(provider), instance: instance.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_is_there_as_long_as_one_of_its_instances_is() {
        let mut roster = Roster::default();
        let start = Instant::now();
        assert_eq!(roster.announced(announcement("desk", "1", "a"), start), Ok(true));
        assert_eq!(
            roster.announced(announcement("desk", "2", "a"), start),
            Ok(false),
            "the provider was there already"
        );
        assert!(!roster.withdrawn(&instance("desk", "1")));
        assert!(roster.withdrawn(&instance("desk", "2")));
        assert!(roster.names().is_empty() && roster.tools(&ServerName::new("desk")).is_none());
        assert!(!roster.alive(&instance("desk", "2"), start), "it must announce itself again");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_silent_is_gone_and_a_sign_of_life_keeps_it() {
        let mut roster = Roster::default();
        let start = Instant::now();
        let _ = roster.announced(announcement("desk", "1", "a"), start);
        let _ = roster.announced(announcement("till", "1", "a"), start);
        assert!(roster.alive(&instance("till", "1"), start + LIVES_FOR / 2));
        assert!(roster.forget_silent(start + LIVES_FOR));
        assert_eq!(roster.names(), [ServerName::new("till")]);
        roster.all_alive(start + LIVES_FOR * 3);
        assert!(!roster.forget_silent(start + LIVES_FOR * 3), "no message could be received in the meantime");
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_list_that_is_another_one_counts_as_changed() {
        let mut roster = Roster::default();
        let (now, name) = (Instant::now(), ServerName::new("desk"));
        let _ = roster.announced(announcement("desk", "1", "a"), now);
        let changes = roster.known(&name).expect("the provider is known");
        let _ = roster.announced(announcement("desk", "2", "a"), now);
        assert!(!changes.has_changed().unwrap());
        let _ = roster.announced(announcement("desk", "2", "b"), now);
        assert!(changes.has_changed().unwrap());
        assert_eq!(&*roster.tools(&name).unwrap().tools[0].name, "b");
        roster.withdrawn(&instance("desk", "1"));
        roster.withdrawn(&instance("desk", "2"));
        assert!(changes.has_changed().is_err(), "removing the provider closes its changes");
    }

    #[tokio::test(start_paused = true)]
    async fn all_lists_together_have_a_bound_and_one_that_does_not_fit_leaves_the_others_as_they_are() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        let large = |provider: &str, kib: usize| {
            let mut announcement = announcement(provider, "1", "a");
            announcement.tools.tools[0].description = "x".repeat(kib * 1024);
            announcement
        };
        for number in 0..8 {
            assert_eq!(roster.announced(large(&format!("p{number}"), 1000), now), Ok(true));
        }
        assert!(roster.announced(large("late", 500), now).unwrap_err().contains("8388608 bytes"));
        assert!(!roster.names().contains(&ServerName::new("late")));
        assert!(roster.announced(large("p0", 1_800), now).is_err());
        assert_eq!(roster.tools(&ServerName::new("p0")).unwrap().tools[0].description.len(), 1_000 * 1_024);
        assert_eq!(roster.announced(large("p0", 10), now), Ok(false), "a smaller one frees space");
        assert_eq!(roster.announced(large("late", 500), now), Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_so_many_and_no_more() {
        let mut roster = Roster::default();
        for number in 0..PROVIDERS_MAX + 3 {
            let _ = roster.announced(announcement(&format!("p{number}"), "1", "a"), Instant::now());
        }
        for number in 0..INSTANCES_MAX + 3 {
            let _ = roster.announced(announcement("p0", &number.to_string(), "a"), Instant::now());
        }
        assert_eq!(roster.0.len(), PROVIDERS_MAX);
        assert_eq!(roster.0[&ServerName::new("p0")].instances.len(), INSTANCES_MAX);
    }
}
