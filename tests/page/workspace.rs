//! The page of the workspace: a second door of the same bot.

use crate::browser::Browser;
use crate::playground;

/// The text of the open thread.
const THREAD: &str = "document.getElementById('replies').innerText";

#[test]
fn the_workspace_is_answered_by_the_bot_of_the_server() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.click("a[href='/workspace']");
    browser.until("document.getElementById('link').textContent === 'connected' && document.querySelectorAll('.place').length === 3");
    // A question in a channel is answered in its thread, which opens.
    browser.keys("#draft", "@staffai show me a table\n");
    browser.until(&format!("{THREAD}.includes('North Bay') && document.querySelector('#replies pre')"));
    browser.until("document.querySelector('#messages .replies-of')?.textContent === '1 reply'");
    browser.keys("#reply-draft", "@staffai hello\n");
    browser.until("document.querySelectorAll('#replies .said').length === 4");
    // What one member asks of the bot privately is seen by that member alone.
    browser.keys("#draft", "/staffai help\n");
    browser.until("document.querySelector('#messages .only')");
    let mut found = browser.finds("a thread and a private message");
    browser.click(".voice:nth-child(2)");
    browser.until("document.querySelector('#messages .said') && !document.querySelector('#messages .only')");
    browser.click("[data-place='DUBEN']");
    browser.until("document.getElementById('channel').textContent === 'staffai'");
    browser.keys("#draft", "add a note: buy rope\n");
    browser
        .until(&format!("{THREAD}.includes('buy rope') && document.querySelectorAll('#replies .said').length === 2"));
    browser.keys("#draft", "clear the notes\n");
    let approve =
        "[...document.querySelectorAll('#replies .said-buttons button')].find(one => one.textContent === 'Approve')";
    browser.until(approve);
    found.extend(browser.finds("an approval"));
    browser.run(&format!("{approve}.click()"));
    browser.until(&format!("{THREAD}.includes('All notes are gone; there were 1.')"));
    browser.resize(390, 844);
    found.extend(browser.finds("a small screen"));
    let errors: Vec<String> = browser.complaints();
    assert!(found.is_empty() && errors.is_empty(), "{}\n{}", found.join("\n"), errors.join("\n"));
}
