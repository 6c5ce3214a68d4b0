//! The HTTP clients of endpoints that speak or hear.

use std::time::Duration;

use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http_client::{HttpClient, Outgoing, Response, Settings};
use secrecy::ExposeSecret;

use crate::failure::Failure;
use crate::source::{Endpoint, Source};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// One client for this machine, and one for others.
#[derive(Default)]
pub(crate) struct Clients {
    here: Option<HttpClient>,
    out: Option<HttpClient>,
}

impl Clients {
    /// Creates the clients of these sources. Blocks while it reads the certificates of the system.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Result<Self, String> {
        let (mut is_used, mut clients) = ([false; 2], [None, None]);
        for endpoint in sources.filter_map(Source::endpoint) {
            is_used[usize::from(endpoint.here)] = true;
        }
        for (at, client) in clients.iter_mut().enumerate().filter(|(at, _)| is_used[*at]) {
            let settings = Settings {
                user_agent: concat!("staffai/", env!("CARGO_PKG_VERSION")),
                connect_timeout: CONNECT_TIMEOUT,
                idle_timeout: IDLE_TIMEOUT,
                proxied: at == 0,
                encrypted: true,
            };
            *client = Some(HttpClient::new(settings)?);
        }
        let [out, here] = clients;
        Ok(Self { here, out })
    }

    /// Sends a body to an endpoint.
    ///
    /// # Errors
    /// The reason why there is no successful response.
    pub(crate) async fn post(&self, to: &Endpoint, content_type: &str, body: Vec<u8>) -> Result<Response, Failure> {
        let refused = |why: String| Failure::Refused(why);
        let client = if to.here { &self.here } else { &self.out };
        let client = client.as_ref().ok_or_else(|| refused("it has no client".to_owned()))?;
        let mut request = Request::post(&to.url).header(CONTENT_TYPE, content_type);
        if let Some(key) = &to.key {
            let value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()));
            let mut value = value.map_err(|_| refused("the key has characters that no header may have".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Outgoing::Whole(body.into())).map_err(|error| refused(error.to_string()))?;
        let response = client.send(request).await.map_err(|failure| refused(failure.cause))?;
        if !response.status.is_success() {
            return Err(refused(format!("status {}", response.status.as_u16())));
        }
        Ok(response)
    }
}
