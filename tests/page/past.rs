//! Time travel, actors in detail, and exclusive use of a data directory.

use crate::browser::Browser;
use crate::{playground, program};

/// Goes to the oldest sample, once there are some.
fn goes_back(browser: &Browser) {
    browser.until("Number(document.querySelector('.travel')?.max) >= 3");
    browser.run(
        "const slider = document.querySelector('.travel'); slider.value = 0; slider.dispatchEvent(new Event('input')); return true",
    );
    browser.until(
        "document.querySelector('.board.earlier') && document.querySelector('.travel-moment').textContent.endsWith('ago')",
    );
    browser.until("document.querySelectorAll('#board .node').length > 10");
}

fn opens(browser: &Browser, actor: &str) {
    browser.run(&format!(
        "[...document.querySelectorAll('#board button.actor')].find(one => one.textContent.startsWith('{actor}')).click()"
    ));
    browser.until("document.querySelector('.detail .law')?.innerText.includes('permanent')");
    browser.until("document.querySelector('.detail .facts').innerText.startsWith('running for')");
}

#[test]
fn the_last_minutes_can_be_gone_through_and_an_actor_tells_of_its_failures() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.querySelectorAll('#board button.actor').length > 10");
    browser.until("document.querySelector('#board .pill').textContent === 'ready'");
    // The state before the first message.
    browser.until("Number(document.querySelector('.travel')?.max) >= 2");
    browser.say("@staffai hello!");
    browser.answer("model");
    browser.until("document.querySelectorAll('#board .turn.replied').length === 1");

    // A search lists single actors, another order lists all of them, and members and channels have views of their own.
    let names = "[...document.querySelectorAll('#board .tree .name')].map(one => one.textContent).join()";
    browser.keys(".order-row .find", "outbox:");
    browser.until(&format!("{names} === 'outbox:api,outbox:discord,outbox:slack,outbox:terminal'"));
    browser.run(
        "const box = document.querySelector('.order-row .find'); box.value = ''; box.dispatchEvent(new Event('input'))",
    );
    browser
        .run("const by = document.querySelector('.order'); by.value = 'name'; by.dispatchEvent(new Event('change'))");
    browser.until(&format!("{names}.startsWith('approvals,commands,config_watcher')"));
    browser.run("const by = document.querySelector('.order'); by.value = ''; by.dispatchEvent(new Event('change'))");
    for (view, row) in [(1, "Ada"), (2, "#general")] {
        browser.run(&format!("document.querySelectorAll('.view')[{view}].click()"));
        browser.until(&format!(
            "document.querySelector('.people li')?.innerText.includes('{row}') && document.querySelector('.people li').innerText.includes('1 answered')"
        ));
    }
    browser.run("document.querySelector('.people .name').click()");
    browser.until("document.querySelector('.find[maxlength=\"128\"]').value === '900000000000000020'");
    browser.run("const box = document.querySelector('.find[maxlength=\"128\"]'); box.value = ''; box.dispatchEvent(new Event('input'))");
    browser.run("document.querySelector('.view').click()");

    opens(&browser, "journal");
    assert_eq!(browser.run("return document.querySelector('.failures').innerText"), "It has not failed.");
    browser.run("[...document.querySelectorAll('.strikes button')].find(one => one.innerText === 'Crash').click()");
    browser.until("document.querySelector('.failures').innerText.includes('back after')");
    browser.until("document.querySelector('.detail .facts').innerText.endsWith('1 restart')");
    browser.until("[...document.querySelectorAll('.sparks .most')].some(one => one.innerText.startsWith('≤'))");

    goes_back(&browser);
    assert_eq!(browser.run("return document.querySelectorAll('#board .turn').length"), 0, "nothing was said then");
    browser.until("document.querySelector('.failures').innerText === 'It has not failed.'");
    browser.until("document.querySelector('.tile .value').textContent === '0'");
    browser.run("document.querySelector('.back-to-now').click()");
    browser.until(
        "!document.querySelector('.board.earlier') && document.querySelectorAll('#board .turn.replied').length === 1",
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());

    browser.go(&format!("{url}/dashboard"));
    browser.until("document.querySelectorAll('#board .node').length > 10");
    opens(&browser, "journal");
    browser.until("document.querySelector('.failures').innerText.includes('back after')");
    assert_eq!(browser.run("return document.querySelectorAll('.strikes').length"), 0, "nothing is broken there");
    goes_back(&browser);
    assert_eq!(browser.complaints(), Vec::<String>::new());

    // A kill is a mark on the slider, and the turns before it remain.
    browser.go(&format!("{url}/"));
    browser.until("document.querySelectorAll('[data-trouble]').length === 6");
    browser.click("[data-trouble=kill_bot]");
    browser.until("document.querySelectorAll('.kill-mark').length === 1");
    browser.until("document.querySelector('#board .turn.of-earlier-life')");
    browser.run("document.querySelector('#board .turn.of-earlier-life summary').click()");
    browser.until("document.querySelector('#board .turn[open] .replay')");
}

#[test]
fn a_second_playground_on_the_same_data_is_told_at_once() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, _) = playground(home.path());
    let second = program(home.path(), &[]).output().expect("it ends by itself");
    assert_eq!(second.status.code(), Some(75));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another playground uses the data directory") && said.contains("STAFFAI_DATA_DIR"), "{said}");
}
