//! Experiments: members are split between model rows or profiles of prompts, and the answers of each arm are counted.
//!
//! The arm of a member follows from the names of the experiment and of the member, so it needs no record. A turn is in
//! at most one experiment: the first whose shares include its member.

mod vote;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::vote::Vote;
use super::ids::Person;

/// Maximum number of experiments at a time.
pub const EXPERIMENTS_MAX: usize = 4;
/// Maximum number of arms of one experiment.
pub const ARMS_MAX: usize = 8;
/// Maximum number of characters of the name of an experiment.
const NAME_CHARS: usize = 40;
/// Maximum number of bytes of the name of an arm.
const ARM_BYTES: usize = 100;
/// The arm of an experiment with profiles that keeps the prompts of the place.
pub const PLACE_PROMPTS: &str = "default";
/// The sum of all shares, those of members outside of the experiment included.
const WHOLE: u64 = 100;

/// The choice that the arms of an experiment make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The model row that answers.
    Models,
    /// The profile of prompts.
    Profiles,
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Experiment {
    /// The name, which is a metric label and part of keys.
    pub name: String,
    /// The choice that its arms make.
    pub subject: Subject,
    /// The arms; their shares add up to at most 100.
    pub arms: Vec<Arm>,
}

/// One arm of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// The key of a model row or the name of a profile.
    pub name: String,
    /// The share of members in percent, from 1 to 100.
    pub percent: u8,
}

/// The arm of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trial {
    /// The name of the experiment.
    pub experiment: String,
    /// The name of the arm.
    pub arm: String,
}

impl Experiment {
    /// Creates an experiment from its arms, each written as `NAME PERCENT`.
    ///
    /// # Errors
    /// Returns the mistake with its fix.
    pub fn new(name: &str, subject: Subject, arms: &[String]) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(plain) {
            return Err(format!("name must have 1 to {NAME_CHARS} lower-case letters, digits, - or _"));
        }
        if arms.is_empty() || arms.len() > ARMS_MAX {
            return Err(format!("must have 1 to {ARMS_MAX} arms"));
        }
        let mut read: Vec<Arm> = Vec::with_capacity(arms.len());
        for text in arms {
            let arm = Arm::read(text).ok_or_else(|| {
                format!("has an arm {text:?}; an arm is a name and its share in percent, such as \"main 50\"")
            })?;
            if read.iter().any(|other| other.name == arm.name) {
                return Err(format!("has the arm {} twice; remove one", arm.name));
            }
            read.push(arm);
        }
        if read.iter().map(|arm| u64::from(arm.percent)).sum::<u64>() > WHOLE {
            return Err("has shares that add up to more than 100; lower them".to_owned());
        }
        Ok(Self { name: name.to_owned(), subject, arms: read })
    }

    /// Returns the arm of a person; `None` for a person outside of the shares. The same person always has the same
    /// arm, as long as the names and the shares stay.
    #[must_use]
    pub fn arm_of(&self, person: &Person) -> Option<&Arm> {
        let digest = Sha256::new()
            .chain_update(self.name.as_bytes())
            .chain_update([0])
            .chain_update(person.to_string().as_bytes())
            .finalize();
        let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let mut left = number % WHOLE;
        self.arms.iter().find(|arm| match left.checked_sub(arm.percent.into()) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })
    }

    /// Returns the trial of a turn with this arm.
    #[must_use]
    pub fn trial(&self, arm: &Arm) -> Trial {
        Trial { experiment: self.name.clone(), arm: arm.name.clone() }
    }
}

impl Arm {
    fn read(text: &str) -> Option<Self> {
        let (name, percent) = text.trim().rsplit_once(char::is_whitespace)?;
        let (name, percent) = (name.trim(), percent.trim_end_matches('%').parse().ok()?);
        // Braces would select the node of a cluster.
        let fits = !name.is_empty()
            && name.len() <= ARM_BYTES
            && !name.contains(['{', '}'])
            && !name.contains(char::is_control);
        (fits && (1..=100).contains(&percent)).then(|| Self { name: name.to_owned(), percent })
    }
}

#[cfg(test)]
mod tests;
