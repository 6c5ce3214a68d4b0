//! Exit codes, after sysexits where one fits.

/// All is well, or the program ended as told.
pub const FINE: u8 = 0;
/// A check said no.
pub const NEGATIVE: u8 = 1;
/// Bad configuration or usage.
pub const USAGE: u8 = 64;
/// A needed service refused us for good.
pub const REFUSED: u8 = 69;
/// The root supervisor gave up, or the program cannot run at all.
pub const GAVE_UP: u8 = 70;
/// The data directory is in use by another process.
pub const IN_USE: u8 = 75;
