//! The first setup from the page: tests a token and a model, and writes `.env`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, mpsc};

use playground::service::{Options, Service};

use crate::browser::Browser;
use crate::models::model_server;
use crate::playground_with;

/// Starts a further local service in place of Discord; returns its address and the bot's token.
fn discord() -> (String, String) {
    let (told, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut options = Options::new(Arc::new(|| 1_760_000_000_000));
            "a-token-of-the-test.for-this.page".clone_into(&mut options.token);
            let service = Service::start(options).await.expect("a loopback port");
            told.send((service.api_url(), service.token().to_owned())).expect("the test waits");
            std::future::pending::<()>().await;
        });
    });
    hear.recv().expect("an address")
}

impl Browser {
    /// Fills the fields of the dialog in order and sends them; returns the findings after the result.
    fn sets_up(&self, values: &[&str], result: &str) -> String {
        for (n, value) in values.iter().enumerate() {
            self.run(&format!("document.querySelectorAll('#setup input')[{n}].value = ''"));
            if !value.is_empty() {
                self.keys(&format!("#setup label:nth-of-type({}) input", n + 1), value);
            }
        }
        self.click("#setup .style-1");
        self.until(&format!("document.querySelector('#setup [role=status]').innerText.includes('{result}')"));
        let text = self.run("return document.querySelector('#setup .findings').innerText");
        text.as_str().expect("text").to_owned()
    }
}

fn written(home: &Path) -> String {
    std::fs::read_to_string(home.join(".env")).unwrap_or_default()
}

#[test]
fn a_token_and_a_model_are_tested_and_written_from_the_page() {
    let home = tempfile::tempdir().expect("a folder");
    let (api, token) = discord();
    let address = format!("http://127.0.0.1:{}", model_server());
    let (_program, url) = playground_with(home.path(), &[("DISCORD_API_URL", &api)]);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.querySelectorAll('[data-trouble]').length === 6");
    browser.click("#setup-discord");
    browser.until("document.getElementById('setup').open");
    assert_eq!(browser.finds("the setup"), Vec::<String>::new());
    let refused = browser.sets_up(&["not-the-token"], "Nothing was written");
    assert!(refused.contains('✕') && refused.contains("discord token"), "{refused}");
    assert_eq!(written(home.path()), "");
    browser.sets_up(&[&token], "The token is in .env");
    let invite = browser.run("return document.querySelector('#setup .findings a').href");
    assert!(
        invite.as_str().is_some_and(|to| to.starts_with("https://discord.com/oauth2/authorize?client_id=")),
        "{invite}"
    );
    assert_eq!(browser.finds("the findings"), Vec::<String>::new());
    browser.run("document.getElementById('setup').close()");

    browser.click("#setup-model");
    browser.until("document.querySelectorAll('#setup input').length === 3");
    browser.sets_up(&[&address, "sk-secret-of-the-model", "tide-7b"], "The model is in .env");
    browser.run("document.getElementById('setup').close()");
    let file = written(home.path());
    for line in
        [format!("DISCORD_BOT_TOKEN={token}"), format!("LITELLM_API_URL={address}"), "LITELLM_MODEL=tide-7b".to_owned()]
    {
        assert!(file.lines().any(|written| written == line), "no {line}");
    }
    let mode = std::fs::metadata(home.path().join(".env")).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // An empty field keeps what the file has, and no secret is on the page or in the log.
    browser.click("#setup-discord");
    browser.until("document.querySelector('#setup .note')?.innerText.includes('set in .env')");
    browser.sets_up(&[""], "The token is in .env");
    let page = browser.run(
        "return document.documentElement.outerHTML + [...document.querySelectorAll('input')].map(one => one.value)",
    );
    let log = std::fs::read_to_string(home.path().join("data/playground/playground.log")).expect("the log");
    for secret in [token.as_str(), "sk-secret-of-the-model", "not-the-token"] {
        assert!(!page.as_str().is_some_and(|page| page.contains(secret)), "{secret} is on the page");
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
