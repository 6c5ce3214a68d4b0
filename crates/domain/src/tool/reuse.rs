//! Results that may be reused: the operator allows it for a server or some of its tools.

use std::collections::BTreeMap;
use std::time::Duration;

/// The times for which results of a server's tools may be reused. Only calls that change nothing are reused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reuse {
    /// The time for tools that are not named; none reuses no result.
    pub usual: Option<Duration>,
    /// The times of single tools, by the server's own names; zero reuses no result.
    pub tools: BTreeMap<String, Duration>,
}

impl Reuse {
    /// The longest time.
    pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    /// Returns the time for which a result of this tool may be reused.
    #[must_use]
    pub fn of(&self, tool: &str) -> Option<Duration> {
        self.tools.get(tool).copied().or(self.usual).filter(|time| !time.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_its_own_time_or_that_of_its_server() {
        let secs = Duration::from_secs;
        let tools = [("search".to_owned(), secs(60)), ("now".to_owned(), Duration::ZERO)].into();
        let reuse = Reuse { usual: Some(secs(600)), tools };
        assert_eq!((reuse.of("search"), reuse.of("now"), reuse.of("read")), (Some(secs(60)), None, Some(secs(600))));
        assert_eq!(Reuse::default().of("read"), None);
    }
}
