//! Accessibility: axe-core finds nothing in any state of the page.

use std::path::Path;

use serde_json::Value;

use crate::browser::Browser;
use crate::{LAST, playground};

/// The stops of the Tab key; a group of radio buttons is one stop.
const STOPS: &str = "return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter(one => \
    one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true }) && (one.type !== 'radio' || one.checked)).length";
/// Their maximum number for any length of the chat: the tree alone has as many rows.
const STOPS_MAX: i64 = 34;

/// The location where `./test` installs it.
const AXE: &str = ".node-tests/node_modules/axe-core/axe.min.js";

impl Browser {
    /// Returns the findings of axe-core in the current page, in light and in dark colours.
    pub(crate) fn finds(&self, state: &str) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(AXE);
        let source =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{AXE}: {error}; ./test installs it"));
        let mut found = Vec::new();
        for scheme in ["light", "dark"] {
            self.prefers(scheme);
            // Colours are measured after all fades.
            self.until("document.getAnimations().every(one => one.playState === 'finished' || one.effect.getTiming().iterations === Infinity)");
            let script = format!(
                "{source}; const done = arguments[0]; axe.run(document, {{ resultTypes: ['violations'] }}).then(told => done(told.violations.flatMap(\
                 rule => rule.nodes.map(node => `${{rule.id}} at ${{node.target.join(' ')}}: ${{node.failureSummary}}`))), error => done([String(error)]))"
            );
            let told = self.run_async(&script);
            let lines = told.as_array().expect("a list").iter().filter_map(Value::as_str);
            found.extend(lines.map(|line| format!("{state}, {scheme}: {line}")));
        }
        self.prefers("light");
        found
    }
}

#[test]
fn nothing_stands_in_the_way_of_those_who_see_or_move_differently() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.querySelectorAll('#board button.actor').length > 10");
    let mut found = browser.finds("the first look");
    let words = "document.getElementById('tour-words').textContent = 'Two members ask at the same time.'";
    browser.run(&format!("document.getElementById('tour').hidden = false; {words}"));
    found.extend(browser.finds("the tour"));
    browser.run("document.getElementById('tour').hidden = true");

    browser.say("@staffai show me some code");
    browser.answer("fn main()");
    // A growing message is redrawn, and its picker with it.
    browser.until("!document.querySelector('#messages .growing')");
    browser.act("fn main()", "React");
    browser.until("document.querySelector('.picker button')");
    browser.click(".picker button");
    browser.until("document.querySelector('.reaction')");
    browser.say("@staffai formula");
    browser.answer("formula");
    // A growing message is redrawn.
    browser.until("!document.querySelector('#messages .growing')");
    let stops = browser.run(STOPS).as_i64().expect("a number");
    assert!((5..=STOPS_MAX).contains(&stops), "{stops} stops of the Tab key");
    browser.say("@staffai clear the notes");
    browser.until("document.querySelector('#board .questions li')?.textContent.includes('approval of example__')");
    browser.say("/tools");
    browser.answer("example__");
    browser.run("[...document.querySelectorAll('button.actor')].find(one => one.textContent === 'journal').click()");
    // The newest turn waits for its approval.
    browser.run("[...document.querySelectorAll('#board .turn summary')].at(-1).click()");
    browser.until(
        "document.querySelector('.detail .law')?.innerText && document.querySelector('.travel-box:not([hidden])')",
    );
    browser.say_lines("| harbour | high water |\\n|---|:-:|\\n| *north* | 06:20 |\\n| south |\\nand more");
    browser.until(&format!("{LAST}.querySelectorAll('.table tbody tr').length === 2"));
    let cells = browser.run(&format!(
        "return [...{LAST}.querySelectorAll('.table th, .table td')].map(cell => cell.innerHTML).join(';')"
    ));
    assert_eq!(cells, "harbour;high water;<em>north</em>;06:20;south;");
    // An open turn has no button yet, and the board learns of its end a moment later.
    browser.until("document.querySelector('#board .turn[open] .replay')");
    browser.run("document.querySelector('#board .turn[open] .replay').click()");
    found.extend(browser.finds("a talk"));
    browser.speak_as("Chloe");
    browser.click("#join");
    found.extend(browser.finds("a member is added"));
    browser.click("#roles .ends .press");
    browser.run("document.querySelectorAll('.strikes button')[1].click()");
    browser.click("[data-trouble=model_slow]");
    browser.until("document.querySelector('li.hurt') && document.querySelector('.lasting')");
    found.extend(browser.finds("something broken"));
    for (view, (width, height)) in [(390, 844), (844, 390), (900, 800)].into_iter().enumerate() {
        browser.resize(width, height);
        // The actors, the members, the channels.
        browser.run(&format!("document.querySelectorAll('#board .view')[{view}].click()"));
        browser.until(&format!("{view} === 0 || document.querySelector('.people li')"));
        browser.until(&format!("innerWidth === {width}"));
        assert_eq!(browser.run("return document.documentElement.scrollWidth - innerWidth"), 0, "{width} wide");
        found.extend(browser.finds(&format!("{width} wide")));
    }
    browser.run("document.querySelector('#board .view').click()");
    browser.click("#tree-toggle");
    found.extend(browser.finds("the board that came"));
    browser.resize(1440, 900);
    browser.go(&format!("{url}/dashboard"));
    browser.until("document.querySelectorAll('#board .node').length > 10");
    found.extend(browser.finds("the dashboard"));
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}
