//! Bounds the log lines about shed work.
//!
//! - Each shed turn has its own line, because the line says why a member got no answer. The limits bound their number.
//! - Other shed work of one member at one point (commands, clicks, notices) has one line per [`WINDOW`], with the number
//!   of rejections since the line before. A flood therefore cannot fill the log.
//! - At most [`MEMBERS_MAX`] members have a line of their own in a window. All others share one line per point.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::happening::{Bound, WorkShed};
use domain::ids::Person;
use domain::shed::Shed;

/// The shortest time between two lines about the same work.
const WINDOW: Duration = Duration::from_secs(10);

/// The number of members with a line of their own. If more are seen, counts without a line in the last window are dropped;
/// the metric has all.
const MEMBERS_MAX: usize = 256;

/// The rejections that have no line yet.
#[derive(Default)]
pub(super) struct Floods(Mutex<HashMap<Source, Flood>>);

/// The point, the exhausted bound and the member.
type Source = (Shed, Bound, Option<Person>);

struct Flood {
    next_line: Instant,
    unsaid: u64,
}

impl Floods {
    /// Returns the number of rejections for the line to write now. Returns none if no line is due.
    pub(super) fn line_of(&self, shed: &WorkShed<'_>) -> Option<u64> {
        if shed.turn.is_some() || shed.bound == Bound::Tries {
            return Some(1);
        }
        let now = Instant::now();
        let mut floods = self.0.lock();
        let mut key = (shed.at, shed.bound, shed.member.cloned());
        if floods.len() >= MEMBERS_MAX && !floods.contains_key(&key) {
            floods.retain(|_, flood| now < flood.next_line);
            if floods.len() >= MEMBERS_MAX {
                key.2 = None;
            }
        }
        let flood = floods.entry(key).or_insert(Flood { next_line: now, unsaid: 0 });
        flood.unsaid += 1;
        if now < flood.next_line {
            return None;
        }
        flood.next_line = now + WINDOW;
        Some(std::mem::take(&mut flood.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{Door, Place};

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_commands_has_one_line_per_member_and_window_with_their_number() {
        let (floods, door) = (Floods::default(), Door::new("discord"));
        let place = Place::new(door.clone(), "1".to_owned());
        let line = |member: usize| {
            let member = Person::new(door.clone(), member.to_string());
            floods.line_of(&WorkShed::beside(Shed::Commands, Bound::Number, Some((&place, &member))))
        };
        assert_eq!((line(1), line(1), line(1), line(2)), (Some(1), None, None, Some(1)));
        tokio::time::advance(WINDOW).await;
        assert_eq!((line(1), line(1)), (Some(3), None));
        let lines = (0..10 * MEMBERS_MAX).filter_map(&line).sum::<u64>();
        assert!(lines <= MEMBERS_MAX as u64 + 1, "{lines} lines");
        tokio::time::advance(WINDOW).await;
        assert!(floods.0.lock().len() <= MEMBERS_MAX + 1);
    }
}
