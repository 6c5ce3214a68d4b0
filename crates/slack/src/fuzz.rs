//! Targets of the fuzzer: envelopes and payloads of Slack, and the markup sent there. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use crate::mrkdwn::{convert, sections};
use crate::{Account, commands, events, incoming_text, interactions, shortcuts};

/// The account of the bot.
fn us() -> Account {
    let [user, team, name, workspace] = ["UBOT", "T1", "staffai", "w"].map(str::to_owned);
    Account { user, bot: Some("BBOT".to_owned()), team, name, workspace }
}

#[test]
fn envelopes() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop(events::read(&text, &us()));
    });
}

#[test]
fn payloads() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop((commands::read(&text), shortcuts::read(&text), shortcuts::submitted(&text), interactions::read(&text)));
    });
}

#[test]
fn mrkdwn() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop((convert(&text), sections(&text), incoming_text::plain(&text)));
    });
}
