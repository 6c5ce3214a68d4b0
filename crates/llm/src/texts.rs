//! Texts that every wire writes alike.

/// Separates the texts of merged messages.
pub const BETWEEN: &str = "\n\n";

/// Replaces an empty text, which some providers reject.
pub const EMPTY: &str = "(empty)";
