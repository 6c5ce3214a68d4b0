//! The dashboard of a bot with several processes.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::service::{Options, Service};
use ports::Clock as _;
use staffai::app::system::SystemClock;

use crate::browser::{Browser, start};

#[path = "../redis/server.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod server;

/// The processes on the page: their states in the order of the page.
const STATES: &str = "[...document.querySelectorAll('#board .processes li')].map(line => line.className).sort().join()";
/// True if the list is hidden.
const HIDDEN: &str = "document.querySelector('#board .processes').closest('section').hidden";

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_the_processes_of_a_store() {
    let server = server::Server::start();
    let options = Options { identify_period: Duration::ZERO, ..Options::new(Arc::new(|| SystemClock.now().0)) };
    let service = Service::start(options).await.unwrap();
    let model = DemoModel::start(Duration::ZERO).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    // Each process says where it listens, and the second one that it stands by.
    let run = |name: &str, says: &'static str| {
        let folder = home.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
        command.args(["--log-format", "json", "run"]).env_clear().current_dir(folder);
        for (name, value) in [
            ("DISCORD_BOT_TOKEN", service.token().to_owned()),
            ("DISCORD_API_URL", service.api_url()),
            ("LITELLM_API_URL", model.base_url()),
            ("LITELLM_MODEL", "staffai-demo".to_owned()),
            ("RESPONSE_CHANCE", "0".to_owned()),
            ("REDIS_URL", server.url()),
            ("STAFFAI_HTTP_ADDR", "127.0.0.1:0".to_owned()),
        ] {
            command.env(name, value);
        }
        start(&mut command, move |line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            (line["event"] == says).then(|| line["address"].as_str().unwrap_or_default().to_owned())
        })
    };
    let (_active, address) = run("first", "api.listening");
    let browser = Browser::open(home.path());
    browser.go(&format!("http://{address}/dashboard"));
    browser.until("document.querySelector('#board .pill').textContent === 'ready'");
    browser.until(&format!("{STATES} === 'active'"));
    assert_eq!(browser.run(&format!("return {HIDDEN}")), true, "one process is no list");
    {
        let _other = run("second", "lease.awaited");
        browser.until(&format!("{STATES} === 'active,standby' && !{HIDDEN}"));
        browser.until("document.querySelector('#board .processes li .figure').innerText.includes(', version ')");
        browser.until("document.querySelector('#board .processes li').title.includes('takes no requests')");
    }
    // Its report ends some seconds after it.
    browser.until(&format!("{STATES} === 'active'"));
    browser.until(HIDDEN);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    service.stop().await;
    model.stop().await;
}
