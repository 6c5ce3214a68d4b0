//! Discord's rate limits of REST requests: buckets per route and channel, and the global one.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// Number of buckets from which expired ones are swept.
const BUCKETS: usize = 4_096;

/// The budgets: requests in a window that begins with the first of them.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// Creating and editing messages, per channel.
    pub writes: (u32, Duration),
    /// Reading messages, per channel.
    pub reads: (u32, Duration),
    /// Deleting messages, per channel.
    pub deletes: (u32, Duration),
    /// The typing indicator, per channel.
    pub typing: (u32, Duration),
    /// Giving and removing roles, per guild.
    pub roles: (u32, Duration),
    /// All else, per route.
    pub others: (u32, Duration),
    /// All requests of the bot.
    pub global: (u32, Duration),
}

impl Default for Budgets {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            writes: (5, 5 * second),
            reads: (50, second),
            deletes: (5, second),
            typing: (5, 5 * second),
            roles: (10, 10 * second),
            others: (50, second),
            global: (50, second),
        }
    }
}

/// The bucket of a request, beside the global one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Creating and editing messages.
    Writes,
    /// Reading messages.
    Reads,
    /// Deleting messages.
    Deletes,
    /// The typing indicator.
    Typing,
    /// Giving and removing roles.
    Roles,
    /// Any other route, by its name.
    Other(&'static str),
    /// Requests without any limit.
    Exempt,
}

impl Bucket {
    /// Returns the opaque name for `X-RateLimit-Bucket`.
    #[must_use]
    pub fn name(self) -> String {
        let number: u64 = match self {
            Self::Writes => 1,
            Self::Reads => 2,
            Self::Deletes => 3,
            Self::Typing => 4,
            Self::Roles => 5,
            Self::Exempt => 6,
            Self::Other(route) => route.bytes().fold(7, |sum, byte| sum.wrapping_mul(31) + u64::from(byte)),
        };
        format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// The state of a bucket after a request, for the headers.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The bucket's opaque name.
    pub bucket: String,
    /// Requests per window.
    pub limit: u32,
    /// Requests left in this window.
    pub remaining: u32,
    /// Time until the window ends.
    pub reset_after: Duration,
}

/// The decision about a request.
#[derive(Clone, Debug)]
pub enum RateDecision {
    /// Passed; without a standing for exempt routes.
    Pass(Option<Standing>),
    /// The bucket is empty.
    Refused(Standing),
    /// The global budget is empty for this time.
    RefusedGlobally(Duration),
}

#[derive(Debug)]
struct Window {
    ends: Instant,
    used: u32,
}

/// The state of all budgets.
#[derive(Debug)]
pub struct Limits {
    budgets: Budgets,
    global: Option<Window>,
    buckets: HashMap<(Bucket, u64), Window>,
}

impl Limits {
    /// Creates full budgets.
    #[must_use]
    pub fn new(budgets: Budgets) -> Self {
        Self { budgets, global: None, buckets: HashMap::new() }
    }

    /// Charges a request for `major`, the channel or guild in its path.
    pub fn charge(&mut self, bucket: Bucket, major: u64, now: Instant) -> RateDecision {
        if bucket == Bucket::Exempt {
            return RateDecision::Pass(None);
        }
        let (limit, period) = self.budgets.global;
        let global = self.global.get_or_insert(Window { ends: now + period, used: 0 });
        if global.ends <= now {
            *global = Window { ends: now + period, used: 0 };
        }
        if global.used >= limit {
            return RateDecision::RefusedGlobally(global.ends - now);
        }
        global.used += 1;
        self.charge_bucket(bucket, major, now)
    }

    fn charge_bucket(&mut self, bucket: Bucket, major: u64, now: Instant) -> RateDecision {
        let (limit, period) = match bucket {
            Bucket::Writes => self.budgets.writes,
            Bucket::Reads => self.budgets.reads,
            Bucket::Deletes => self.budgets.deletes,
            Bucket::Typing => self.budgets.typing,
            Bucket::Roles => self.budgets.roles,
            Bucket::Other(_) | Bucket::Exempt => self.budgets.others,
        };
        if self.buckets.len() >= BUCKETS {
            self.buckets.retain(|_, window| window.ends > now);
        }
        let window = self.buckets.entry((bucket, major)).or_insert(Window { ends: now + period, used: 0 });
        if window.ends <= now {
            *window = Window { ends: now + period, used: 0 };
        }
        let refused = window.used >= limit;
        if !refused {
            window.used += 1;
        }
        let standing = Standing {
            bucket: bucket.name(),
            limit,
            remaining: limit - window.used.min(limit),
            reset_after: window.ends - now,
        };
        if refused { RateDecision::Refused(standing) } else { RateDecision::Pass(Some(standing)) }
    }
}

#[cfg(test)]
mod tests;
