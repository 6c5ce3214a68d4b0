//! staffai: an always-on assistant for public communities, built as a supervision tree of actors.
//!
//! This package is the program: [`app`] reads the settings, creates the clock and the random source, opens the edges
//! and starts the tree. All other code is in the crates below `crates/`. `docs/architecture.md` shows the crates and
//! their permitted dependencies, the rules that hold everywhere, and where to make a change.

pub mod app;
