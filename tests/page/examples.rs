//! Every question that the page, the help, the tour and the documents suggest, asked on the page.

use std::time::Duration;

use playground::examples::{EXAMPLES, Example, Shows};
use serde_json::Value;

use crate::browser::Browser;
use crate::{Running, playground_with};

/// Number and interval of the polls before an answer counts as missing.
const LOOKS: usize = 600;
const LOOK: Duration = Duration::from_millis(100);

/// The messages, for scripts.
const MESSAGES: &str = "[...document.querySelectorAll('#messages > .message')]";

/// The content of a message beside text, for scripts; `one` is the message.
fn shown(example: &Example) -> &'static str {
    match example.shows {
        Shows::Text | Shows::Buttons => "true",
        Shows::Picture => "one.querySelector('img.picture')?.naturalWidth > 0",
        Shows::Code => "one.querySelector('figure.code')",
        Shows::Card => "one.querySelector('.embed')",
        Shows::File => "one.querySelector('a.file[download]')",
    }
}

/// Waits until a message after the first `before` ones and the question answers as the example says.
fn answered(browser: &Browser, example: &Example, before: &Value) {
    let answer = Value::from(example.answer);
    let there =
        format!("{MESSAGES}.slice({before} + 1).some(one => one.innerText.includes({answer}) && {})", shown(example));
    // A long answer may grow for longer than a single poll may wait.
    for _ in 0..LOOKS {
        if browser.run(&format!("return Boolean({there})")) == true {
            return;
        }
        std::thread::sleep(LOOK);
    }
    browser.until(&there);
}

/// Opens a page and asks these examples, in order.
fn ask_all<'a>(examples: impl IntoIterator<Item = &'a Example>) -> (tempfile::TempDir, Running, Browser) {
    let home = tempfile::tempdir().expect("a folder");
    let (program, url) = playground_with(home.path(), &[("RATE_LIMIT_COUNT", "1000")]);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.querySelector('#board .pill')?.textContent === 'ready'");
    let chips = browser
        .run("return [...document.querySelectorAll('.idea .mention')].map(one => one.nextSibling.textContent.trim())");
    let expected: Vec<&str> = EXAMPLES.iter().filter(|example| example.chip.is_some()).map(|one| one.ask).collect();
    assert_eq!(chips, Value::from(expected), "the chips are those of the table");
    for example in examples {
        let before = browser.run(&format!("return {MESSAGES}.length"));
        browser.say(&format!("@staffai {}", example.ask));
        if example.shows == Shows::Buttons {
            let deny = "[...document.querySelectorAll('.buttons button')].find(one => one.innerText === 'Deny')";
            browser.until(deny);
            browser.run(&format!("{deny}.click()"));
        }
        answered(&browser, example, &before);
        let said = browser.run("return document.getElementById('messages').innerText");
        assert!(!said.as_str().is_some_and(|said| said.contains("do not fit")), "{}: {said}", example.ask);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    (home, program, browser)
}

/// Two pages share the examples, because one after the other they take minutes.
const HALF: usize = EXAMPLES.len() / 2;

#[test]
fn the_first_examples_are_answered_as_the_table_says() {
    drop(ask_all(&EXAMPLES[..HALF]));
}

#[test]
fn the_other_examples_are_answered_as_the_table_says() {
    let (_home, _program, browser) = ask_all(&EXAMPLES[HALF..]);
    // The second tale differs from the first.
    let tales = browser.run(&format!(
        "return {MESSAGES}.map(one => one.innerText).filter(text => text.includes('The end.') && !text.includes('I made that long')).map(text => text.length)"
    ));
    let tales: Vec<u64> = tales.as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(tales.len() == 2 && tales[0] != tales[1], "{tales:?}");
}

#[test]
fn a_conversation_with_the_bot_alone_is_answered_without_a_mention() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground_with(home.path(), &[]);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("[...document.querySelectorAll('#bots button')].some(one => one.innerText === 'message')");
    browser.run("[...document.querySelectorAll('#bots button')].find(one => one.innerText === 'message').click()");
    browser.until("document.getElementById('messages').innerText.includes('answers without being mentioned')");
    browser.say("hello!");
    browser.answer("model");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
