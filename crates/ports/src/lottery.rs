//! Random draws for interjections.

use std::fmt;
use std::sync::Arc;

use super::Dice;
use domain::manners::Draw;

/// Random draws for messages not addressed to the bot. A message that loses is not answered.
#[derive(Clone)]
pub struct Lottery {
    /// The source of randomness.
    pub dice: Arc<dyn Dice>,
    /// Returns the current probabilities of both draws, each 0 to 1.
    pub chances: Arc<dyn Fn() -> (f64, f64) + Send + Sync>,
}

impl fmt::Debug for Lottery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lottery").field("chances", &(self.chances)()).finish_non_exhaustive()
    }
}

impl Lottery {
    /// Returns the won draws for one message; almost always `None`.
    #[must_use]
    pub fn draw(&self) -> Option<Draw> {
        let (consider, deliver) = (self.chances)();
        if consider <= 0.0 || deliver <= 0.0 {
            return None;
        }
        let draw = Draw { consider: self.dice.roll(), deliver: self.dice.roll() };
        draw.wins(consider, deliver).then_some(draw)
    }
}
