//! Two processes with one token on one server: the second one owns all turns from its start, and the first one stops
//! posting.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::service::{Options, Service};
use ports::Clock;
use staffai::app::system::SystemClock;
use tempfile::TempDir;

use crate::rows::Process;
use crate::server::Server;
use crate::support::until;

/// The delay of the model's answers: longer than the second process needs to start on a slow machine.
const THINKING: Duration = Duration::from_secs(12);

/// Returns the number of lines of an event in the log of a process.
fn count(folder: &Path, event: &str) -> usize {
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    log.matches(&format!("\"event\":\"{event}\"")).count()
}

#[tokio::test]
async fn a_second_process_answers_what_the_first_one_accepted_and_the_first_one_posts_nothing() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (server, dir) = (Server::start(), TempDir::new().unwrap());
    let options = Options { identify_period: Duration::ZERO, ..Options::new(Arc::new(|| SystemClock.now().0)) };
    let service = Service::start(options).await.unwrap();
    let model = DemoModel::start(THINKING).await.unwrap();
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
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let one = Process::start(&first, 4, &variables);
    until("the first process is ready", || count(&first, "gateway.ready") == 1).await;
    let (bot, place) = (service.bot(), service.channels()[0].id);
    let ada = service.members().into_iter().find(|member| !member.bot).unwrap().id;
    let answers = || service.messages(place).into_iter().filter(|message| message.author == bot).count();
    let _ = service.says(ada, place, &format!("<@{bot}> which way to the harbour"), None);
    until("the first process accepts the question", || count(&first, "turn.accepted") == 1).await;
    let term = || server.ask::<String>("GET staffai:term:discord").parse::<u64>().unwrap();
    let term_of_first = term();

    let two = Process::start(&second, 5, &variables);
    until("the second process takes it up", || count(&second, "turn.resumed") == 1).await;
    assert!(term() > term_of_first);
    until("the second process answers", || count(&second, "turn.replied") == 1).await;
    until("the first process drops it", || count(&first, "turn.fenced") == 1).await;
    assert_eq!((answers(), count(&first, "turn.replied")), (1, 0));
    assert!(count(&first, "store.fenced") > 0);
    let ready = reqwest::get(format!("http://{}/readyz", one.address)).await.unwrap();
    assert_eq!(ready.status().as_u16(), 503, "traffic belongs to the second process");
    assert!(ready.text().await.unwrap().contains("another process owns its turns"));

    // Both receive the next question; the second one answers it.
    until("the second process is ready", || count(&second, "gateway.ready") + count(&second, "gateway.resumed") > 0)
        .await;
    let _ = service.says(ada, place, &format!("<@{bot}> and back"), None);
    until("the second process answers", || count(&second, "turn.replied") == 2).await;
    assert_eq!((answers(), count(&first, "turn.replied")), (2, 0));
    drop((one, two));
    service.stop().await;
    model.stop().await;
}
