//! Counters of the service, to assess a bot's behaviour.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

/// Number of requests remembered for the busiest second; more in one second are not counted.
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
    /// IDENTIFYs that the rate limit refused.
    pub identifies_refused: u64,
    /// Sessions that were resumed: each a RESUMED.
    pub resumes: u64,
    /// Those of them at the resume address of READY.
    pub resumes_at_resume_url: u64,
    /// RESUMEs that were refused.
    pub resumes_refused: u64,
    /// Events that were replayed.
    pub replayed: u64,
    /// Heartbeats received.
    pub heartbeats: u64,
    /// Presence updates that were accepted.
    pub presence_updates: u64,
    /// Connections that this service closed, by close code.
    pub closes: BTreeMap<u16, u64>,
    /// Connections that the client closed, by close code (1005: none given).
    pub client_closes: BTreeMap<u16, u64>,
    /// REST responses by status; a lost response counts as 0.
    pub by_status: BTreeMap<u16, u64>,
    /// REST requests by route, such as `POST /channels/{channel}/messages`.
    pub by_route: BTreeMap<String, u64>,
    /// Responses of status 401, 403 and 429, except those of shared limits: Discord bans for too many.
    pub invalid_requests: u64,
    /// Creates that returned the first message because of a known nonce.
    pub duplicate_nonces: u64,
    /// The maximum number of REST requests in one second, without exempt ones.
    pub busiest_second: u64,
}

/// The counters and their working state.
#[derive(Debug, Default)]
pub struct Tally {
    /// The counters.
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

    /// Counts a response.
    pub fn answer(&mut self, status: u16) {
        *self.stats.by_status.entry(status).or_default() += 1;
        if matches!(status, 401 | 403 | 429) {
            self.stats.invalid_requests += 1;
        }
    }
}
