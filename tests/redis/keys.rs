//! API keys that are revoked on one machine, with two processes on one server.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::service::{Options, Service};
use ports::Clock;
use staffai::app::system::SystemClock;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::rows::Process;
use crate::server::Server;

#[tokio::test]
async fn a_key_that_one_process_revokes_ends_its_streams_at_the_other() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (server, dir) = (Server::start(), TempDir::new().unwrap());
    let options = Options { identify_period: Duration::ZERO, ..Options::new(Arc::new(|| SystemClock.now().0)) };
    let service = Service::start(options).await.unwrap();
    let model = DemoModel::start(Duration::ZERO).await.unwrap();
    let (base, url, discord) = (model.base_url(), server.url(), service.api_url());
    let variables = [
        ("DISCORD_BOT_TOKEN", service.token()),
        ("DISCORD_API_URL", discord.as_str()),
        ("LITELLM_API_URL", base.as_str()),
        ("LITELLM_MODEL", "staffai-demo"),
        ("RESPONSE_CHANCE", "0"),
        ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0"),
        ("REDIS_URL", url.as_str()),
    ];
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    for folder in [&here, &there] {
        std::fs::create_dir_all(folder.join("data")).unwrap();
    }
    let staffai = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
        command.args(arguments).env_clear().envs(variables.iter().copied()).current_dir(&here);
        let done = command.stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    // The operator creates two keys on one machine, and copies the file to the other.
    let (kept, revoked) = (staffai(&["key", "add", "kept"]), staffai(&["key", "add", "revoked"]));
    std::fs::copy(here.join("data/keys.json"), there.join("data/keys.json")).unwrap();
    let other = Process::start(&there, 3, &variables);
    let client = reqwest::Client::new();
    let asks = async |key: &str, path: &str| {
        let request = client.get(format!("http://{}{path}", other.address)).bearer_auth(key);
        request.send().await.ok()
    };
    let until = Instant::now() + Duration::from_secs(60);
    while asks(&revoked, "/v1/models").await.is_none_or(|answer| answer.status() != 200) {
        assert!(Instant::now() < until, "it does not start");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for key in [&kept, &revoked] {
        let body = serde_json::json!({"session": "main", "text": "hello"});
        let submit = client.post(format!("http://{}/api/v1/submit", other.address)).bearer_auth(key);
        assert_eq!(submit.json(&body).send().await.unwrap().status(), 202);
    }
    let mut stays = asks(&kept, "/api/v1/stream/main").await.unwrap();
    let mut ends = asks(&revoked, "/api/v1/stream/main").await.unwrap();
    assert_eq!((stays.status().as_u16(), ends.status().as_u16()), (200, 200));

    staffai(&["key", "revoke", "revoked"]);
    let begun = Instant::now();
    let cut = async { while let Ok(Some(_)) = ends.chunk().await {} };
    tokio::time::timeout(Duration::from_secs(20), cut).await.expect("its stream ends");
    // The bound is 2 s; the rest is slack for loaded machines.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(asks(&revoked, "/v1/models").await.unwrap().status(), 401);
    assert_eq!(asks(&kept, "/v1/models").await.unwrap().status(), 200);
    let goes_on = async { while let Ok(Some(_)) = stays.chunk().await {} };
    assert!(tokio::time::timeout(Duration::from_secs(1), goes_on).await.is_err(), "the other key's stream goes on");

    // A damaged list is left as it is, and the command says so.
    assert_eq!(server.words::<String>(&["SET", "staffai:revoked_keys", "damaged"]), "OK");
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command.args(["key", "revoke", "kept"]).env_clear().envs(variables.iter().copied()).current_dir(&here);
    let refused = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("staffai:revoked_keys, is damaged"), "{told}");
    assert_eq!(server.ask::<String>("GET staffai:revoked_keys"), "damaged");
    assert_eq!(server.ask::<u32>("DEL staffai:revoked_keys"), 1);
    staffai(&["key", "revoke", "kept"]);
    assert!(server.ask::<String>("GET staffai:revoked_keys").contains("sha256"), "it can be repeated");
    drop(other);
    service.stop().await;
    model.stop().await;
}
