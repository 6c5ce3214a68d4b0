//! The names of message kinds, for the page of an actor. They tell nothing of the content.

use std::convert::Infallible;

/// A message with the name of its kind.
pub trait Named {
    /// Returns the name of the kind.
    fn name(&self) -> &'static str;
}

impl Named for Infallible {
    fn name(&self) -> &'static str {
        match *self {}
    }
}

/// Implements [`Named`] for an enum by the names of its variants.
macro_rules! named {
    ($messages:ty: $($variant:ident),+ $(,)?) => {
        impl $crate::runtime::named::Named for $messages {
            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }
        }
    };
}

pub(crate) use named;
