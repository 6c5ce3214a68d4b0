//! Exit codes, as in sysexits where one fits.

/// Success, or an end as requested.
pub const FINE: u8 = 0;
/// The command failed, or `check` or `health` is negative.
pub const NEGATIVE: u8 = 1;
/// Bad configuration or usage.
pub const USAGE: u8 = 64;
/// A required service refused the bot permanently.
pub const REFUSED: u8 = 69;
/// The root supervisor gave up, or the program cannot run at all.
pub const GAVE_UP: u8 = 70;
/// Another process uses the data directory, or is active for the same bot account.
pub const IN_USE: u8 = 75;
