//! What the service counts, so that a test can say how a bot behaved.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

/// Requests remembered for the busiest second; more than this in one second are not told apart.
const REQUESTS_REMEMBERED: usize = 100_000;

/// Counts since the service started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Gateway connections that were accepted.
    pub connections: u64,
    /// Gateway connections that are open now.
    pub open_connections: u64,
    /// Sessions that were begun: each a READY.
    pub identifies: u64,
    /// IDENTIFYs that were refused because they came too soon after another one.
    pub identifies_refused: u64,
    /// Sessions that were resumed: each a RESUMED.
    pub resumes: u64,
    /// Those of them that came to the address READY gave for it.
    pub resumes_at_resume_url: u64,
    /// RESUMEs that were refused.
    pub resumes_refused: u64,
    /// Events that were sent once more in a resume.
    pub replayed: u64,
    /// Heartbeats that arrived.
    pub heartbeats: u64,
    /// Presence updates that were accepted.
    pub presence_updates: u64,
    /// Connections that this service closed, by close code.
    pub closes: BTreeMap<u16, u64>,
    /// Connections that were closed by the client, by close code (1005: none given).
    pub client_closes: BTreeMap<u16, u64>,
    /// REST answers by status; an answer that was thrown away counts as 0.
    pub by_status: BTreeMap<u16, u64>,
    /// REST requests by route, such as `POST /channels/{channel}/messages`.
    pub by_route: BTreeMap<String, u64>,
    /// Answers of status 401, 403 and 429, except those of shared limits: what Discord bans for.
    pub invalid_requests: u64,
    /// Creates that returned the first message because their nonce was known.
    pub duplicate_nonces: u64,
    /// The largest number of REST requests in any one second, without those that no budget covers.
    pub busiest_second: u64,
}

/// The counts with what it takes to keep them.
#[derive(Debug, Default)]
pub struct Tally {
    /// The counts.
    pub stats: Stats,
    recent: VecDeque<Instant>,
}

impl Tally {
    /// Counts a request that arrives now; exempt ones do not make a second busy.
    pub fn request(&mut self, route: &str, exempt: bool, now: Instant) {
        *self.stats.by_route.entry(route.to_owned()).or_default() += 1;
        if exempt {
            return;
        }
        while self.recent.front().is_some_and(|first| now.duration_since(*first) >= Duration::from_secs(1)) {
            self.recent.pop_front();
        }
        if self.recent.len() == REQUESTS_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.stats.busiest_second = self.stats.busiest_second.max(self.recent.len() as u64);
    }

    /// Counts an answer.
    pub fn answer(&mut self, status: u16) {
        *self.stats.by_status.entry(status).or_default() += 1;
        if matches!(status, 401 | 403 | 429) {
            self.stats.invalid_requests += 1;
        }
    }
}
