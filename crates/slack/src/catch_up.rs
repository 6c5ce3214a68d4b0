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
use super::reading::{Reading, Span};
use super::taking::concerns;
use super::web_api::{Arguments, Call, CallError};
use super::{Account, Slack};
use domain::ids::Timestamp;
use domain::incoming::Incoming;
use domain::rejection::Rejection;
use ports::{CaughtUp, Intake, Missed, PostError};

/// The age of a thread whose replies are read back.
const THREAD_AGE: Duration = Duration::from_secs(24 * 3_600);
/// The most channels that are read back.
const CHANNELS_MAX: usize = 1_000;
/// The most pages of the list of channels.
const PAGES: u32 = 10;
/// The most tries of one call that Slack limits, with the delays that Slack asks for.
const TRIES: u32 = 5;
/// The most tries of one call without an answer; after that, the channel is read again later.
const LOST_TRIES: u32 = 2;
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
    /// Passes on the missed messages that concern the bot, oldest first in each channel.
    ///
    /// # Errors
    /// No channel could be read.
    pub(super) async fn read_back(
        &self,
        missed: &Missed,
        names: &[String],
        intake: &dyn Intake,
    ) -> Result<CaughtUp, String> {
        let us = again(|| async { self.account().await.cloned() }).await.map_err(|error| error.to_string())?;
        let channels: Vec<(String, Timestamp)> = match missed {
            Missed::Everywhere(since) => {
                let all = self.channels().await.map_err(|error| error.to_string())?;
                all.into_iter().map(|channel| (channel, *since)).collect()
            }
            Missed::In(places) => {
                let of_door = places.iter().filter(|(place, _)| ids::at(place).is_ok());
                of_door.map(|(place, since)| (place.id.to_string(), *since)).collect()
            }
        };
        let mut caught = CaughtUp::default();
        for (channel, since) in channels {
            match self.missed(&channel, since, &us, names).await {
                Ok(wires) => {
                    let concerning = wires.iter().filter(|wire| concerns(wire, &us, names));
                    if let Err(reason) = self.pass_on(concerning, &us, intake, &mut caught.messages).await {
                        caught.unread.push((ids::channel(&channel), reason));
                    }
                }
                // The bot may have left a channel since it was listed.
                Err(error) if has_left(&error) => {}
                Err(error) => caught.unread.push((ids::channel(&channel), error.to_string())),
            }
        }
        Ok(caught)
    }

    async fn pass_on(
        &self,
        wires: impl Iterator<Item = &Wire>,
        us: &Account,
        intake: &dyn Intake,
        passed: &mut u64,
    ) -> Result<(), String> {
        for wire in wires {
            let posted = self.completed(wire, us).await;
            let accepted = intake.accept(Incoming::Posted(posted), Self::us(us)).await;
            accepted.map_err(|_| "a message was not accepted".to_owned())?;
            *passed += 1;
        }
        Ok(())
    }

    /// Returns the messages of a channel since this time, those in threads too. Those that do not concern the bot have no
    /// text.
    async fn missed(
        &self,
        channel: &str,
        since: Timestamp,
        us: &Account,
        names: &[String],
    ) -> Result<Vec<Wire>, CallError> {
        let oldest = ts(since);
        let began = ts(Timestamp(since.0.saturating_sub(domain::ids::millis(THREAD_AGE))));
        let span = Span { oldest: Some(&began), ..Span::default() };
        let read = async |at: At<'_>, span: Span<'_>| {
            let mut reading = Reading::new(at, span);
            loop {
                let page = again(|| reading.page(self)).await;
                if !reading.take(page, |wire| concerns(wire, us, names))? {
                    return Ok(reading.messages());
                }
            }
        };
        let firsts = read(At { channel, thread: None }, span).await?;
        let mut missed = Vec::new();
        for first in firsts {
            let newer = |ts: &str| ids::moment(ts).is_some_and(|at| at >= since);
            if first.latest_reply.as_deref().is_some_and(newer) {
                let span = Span { oldest: Some(&oldest), ..Span::default() };
                let replies = read(At { channel, thread: Some(&first.ts) }, span).await?;
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

/// True if the error says that the bot may not read the channel any more.
fn has_left(error: &CallError) -> bool {
    let reason = |error| if let PostError::Rejected { reason, .. } = error { Some(reason) } else { None };
    error.name().is_some() && matches!(reason(error.clone().into()), Some(Rejection::PlaceGone | Rejection::Forbidden))
}

/// Repeats a call that only reads, while another try may help.
async fn again<T, F: Future<Output = Result<T, CallError>>>(call: impl Fn() -> F) -> Result<T, CallError> {
    let (mut limited, mut lost) = (0, 0);
    loop {
        let result = call().await;
        match &result {
            Err(CallError::Limited(wait)) if limited + 1 < TRIES => {
                limited += 1;
                sleep((*wait).min(WAIT_MAX)).await;
            }
            Err(CallError::Lost { .. } | CallError::Unexplained(_)) if lost + 1 < LOST_TRIES => {
                lost += 1;
                sleep(TRY_AGAIN).await;
            }
            _ => return result,
        }
    }
}

/// Returns a timestamp of Slack.
fn ts(at: Timestamp) -> String {
    format!("{}.{:06}", at.0 / 1_000, at.0 % 1_000 * 1_000)
}
