//! staffai: an always-on assistant for public communities, built as a supervision tree of actors.
//!
//! This package is the program: [`app`] reads the settings, makes the clock and the chance, opens the edges and starts the tree. All else is
//! in the crates below `crates/`. `docs/architecture.md` draws them, says what each may know and what holds everywhere, and where to
//! change what.

pub mod app;
