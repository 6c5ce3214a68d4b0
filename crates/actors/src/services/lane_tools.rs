//! The choice of tools in the last prompt of each lane, so that its next prompts begin like it. In memory, outside the
//! actors: after a restart, each lane chooses again, and providers read one prompt of it without their cache.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use domain::ids::Place;
use domain::tool::choice::LaneTools;
use domain::turn::{Lane, Turn};

/// The maximum number of lanes. The lane that was idle for longest gives way.
const LANES_MAX: usize = 512;
/// The time after the last prompt of a lane until it chooses again. Providers keep a prompt for a shorter time.
const IDLE_AFTER: Duration = Duration::from_secs(60 * 60);

/// The kept choices, each with the time of its last prompt.
#[derive(Default)]
pub struct KeptLaneTools(Mutex<HashMap<(Place, Lane), (LaneTools, Instant)>>);

impl KeptLaneTools {
    /// Returns the choice of the last prompt of a turn's lane.
    #[must_use]
    pub fn of(&self, turn: &Turn) -> Option<LaneTools> {
        let kept = self.0.lock();
        kept.get(&lane(turn)).filter(|(_, at)| at.elapsed() < IDLE_AFTER).map(|(tools, _)| tools.clone())
    }

    /// Keeps the choice of a prompt.
    pub fn keep(&self, turn: &Turn, tools: LaneTools) {
        let lane = lane(turn);
        let mut kept = self.0.lock();
        if kept.len() >= LANES_MAX && !kept.contains_key(&lane) {
            let oldest = kept.iter().min_by_key(|(_, (_, at))| *at).map(|(lane, _)| lane.clone());
            if let Some(oldest) = oldest {
                kept.remove(&oldest);
            }
        }
        kept.insert(lane, (tools, Instant::now()));
    }
}

fn lane(turn: &Turn) -> (Place, Lane) {
    (turn.place.clone(), turn.lane())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::turn;

    fn of(number: usize) -> Turn {
        turn("1", "7", &number.to_string())
    }

    fn tools(name: &str) -> LaneTools {
        LaneTools { added: Arc::from([Arc::from(name)]), ..LaneTools::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_lane_gives_way_and_idle_ones_choose_again() {
        let kept = KeptLaneTools::default();
        for number in 0..LANES_MAX {
            kept.keep(&of(number), tools("one"));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        kept.keep(&of(0), tools("two"));
        kept.keep(&of(LANES_MAX), tools("three"));
        assert_eq!((kept.of(&of(0)), kept.of(&of(1))), (Some(tools("two")), None));
        assert_eq!((kept.of(&of(2)), kept.of(&of(LANES_MAX))), (Some(tools("one")), Some(tools("three"))));
        assert_eq!(kept.0.lock().len(), LANES_MAX);
        tokio::time::advance(IDLE_AFTER).await;
        assert_eq!(kept.of(&of(0)), None);
    }
}
