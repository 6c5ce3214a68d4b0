//! The voice page: a person writes or speaks, hears the answer, and interrupts it.

use std::path::Path;
use std::process::Command;

use crate::browser::Browser;
use crate::{playground, playground_with};

/// The conversation.
pub const LINES: &str = "document.getElementById('lines').innerText";
/// True while the answer sounds.
pub const SPEAKS: &str = "document.getElementById('face-box').dataset.doing === 'speaking'";

fn ms(id: &str) -> String {
    format!("Number(document.getElementById('{id}').dataset.ms ?? NaN)")
}

#[test]
fn an_answer_is_spoken_and_an_interruption_silences_it() {
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/voice"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    browser.until("document.getElementById('voice-note').innerText.includes('espeak-ng')");
    let mut found = browser.finds("the first look");
    browser.keys("#draft", "hello\n");
    browser.until(&format!("{LINES}.includes('model') && {SPEAKS}"));
    // The mouth moves with the sound, and the caption shows the sentence that sounds.
    browser.until("Number(document.getElementById('mouth').dataset.open) > 0.1");
    browser.until("document.querySelector('#caption .said-word')");
    for id in ["time-text", "time-audio", "time-sound"] {
        browser.until(&format!("{} >= 0", ms(id)));
    }
    found.extend(browser.finds("an answer sounds"));
    browser.until(&format!("!({SPEAKS})"));
    // The answer is drawn like a message of the chat, although it came in sentences.
    browser.until(&format!("document.querySelector('#lines .spoken-block') && !{LINES}.includes('**')"));
    // The next answer is interrupted in the middle.
    browser.keys("#draft", "help\n");
    browser.until(SPEAKS);
    browser.keys("body", "\u{e00c}");
    browser.until(&format!("!({SPEAKS}) && {} >= 0 && {LINES}.includes('Stopped')", ms("time-silence")));
    browser.until("document.querySelector('.unheard')");
    found.extend(browser.finds("an interruption"));
    // A call that needs approval is decided on the page.
    browser.keys("#draft", "add a note: buy rope\n");
    browser.until(&format!("{LINES}.includes('buy rope')"));
    browser.until("document.getElementById('stop').disabled");
    browser.keys("#draft", "clear the notes\n");
    browser.until("document.querySelector('#asks .style-1')");
    found.extend(browser.finds("an approval"));
    browser.click("#asks .style-1");
    browser.until(&format!("document.getElementById('asks').hidden && {LINES}.includes('All notes are gone')"));
    for (width, height) in [(1440, 900), (900, 800), (390, 844), (844, 390)] {
        browser.resize(width, height);
        browser.until(&format!("innerWidth === {width}"));
        assert_eq!(browser.run("return document.documentElement.scrollWidth - innerWidth"), 0, "{width} wide");
        found.extend(browser.finds(&format!("{width} wide")));
    }
    let errors = browser.complaints();
    assert!(found.is_empty() && errors.is_empty(), "{}\n{}", found.join("\n"), errors.join("\n"));
}

/// Records a question as the fake microphone repeats it: speech, then a silence.
pub fn question(home: &Path) -> String {
    let file = home.join("question.wav");
    let speech = Command::new("espeak-ng").args(["--stdout", "hello there, who are you"]).output().expect("espeak-ng");
    let mut bytes = speech.stdout;
    bytes.extend(vec![0; 3 * 44_100]);
    let samples = u32::try_from(bytes.len() - 44).expect("a short file");
    bytes[4..8].copy_from_slice(&(samples + 36).to_le_bytes());
    bytes[40..44].copy_from_slice(&samples.to_le_bytes());
    std::fs::write(&file, bytes).expect("a file");
    file.to_str().expect("a path").to_owned()
}

#[test]
fn a_spoken_question_is_heard_and_answered() {
    let home = tempfile::tempdir().expect("a folder");
    let heard = home.path().join("heard.wav");
    let script = format!("cat > {}; echo hello", heard.display());
    let hearing = format!("[{{kind = 'command', command = ['sh', '-c', '{script}']}}]");
    let (_program, url) = playground_with(home.path(), &[("STAFFAI_HEARING", &hearing)]);
    let microphone = format!("--use-file-for-fake-audio-capture={}", question(home.path()));
    let browser = Browser::open_with(
        home.path(),
        &["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", &microphone],
    );
    browser.go(&format!("{url}/voice"));
    browser.until("document.getElementById('hearing-note').innerText.includes('The server hears with sh')");
    browser.click("#hands");
    browser.until("document.getElementById('level').value > 0.02");
    browser.until(&format!("{LINES}.includes('You\\nhello') && {LINES}.includes('staffai')"));
    browser.until(&format!("{} >= 0", ms("time-heard")));
    // A speaker who speaks while the answer sounds interrupts it.
    browser.until(&format!("{LINES}.includes('Stopped')"));
    let found = browser.finds("hands-free");
    browser.click("#hands");
    browser.until("document.getElementById('hands').getAttribute('aria-pressed') === 'false'");
    let wave = std::fs::read(heard).expect("the command got a file");
    assert!(wave.starts_with(b"RIFF") && wave[24..28] == 16_000_u32.to_le_bytes(), "16,000 samples a second");
    assert!(wave.len() > 16_000, "{} bytes", wave.len());
    let errors = browser.complaints();
    assert!(found.is_empty() && errors.is_empty(), "{}\n{}", found.join("\n"), errors.join("\n"));
}
