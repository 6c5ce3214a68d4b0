//! Fault injection on the page: the bot still answers.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::browser::{Browser, Running};
use crate::{LAST, playground, playground_with};

/// Number of strikes and other failures in a run; set by `STAFFAI_CHAOS_CLICKS`.
const CLICKS: usize = 60;
/// Timeout of all answers after the last click, and its increase per message: a channel takes one post per second.
const SETTLED: Duration = Duration::from_secs(150);
const EACH: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "who starts a longer run says how long")]
fn clicks() -> usize {
    std::env::var("STAFFAI_CHAOS_CLICKS").ok().and_then(|clicks| clicks.parse().ok()).unwrap_or(CLICKS)
}

/// The row of the tree with this name, for scripts.
fn row(actor: &str) -> String {
    format!(
        "[...document.querySelectorAll('#board .tree li')].find(row => row.querySelector('.name').textContent.startsWith('{actor}'))"
    )
}

/// Starts a playground with its page in a browser, fault injection enabled.
fn at_the_page(home: &Path) -> (Running, Browser) {
    let (program, url) = playground(home);
    let browser = Browser::open(home);
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.querySelectorAll('[data-trouble]').length === 6");
    (program, browser)
}

#[test]
fn an_actor_crashes_and_the_answer_arrives_all_the_same() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, browser) = at_the_page(home.path());

    browser.click(".mid-answer");
    // Half of the answer is shown when its conversation crashes; its neighbours are unaffected.
    let row_of_talk = row("conversation:");
    browser.until(&format!("{row_of_talk}?.classList.contains('hurt')"));
    browser.until("document.querySelectorAll('#board .tree .dot.good').length > 12");
    browser.until(&format!("{LAST}.innerText.includes('A sailor')"));
    let half = browser.run(&format!("return {LAST}.innerText"));
    assert!(half.as_str().is_some_and(|half| half.contains("A sailor") && !half.contains("The end.")), "{half}");
    browser.answer("finishes the letter. The end.");
    assert_eq!(answers(&browser), 1);
    counts(&browser, 1);
    // The crash is a mark in the text, between the words before and after it, and can be removed.
    let seams = "[...document.querySelectorAll('.seam-words')].map(one => one.textContent)";
    browser.until(&format!(
        "{seams}.length === 1 && /^conversation crashed here, continued after \\d+ ms$/.test({seams}[0])"
    ));
    let around = browser.run("const body = document.querySelector('.seam').closest('.body'); return body.innerText.split(document.querySelector('.seam').innerText).map(part => part.trim())");
    let around: Vec<&str> = around.as_array().expect("two parts").iter().filter_map(Value::as_str).collect();
    assert!(around.len() == 2 && around[0].starts_with("A sailor") && around[1].ends_with("The end."), "{around:?}");
    browser.run("document.querySelector('.seam-close').click()");
    assert_eq!(browser.run(&format!("return {seams}.length")), 0);
    // Its path shows the crash and the recovery.
    browser.run(&format!("{LAST}.querySelector('.path-of').click()"));
    browser.until(
        "document.querySelector('#board .turn[open] .path li.failed')?.innerText.includes('cut off, and asked again')",
    );
    let failed = browser
        .run("return [...document.querySelectorAll('#board .turn[open] .path li.failed')].map(step => step.innerText)");
    assert_eq!(failed.as_array().map(Vec::len), Some(1), "{failed}");

    // Clicks an actor.
    browser.until(&row("gateway"));
    browser.run(&format!("{}.querySelector('button.name').click()", row("gateway")));
    browser.until(&format!("{}.querySelectorAll('.strikes button').length === 3", row("gateway")));
    // Its last messages are named by their kinds, with the durations of their handlers, and not by their contents.
    browser.until("document.querySelector('.detail .last p')");
    let last = browser.run("return [...document.querySelectorAll('.detail .last p')].map(one => one.textContent)");
    let last: Vec<&str> = last.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let named = |line: &&str| line.starts_with("Received") && line.ends_with("ago") && line.contains('s');
    assert!(!last.is_empty() && last.len() <= 8 && last.iter().all(named), "{last:?}");
    let facts = browser.run("return document.querySelector('.detail .facts').innerText");
    assert!(facts.as_str().is_some_and(|facts| facts.contains(" handled in ")), "{facts}");
    browser.run(&format!("{}.querySelector('.strikes button').click()", row("gateway")));
    browser.until(&format!("{}.classList.contains('hurt')", row("gateway")));
    browser.until(&format!("{}.querySelector('.state').textContent.startsWith('crashed, back after')", row("gateway")));
    browser.until(&format!("!{}.classList.contains('hurt')", row("gateway")));
    browser.say("@staffai hello!");
    browser.answer("model");
    assert_eq!(answers(&browser), 2);
    counts(&browser, 2);

    // A slow model is shown as such, and recovers by itself.
    browser.click("[data-trouble=model_slow]");
    browser.until("document.querySelector('[data-trouble=model_slow]').innerText.startsWith('Model slow, ')");
    browser.until("document.querySelector('[data-trouble=model_slow]').innerText === 'Model slow'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_model_that_goes_down_in_the_middle_of_an_answer_leaves_it_whole() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, browser) = at_the_page(home.path());
    browser.say("@staffai tell me a tale");
    browser.at_the_words("A sailor", "document.querySelector('[data-trouble=model_down]').click()");
    browser.answer("finishes the letter. The end.");
    let whole = browser.run(&format!("return {LAST}.querySelector('.body').innerText"));
    let whole = whole.as_str().expect("the answer");
    assert!(whole.matches("A sailor").count() == 1 && !whole.contains("Sorry"), "{whole}");
    assert_eq!(answers(&browser), 1);
    browser.say("@staffai hello!");
    browser.answer("model");
    // Its path names the row that wrote the rest.
    browser.run("document.querySelector('.path-of').click()");
    browser.until("document.querySelector('#board .turn[open] .path')?.innerText.includes('staffai-demo-spare')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn counts_and_buttons_tell_of_what_happened_and_stay_where_they_are() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, browser) = at_the_page(home.path());
    browser.click(".mid-answer");
    browser.answer("The end.");
    counts(&browser, 1);
    browser.until("document.querySelector('#board .tree-box')?.closest('section, .board-inner, #board').innerText.includes('1 restart')");

    let places = "return JSON.stringify([...document.querySelectorAll('.troubles .trouble')].map(one => one.getBoundingClientRect()))";
    let before = browser.run(places);
    browser.click("[data-trouble=model_slow]");
    browser.until("document.querySelector('[data-trouble=model_slow].lasting')");
    assert_eq!(browser.run(places), before, "a countdown moves no button");
    browser.until("!document.querySelector('.trouble.lasting')");
    assert_eq!(browser.run(places), before);

    // A second freeze does not show the recovery from the first strike.
    let (row, state) = (row("gateway"), format!("{}.querySelector('.state').textContent", row("gateway")));
    browser.run(&format!("{row}.querySelector('button.name').click()"));
    browser.until(&format!("{row}.querySelectorAll('.strikes button').length === 3"));
    browser.run(&format!("{row}.querySelector('.strikes button').click()"));
    browser.until(&format!("{state}.startsWith('crashed, back after')"));
    browser.until(&format!("!{row}.classList.contains('hurt')"));
    std::thread::sleep(Duration::from_secs(2));
    let heard = format!(
        "(new MutationObserver(() => (window.told ??= []).push({state}))).observe({row}, {{ subtree: true, childList: true, characterData: true }})"
    );
    browser.run(&heard);
    browser.run(&format!("{row}.querySelectorAll('.strikes button')[1].click()"));
    browser.until(&format!("{state}.startsWith('frozen')"));
    browser.until(&format!("{state}.startsWith('frozen, back after')"));
    let told = browser.run("return (window.told ?? []).filter(text => text.startsWith('frozen'))");
    let first = told[0].as_str().expect("a word about it");
    assert!(!first.contains("back after"), "{told}");
}

/// Returns the number of the bot's messages in this channel.
fn answers(browser: &Browser) -> u64 {
    let count =
        "return [...document.querySelectorAll('#messages > .message')].filter(one => one.querySelector('.tag')).length";
    browser.run(count).as_u64().expect("a count")
}

#[test]
fn a_killed_bot_is_started_again_and_what_was_said_outlives_bot_and_playground() {
    let home = tempfile::tempdir().expect("a folder");
    let (program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.querySelector('#board .pill')?.textContent === 'ready'");
    browser.say("@staffai tell me a tale");
    browser.at_the_words("A sailor", "document.querySelector('[data-trouble=kill_bot]').click()");
    // The bot is grey, its tree is red, and the chat works.
    browser.until("document.querySelector('#board.stale .pill.down')");
    browser.until("document.querySelector('#bots .presence.offline')");
    assert_eq!(browser.run("return document.getElementById('link').textContent"), "connected");
    browser.answer("The end.");
    browser.until("document.querySelector('#board .pill')?.textContent === 'ready'");
    browser.until("document.querySelector('#board .state-note').textContent.includes('back after')");
    browser.until("!document.querySelector('#bots .presence.offline')");
    counts(&browser, 1);
    assert_eq!(answers(&browser), 1);
    // The kill is a mark in the answer.
    browser.until(
        "document.querySelector('.seam-words')?.textContent.startsWith('the bot was killed here, continued after ')",
    );
    // The next process numbers its turns from 1: no dot of the last one remains, and the answer leads to its own turn.
    browser.until("!document.querySelector('.traveller')");
    browser.run(&format!("{LAST}.querySelector('.path-of').click()"));
    browser.until("document.querySelector('#board .turn[open] .path')?.innerText.includes('outbox')");

    // A kill leaves no time to write, so the test waits until the answer is on disk.
    let chat = home.path().join("data/playground/chat.json");
    let written = || std::fs::read_to_string(&chat).is_ok_and(|chat| chat.contains("The end."));
    let begun = Instant::now();
    while !written() {
        assert!(begun.elapsed() < SETTLED, "the chat is not written");
        std::thread::sleep(Duration::from_millis(25));
    }
    drop(program);
    browser.until("document.getElementById('link').textContent !== 'connected'");
    let (_program, url) = playground(home.path());
    browser.go(&format!("{url}/"));
    browser.answer("The end.");
    assert_eq!(answers(&browser), 1);
    browser.say("@staffai hello!");
    browser.answer("model");
    assert_eq!(answers(&browser), 2, "nothing is answered again");
}

fn counts(browser: &Browser, crashes: u32) {
    browser.until(&format!(
        "document.querySelector('.chaos-counts').textContent === 'crashes {crashes} · lost 0 · doubled 0'"
    ));
}

/// Clicks a strike at an actor or, with a chance of 30 %, another failure. The page's server may be down.
fn click_somewhere(browser: &Browser, dice: &mut Dice) {
    let (which, kind) = (dice.roll(), dice.roll());
    let script = if dice.roll() % 10 < 3 {
        format!(
            "const all = [...document.querySelectorAll('.troubles .trouble')]; all[{which} % all.length].click(); return true"
        )
    } else {
        format!(
            "const all = [...document.querySelectorAll('#board button.actor')]; const name = all[{which} % all.length]; \
             if (name.getAttribute('aria-expanded') !== 'true') name.click(); \
             const strikes = name.closest('li').querySelectorAll('.strikes button'); strikes[{kind} % strikes.length]?.click(); return true"
        )
    };
    browser.run(&script);
}

/// Sends a message as a member; returns its id, unless the page's server is down.
fn say_somewhere(browser: &Browser, dice: &mut Dice, number: usize) -> Option<String> {
    let (who, channel) = (dice.roll(), dice.roll());
    let script = format!(
        "const done = arguments[0]; (async () => {{ const state = await (await fetch('/playground/state')).json(); \
         const people = state.members.filter(one => !one.bot); const places = state.channels.filter(one => one.kind === 'text'); \
         const said = await fetch('/playground/messages', {{ method: 'POST', headers: {{ 'Content-Type': 'application/json' }}, \
         body: JSON.stringify({{ member: people[{who} % people.length].id, channel: places[{channel} % places.length].id, \
         text: `<@${{state.bot}}> echo number {number}` }}) }}); return (await said.json()).id; }})().then(done, () => done(null))"
    );
    browser.run_async(&script).as_str().map(str::to_owned)
}

/// Returns the number of the bot's answers to each of these, by the chat service.
fn answered(browser: &Browser, said: &BTreeSet<String>) -> Option<Vec<(String, usize)>> {
    let script = "const done = arguments[0]; fetch('/playground/state').then(told => told.json()).then(state => done(\
                  Object.values(state.messages).flat().filter(one => one.author === state.bot).map(one => one.reply_to))).catch(error => done(String(error)))";
    let replies = browser.run_async(script);
    let replies: Vec<&str> = replies.as_array()?.iter().filter_map(Value::as_str).collect();
    let count = |id: &String| replies.iter().filter(|reply| *reply == id).count();
    Some(said.iter().map(|id| (id.clone(), count(id))).collect())
}

#[test]
fn random_clicks_lose_nothing_and_double_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    // A message over a limit or behind a full lane gets one notice instead of an answer.
    let limits =
        [("RATE_LIMIT_COUNT", "100000"), ("TOKEN_RATE_LIMIT_COUNT", "100000000"), ("STAFFAI_TURN__LANE", "1000")];
    let (_program, url) = playground_with(home.path(), &limits);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.querySelectorAll('#board button.actor').length > 10");
    let clicks = clicks();

    let (mut dice, mut said) = (Dice(20_261_122), BTreeSet::new());
    for number in 0..clicks {
        said.extend(say_somewhere(&browser, &mut dice, number));
        click_somewhere(&browser, &mut dice);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(said.len() > clicks / 2, "{} of {clicks} were said", said.len());
    let (begun, within) = (Instant::now(), SETTLED + EACH * u32::try_from(said.len()).unwrap_or(u32::MAX));
    let counted = loop {
        let counted = answered(&browser, &said).unwrap_or_default();
        let all = !counted.is_empty() && counted.iter().all(|(_, times)| *times > 0);
        if all || begun.elapsed() > within {
            break counted;
        }
        std::thread::sleep(Duration::from_millis(250));
    };
    let lost: Vec<_> = counted.iter().filter(|(_, times)| *times == 0).collect();
    let doubled: Vec<_> = counted.iter().filter(|(_, times)| *times > 1).collect();
    let told = browser.run("return document.querySelector('.chaos-counts').textContent");
    eprintln!(
        "{clicks} clicks, {} messages, answered {} s after the last click: lost {}, doubled {}; the page says {told}",
        said.len(),
        begun.elapsed().as_secs(),
        lost.len(),
        doubled.len()
    );
    assert_eq!(counted.len(), said.len(), "the chat service does not tell");
    assert!(lost.is_empty() && doubled.is_empty(), "lost {lost:?}, doubled {doubled:?}");
    browser.until(
        "/^crashes [1-9][0-9]* · lost 0 · doubled 0$/.test(document.querySelector('.chaos-counts').textContent)",
    );
}

/// Length of the run of chaos in seconds; set by `STAFFAI_CHAOS_SECONDS`. The page's own length is 60.
const STORM: u64 = 6;

#[expect(clippy::disallowed_methods, reason = "who starts a longer run says how long")]
fn storm() -> u64 {
    std::env::var("STAFFAI_CHAOS_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(STORM)
}

#[test]
fn a_run_of_chaos_ends_with_a_card_that_shows_nothing_lost_and_nothing_doubled() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    assert_eq!(browser.until("document.querySelector('.storm-start')?.innerText"), "Chaos for 60 seconds");
    let seconds = storm();
    browser.go(&format!("{url}/?chaos={seconds}"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.querySelectorAll('[data-trouble]').length === 6");
    // A turn that waits for an approval does not delay the card.
    browser.say("@staffai clear the notes");
    browser.until("document.querySelector('#board .questions li')?.textContent.includes('approval of example__')");
    browser.click(".storm-start");
    browser.until("/^Chaos, \\d+ s left: \\d+ strikes, /.test(document.getElementById('storm-words').textContent)");
    let begun = Instant::now();
    while browser.run("return document.getElementById('card').open") != true {
        assert!(begun.elapsed() < SETTLED + Duration::from_secs(seconds), "the run does not end");
        std::thread::sleep(Duration::from_millis(250));
    }
    let words = browser.run("return document.querySelector('#card canvas').ariaLabel");
    let words = words.as_str().expect("the card in words");
    eprintln!("{words}");
    for part in [format!("{seconds} seconds of chaos"), "lost 0, doubled 0, slowest answer".to_owned()] {
        assert!(words.contains(&part), "{words}");
    }
    let counts = browser.run("return JSON.parse(document.getElementById('card').dataset.counts)");
    let many = |name: &str| counts[name].as_u64().unwrap_or_default();
    assert!(many("strikes") > 2 && many("crashes") > 0 && many("asked") > 2, "{counts}");
    assert_eq!(many("asked"), many("answered"), "{counts}");
    // The picture is drawn, and saved under its own name.
    let saved = "const done = arguments[0]; HTMLAnchorElement.prototype.click = function () { fetch(this.href).then(file => file.blob()).then(file => done([this.download, file.type, file.size]), () => done([this.download])) }; \
                 document.querySelector('#card .style-1').click()";
    let saved = browser.run_async(saved);
    assert!(saved[0].as_str().is_some_and(|name| name.starts_with("staffai-chaos-")), "{saved}");
    assert_eq!(browser.finds("the card"), Vec::<String>::new());
}

/// Reproducible random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
