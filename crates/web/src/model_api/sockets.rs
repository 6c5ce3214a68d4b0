//! The open sockets of programs, bounded per holder and in total. By the rule of [`fair_share`], the holders of many
//! sockets leave some for the next one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::failure::{AGAIN, Failure, TOO_MUCH};
use domain::fair_share;

/// Maximum number of sockets.
const ALL: usize = 128;
/// Maximum number of sockets of one holder.
const SHARE: usize = 32;

/// The number of open sockets of each holder.
#[derive(Debug, Default)]
pub(super) struct Sockets(Mutex<HashMap<String, usize>>);

/// One socket's place; released when dropped.
#[derive(Debug)]
pub(super) struct Open {
    sockets: Arc<Sockets>,
    holder: String,
}

impl Sockets {
    /// Takes a place for a socket of this holder.
    ///
    /// # Errors
    /// The holder reached the maximum, or as many as are left.
    pub fn open(self: &Arc<Self>, holder: &str) -> Result<Open, Failure> {
        let mut open = self.0.lock();
        let held = open.get(holder).copied().unwrap_or_default();
        if held >= SHARE {
            let why = format!("this key has {SHARE} sockets open; close one, or use one for several requests");
            return Err(Failure::OverLimit(why, Some(AGAIN)));
        }
        if !fair_share::admits(held, ALL.saturating_sub(open.values().sum())) {
            return Err(Failure::Busy(TOO_MUCH.to_owned()));
        }
        *open.entry(holder.to_owned()).or_default() += 1;
        Ok(Open { sockets: Arc::clone(self), holder: holder.to_owned() })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut open = self.sockets.0.lock();
        if let Some(count) = open.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_a_share_and_others_leave_some_for_the_next() {
        let sockets = Arc::new(Sockets::default());
        let mut held: Vec<Open> = (0..SHARE).map(|_| sockets.open("ci").unwrap()).collect();
        assert!(matches!(sockets.open("ci"), Err(Failure::OverLimit(..))));
        for key in ["a", "b", "c"] {
            held.extend((0..SHARE).map_while(|_| sockets.open(key).ok()));
        }
        assert!(matches!(sockets.open("c"), Err(Failure::Busy(_))), "this key has its share of what is left");
        held.push(sockets.open("laptop").unwrap());
        assert!(held.len() < ALL);
        drop(held);
        assert!(sockets.open("ci").is_ok() && sockets.0.lock().is_empty());
    }
}
