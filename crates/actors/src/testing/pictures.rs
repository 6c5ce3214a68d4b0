//! An in-memory renderer.

use futures_util::future::BoxFuture;

use domain::ids::Place;
use ports::{NotDrawn, Renderer};

/// Returns the bytes of a formula as its picture, unless the formula is `bad`.
pub struct Sketches;

impl Renderer for Sketches {
    fn formula<'a>(&'a self, _place: &'a Place, formula: &'a str) -> BoxFuture<'a, Result<Vec<u8>, NotDrawn>> {
        let drawn = match formula {
            "bad" => Err(NotDrawn::Unable("it is bad".to_owned())),
            _ => Ok(formula.as_bytes().to_vec()),
        };
        Box::pin(async { drawn })
    }
}
