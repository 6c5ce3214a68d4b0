//! The playground: everything on this machine alone.

pub mod demo_model;
