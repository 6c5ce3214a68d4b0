//! The voice page: a person writes or speaks, hears the answer, and interrupts it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::browser::Browser;
use crate::models::model_server_with;
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
    browser.until(&format!("{SPEAKS} && {LINES}.includes('Try one of these')"));
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

#[test]
fn pictures_denials_and_open_questions_are_shown_and_a_muted_answer_stays_heard() {
    const LAST: &str = "document.getElementById('lines').lastElementChild.innerText";
    let home = tempfile::tempdir().expect("a folder");
    let (_program, url) = playground(home.path());
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/voice"));
    browser.until("document.getElementById('link').textContent === 'connected'");
    // The caption shows the whole sentence, of which the first clause sounds first.
    browser.keys("#draft", "hello\n");
    let caption = "document.getElementById('caption').innerText.trim()";
    browser.until(&format!("/[.!?]$/.test({caption}) && {LINES}.includes({caption})"));
    browser.keys("#draft", "draw a boat at sunset\n");
    browser.until("document.querySelector('#lines .shown-picture')?.naturalWidth > 0");
    browser.until(&format!("!({LINES}).includes('cannot be shown')"));
    browser.keys("#draft", "/help\n");
    browser.until(&format!("{LINES}.includes('I answer each of your messages here')"));
    // A question that waits is there again after the page was closed, with the conversation before it.
    browser.keys("#draft", "clear the notes\n");
    browser.until("document.getElementById('doing').innerText === 'Waiting for your decision'");
    browser.go("about:blank");
    browser.go(&format!("{url}/voice"));
    browser.until(&format!("document.querySelector('#asks .style-1') && {LINES}.includes('draw a boat at sunset')"));
    browser.run("[...document.querySelectorAll('#asks button')].at(-1).click()");
    browser.until(&format!("{LAST}.includes('You said no')"));
    assert_eq!(browser.run(&format!("return {LAST}.includes('was real')")), false);
    assert_eq!(browser.run(&format!("return {LINES}.includes('was not approved and did not run')")), true);
    // Muted in the middle of an answer, and stopped after that. A page that was opened anew is silent until a person
    // touches it, so the answer before is stopped, not awaited.
    browser.keys("body", "\u{e00c}");
    browser.until(&format!("!({SPEAKS})"));
    browser.keys("#draft", "tell me a long story\n");
    let sounds = format!("document.querySelector('#caption .said-word') && {LAST}.includes({caption})");
    browser.until(&format!("{SPEAKS} && {sounds}"));
    browser.click("#mute");
    browser.until(&format!("!({SPEAKS})"));
    browser.keys("body", "\u{e00c}");
    browser.until(&format!("{LAST}.includes('Stopped')"));
    assert_eq!(browser.run(&format!("return {LAST}")), "Stopped; the grey part was not heard.");
    let errors = browser.complaints();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
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

/// A story that takes half a minute to tell.
const STORY: [&str; 8] = [
    "A small red boat left the harbour of a quiet town early in the morning.",
    "Its captain was a retired teacher who had never sailed further than the lighthouse.",
    "At noon the wind turned, and a thick fog came down over the water.",
    "The captain heard a bell, and followed its sound for an hour.",
    "It was the bell of a ship that had been lost for a hundred years.",
    "On its deck there stood an old sailor with a lantern in his hand.",
    "He showed the captain the way home, and he asked for nothing.",
    "In the evening the red boat was back, and the fog was gone.",
];
/// The end of an answer that was interrupted, as the model reads it.
const CUT: &str = " [interrupted here: the rest was not heard]";

/// Returns the messages of a request to the model, with their roles.
fn messages(asked: &Value) -> Vec<(&str, String)> {
    let text = |content: &Value| match content.as_array() {
        Some(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        None => content.as_str().unwrap_or_default().to_owned(),
    };
    let all = asked["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|one| (one["role"].as_str().unwrap_or_default(), text(&one["content"]))).collect()
}

/// Returns the part of the story that was heard, according to a request to the model.
fn heard_story(asked: &Value) -> Option<String> {
    let answers = messages(asked).into_iter().filter(|(role, _)| *role == "assistant");
    answers.filter_map(|(_, text)| text.strip_suffix(CUT).map(str::to_owned)).next_back()
}

/// Tells the story, or goes on with the first sentence of it that was not heard.
fn storyteller(asked: &Value) -> String {
    let question = messages(asked).pop().map(|(_, text)| text).unwrap_or_default();
    if !question.contains("happened") {
        return STORY.join(" ");
    }
    let heard = heard_story(asked).unwrap_or_default();
    let unheard = STORY.iter().find(|sentence| !heard.contains(*sentence));
    format!("After that: {}", unheard.unwrap_or(&"the end."))
}

/// Records words as the microphone hears them once: spoken by flite, with silence around them.
fn record(file: &Path, words: &str) {
    let arguments = ["-voice", "slt", "-t", words, "-o", "/dev/stdout"];
    let output = Command::new("flite").args(arguments).output().expect("flite; ./test installs it");
    let (head, speech) = output.stdout.split_at(44);
    let mut bytes = [head, &vec![0; 16_000], speech, &vec![0; 64_000]].concat();
    let samples = u32::try_from(bytes.len() - 44).expect("a short file");
    bytes[4..8].copy_from_slice(&(samples + 36).to_le_bytes());
    bytes[40..44].copy_from_slice(&samples.to_le_bytes());
    std::fs::write(file, bytes).expect("a file");
}

#[test]
fn a_person_without_an_account_asks_by_voice_interrupts_in_mid_sentence_and_asks_on() {
    let home = tempfile::tempdir().expect("a folder");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let port = model_server_with(move |asked| {
        seen.lock().push(asked.clone());
        storyteller(asked)
    });
    let (program, model) = ("pocketsphinx_continuous", format!("http://127.0.0.1:{port}"));
    let hearing = format!("[{{kind = 'command', timeout = '60s', command = ['{program}', '-infile', '/dev/stdin']}}]");
    let variables = [("STAFFAI_HEARING", &*hearing), ("LITELLM_API_URL", &model), ("LITELLM_MODEL", "tide-7b")];
    let (_program, url) = playground_with(home.path(), &variables);
    let file = home.path().join("question.wav");
    let microphone = format!("--use-file-for-fake-audio-capture={}%noloop", file.display());
    let flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", &microphone];
    let browser = Browser::open_with(home.path(), &flags);
    browser.go(&format!("{url}/voice"));
    browser.until(&format!("document.getElementById('hearing-note').innerText.includes('hears with {program}')"));
    browser.until("document.getElementById('voice-note').innerText.includes('espeak-ng')");
    // A recognizer may mistake a word; these sentences are clear.
    record(&file, "tell me a long story");
    browser.click("#hands");
    browser.until(&format!("{LINES}.includes('story') && {LINES}.includes('red boat')"));
    // The microphone reads its file when it is opened.
    browser.click("#hands");
    browser.until("document.getElementById('hands').getAttribute('aria-pressed') === 'false'");
    record(&file, "what happened then");
    let caption = "document.getElementById('caption').innerText";
    let words = "document.querySelectorAll('#caption span').length";
    let said = "document.querySelectorAll('#caption .said-word').length";
    browser.until(&format!("{SPEAKS} && {caption}.includes('retired teacher') && {said} > 2 && {said} < {words}"));
    browser.click("#hands");
    browser.until(&format!("{LINES}.includes('Stopped')"));
    let heard =
        "[...document.querySelectorAll('.spoken-block')].filter(one => one.nextElementSibling?.matches('.unheard'))";
    let heard = browser.until(&format!("{heard}[0]?.innerText"));
    browser.until(&format!("{LINES}.includes('happened') && {LINES}.includes('After that')"));
    // The second answer is spoken as well.
    browser.until(&format!("{SPEAKS} && {caption}.includes('After that')"));
    let errors = browser.complaints();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    // The model was told what the page shows as heard, and its answer goes on from there.
    let requests = requests.lock();
    let second = requests.iter().find(|asked| heard_story(asked).is_some()).expect("a request after the interruption");
    let heard = heard.as_str().expect("text");
    assert_eq!(heard_story(second).as_deref(), Some(heard), "{second}");
    let sentences = STORY.iter().filter(|sentence| heard.contains(*sentence)).count();
    assert!(sentences >= 1 && heard == STORY[..sentences].join(" "), "{heard}");
    let told = messages(second).into_iter().filter(|(role, _)| *role != "system").collect::<Vec<_>>();
    let [(_, asked), (_, _), (_, asked_on)] = &told[..] else { panic!("{told:?}") };
    assert!(asked.contains("story") && asked_on.contains("happened"), "{told:?}");
    let shown = browser.run(&format!("return {LINES}"));
    let goes_on = format!("After that: {}", STORY.get(sentences).expect("a sentence that was not heard"));
    assert!(shown.as_str().is_some_and(|shown| shown.contains(&goes_on)), "{goes_on} is not in {shown}");
}
