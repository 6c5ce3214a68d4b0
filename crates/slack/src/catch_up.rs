//! Reads messages back that were sent while no connection was open. Slack itself delivers them again for about five
//! minutes; the journal knows what was answered, so reading too much is harmless.
//!
//! A channel's history has only the messages that begin a thread. So threads with newer replies are read as well, if
//! they began within a day.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::sleep;

use super::events::Wire;
use super::ids::{self, At};
use super::link::concerns;
use super::reading::Span;
use super::web_api::{Arguments, Call, CallError};
use super::{Account, Slack};
use domain::ids::Timestamp;
use domain::incoming::Incoming;
use ports::Intake;

/// The age of a thread whose replies are read back.
const THREAD_AGE: Duration = Duration::from_secs(24 * 3_600);
/// The most channels that are read back.
const CHANNELS_MAX: usize = 1_000;
/// The most pages of the list of channels.
const PAGES: u32 = 10;
/// The most tries of one call, with the delays that Slack asks for.
const TRIES: u32 = 5;
/// The longest delay between two tries.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The delay after a call without an answer.
const TRY_AGAIN: Duration = Duration::from_secs(2);

/// A channel that the bot is in.
#[derive(Deserialize)]
struct Channel {
    id: String,
}

impl Slack {
    /// Passes on the messages since this time that concern the bot, oldest first in each channel. Returns their number.
    ///
    /// # Errors
    /// Some channels could not be read.
    pub(super) async fn read_back(
        &self,
        since: Timestamp,
        names: &[String],
        intake: &dyn Intake,
    ) -> Result<u64, String> {
        let us = again(|| async { self.account().await.cloned() }).await.map_err(|error| error.to_string())?;
        let channels = self.channels().await.map_err(|error| error.to_string())?;
        let (mut passed, mut unread) = (0, None);
        for channel in channels {
            match self.missed(&channel, since, &us).await {
                Ok(wires) => {
                    for wire in wires.iter().filter(|wire| concerns(wire, &us, names)) {
                        let posted = self.completed(wire, &us).await;
                        if intake.accept(Incoming::Posted(posted), Self::us(&us)).await.is_err() {
                            return Err("a message was not accepted".to_owned());
                        }
                        passed += 1;
                    }
                }
                // The bot may have left a channel since it was listed.
                Err(error) if error.name().is_some() => {}
                Err(error) => unread = Some(error.to_string()),
            }
        }
        unread.map_or(Ok(passed), Err)
    }

    /// Returns the messages of a channel since this time, those in threads too.
    async fn missed(&self, channel: &str, since: Timestamp, us: &Account) -> Result<Vec<Wire>, CallError> {
        let oldest = ts(since);
        let began = ts(Timestamp(since.0.saturating_sub(domain::ids::millis(THREAD_AGE))));
        let span = Span { oldest: Some(&began), ..Span::default() };
        let firsts = again(|| self.read(At { channel, thread: None }, span)).await?;
        let mut missed = Vec::new();
        for first in firsts {
            let newer = |ts: &str| ids::moment(ts).is_some_and(|at| at >= since);
            if first.latest_reply.as_deref().is_some_and(newer) {
                let span = Span { oldest: Some(&oldest), ..Span::default() };
                let replies = again(|| self.read(At { channel, thread: Some(&first.ts) }, span)).await?;
                missed.extend(replies.into_iter().filter(|wire| wire.ts != first.ts));
            }
            if newer(&first.ts) {
                missed.push(first);
            }
        }
        for wire in &mut missed {
            // Direct conversations are told apart by the id of their channel.
            wire.mention = wire.text.contains(&format!("<@{}", us.user));
        }
        missed.sort_by(|one, other| (one.ts.len(), &one.ts).cmp(&(other.ts.len(), &other.ts)));
        Ok(missed)
    }

    /// Returns the ids of the channels that the bot is in.
    async fn channels(&self) -> Result<Vec<String>, CallError> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(default)]
            channels: Vec<Channel>,
            #[serde(default)]
            response_metadata: Cursor,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Cursor {
            next_cursor: String,
        }
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        for _ in 0..PAGES {
            let page: Page = again(|| {
                let mut arguments: Arguments<'_> = vec![
                    ("types", "public_channel,private_channel,mpim,im".into()),
                    ("exclude_archived", "true".into()),
                    ("limit", "200".into()),
                ];
                if !cursor.is_empty() {
                    arguments.push(("cursor", cursor.clone().into()));
                }
                self.api.call(Call::reads("users.conversations"), arguments)
            })
            .await?;
            ids.extend(page.channels.into_iter().map(|channel| channel.id).filter(|id| ids::is_id(id)));
            cursor = page.response_metadata.next_cursor;
            if cursor.is_empty() || ids.len() >= CHANNELS_MAX {
                break;
            }
        }
        ids.truncate(CHANNELS_MAX);
        Ok(ids)
    }
}

/// Repeats a call that only reads, while another try may help.
async fn again<T, F: Future<Output = Result<T, CallError>>>(call: impl Fn() -> F) -> Result<T, CallError> {
    for _ in 1..TRIES {
        match call().await {
            Err(CallError::Limited(wait)) => sleep(wait.min(WAIT_MAX)).await,
            Err(CallError::Lost { .. } | CallError::Unexplained(_)) => sleep(TRY_AGAIN).await,
            done => return done,
        }
    }
    call().await
}

/// Returns a timestamp of Slack.
fn ts(at: Timestamp) -> String {
    format!("{}.{:06}", at.0 / 1_000, at.0 % 1_000 * 1_000)
}
