use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::Access;
use ports::testing::ManualClock;
use std::sync::Arc;

#[tokio::test]
async fn a_post_that_is_cancelled_has_an_unknown_fate() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // It takes connections, and answers none.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let access = Access {
        api_url: format!("http://{}", listener.local_addr().unwrap()),
        bot_token: SecretString::from("xoxb-1"),
        app_token: SecretString::from("xapp-1"),
    };
    let slack = Slack::new(&access, Arc::new(ManualClock::new())).unwrap();
    let now = slack.clock.now().0 / 1_000 + 60;
    let nonce = format!("C1:{now}.000100-0");
    let (place, piece) = (ids::thread("C1", &format!("{now}.000100")), Piece::text("hello"));
    let post = slack.create(&place, &piece, None, &nonce);
    assert!(timeout(Duration::from_millis(300), post).await.is_err());
    assert!(matches!(slack.marks.fate(&nonce), Some(Fate::Unknown(_))), "it is looked for before it is repeated");
}
