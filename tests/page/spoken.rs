//! The voice page: push to talk, reduced motion, markup, and a browser that hears and speaks by itself.

use crate::browser::Browser;
use crate::voice::{LINES, SPEAKS, question};
use crate::{playground, playground_with};

/// Flags of a microphone that needs no permission.
const MICROPHONE: [&str; 2] = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"];

/// A browser with recognition and a voice, which the test controls. Voice and hearing of the server are hidden from the
/// page.
const STAND_IN: &str = r"
    window.SpeechRecognition = class extends EventTarget {
      start() { window.recognition = this; this.started = true; }
      stop() { this.started = false; this.dispatchEvent(new Event('end')); }
      says(transcript, isFinal) {
        const results = [Object.assign([{ transcript }], { isFinal })];
        this.dispatchEvent(Object.assign(new Event('result'), { resultIndex: 0, results }));
      }
    };
    class Utterance extends EventTarget {
      constructor(text) { super(); this.text = text; }
    }
    const voice = {
      said: [], waiting: [],
      speak(utterance) {
        this.said.push(utterance.text);
        if (this.waiting.push(utterance) === 1) this.begin();
      },
      begin() { this.waiting[0]?.dispatchEvent(new Event('start')); },
      ends() { this.waiting.shift().dispatchEvent(new Event('end')); this.begin(); },
      cancel() { this.waiting = []; },
    };
    Object.defineProperty(window, 'SpeechSynthesisUtterance', { value: Utterance });
    Object.defineProperty(window, 'speechSynthesis', { value: voice });
    const parse = JSON.parse;
    JSON.parse = (text, ...more) => {
      const value = parse(text, ...more);
      if (value?.event === 'ready') { delete value.voice; delete value.hears; }
      return value?.event === 'audio' ? { event: 'pong' } : value;
    };
";

/// Waits until the microphone was loud for so long that an utterance was heard.
fn loud(browser: &Browser) {
    browser.run("window.loud = 0");
    browser.until("(window.loud += document.getElementById('level').value > 0.02 ? 1 : 0) > 25");
}

#[test]
fn the_button_and_the_space_bar_talk_while_they_are_held() {
    let home = tempfile::tempdir().expect("a folder");
    let hearing = "[{kind = 'command', command = ['sh', '-c', 'cat > /dev/null; echo hello']}]";
    let (_program, url) = playground_with(home.path(), &[("STAFFAI_HEARING", hearing)]);
    let file = format!("--use-file-for-fake-audio-capture={}", question(home.path()));
    let browser = Browser::open_with(home.path(), &[MICROPHONE[0], MICROPHONE[1], &file]);
    browser.go(&format!("{url}/voice"));
    browser.until("!document.getElementById('talk').disabled");
    browser.hold("#talk");
    browser.until("document.getElementById('talk').classList.contains('held')");
    loud(&browser);
    assert_eq!(browser.run(&format!("return {LINES}.includes('You')")), false, "the button is still held");
    browser.release();
    browser.until("!document.getElementById('talk').classList.contains('held')");
    browser.until(&format!("{LINES}.includes('You\\nhello') && {LINES}.includes('staffai')"));
    // The microphone is closed.
    browser.until("document.getElementById('level').value === 0");
    browser.run("document.activeElement.blur()");
    browser.hold_key(" ");
    browser.until("document.getElementById('talk').classList.contains('held')");
    loud(&browser);
    browser.release();
    browser.until(&format!("{LINES}.split('You\\nhello').length > 2"));
    // In the message box, the space bar writes.
    browser.keys("#draft", "a b");
    assert_eq!(browser.run("return document.getElementById('talk').classList.contains('held')"), false);
    let errors = browser.complaints();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn reduced_motion_stills_the_face() {
    const BLINK: &str = "getComputedStyle(document.getElementById('eyes')).animationName";
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/voice"));
    browser.until(&format!("{BLINK} === 'blink'"));
    browser.emulate("prefers-reduced-motion", "reduce");
    browser.until(&format!("{BLINK} === 'none'"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.run(
        "window.shapes = new Set(); \
         new MutationObserver(() => window.shapes.add(document.getElementById('mouth').dataset.open)) \
         .observe(document.getElementById('mouth'), { attributeFilter: ['data-open'] })",
    );
    browser.keys("#draft", "hello\n");
    browser.until(&format!("{SPEAKS} && window.shapes.has('0.50')"));
    browser.until("document.getAnimations().every(one => one.effect.getTiming().iterations !== Infinity)");
    browser.until(&format!("!({SPEAKS})"));
    assert_eq!(browser.run("return [...window.shapes].sort().join()"), "0.00,0.50");
}

#[test]
fn an_answer_is_drawn_like_a_message_of_the_chat() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/voice"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.keys("#draft", "markdown\n");
    browser.until("document.querySelector('#lines .spoken-block strong')?.innerText === 'bold'");
    browser.until(&format!("document.querySelector('#lines .spoken-block code') && !{LINES}.includes('**')"));
}

#[test]
fn a_browser_that_hears_and_speaks_by_itself_is_used() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open_with(home.path(), &MICROPHONE);
    browser.before_pages(STAND_IN);
    browser.go(&format!("{url}/voice"));
    browser.until("document.getElementById('voice-note').innerText.includes('Your browser speaks')");
    browser.until("document.getElementById('hearing-note').innerText.includes('Your browser recognizes speech')");
    browser.click("#hands");
    browser.until("window.recognition?.started");
    browser.run("recognition.says('hel', false)");
    browser.until("document.getElementById('caption').innerText === 'hel'");
    browser.run("recognition.says('help', true)");
    browser.until(&format!("{LINES}.includes('You\\nhelp') && {SPEAKS} && speechSynthesis.said.length > 1"));
    // The sentence that sounds has the caption, and the next one follows it.
    browser.until("document.getElementById('caption').innerText === speechSynthesis.said[0]");
    browser.run("speechSynthesis.ends()");
    browser.until("document.getElementById('caption').innerText === speechSynthesis.said[1]");
    // A speaker interrupts: the rest is silent and was not heard.
    browser.until("speechSynthesis.said.length > 2");
    browser.run("recognition.dispatchEvent(new Event('speechstart'))");
    browser.until(&format!("{LINES}.includes('Stopped') && !({SPEAKS}) && speechSynthesis.waiting.length === 0"));
    browser.until("document.querySelector('.unheard')");
    // The browser ends its recognition after a while; it is started again until the button ends it.
    browser.run("recognition.started = false; recognition.dispatchEvent(new Event('end'))");
    browser.until("recognition.started");
    browser.click("#hands");
    browser.until("!recognition.started");
    let errors = browser.complaints();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
