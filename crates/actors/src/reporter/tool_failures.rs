//! Notices about tool servers and built-in tools that fail for long: one when a part has failed for
//! `report.failures_after`, one when it works again. [`Outages`] decides, and its record is in the store.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{POST_TIMEOUT, Reporter};
use crate::messages::outbox::OutboxMsg;
use crate::observation::board::{PartKind, PartState};
use domain::ids::{self, Place, Timestamp};
use domain::keys;
use domain::notice;
use domain::outgoing::{Outgoing, Part};
use domain::tool::outage::{OutageNews, Outages, PartHealth, ToolPart};
use ports::{StoreStatus, Stored, Unreadable, Write};

/// The maximum time for which a server must work before it counts as working: a server that breaks after each
/// connection does not. The minimum time of a failure applies if it is shorter.
const STEADY: Duration = Duration::from_secs(30);

impl Reporter {
    /// Compares the record of failing parts with their state, and posts the news. Returns true if it posted some.
    pub(super) async fn watch(&self) -> Result<bool, String> {
        let (channel, after) = {
            let running = self.live.now();
            let report = &running.settings.report;
            (report.failures_channel.clone(), report.failures_after)
        };
        // A process that lost its turns leaves the notices to the owner, which connects to the same tools.
        let Some(channel) = channel.filter(|_| !self.is_fenced()) else { return Ok(false) };
        if let StoreStatus::Degraded(reason) = self.store.status() {
            return Err(format!("the store fails, so it is unknown which failures of tools were reported: {reason}"));
        }
        let stored = match self.store.read(keys::REPORT_TOOLS).await {
            Stored::Unreadable(Unreadable::NoAnswer) => {
                return Err("the record of failing tools cannot be read".to_owned());
            }
            stored => stored.value().and_then(|text| serde_json::from_str::<Outages>(&text).ok()),
        };
        let now = self.clock.now();
        let mut outages = stored.clone().unwrap_or_else(|| Outages::new(now));
        let news = outages.compare(&self.tool_parts(now, after.min(STEADY)), after);
        let name = outages.next_notice(now).filter(|_| !news.is_empty());
        // A failure that began is recorded, so that its time counts over restarts.
        if stored.as_ref() != Some(&outages) && (stored.is_some() || !outages.is_empty()) {
            self.record(&outages).await;
        }
        let Some(name) = name else { return Ok(false) };
        let posted = self.post(name, channel, &news).await;
        outages.attempted(&news, posted.is_ok(), now);
        self.record(&outages).await;
        posted.map(|()| true)
    }

    /// True if another process owns turns of this one.
    fn is_fenced(&self) -> bool {
        self.board.parts().iter().any(|(kind, _, state)| *kind == PartKind::Custody && !state.up)
    }

    async fn post(&self, name: String, channel: String, news: &OutageNews) -> Result<(), String> {
        let outgoing = Outgoing {
            place: Place::new(self.door.clone(), channel),
            reply_to: None,
            parts: vec![Part::Card(notice::outage::card(news))],
            apology: false,
            spent: None,
            private: false,
        };
        let post = |reply| OutboxMsg::Post { name, outgoing, reply };
        let posted = self.outbox.call(post, POST_TIMEOUT).await.map_err(|error| error.to_string())?;
        posted.map(drop).map_err(|reason| reason.to_string())
    }

    async fn record(&self, outages: &Outages) {
        // A record of this type can be serialized.
        let Ok(value) = serde_json::to_string(outages) else { return };
        self.store.write(vec![Write::Put { key: keys::REPORT_TOOLS.to_owned(), value, ttl: None }]).await;
    }

    /// Returns the state of all tool servers and of the built-in tools that were called.
    fn tool_parts(&self, now: Timestamp, steady: Duration) -> BTreeMap<ToolPart, PartHealth> {
        let servers = self.board.parts().into_iter().filter(|(kind, ..)| *kind == PartKind::McpServer);
        let servers = servers.map(|(_, name, state)| (ToolPart::Server(name), server(state, now, steady)));
        servers.chain(self.tool_health.parts(now)).collect()
    }
}

/// Returns the health of a server. One that has been starting for long fails like one that is down.
fn server(state: PartState, now: Timestamp, steady: Duration) -> PartHealth {
    let lasted = state.since.elapsed();
    match state.up {
        true if lasted >= steady => PartHealth::Works,
        true => PartHealth::Unknown,
        false => {
            let since = Timestamp(now.0.saturating_sub(ids::millis(lasted)));
            PartHealth::Fails { since, seen: now, reason: state.last_error.unwrap_or_default() }
        }
    }
}
