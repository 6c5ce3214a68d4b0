//! The draft slot of a turn: the task that produces the answer overwrites it, the outbox samples it.
//!
//! Only the newest text is kept, so a slow place skips intermediate steps at no other cost. The slot also resolves the
//! race between showing and withdrawing: text that the outbox has taken counts as shown and is never withdrawn; other
//! text can be withdrawn.
//!
//! Until there is text, the slot may hold a status. It is displayed like text but is not part of the answer: any text
//! replaces it.

use std::sync::Arc;

use tokio::sync::watch;

/// The slot of one turn. Clones share it.
#[derive(Clone)]
pub struct Slot(Arc<watch::Sender<Draft>>);

#[derive(Default)]
struct Draft {
    text: String,
    taken: bool,
    /// The status to show while there is no text.
    status: String,
    /// True if the outbox has taken text or status: the channel may contain a message of this turn.
    posted: bool,
}

impl Draft {
    fn shown(&self) -> &str {
        if self.text.is_empty() { &self.status } else { &self.text }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Draft::default())))
    }
}

impl Slot {
    /// Overwrites the text; true if the text changed.
    pub fn write(&self, text: &str) -> bool {
        self.0.send_if_modified(|draft| {
            let changed = draft.text != text;
            if changed {
                text.clone_into(&mut draft.text);
            }
            changed
        })
    }

    /// Empties the slot. If some of the text was shown, nothing changes and the result is false.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        let mut withdrawn = true;
        self.0.send_if_modified(|draft| {
            withdrawn = !draft.taken;
            if withdrawn {
                draft.text.clear();
            }
            withdrawn
        });
        withdrawn
    }

    /// Sets the status to show while there is no text.
    pub fn tell(&self, status: &str) {
        // The outbox holds back the last character, as more text may follow; the newline takes that role, so the status
        // is shown whole.
        let status = format!("{status}\n");
        self.0.send_if_modified(|draft| {
            let changed = draft.status != status;
            if changed {
                draft.status = status;
            }
            changed && draft.text.is_empty()
        });
    }

    /// Closes the slot. Text or status that is not shown yet is never shown. True if something of this turn was posted.
    #[must_use]
    pub fn finish(&self) -> bool {
        let mut posted = false;
        self.0.send_if_modified(|draft| {
            posted = draft.posted;
            draft.status.clear();
            if !draft.taken {
                draft.text.clear();
            }
            false
        });
        posted
    }

    /// Returns the text if some of it was shown.
    #[must_use]
    pub fn visible(&self) -> Option<String> {
        let draft = self.0.borrow();
        draft.taken.then(|| draft.text.clone())
    }

    /// Marks the text as shown, for text that was shown by a component other than the outbox.
    pub fn mark_shown(&self) {
        self.0.send_modify(|draft| (draft.taken, draft.posted) = (true, true));
    }

    /// Returns a watcher that tracks the versions it has seen.
    #[must_use]
    pub fn watch(&self) -> Watcher {
        let mut seen = self.0.subscribe();
        // The existing content counts as new.
        seen.mark_changed();
        Watcher { slot: self.clone(), seen }
    }
}

/// The outbox's view of a slot.
pub struct Watcher {
    slot: Slot,
    seen: watch::Receiver<Draft>,
}

impl Watcher {
    /// True if this watcher observes the given slot.
    #[must_use]
    pub fn is_of(&self, slot: &Slot) -> bool {
        Arc::ptr_eq(&self.slot.0, &slot.0)
    }

    /// True if there is text that the watcher has not taken yet.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        // This value owns the sender, so the slot is never closed.
        self.seen.has_changed().unwrap_or(false) && !self.seen.borrow().shown().is_empty()
    }

    /// True if the text has at least this number of Unicode scalar values.
    pub fn is_longer(&self, characters: usize) -> bool {
        characters == 0 || self.seen.borrow().shown().chars().nth(characters - 1).is_some()
    }

    /// Takes the newest text, which counts as shown from now on. `None` if it was withdrawn.
    pub fn take(&mut self) -> Option<String> {
        self.slot.0.send_modify(|draft| {
            draft.taken |= !draft.text.is_empty();
            draft.posted |= !draft.shown().is_empty();
        });
        let text = self.seen.borrow_and_update().shown().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_stays_and_what_was_not_can_be_withdrawn() {
        let slot = Slot::default();
        let mut watcher = slot.watch();
        assert!(!watcher.is_fresh() && slot.withdraw() && watcher.take().is_none());
        assert!(slot.write("a") && !slot.write("a") && watcher.is_fresh());
        assert!(slot.withdraw() && !watcher.is_fresh());
        assert_eq!((watcher.take(), slot.visible()), (None, None));
        slot.write("b");
        slot.write("bc");
        assert_eq!(watcher.take().as_deref(), Some("bc"));
        assert!(!watcher.is_fresh() && !slot.withdraw());
        slot.write("bcd");
        assert!(watcher.is_fresh() && slot.finish());
        assert_eq!(slot.visible().as_deref(), Some("bcd"));
        assert!(slot.watch().is_fresh());
    }

    #[test]
    fn a_status_is_shown_until_there_is_text_and_is_none_itself() {
        let slot = Slot::default();
        let mut watcher = slot.watch();
        slot.tell("One moment.");
        assert!(watcher.is_fresh() && watcher.is_longer(12) && !watcher.is_longer(13));
        assert_eq!(watcher.take().as_deref(), Some("One moment.\n"), "the last sign is held back");
        assert!(!watcher.is_fresh());
        assert!(slot.withdraw() && slot.visible().is_none(), "a model may be asked again");
        slot.write("a");
        assert_eq!(watcher.take().as_deref(), Some("a"));
        assert!(!slot.withdraw() && slot.finish());
        assert_eq!(slot.visible().as_deref(), Some("a"));
    }

    #[test]
    fn a_status_that_came_too_late_is_not_shown() {
        let slot = Slot::default();
        let mut watcher = slot.watch();
        slot.tell("One moment.");
        assert!(slot.withdraw() && !slot.finish());
        assert_eq!((watcher.take(), slot.finish()), (None, false));
    }
}
