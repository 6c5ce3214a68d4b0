//! Voice channels of Discord. A [`Calls`] joins a channel, speaks the answers of turns there, and hears the members who
//! agreed.
//!
//! The driver (`driver.rs`) is the voice gateway, the audio packets (`rtp.rs`) and the end-to-end encryption
//! (`dave.rs`); `call.rs` connects it with the events of turns, voices and recognition.

mod call;

mod dave;

mod driver;

mod ears;

mod mouth;

mod pcm;

mod rtp;

mod wire;

use std::time::Duration;

pub use call::Calls;

/// The settings of connections to voice servers.
fn settings() -> http_client::Settings {
    http_client::Settings {
        user_agent: concat!("staffai/", env!("CARGO_PKG_VERSION")),
        connect_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(60),
        proxied: true,
        encrypted: true,
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
