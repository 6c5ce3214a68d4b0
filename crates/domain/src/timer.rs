//! Timers: questions that the bot asks itself on a schedule.

use std::time::Duration;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, Zoned};

use super::fire::{Cause, Fire, TriggerAction};
use super::ids::Timestamp;

/// The schedule of a timer: a cron expression in a time zone. When clocks go forward, times inside the gap are due
/// after it; when they go back, a fixed time of day is due once.
#[derive(Debug, Clone)]
pub struct CronSchedule {
    cron: Cron,
    zone: TimeZone,
    written: String,
}

impl CronSchedule {
    /// Parses an expression of five fields (minute, hour, day of month, month, day of week; six with seconds first) and
    /// the IANA name of a time zone.
    ///
    /// # Errors
    /// Returns all mistakes in them.
    pub fn read(cron: &str, zone: &str) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        let written = format!("{cron} {zone}");
        let parsed: Option<Cron> = cron
            .parse()
            .map_err(|error| {
                mistakes.push(format!(
                    "{cron:?} is no cron expression ({error}); write minute, hour, day of month, month and day of week, such as `0 9 * * MON-FRI`"
                ));
            })
            .ok();
        let zone = TimeZone::get(zone)
            .map_err(|_| mistakes.push(format!("{zone:?} is no time zone; write one such as Europe/Berlin")))
            .ok();
        let (Some(parsed), Some(zone)) = (parsed, zone) else { return Err(mistakes) };
        let schedule = Self { cron: parsed, zone, written };
        match schedule.next(Timestamp(0)) {
            Some(_) => Ok(schedule),
            None => Err(vec![format!("{cron:?} is never due; write a day that its month has")]),
        }
    }

    /// Returns the schedule as written in the settings.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns the next due time after this one; `None` if there is none.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        moment(&self.cron.find_next_occurrence(&self.zoned(after)?, false).ok()?)
    }

    /// Returns the last due time up to and including this one; `None` if there was none.
    #[must_use]
    pub fn last(&self, until: Timestamp) -> Option<Timestamp> {
        moment(&self.cron.find_previous_occurrence(&self.zoned(until)?, true).ok()?)
    }

    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        let at = Instant::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }
}

fn moment(zoned: &Zoned) -> Option<Timestamp> {
    u64::try_from(zoned.timestamp().as_millisecond()).ok().map(Timestamp)
}

/// The longest delay of a timer. Its turn is recorded for longer, so it fires once.
pub const GRACE_MAX: Duration = Duration::from_secs(1800);

/// One timer.
#[derive(Debug, Clone)]
pub struct Timer {
    /// The action.
    pub action: TriggerAction,
    /// The schedule.
    pub schedule: CronSchedule,
    /// The delay up to which it still fires, after the process was down or overloaded.
    pub grace: Duration,
}

/// The action due for a timer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this time; `None` if it is never due again.
    Later(Option<Timestamp>),
    /// It was due at this time, and fires.
    Fires(Timestamp),
    /// It was due at this time, and the delay exceeds the grace period.
    Missed(Timestamp),
}

impl Timer {
    /// Returns the action due, with all times up to `done` handled. Of several missed times, only the last one counts.
    #[must_use]
    pub fn due(&self, done: Timestamp, now: Timestamp) -> Due {
        match self.schedule.last(now).filter(|last| *last > done) {
            Some(last) if now.since(last) <= self.grace => Due::Fires(last),
            Some(last) => Due::Missed(last),
            None => Due::Later(self.schedule.next(now)),
        }
    }

    /// Returns its fire for this due time.
    #[must_use]
    pub fn fire(&self, due: Timestamp, now: Timestamp) -> Fire {
        Fire::new(Cause::Timer, &self.action, &due.0.to_be_bytes(), &self.action.prompt, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, Place};

    /// Parses a time, in milliseconds.
    fn at(text: &str) -> Timestamp {
        Timestamp(u64::try_from(text.parse::<Instant>().unwrap().as_millisecond()).unwrap())
    }

    fn timer(cron: &str, zone: &str) -> Timer {
        let target = Place::new(Door::new("discord"), "42");
        let action =
            TriggerAction { name: "t".into(), target, prompt: "Hello.".into(), per_hour: 4, tools: false, model: None };
        Timer { action, schedule: CronSchedule::read(cron, zone).unwrap(), grace: Duration::from_secs(900) }
    }

    #[test]
    fn it_is_due_by_the_clock_of_its_zone_through_changes_of_time() {
        let morning = timer("30 2 * * *", "Europe/Berlin");
        // In winter, in the night without 2:30, in summer, and in the night with 2:30 twice.
        for (after, due) in [
            ("2026-01-10T12:00:00Z", "2026-01-11T01:30:00Z"),
            ("2026-06-10T12:00:00Z", "2026-06-11T00:30:00Z"),
            ("2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(morning.schedule.next(at(after)), Some(at(due)), "{after}");
        }
        let gap = morning.schedule.next(at("2026-03-28T12:00:00Z")).unwrap();
        assert!(gap >= at("2026-03-29T01:00:00Z") && gap <= at("2026-03-29T02:00:00Z"), "{gap:?}");
    }

    #[test]
    fn what_was_missed_fires_once_within_its_grace() {
        let timer = timer("0 * * * *", "UTC");
        let done = at("2026-01-10T09:00:00Z");
        let due = |now: &str| timer.due(done, at(now));
        assert_eq!(due("2026-01-10T09:59:59Z"), Due::Later(Some(at("2026-01-10T10:00:00Z"))));
        assert_eq!(due("2026-01-10T10:00:00Z"), Due::Fires(at("2026-01-10T10:00:00Z")));
        assert_eq!(due("2026-01-10T12:10:00Z"), Due::Fires(at("2026-01-10T12:00:00Z")), "the last one counts");
        assert_eq!(due("2026-01-10T12:16:00Z"), Due::Missed(at("2026-01-10T12:00:00Z")));
    }

    #[test]
    fn mistakes_are_named() {
        for (cron, zone, wrong) in [
            ("every day", "UTC", "no cron expression"),
            ("0 9 * * *", "Europe/Bärlin", "no time zone"),
            ("0 0 31 2 *", "UTC", "never due"),
        ] {
            let mistakes = CronSchedule::read(cron, zone).unwrap_err();
            assert!(mistakes.len() == 1 && mistakes[0].contains(wrong), "{mistakes:?}");
        }
        assert_eq!(CronSchedule::read("every day", "Europe/Bärlin").unwrap_err().len(), 2, "both are named");
    }
}
