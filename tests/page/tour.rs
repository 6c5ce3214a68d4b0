//! The tour of the playground on an idle page.

use crate::browser::Browser;
use crate::{LAST, playground};

const WORDS: &str = "(document.getElementById('tour').hidden ? '' : document.getElementById('tour-words').textContent)";

#[test]
fn an_idle_user_sees_a_crash_and_its_answer() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open_untouched(home.path());
    browser.go(&format!("{url}/"));
    let counted = "Number(document.querySelectorAll('.chaos-counts strong')[0].textContent)";
    let says = |words: &str| browser.until(&format!("{WORDS}.includes({words:?})"));
    says("queue");
    says("formula");
    says("crashes");
    browser.until(&format!("{counted} === 1"));
    // The tale is complete although its conversation crashed in the middle.
    let end = "The end.";
    let whole = format!(
        "(all => all.filter(text => text.includes({end:?})).length === 2)([...document.querySelectorAll('#messages > .message .body')].map(body => body.innerText))"
    );
    browser.until(&whole);
    says("limit");
    browser.until("[...document.querySelectorAll('.reaction')].some(one => one.innerText.includes('⏳'))");
    says("That was the tour");
    browser.click("#tour-stop");
    browser.until("document.getElementById('tour').hidden");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn taking_over_ends_the_tour_at_once() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open_untouched(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.querySelector('.idea')");
    browser.run("[...document.querySelectorAll('.idea')].find(idea => idea.innerText === 'take the tour').click()");
    browser.until("document.querySelectorAll('#messages > .message').length >= 2");
    browser.say("@staffai what is this?");
    assert_eq!(browser.run("return document.getElementById('tour').hidden"), true);
    browser.answer("playground");
    browser.until(&format!("{LAST}.querySelector('.tag')"));
    let said = "document.querySelectorAll('#messages > .message .head .tag').length";
    // Answers to earlier questions still arrive, and nothing else does.
    browser.until(&format!("{said} === 3"));
    browser.run_async("const done = arguments[0]; import('/playground/tour.js').then(tour => tour.ended()).then(done)");
    assert_eq!(browser.run(&format!("return {said}")), 3);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn on_a_phone_the_first_idea_shows_the_crash_and_then_the_answer() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.resize(390, 844);
    browser.go(&format!("{url}/"));
    browser.until("document.querySelector('.idea') && document.querySelectorAll('[data-trouble]').length === 6");
    browser.run("document.querySelector('.idea').click()");
    browser.until("document.querySelector('#tree-panel.open li.hurt')");
    browser.until("!document.querySelector('#tree-panel.open')");
    browser.answer("The end.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
