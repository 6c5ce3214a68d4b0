//! The page of the workspace: a second door of the same bot.

use crate::browser::Browser;
use crate::{playground, playground_with};

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

/// True once the dialogue shows fields.
const FIELDS: &str = "document.querySelector('#modal[open] [name]')";

impl Browser {
    /// Sets a field of the dialogue.
    fn fills(&self, name: &str, value: &str) {
        self.run(&format!("document.querySelector('#modal [name={name}]').value = '{value}'"));
    }

    /// Sends the dialogue, and awaits a text in it.
    fn sends(&self, part: &str) {
        self.click("#modal-send");
        self.until(&format!("document.getElementById('modal').innerText.includes('{part}')"));
    }
}

#[test]
fn the_dialogues_of_the_workspace_are_filled_in_corrected_and_sent() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground_with(home.path(), &[]);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/workspace"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    // The settings: a value that does not fit has its reason at its field, and the others keep what is typed.
    browser.click("#settings");
    browser.until(FIELDS);
    let mut found = browser.finds("the settings");
    browser.fills("instructions", "Say tide.");
    browser.fills("language", "!!");
    browser.click("#modal-send");
    browser.until("document.querySelector('#modal [name=language][aria-invalid]')");
    assert_eq!(browser.run("return document.querySelector('#modal [name=instructions]').value"), "Say tide.");
    found.extend(browser.finds("a value to correct"));
    browser.fills("language", "");
    browser.sends("Saved: Your instructions");
    browser.click("#modal-close");
    browser.until("!document.getElementById('modal').open");
    // They belong to this member, also after another one looked.
    browser.click(".voice:nth-child(2)");
    browser.click("#settings");
    browser.until(FIELDS);
    assert_eq!(browser.run("return document.querySelector('#modal [name=instructions]').value"), "");
    browser.click("#modal-close");
    browser.until("!document.getElementById('modal').open");
    browser.run("document.querySelector('.voice input').click()");
    browser.click("#settings");
    browser.until(&format!("{FIELDS} && document.querySelector('#modal [name=instructions]').value === 'Say tide.'"));
    browser.click("#modal-close");
    browser.until("!document.getElementById('modal').open");

    // The form of a tool.
    browser.keys("#draft", "@staffai plan a trip\n");
    let button =
        "[...document.querySelectorAll('#replies .said-buttons button')].find(one => one.textContent === 'Answer')";
    browser.until(button);
    browser.run(&format!("{button}.click()"));
    browser.until("document.querySelector('#modal[open] [name=harbour]')");
    browser.resize(390, 844);
    found.extend(browser.finds("a form on a small screen"));
    assert_eq!(browser.run("return document.documentElement.scrollWidth - innerWidth"), 0);
    browser.resize(1440, 900);
    browser.fills("harbour", "South Harbour");
    // The browser sends no form with a number beyond its bound.
    browser.fills("days", "12");
    browser.click("#modal-send");
    assert_eq!(browser.run("return document.getElementById('modal-form').checkValidity()"), false);
    browser.fills("days", "3");
    browser.sends("Sent to the server");
    browser.click("#modal-close");
    browser.until(&format!("{THREAD}.includes('A trip to South Harbour for 3 days, on foot.')"));
    let errors: Vec<String> = browser.complaints();
    assert!(found.is_empty() && errors.is_empty(), "{}\n{}", found.join("\n"), errors.join("\n"));
}
