//! Pictures of what no platform shows by itself.

use futures_util::future::BoxFuture;

/// Draws what no platform shows by itself. Work in memory alone: no file is read and no address is asked.
pub trait Renderer: Send + Sync {
    /// A formula in LaTeX as a PNG picture, bounded in time and size.
    ///
    /// # Errors
    /// There is no picture; the formula is shown as text then.
    fn formula<'a>(&'a self, formula: &'a str) -> BoxFuture<'a, Result<Vec<u8>, NotDrawn>>;
}

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDrawn {
    /// It cannot be drawn, for this reason.
    #[error("{0}")]
    Unable(String),
    /// It took too long, or others took all the time.
    #[error("it took too long")]
    Late,
}

impl NotDrawn {
    /// The label in logs, which quotes nothing.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unable(_) => "it cannot be drawn",
            Self::Late => "it took too long",
        }
    }
}
