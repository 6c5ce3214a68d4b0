//! The active hours and days of the bot, in UTC.

use super::ids::Timestamp;

const HOUR: u64 = 60 * 60 * 1000;
/// Hours in a day.
const DAY: u64 = 24;
/// The weekday of 1970-01-01, a Thursday; days count from Monday.
const FIRST_WEEKDAY: u64 = 3;

/// Active hours and days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The first active hour, 0 to 23.
    pub start: u8,
    /// The hour at which activity ends, exclusive, 0 to 24. A value below `start` means overnight; an equal value means
    /// never.
    pub end: u8,
    /// The active days in any order; 0 is Monday and 6 is Sunday. Hours after midnight belong to the new day.
    pub days: Vec<u8>,
}

impl Schedule {
    /// True if the schedule is active at this time.
    #[must_use]
    pub fn is_active(&self, at: Timestamp) -> bool {
        self.is_active_in(at.0 / HOUR)
    }

    /// Returns the same for the number of hours since the beginning of 1970.
    fn is_active_in(&self, hours: u64) -> bool {
        let (hour, weekday) = (hours % DAY, (hours / DAY + FIRST_WEEKDAY) % 7);
        let (start, end) = (u64::from(self.start), u64::from(self.end));
        let in_hours = if start <= end { (start..end).contains(&hour) } else { hour >= start || hour < end };
        in_hours && self.days.iter().any(|day| u64::from(*day) == weekday)
    }
}

#[cfg(test)]
mod tests;
