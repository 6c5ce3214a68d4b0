//! Progress of tool calls for members: events if the door publishes them, otherwise a status in place of text.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::TurnTask;
use crate::messages::outbox::OutboxMsg;
use domain::happening::Happening;
use domain::notice;
use domain::tool::Source;
use domain::tool::round::Ready;
use ports::ProgressSink;
use ports::tools::Progress;

/// The minimum time between two progress reports of one call.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl TurnTask<'_> {
    /// Returns the sink that shows the progress of a call, in tenths of the total that its source reports. A tool of
    /// this program may send text, which is shown unchanged.
    pub(super) fn progress(&self, ready: &Ready, number: usize) -> Option<ProgressSink> {
        if !self.turn.trigger.has_message() {
            return None;
        }
        let ours = ready.entry.tool.source == Source::BuiltIn;
        let (tenths, pace) = (Tenths::default(), Pace::default());
        let (observers, turn, name) =
            (self.parts.readers.observers.clone(), self.turn.clone(), Arc::clone(&ready.entry.name));
        let drawn =
            self.draws().then(|| (self.slot.clone(), self.parts.neighbors.outboxes.of(&turn.place.door).clone()));
        let (draft, words) = (self.draft(), notice::tools_at_work(self.turn.locale()));
        Some(Arc::new(move |Progress { done, total, message }| {
            let message = message.filter(|_| ours);
            let (due, shown, said) = match message {
                Some(message) => (pace.is_due(), format!("{words}: {message}"), message),
                None => match tenths.reached(done, total) {
                    Some(percent) => (true, format!("{words} ({percent} %)"), format!("{percent} %")),
                    None => return,
                },
            };
            if let Some((slot, outbox)) = &drawn {
                // A reader of the slot sees its newest content.
                slot.tell(&shown);
                if due {
                    // If the outbox refuses this, the announcement of the later text replaces it.
                    outbox.tell(OutboxMsg::Draft(draft.clone()));
                }
            }
            if due {
                observers.tell(&Happening::ToolProgressed { turn: &turn, number, tool: &name, words: &said });
            }
        }))
    }
}

/// The time of the last progress report of a call.
#[derive(Default)]
struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// True if the next report is due.
    fn is_due(&self) -> bool {
        let last = &mut *self.0.lock();
        let due = last.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

/// The progress of a call that was reported last.
#[derive(Default)]
struct Tenths(Mutex<Option<u8>>);

impl Tenths {
    /// Returns the percentage if it has changed.
    fn reached(&self, done: f64, total: Option<f64>) -> Option<u32> {
        let total = total.filter(|total| *total > 0.0)?;
        let now = (0..=10_u8).rev().find(|tenths| done >= total * f64::from(*tenths) / 10.0)?;
        (self.0.lock().replace(now) != Some(now)).then(|| u32::from(now) * 10)
    }
}
