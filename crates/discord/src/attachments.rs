//! Downloads of message attachments. Only the platform's content servers are dialled, never an address that a member
//! could have invented. Redirects are not followed and the bot token is not sent.

use std::time::Duration;

use async_trait::async_trait;
use http::{Request, StatusCode};
use reqwest::Url;
use tokio::time::timeout;

use super::rest::Rest;
use super::{Access, BadAccess, address};
use http_client::{Failure, HttpClient, Outgoing};
use ports::{Attachments, FetchError};

/// The timeout of one download, last byte included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Discord's content servers for message attachments.
const CONTENT_SERVERS: [&str; 2] = ["https://cdn.discordapp.com", "https://media.discordapp.net"];
/// The path prefixes of message attachments.
const FOLDERS: [&str; 2] = ["/attachments/", "/ephemeral-attachments/"];

/// Discord's content servers.
#[derive(Debug)]
pub struct ContentServers {
    client: HttpClient,
    origins: Vec<Url>,
}

impl ContentServers {
    /// Creates the content servers of a request API: Discord's own and the API's address. If the API is on this
    /// machine, only that address is used, because a local service stores its own files.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn new(access: &Access, rest: &Rest) -> Result<Self, BadAccess> {
        let own = address::api(&access.api_url, access.allow_insecure)?;
        let local = address::is_local(&own);
        let others = if local { &[][..] } else { &CONTENT_SERVERS[..] };
        let origins = std::iter::once(own.as_str()).chain(others.iter().copied()).filter_map(|url| url.parse().ok());
        Ok(Self { client: rest.client(), origins: origins.collect() })
    }

    fn allowed(&self, url: &str) -> Option<Url> {
        let url: Url = url.parse().ok()?;
        let origin = |known: &&Url| known.origin() == url.origin();
        let ours = self.origins.iter().find(origin).is_some()
            && url.username().is_empty()
            && url.password().is_none()
            && FOLDERS.iter().any(|folder| url.path().starts_with(folder));
        ours.then_some(url)
    }
}

#[async_trait]
impl Attachments for ContentServers {
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        let url = self.allowed(url).ok_or(FetchError::Foreign)?;
        let lost = |failure: Failure| FetchError::Lost(failure.cause);
        let late = |_| FetchError::Lost("operation timed out".to_owned());
        let request = Request::get(url.as_str()).body(Outgoing::EMPTY).map_err(|_| FetchError::Foreign)?;
        let read = async {
            let mut answer = self.client.send(request).await.map_err(lost)?;
            if answer.status != StatusCode::OK {
                return Err(FetchError::Gone(answer.status.as_u16()));
            }
            if answer.length().is_some_and(|length| length > most as u64) {
                return Err(FetchError::TooLong);
            }
            let mut bytes = Vec::new();
            while let Some(piece) = answer.chunk().await.map_err(lost)? {
                if bytes.len() + piece.len() > most {
                    return Err(FetchError::TooLong);
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        };
        timeout(TIMEOUT, read).await.map_err(late)?
    }
}

#[cfg(test)]
mod tests;
