//! The panel of a member's own settings.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::models::model_server;
use crate::{LAST, playground_with};

/// The names of the panel's fields.
const FIELDS: &str = "[...document.querySelectorAll('#panel [name]')].map(field => field.name)";
/// Its result of the last action.
const RESULT: &str = "document.querySelector('#panel [role=status]')?.textContent";

impl Browser {
    fn opens_settings(&self) {
        self.click("#settings");
        self.until("document.querySelector('#panel [name]')");
    }

    /// Returns the value of a field of the panel.
    fn setting(&self, name: &str) -> Value {
        self.run(&format!("return document.querySelector('#panel [name={name}]').value"))
    }

    /// Types a value, or chooses it, as a person does.
    fn sets(&self, name: &str, value: &str) {
        self.run(&format!(
            "const field = document.querySelector('#panel [name={name}]'); field.value = {}; field.dispatchEvent(new Event('input', {{ bubbles: true }}))",
            Value::from(value)
        ));
        assert_eq!(self.setting(name), value, "{name} accepts it");
    }

    /// Saves, and awaits a result with this part.
    fn saves(&self, part: &str) {
        self.run("document.querySelector('#panel [role=status]').textContent = ''");
        self.click("#panel .press.style-1");
        self.until(&format!(
            "{RESULT}.includes({}) && !document.querySelector('#panel .style-1').disabled",
            Value::from(part)
        ));
    }
}

#[test]
fn a_member_changes_their_settings_in_a_panel_that_offers_only_what_the_model_can_do() {
    let home = tempfile::tempdir().expect("a folder");
    let rows = json!({"models": {
        "quick": {"model_id": "quick-1", "enabled": true},
        "deep": {"model_id": "deep-1", "enabled": true, "temperature": null, "takes_reasoning_effort": true},
    }});
    let models = home.path().join("models.json");
    std::fs::write(&models, rows.to_string()).expect("a file");
    let address = format!("http://127.0.0.1:{}", model_server());
    let open = "model,instructions,verbosity,reasoning_effort,temperature,language,web_search,tools,streaming,memory";
    let variables = [
        ("LITELLM_API_URL", address.as_str()),
        ("LITELLM_MODEL", "quick"),
        ("STAFFAI_MODELS", models.to_str().expect("a path")),
        ("STAFFAI_MEMBERS__SETTINGS", open),
    ];
    let (_program, url) = playground_with(home.path(), &variables);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until(
        "document.getElementById('link').textContent === 'connected' && document.querySelector('.voice input:checked')",
    );

    browser.opens_settings();
    let all = json!(["model", "instructions", "verbosity", "temperature", "language", "tools", "streaming", "memory"]);
    assert_eq!(browser.run(&format!("return {FIELDS}")), all);
    let mut found = browser.finds("the panel");
    browser.resize(390, 844);
    found.extend(browser.finds("the panel on a small screen"));
    assert_eq!(browser.run("return document.documentElement.scrollWidth - innerWidth"), 0);
    browser.resize(1440, 900);
    // A value that does not fit is named, and stays to be corrected.
    browser.sets("instructions", "Say tide.");
    browser.sets("temperature", "9");
    browser.saves("temperature");
    assert_eq!(browser.setting("temperature"), "9");
    found.extend(browser.finds("a value to correct"));
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
    browser.sets("temperature", "0.5");
    browser.sets("streaming", "off");
    browser.saves("Saved");
    // Another model has other settings.
    browser.sets("model", "deep");
    browser.saves("Saved: Model");
    let names = browser.run(&format!("return {FIELDS}.join()"));
    let names = names.as_str().expect("names");
    assert!(names.contains("reasoning_effort") && !names.contains("temperature"), "{names}");
    browser.saves("Nothing changed");
    browser.run("document.querySelector('#panel .press').click()");
    assert_eq!(browser.run("return document.querySelectorAll('#messages > .message').length"), 0, "no message is left");

    // They are stored, and are those of Ada alone.
    browser.go(&format!("{url}/"));
    browser.until("document.querySelector('.voice input:checked')");
    browser.opens_settings();
    let kept = ["model", "instructions", "streaming"].map(|name| browser.setting(name));
    assert_eq!(kept, ["deep", "Say tide.", "off"]);
    browser.run("document.querySelector('#panel .press').click()");
    browser.say("@staffai what does the tide do?");
    browser.answer("deep-1");
    browser.say("/settings");
    browser.until(&format!("{LAST}?.innerText.includes('Say tide.')"));
    browser.speak_as("Ben");
    browser.opens_settings();
    let others = ["model", "instructions", "streaming"].map(|name| browser.setting(name));
    assert_eq!(others, ["default", "", "default"]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
