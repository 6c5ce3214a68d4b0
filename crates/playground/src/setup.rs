//! The port of the first setup: tests the settings that a user types on the page, and writes them to `.env`, as
//! `staffai init` does.

use async_trait::async_trait;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// A part of the first setup; each can be tested and written alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The bot's token.
    Discord,
    /// The address, key and name of the model.
    Model,
}

/// The typed settings of one part. An empty one keeps the value of the file.
pub struct Typed {
    /// The part.
    pub part: Part,
    /// Its settings, in the order of the questions of `staffai init`.
    pub values: Vec<SecretString>,
}

/// One line of the test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject of the test.
    pub part: String,
    /// The result: `ok`, `note`, `skipped` or `wrong`.
    pub status: &'static str,
    /// The explanation; never a secret.
    pub text: String,
}

/// The result of a setup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The lines of the test.
    pub findings: Vec<Finding>,
    /// True if the file was written: nothing was wrong.
    pub written: bool,
}

/// Tests settings and writes them.
#[async_trait]
pub trait Setup: Send + Sync {
    /// Returns the names of the variables that the file sets, without their values.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    async fn set(&self) -> Result<Vec<String>, String>;

    /// Tests the settings, and writes them if nothing is wrong.
    ///
    /// # Errors
    /// The reason why they cannot be tested or written.
    async fn set_up(&self, typed: Typed) -> Result<Outcome, String>;
}
