//! The playground in a real browser, with clicks and keys.

mod accessible;
mod browser;
mod chaos;
mod cluster;
mod examples;
mod models;
mod past;
mod settings;
mod setup;
mod spoken;
mod starts;
mod tour;
mod voice;
mod workspace;

use std::path::Path;
use std::process::Command;

use browser::{Browser, Running, start};
use serde_json::Value;

/// The key that sends.
const ENTER: &str = "\u{e007}";
/// The key that edits the last message.
const UP: &str = "\u{e013}";
/// One red dot.
const PICTURE: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Starts the playground on a free port and returns its address.
fn playground(home: &Path) -> (Running, String) {
    playground_with(home, &[])
}

/// Returns the command of a playground on a free port.
fn program(home: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command.args(["--log-format", "json", "playground"]).current_dir(home).env_clear();
    command.env("RESPONSE_CHANCE", "0").env("HOME", home).env("STAFFAI_HTTP_ADDR", "127.0.0.1:0");
    command.envs(variables.iter().copied());
    command
}

/// Starts it with these further variables.
fn playground_with(home: &Path, variables: &[(&str, &str)]) -> (Running, String) {
    start(&mut program(home, variables), |line| {
        line.strip_prefix("open ").map(|url| url.trim_end_matches('/').to_owned())
    })
}

/// The newest message, for scripts.
const LAST: &str = "[...document.querySelectorAll('#messages > .message')].at(-1)";

impl Browser {
    fn say(&self, text: &str) {
        self.keys("#draft", text);
        self.keys("#draft", ENTER);
    }

    /// Sends a message of several lines; `text` is the inside of a script's string.
    fn say_lines(&self, text: &str) {
        self.run(&format!("document.getElementById('draft').value = '{text}'"));
        self.keys("#draft", ENTER);
    }

    /// Waits for a last message of the bot with this text.
    fn answer(&self, part: &str) {
        self.until(&format!(
            "(last => last?.querySelector('.tag') && last.innerText.includes({}))({LAST})",
            Value::from(part)
        ));
    }

    /// Waits for these words in the last message of the bot and runs a script in the same moment.
    /// A growing answer would end before a click that comes through the driver on a loaded machine.
    fn at_the_words(&self, part: &str, script: &str) {
        let there =
            format!("(last => last?.querySelector('.tag') && last.innerText.includes({}))({LAST})", Value::from(part));
        self.until(&format!("{there} && (({script}), true)"));
    }

    /// Waits until the board shows this actor as running.
    fn shows_running(&self, actor: &str) {
        self.until(&format!(
            "[...document.querySelectorAll('#board .node')].some(node => node.querySelector('.name').textContent === '{actor}' && node.querySelector('.dot.good'))"
        ));
    }

    fn speak_as(&self, name: &str) {
        self.run(&format!("[...document.querySelectorAll('.voice')].find(voice => voice.innerText.includes('{name}')).querySelector('input').click()"));
    }

    fn enter(&self, place: &str) {
        self.run(&format!("[...document.querySelectorAll('.place')].find(place => place.querySelector('.place-name').textContent === '{place}').click()"));
        self.until(&format!("document.getElementById('channel').innerText.includes('{place}')"));
    }

    /// Presses an action of the newest message with this text.
    fn act(&self, text: &str, action: &str) {
        self.run(&format!(
            "[...[...document.querySelectorAll('#messages > .message')].filter(one => one.querySelector('.body').innerText.includes('{text}')).at(-1)\
             .querySelectorAll('.actions button')].find(button => button.innerText === '{action}').click()"
        ));
    }
}

#[test]
fn a_user_goes_through_the_playground() {
    let home = tempfile::tempdir().expect("a folder");
    let (mut program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected' && document.querySelectorAll('.place').length === 3");

    people_talk(&browser);
    threads_and_files(&browser, home.path());
    a_moderator_gives_a_role(&browser);
    a_command_is_answered_in_private(&browser);
    the_board_shows_it(&browser);
    for (width, height) in [(1440, 900), (900, 800), (390, 844)] {
        browser.resize(width, height);
        browser.until(&format!("innerWidth === {width}"));
        assert_eq!(browser.run("return document.documentElement.scrollWidth - innerWidth"), 0, "{width} wide");
    }

    colours_and_arrows(&browser);
    let requests = browser.requests();
    assert!(requests.len() > 20, "the requests are seen");
    for request in requests {
        assert!(request.starts_with(&format!("{url}/")), "{request} leads elsewhere");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());

    // The tab stays open: its event stream must not delay the shutdown.
    let told = Command::new("kill").arg("-TERM").arg(program.0.id().to_string()).status();
    assert!(told.expect("a signal").success());
    assert_eq!(program.0.wait().expect("an end").code(), Some(0));
    browser.until("document.getElementById('link').textContent !== 'connected'");
}

fn colours_and_arrows(browser: &Browser) {
    browser.resize(1440, 900);
    let paper = || browser.run("return getComputedStyle(document.body).backgroundColor");
    let as_the_system = paper();
    browser.click("#theme");
    assert_ne!(paper(), as_the_system, "dark");
    browser.go(browser.run("return location.href").as_str().expect("an address"));
    browser.until("document.documentElement.dataset.theme === 'dark'");
    browser.click("#theme");
    assert_eq!(paper(), as_the_system, "light");
    browser.click("#theme");
    browser.until("!document.documentElement.dataset.theme");
    browser.until("document.querySelectorAll('#messages > .message').length > 2");
    browser.keys("#scroll", UP);
    browser.run("window.first = document.activeElement");
    browser.until("first === [...document.querySelectorAll('#messages > .message')].at(-1)");
    browser.keys("#messages > .message:last-child", UP);
    browser.until("document.activeElement === [...document.querySelectorAll('#messages > .message')].at(-2)");
}

fn people_talk(browser: &Browser) {
    browser.run(
        "window.typed = []; new MutationObserver(() => typed.push(document.getElementById('typing').innerText))\
         .observe(document.getElementById('typing'), { childList: true, subtree: true })",
    );
    // Typing anywhere goes into the box.
    browser.keys("body", "@staffai hello!");
    browser.keys("#draft", ENTER);
    browser.answer("model");
    assert_eq!(browser.run("return typed.some(text => text.includes('staffai is typing'))"), true);

    browser.act("model", "Reply");
    browser.say("help");
    browser.answer("I am the demo model");
    // An idle conversation ends after a while, so it is checked while it is in use.
    browser.shows_running("conversation:#general");
    let quote = browser.until(&format!("{LAST}.querySelector('.quoted')?.innerText"));
    assert!(quote.as_str().is_some_and(|quote| quote.contains("Ada") && quote.contains("help")), "{quote}");

    // A search shows the messages with the words, and the end of the search all of them.
    let seen = "[...document.querySelectorAll('#messages > .message')].filter(one => one.checkVisibility()).length";
    let all = browser.run(&format!("return {seen}"));
    browser.keys("#search", "I am the demo model");
    browser.until(&format!("{seen} === 1 && document.getElementById('found').textContent === '1 message'"));
    browser.keys("#search", "\u{e00c}");
    browser.until(&format!("{seen} === {all} && document.getElementById('search').value === ''"));
    // Any emoji of the system is a reaction.
    browser.until("!document.querySelector('#messages .growing')");
    browser.act("I am the demo model", "React");
    browser.run("const field = document.querySelector('.any-emoji'); field.value = '🧭'; field.dispatchEvent(new Event('input'))");
    browser.until(&format!("{LAST}.querySelector('.reaction')?.innerText.includes('🧭')"));

    browser.speak_as("Ben");
    browser.enter("help");
    browser.say("ahoy from Ben");
    browser.until(&format!("{LAST}?.innerText.includes('ahoy from Ben')"));
    browser.keys("#draft", UP);
    browser.until("document.getElementById('draft').value === 'ahoy from Ben'");
    browser.say(", and on");
    browser.until(&format!("{LAST}.innerText.includes('ahoy from Ben, and on') && {LAST}.querySelector('.edited')"));
    browser.say("@staffai show me some code");
    browser.answer("fn main()");
    browser.shows_running("conversation:#help");
}

fn threads_and_files(browser: &Browser, home: &Path) {
    browser.act("ahoy from Ben", "Thread");
    browser.until("!document.getElementById('back').hidden && document.getElementById('channel').innerText.includes('ahoy from Ben')");
    browser.say("@staffai hello!");
    browser.answer("model");
    browser.click("#back");
    browser.until("document.querySelector('.thread-chip')?.innerText.includes('2 messages')");

    let picture = home.join("dot.gif");
    std::fs::write(&picture, PICTURE).expect("a file");
    browser.keys("#picker", picture.to_str().expect("a path"));
    browser.until("document.querySelector('#files .file-name')?.textContent === 'dot.gif'");
    browser.keys("#draft", ENTER);
    browser.until(&format!("{LAST}.querySelector('img.picture')?.naturalWidth === 1"));
    browser.until("document.getElementById('files').hidden");
}

fn a_moderator_gives_a_role(browser: &Browser) {
    assert_eq!(browser.run("return document.querySelectorAll('.roles-of').length"), 0, "Ben is no moderator");
    browser.speak_as("Chloe");
    browser.until("document.querySelectorAll('.roles-of').length === 3");
    browser.click(".roles-of");
    browser.run("[...document.querySelectorAll('.role-row')].find(row => row.innerText.includes('moderator')).querySelector('input').click()");
    browser.until("document.querySelector('.voice .note').textContent === 'moderator'");
    browser.click("#roles .press");
    browser.until("!document.getElementById('roles').open");
}

fn a_command_is_answered_in_private(browser: &Browser) {
    browser.say("/usage user:unknown");
    browser.until("document.getElementById('problem').innerText.includes('does not fit')");
    browser.until("document.getElementById('draft').value === '/usage user:unknown'");
    browser.run("document.getElementById('draft').value = ''");
    browser.say("/usage user:@Ben");
    browser.until(&format!("{LAST}.querySelector('.quote')?.innerText.includes('used /usage')"));
    browser
        .until(&format!("{LAST}.innerText.includes('has used') && {LAST}.innerText.includes('Only you can see this')"));
    browser.until("document.getElementById('problem').hidden");
    browser.act("has used", "Dismiss");
    browser.until("!document.getElementById('messages').innerText.includes('used /usage')");
    browser.speak_as("Ada");
    browser.keys("#draft", "/");
    browser.until("document.getElementById('suggest').innerText.includes('/usage')");
    let offered = browser.run("return document.getElementById('suggest').innerText");
    assert!(!offered.as_str().is_some_and(|offered| offered.contains("/status")), "it is for administrators");
    // An optional option that is not given does not block the command.
    browser.say("usage");
    browser.until(&format!("{LAST}.innerText.includes('You have used')"));
    browser.act("You have used", "Dismiss");
    browser.until("!document.getElementById('messages').innerText.includes('used /usage')");
    // The refused command is one line of the browser's own.
    let complaints = browser.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("400"), "{complaints:?}");
}

#[test]
fn a_message_is_followed_through_the_tree_and_its_path_is_shown() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.querySelectorAll('#board button.actor').length > 10");
    browser.until("document.querySelector('#board .pill').textContent === 'ready'");
    browser.run(
        "window.been = new Set(); new MutationObserver(() => document.querySelectorAll('.traveller').forEach(dot => been.add(dot.style.translate)))         .observe(document.querySelector('.tree-box'), { subtree: true, childList: true, attributes: true })",
    );
    browser.say("@staffai roll 2d6");
    browser.answer("Rolled 2d6");
    // Shard, gateway, journal, limiter, conversation, model, tools, and finally the outbox.
    browser.until("been.size >= 8 && !document.querySelector('.traveller')");
    browser.say("@staffai hello!");
    browser.answer("model");

    browser.act("Rolled", "Path");
    browser.until("document.querySelectorAll('#board .turn[open]').length === 1");
    let path = browser.run("return document.querySelector('#board .turn[open] .path').innerText");
    let path = path.as_str().expect("a path");
    let mut rest = path;
    for stop in [
        "discord",
        "gateway",
        "journal",
        "rate_limiter",
        "conversation",
        "llm_dispatcher",
        "tools",
        "roll_dice",
        "llm_dispatcher",
        "outbox:discord",
    ] {
        rest = rest.split_once(stop).unwrap_or_else(|| panic!("no {stop} in its place: {path}")).1;
    }
    assert!(path.contains(" in, ") && path.contains("ms"), "{path}");
    // A hop of less than a millisecond shows its microseconds.
    let hops = browser.run("return [...document.querySelectorAll('#board .turn[open] .path li')].filter(line => / [µm]?s$/.test(line.querySelector('.took').innerText)).length === document.querySelectorAll('#board .turn[open] .path li').length && document.querySelector('#board .turn[open] .path').innerText.includes(' µs')");
    assert_eq!(hops, true, "{path}");
    // Each line has a duration, and those after the first have a beginning.
    let times = "[...document.querySelectorAll('#board .turn[open] .path li')].map(line => [line.querySelector('.began').innerText, line.querySelector('.took').innerText])";
    let timed =
        format!("{times}.every(([began, took], n) => /(ms|s)$/.test(took) && (n < 3 || began.startsWith('+')))");
    assert_eq!(browser.run(&format!("return {timed}")), true, "{}", browser.run(&format!("return {times}")));
    // A replay goes through all lines, in their order.
    browser.run(
        "window.lit = []; new MutationObserver(() => { const now = document.querySelector('.path li.now'); if (now && lit.at(-1) !== now) lit.push(now) })\
         .observe(document.querySelector('#board .turn[open] .path'), { subtree: true, attributes: true })",
    );
    browser.run("document.querySelector('#board .turn[open] .replay').click()");
    browser.until("document.querySelector('.traveller.replayed')");
    browser.until("!document.querySelector('.traveller.replayed')");
    assert_eq!(
        browser.run("return lit.length === document.querySelectorAll('#board .turn[open] .path li').length && !document.querySelector('.path li.now')"),
        true
    );
    browser.until("document.querySelectorAll('#board .turn[open] .said').length >= 3");
    browser.run("document.querySelectorAll('#board .turn[open] .said').forEach(one => one.open = true)");
    let said = browser.run("return document.querySelector('#board .turn[open] .texts-of-turn').innerText");
    for part in ["roll 2d6", "wants", "roll_dice", "raw answer", "llm.called", "Log: "] {
        assert!(said.as_str().is_some_and(|said| said.contains(part)), "no {part} in {said}");
    }
}

#[test]
fn the_board_shows_the_use_by_day_member_tool_and_experiment() {
    let home = tempfile::tempdir().expect("a folder");
    let prompts = home.path().join("prompts");
    for name in ["plain", "warm"] {
        let folder = prompts.join("profiles").join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("personality_prompt.txt"), "You are an assistant.").expect("a file");
    }
    let variables = [
        ("STAFFAI_PROMPTS_DIR", prompts.to_str().expect("a path")),
        ("STAFFAI_LLM__EXPERIMENTS", "[{name = 'tone', profiles = ['plain 50', 'warm 50']}]"),
    ];
    let (_program, url) = playground_with(home.path(), &variables);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.querySelector('#board .pill').textContent === 'ready'");
    assert_eq!(
        browser.run("return document.querySelectorAll('#board .by-day li').length"),
        0,
        "nothing is read while it is closed"
    );
    browser.say("@staffai roll 2d6");
    browser.answer("Rolled 2d6");
    browser.speak_as("Ben");
    browser.say("@staffai hello!");
    browser.answer("model");
    // The figures of experiments are stored some seconds after an answer, and the board reads them rarely.
    browser.run(
        "window.answers = 0; (async function poll() { \
         const { arms } = await (await fetch('/api/v1/experiments')).json(); \
         window.answers = arms.reduce((sum, arm) => sum + arm.answers, 0); \
         if (answers < 2) setTimeout(poll, 500); })()",
    );
    browser.until("window.answers === 2");
    browser.click("#board details.use summary");
    browser.until("document.querySelectorAll('#board .by-day li').length >= 6");
    let lines = browser.run("return [...document.querySelectorAll('#board .by-day li')].map(line => [...line.children].map(part => part.textContent).join(' | '))");
    let lines: Vec<String> = serde_json::from_value(lines).expect("texts");
    let has = |begin: &str, part: &str| lines.iter().any(|line| line.starts_with(begin) && line.contains(part));
    for (begin, part) in [
        ("2", "2 messages"),
        ("Ada", "1 message | "),
        ("Ben", "1 message | "),
        ("roll_dice", "1 call | 1 member"),
        ("Experiments", "by arm"),
        ("tone: ", "answered; "),
    ] {
        assert!(has(begin, part), "{begin} {part}: {lines:#?}");
    }
    let found = browser.finds("the use by day");
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The tiles and columns of the board without a tooltip.
const UNEXPLAINED: &str = "return [...document.querySelectorAll('.tile, .turn-head > *, .node > :not(.branch), .parts li > *, .meters li > *, .spent li > *, \
                           .key > *, .legend > *, .spark-row, .part-head h3, .chaos-counts strong, #board .pill, .detail .facts, .detail .law')]\
                           .filter(one => !one.closest('[title]')?.title).map(one => one.className || one.tagName)";

fn the_board_shows_it(browser: &Browser) {
    for actor in ["journal", "outbox:discord", "shard:0"] {
        browser.shows_running(actor);
    }
    browser.until("document.querySelectorAll('#board .turn.replied').length === 4");
    browser.until("[...document.querySelectorAll('#board .bar')].every(bar => bar.querySelector('.model'))");
    browser.until("document.querySelector('#board .pill').textContent === 'ready'");
    browser.run("document.querySelector('#board .turn summary').click()");
    browser.until("document.querySelector('#board .more-of-turn').innerText.includes('staffai-demo')");
    browser.run("[...document.querySelectorAll('button.actor')].find(one => one.textContent === 'journal').click()");
    browser.until("document.querySelector('.detail .spark-row') && document.querySelector('.parts li') && document.querySelector('.spent li')");
    assert_eq!(browser.run(UNEXPLAINED), Value::from(Vec::<String>::new()));
    assert_eq!(
        browser.run("return [...document.querySelectorAll('.tile.fine dd')].map(one => one.innerText).join()"),
        "0,0"
    );
}

fn an_answer_is_stopped_and_asked_for_again(browser: &Browser) {
    browser.say("@staffai tell me a tale");
    // A growing answer is not shown as edited, and ends with a cursor.
    browser.until(&format!("{LAST}?.matches('.growing')"));
    let edited = format!("window.edited = {LAST}.querySelector('.edited')");
    browser.at_the_words("A sailor", &format!("{edited}, document.getElementById('stop').click()"));
    assert_eq!(browser.run("return window.edited"), Value::Null);
    browser.until("document.getElementById('draft').value === '@staffai tell me a tale'");
    browser.until("document.getElementById('stop').hidden");
    // The partial answer is removed with its question.
    browser.until(&format!("!{LAST}.innerText.includes('A sailor') && !{LAST}.innerText.includes('not shown here')"));
    browser.run("document.getElementById('draft').value = ''");
    browser.say("@staffai hello!");
    browser.answer("model");
    let again = format!("[...{LAST}.querySelectorAll('.actions button')].find(one => one.innerText === 'Try again')");
    browser.until(&again);
    let before = browser.run("return document.querySelectorAll('#messages > .message').length");
    browser.run(&format!("{again}.click()"));
    browser.until(&format!("document.querySelectorAll('#messages > .message').length === {before} + 2"));
    browser.answer("model");
}

#[test]
fn who_is_locked_out_by_a_first_key_is_told_and_keeps_what_was_typed() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command.args(["key", "add", "ada", "--right", "operate"]).current_dir(home.path()).env_clear();
    let added = command.env("STAFFAI_DATA_DIR", "data/playground").output().expect("a key");
    let printed = String::from_utf8_lossy(&added.stdout).into_owned();
    let key = printed.split_whitespace().find(|word| word.starts_with("sk-staffai-")).expect("a key").to_owned();
    browser.until("document.querySelector('#board .pill').textContent === 'needs a key'");

    browser.say("@staffai hello!");
    browser.until("document.getElementById('problem').innerText.includes('needs a key now')");
    browser.until("document.getElementById('draft').value === '@staffai hello!'");
    browser.until("document.getElementById('link').textContent === 'needs a key'");
    // After the key is entered the draft is still there.
    browser.go(&format!("{}/dashboard", url.replace("http://", &format!("http://ada:{key}@"))));
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.getElementById('draft').value === '@staffai hello!'");
    browser.click("#send");
    browser.answer("model");
}

#[test]
fn every_kind_of_answer_is_shown() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    let shown = |word: &str, condition: &str| {
        browser.say(&format!("@staffai {word}"));
        browser.until(&format!("(last => last?.querySelector('.tag') && {condition})({LAST})"));
    };
    shown("formula", "last.querySelector('img.picture')?.naturalWidth > 150");
    assert_eq!(
        browser.run(&format!("return {LAST}.querySelector('img.picture').alt")),
        r"\int_0^1 x^2\,dx = \frac{1}{3}"
    );
    shown("code", "last.querySelector('figure.code figcaption')?.innerText.includes('rust')");
    shown("run", "last.querySelectorAll('figure.code').length === 2");
    shown("output", "last.querySelector('figure.code')?.innerText.includes('berths')");
    shown("link", "last.querySelector('.embed a')?.href.startsWith('https://example.com/')");
    shown("gif", "last.querySelector('.embed')?.innerText.includes('harbour-wave.gif')");
    shown("file", "last.querySelector('a.file[download]')?.innerText.includes('code.py')");
    let file = browser.run(&format!("return {LAST}.querySelector('a.file').getAttribute('href')"));
    assert!(file.as_str().is_some_and(|path| path.starts_with("/playground/files/")), "{file}");
    for request in browser.requests() {
        assert!(request.starts_with(&format!("{url}/")), "{request} leads elsewhere");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn tools_can_be_tried() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("[...document.querySelectorAll('.idea')].some(idea => idea.innerText.includes('roll 2d6'))");
    browser.run("[...document.querySelectorAll('.idea')].find(idea => idea.innerText.includes('roll 2d6')).click()");
    browser.answer("Rolled 2d6");
    browser.say("roll 2d6");
    browser.until("document.getElementById('hint').innerText.includes('mention @staffai')");
    browser.say("/tolls");
    browser.until("document.getElementById('problem').innerText.includes('There is no command /tolls')");
    browser.run("document.getElementById('draft').value = ''");
    browser.say("/tools");
    browser.answer("example__add_note");
    browser.say("@staffai add a note: buy rope");
    browser.answer("buy rope");
    browser.say("@staffai list the notes");
    browser.answer("notes of the example server");
    let pressed = |label: &str| {
        let button =
            format!("[...document.querySelectorAll('.buttons button')].find(one => one.innerText === '{label}')");
        browser.until(&button);
        browser.run(&format!("{button}.click()"));
    };
    let told =
        |words: &str| browser.until(&format!("document.getElementById('messages').innerText.includes('{words}')"));
    browser.say("@staffai clear the notes");
    pressed("Deny");
    told("Denied: it does not run.");
    told("You said no, so example__clear_notes did not run.");
    // There are no arguments to show, and no text meant for a model.
    let shown = browser.run("return document.getElementById('messages').innerText");
    assert!(shown.as_str().is_some_and(|shown| !shown.contains("{}") && !shown.contains("Do not call")), "{shown}");
    browser.until("document.querySelectorAll('.buttons button').length === 0");
    browser.say("@staffai clear the notes");
    // Only the asking member can decide.
    browser.until("document.querySelectorAll('.buttons button').length === 3");
    browser.speak_as("Ben");
    pressed("Approve");
    told("can decide this");
    browser.speak_as("Ada");
    pressed("Approve");
    told("All notes are gone; there were 1.");
    a_form_of_a_tool_is_filled_in_by_the_member_who_asked(&browser);
    browser.say("@staffai remember that I like tea");
    browser.answer("for you alone");
    browser.say("@staffai what do you know about me?");
    browser.answer("You told me here:");
    let facts = browser.run(&format!("return {LAST}.innerText"));
    assert!(facts.as_str().is_some_and(|facts| facts.contains("I like tea") && !facts.contains('[')), "{facts}");
    an_answer_is_stopped_and_asked_for_again(&browser);
    browser.say("@staffai draw a boat at sunset");
    browser.answer("drew this");
    browser.until(&format!("{LAST}.querySelector('img.picture')?.naturalWidth === 320"));
}

/// The example server asks: only the member who asked gets its form, a misfit is told, and the answer reaches the tool.
fn a_form_of_a_tool_is_filled_in_by_the_member_who_asked(browser: &Browser) {
    let pressed = |label: &str| {
        let button = format!(
            "[...document.querySelectorAll('.buttons button, #form button')].find(one => one.innerText === '{label}')"
        );
        browser.until(&button);
        browser.run(&format!("{button}.click()"));
    };
    let told =
        |words: &str| browser.until(&format!("document.getElementById('messages').innerText.includes('{words}')"));
    browser.say("@staffai plan a trip");
    told("Where shall the trip lead?");
    browser.speak_as("Ben");
    pressed("Answer");
    told("can decide this");
    assert_eq!(browser.run("return document.getElementById('form').open"), false);
    browser.speak_as("Ada");
    pressed("Answer");
    browser.until("document.getElementById('form').open");
    let labels = browser.run("return [...document.querySelectorAll('#form label')].map(one => [one.firstChild.textContent, one.control.name, one.control.localName, one.control.required])");
    let expected = serde_json::json!([
        ["By boat", "boat", "select", false],
        ["Days", "days", "input", true],
        ["Harbour", "harbour", "select", true]
    ]);
    assert_eq!(labels, expected);
    browser.run("document.querySelector('#form [name=harbour]').value = 'North Harbour'");
    browser.keys("#form [name=days]", "3");
    browser.run("document.querySelector('#form [name=boat]').value = 'true'");
    pressed("Send");
    browser.until("!document.getElementById('form').open");
    browser.answer("A trip to North Harbour for 3 days, by boat.");
    browser.say("@staffai plan a trip");
    browser.until("[...document.querySelectorAll('.buttons button')].some(one => one.innerText === 'Decline')");
    pressed("Decline");
    browser.answer("no trip is planned");
}
