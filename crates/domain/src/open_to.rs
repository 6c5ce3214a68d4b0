//! The callers to whom an operator opens a feature.

use std::str::FromStr;

/// The callers to whom a feature is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTo {
    /// To no caller: the feature is off.
    Off,
    /// To operators.
    Operators,
    /// To operators and members.
    Members,
}

impl OpenTo {
    /// True if the feature is open to a caller.
    #[must_use]
    pub const fn admits(self, is_operator: bool) -> bool {
        match self {
            Self::Off => false,
            Self::Operators => is_operator,
            Self::Members => true,
        }
    }
}

impl FromStr for OpenTo {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "off" => Ok(Self::Off),
            "operators" => Ok(Self::Operators),
            "members" => Ok(Self::Members),
            _ => Err("off, operators or members"),
        }
    }
}
