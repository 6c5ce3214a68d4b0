//! The state that all connections of the gateway share.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serenity::model::id::UserId;

use super::Interests;
use super::display::Displays;
use crate::rest::Rest;
use crate::voice::Voice;
use crate::{Access, address};
use domain::rejection::Rejection;
use ports::{Advice, GatewaySession, PostError, Shard, SourceError};

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rest: Arc<Rest>,
    pub(super) access: Access,
    pub(super) interests: Interests,
    /// The gateway's address; `None` until Discord has returned it.
    pub(super) address: Mutex<Option<String>>,
    pub(super) displays: Arc<Displays>,
    pub(super) voice: Arc<Voice>,
}

impl Shared {
    /// Requests Discord's connection advice and stores the gateway's address.
    pub(super) async fn ask(&self) -> Result<Advice, SourceError> {
        let told = self.rest.gateway().await.map_err(refusal)?;
        let address = address::gateway(&told.url, self.access.allow_insecure)
            .map_err(|error| SourceError::Unreachable(format!("the gateway's address is invalid: {error}")))?;
        *self.address.lock() = Some(address);
        let limit = told.session_start_limit;
        Ok(Advice {
            shards: told.shards.max(1),
            max_concurrency: u32::try_from(limit.max_concurrency).unwrap_or(u32::MAX).max(1),
            remaining: u32::try_from(limit.remaining).unwrap_or(u32::MAX),
            reset_after: Duration::from_millis(limit.reset_after),
        })
    }

    pub(super) async fn me(&self) -> Result<UserId, SourceError> {
        self.rest.me().await.map_err(refusal)
    }

    /// Returns the gateway's address, requested from Discord once. There is no fallback address: a program configured
    /// for another service must never reach the real one by accident.
    pub(super) async fn address(&self) -> Result<String, SourceError> {
        let known = self.address.lock().clone();
        if let Some(address) = known {
            return Ok(address);
        }
        self.ask().await?;
        let told = self.address.lock().clone();
        told.ok_or_else(|| SourceError::Unreachable("the gateway's address is unknown".to_owned()))
    }

    /// Returns the session if it can belong to this shard at the configured service. Another service must not receive
    /// the bot token.
    pub(super) fn resumable(&self, session: GatewaySession, shard: Shard) -> Option<GatewaySession> {
        let here = session.service.as_ref().is_none_or(|service| *service == self.access.api_url);
        let resume_url = session.resume_url.clone().filter(|_| session.service.is_some());
        (here && session.total == shard.total).then_some(GatewaySession { resume_url, ..session })
    }

    /// Returns the resume address if it is valid; an invalid one counts as missing.
    pub(super) fn resume_address(&self, told: Option<&str>) -> Option<String> {
        told.and_then(|told| address::gateway(told, self.access.allow_insecure).ok())
    }
}

fn refusal(error: PostError) -> SourceError {
    match error {
        PostError::Rejected { reason: Rejection::Credentials, .. } => SourceError::Refused(
            "discord rejected the bot token; set DISCORD_BOT_TOKEN to the token shown at discord developer portal > Bot > Reset Token"
                .to_owned(),
        ),
        error => SourceError::Unreachable(format!("the request to discord failed: {error}")),
    }
}
