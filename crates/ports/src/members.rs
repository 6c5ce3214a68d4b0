//! The data that members and operators change themselves: facts, settings, prompt sections.

use async_trait::async_trait;

use domain::fact::{FactId, FactMatches, NotKept, Remembered};
use domain::ids::Person;
use domain::people::{LinkRefusal, Linked};
use domain::preferences::dialogue::Choosable;
use domain::preferences::{Change, Holder, Refused, Shown};
use domain::prompt::sections::{Section, SectionChange};
use domain::tool::OnBehalf;

/// Members' facts. The caller and the place of each request decide what is found. Bounded by the store's deadlines.
#[async_trait]
pub trait Facts: Send + Sync {
    /// Stores a fact of the caller, with their place. Idempotent for the same text and place.
    ///
    /// # Errors
    /// See [`NotKept`].
    async fn remember(&self, asked: &OnBehalf, text: &str) -> Result<Remembered, NotKept>;

    /// Returns the caller's best matching facts that may be found in their place; for an empty query, the newest.
    ///
    /// # Errors
    /// See [`NotKept`].
    async fn search(&self, asked: &OnBehalf, query: &str) -> Result<FactMatches, NotKept>;

    /// Deletes a fact of the caller, if it may be found in their place. False if there is none.
    ///
    /// # Errors
    /// See [`NotKept`].
    async fn forget(&self, asked: &OnBehalf, fact: &FactId) -> Result<bool, NotKept>;
}

/// Prompt sections. Bounded by the store's deadlines.
#[async_trait]
pub trait PromptSections: Send + Sync {
    /// Returns all current sections, by name, for this caller.
    ///
    /// # Errors
    /// The reason why they are not shown, as text for the caller.
    async fn sections(&self, asked: &OnBehalf) -> Result<Vec<Section>, String>;

    /// Returns the complete instructions of a model for a question of this caller in this place: the persona with its
    /// sections, the rules for every persona, and the form of the answer. `name` is the caller's display name.
    ///
    /// # Errors
    /// The reason why they are not shown, as text for the caller.
    async fn assembled(&self, asked: &OnBehalf, name: &str) -> Result<String, String>;

    /// Changes a section for this caller, and returns its version number.
    ///
    /// # Errors
    /// The reason why nothing changed, as text for the caller.
    async fn change(&self, asked: &OnBehalf, name: &str, change: &SectionChange) -> Result<u32, String>;
}

/// The settings of members. Bounded by the store's deadlines.
#[async_trait]
pub trait MemberSettings: Send + Sync {
    /// Returns the settings that the row in force can serve, with their values for this person in this place.
    ///
    /// # Errors
    /// The stored values cannot be read.
    async fn show(&self, holder: &Holder) -> Result<Vec<Shown>, Refused>;

    /// Returns the settings that this person may change, in the order shown.
    ///
    /// # Errors
    /// The stored values cannot be read.
    async fn choosable(&self, holder: &Holder) -> Result<Vec<Choosable>, Refused>;

    /// Applies all changes, or none. Returns false if they may be lost with this process.
    ///
    /// # Errors
    /// The first change that is not permitted, not served or malformed.
    async fn change(&self, holder: &Holder, changes: &[Change]) -> Result<bool, Refused>;
}

/// The links of accounts, for operators. Bounded by the store's deadlines.
#[async_trait]
pub trait AccountLinks: Send + Sync {
    /// Returns all persons with linked accounts.
    async fn list(&self) -> Vec<Linked>;

    /// Links two accounts, with all accounts that are linked with each; the first one's leading account leads.
    ///
    /// # Errors
    /// See [`LinkRefusal`].
    async fn link(&self, first: &Person, second: &Person) -> Result<Linked, LinkRefusal>;

    /// Removes the links of an account.
    ///
    /// # Errors
    /// See [`LinkRefusal`].
    async fn unlink(&self, account: &Person) -> Result<(), LinkRefusal>;
}
