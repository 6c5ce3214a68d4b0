//! Pictures of content that no platform draws by itself.

use std::sync::Arc;

use ports::Renderer;

#[cfg(feature = "latex")]
pub mod latex;

#[cfg(test)]
mod fuzz;

/// Returns the renderer of this build.
#[must_use]
pub fn renderer() -> Arc<dyn Renderer> {
    #[cfg(feature = "latex")]
    return Arc::new(latex::Latex::default());
    #[cfg(not(feature = "latex"))]
    return Arc::new(Nothing);
}

/// Draws nothing: formulas stay text.
#[cfg(not(feature = "latex"))]
struct Nothing;

#[cfg(not(feature = "latex"))]
impl Renderer for Nothing {
    fn formula<'a>(
        &'a self,
        _place: &'a domain::ids::Place,
        _formula: &'a str,
    ) -> futures_util::future::BoxFuture<'a, Result<Vec<u8>, ports::NotDrawn>> {
        Box::pin(async { Err(ports::NotDrawn::Unable("this build draws no formulas".to_owned())) })
    }
}
