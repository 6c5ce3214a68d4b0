//! The answers to `/link` and `/unlink`.

use super::words;
use crate::locale::Locale;
use crate::people::{LinkRefusal, Linked};

/// Returns the description of the option of `/link`, at most 100 characters.
#[must_use]
pub const fn link(locale: Locale) -> &'static str {
    words(locale).link
}

/// Shows a new code, and says what it does.
#[must_use]
pub fn link_code(code: &str, locale: Locale) -> String {
    (words(locale).link_code)(code)
}

/// Lists the accounts that are linked now, the leading one first.
#[must_use]
pub fn linked(linked: &Linked, locale: Locale) -> String {
    let accounts: Vec<String> = linked.accounts().iter().map(|account| format!("`{account}`")).collect();
    (words(locale).linked)(&accounts.join(", "))
}

/// Says that the account is no longer linked.
#[must_use]
pub const fn unlinked(locale: Locale) -> &'static str {
    words(locale).unlinked
}

/// Says why accounts were not linked or unlinked.
#[must_use]
pub fn link_refused(refusal: LinkRefusal, locale: Locale) -> &'static str {
    (words(locale).link_refused)(refusal)
}
