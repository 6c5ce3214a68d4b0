//! Fetches one page over HTTP: each hop is checked before it is requested, and every part of the response is bounded.

use std::error::Error;
use std::io::Write as _;
use std::time::Duration;

use flate2::write::MultiGzDecoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::Refusal;
use super::guard::Guard;
use super::media::{self, Told};

/// Timeout of connecting, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum number of redirects.
const REDIRECTS_MAX: usize = 5;
/// The `Accept` header; other types are refused on receipt.
const WANTED: &str =
    "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, text/*;q=0.8, application/xml;q=0.7";

pub(super) struct Fetcher {
    guard: Guard,
    client: OnceCell<Client>,
    most: usize,
}

#[derive(Debug)]
pub(super) struct Fetched {
    /// The final address, after redirects.
    pub url: Url,
    /// The media type that the server sent, without its parameters, if any.
    pub media: Option<String>,
    /// The character encoding that the server sent, if any.
    pub charset: Option<String>,
    /// The body as it was sent, up to its bound.
    pub body: Body,
}

/// The bytes of a body, still compressed.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    gzip: bool,
    whole: bool,
    most: usize,
}

impl Fetcher {
    /// Creates a fetcher that reads at most `most` bytes of a page, compressed as well as decompressed.
    pub(super) fn new(guard: Guard, most: usize) -> Self {
        Self { guard, client: OnceCell::new(), most }
    }

    /// Fetches the page at an address.
    pub(super) async fn fetch(&self, address: &str) -> Result<Fetched, Refusal> {
        let mut url = self.guard.read(address)?;
        for _ in 0..=REDIRECTS_MAX {
            self.guard.check(&url)?;
            let request = self.client().await?.get(url.clone()).header(ACCEPT, WANTED).header(ACCEPT_ENCODING, "gzip");
            let response = request.send().await.map_err(|error| reason(&error))?;
            // The resolver returns only allowed addresses; this check does not depend on the HTTP library.
            let peer = response.remote_addr().ok_or(Refusal::Internal)?;
            self.guard.dialable(peer.ip())?;
            let status = response.status();
            if !status.is_redirection() {
                return if status.is_success() {
                    self.read(response).await
                } else {
                    Err(Refusal::Status(status.as_u16()))
                };
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let location = location.ok_or(Refusal::Status(status.as_u16()))?;
            url = response.url().join(location).map_err(|_| Refusal::Address("it redirects to an invalid address"))?;
        }
        Err(Refusal::Redirects)
    }

    async fn read(&self, mut response: Response) -> Result<Fetched, Refusal> {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Told { media, charset } = Told::of(&header(CONTENT_TYPE).unwrap_or_default());
        let gzip = match header(CONTENT_ENCODING).map(|coding| coding.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "identity") => false,
            Some("gzip" | "x-gzip") => true,
            Some(_) => return Err(Refusal::Compressed),
        };
        if let Some(media) = media.as_ref().filter(|media| !media::is_text(media)) {
            return Err(Refusal::Type(media.clone()));
        }
        let (mut bytes, mut whole) = (Vec::new(), true);
        while let Some(piece) = response.chunk().await.map_err(|error| reason(&error))? {
            let room = self.most - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                whole = false;
                break;
            }
        }
        let url = response.url().clone();
        Ok(Fetched { url, media, charset, body: Body { bytes, gzip, whole, most: self.most } })
    }

    /// Returns the HTTP client, created on first use: it reads the system's certificates.
    async fn client(&self) -> Result<&Client, Refusal> {
        let made = self.client.get_or_try_init(|| async {
            let resolver = self.guard.resolver();
            let build = move || {
                if rustls::crypto::CryptoProvider::get_default().is_none() {
                    return Err(Refusal::Unreachable("no TLS provider is installed in this process".to_owned()));
                }
                let builder = Client::builder()
                    .user_agent(concat!("staffai/", env!("CARGO_PKG_VERSION")))
                    .connect_timeout(CONNECT_TIMEOUT)
                    // A pooled connection would be reused without checking the name again.
                    .pool_max_idle_per_host(0)
                    .redirect(Policy::none())
                    .referer(false)
                    .retry(reqwest::retry::never())
                    // Addresses that a proxy dials cannot be checked.
                    .no_proxy()
                    .dns_resolver(resolver);
                builder.build().map_err(|error| Refusal::Unreachable(error.to_string()))
            };
            spawn_blocking(build).await.unwrap_or_else(|_| Err(Refusal::Unreachable("it broke".to_owned())))
        });
        made.await
    }
}

impl Body {
    /// Decompresses. Returns the bytes, and true if they are complete. Takes time in proportion to the bound.
    pub(super) fn unpack(self) -> Result<(Vec<u8>, bool), Refusal> {
        if !self.gzip {
            return Ok((self.bytes, self.whole));
        }
        let mut decoder = MultiGzDecoder::new(Capped { bytes: Vec::new(), room: self.most, over: false });
        let unpacked = decoder.write_all(&self.bytes).and_then(|()| decoder.try_finish());
        let Capped { bytes, over, .. } = std::mem::take(decoder.get_mut());
        match unpacked {
            Ok(()) => Ok((bytes, self.whole)),
            // Truncated data, here or in transit, ends early.
            Err(_) if over || !self.whole => Ok((bytes, false)),
            Err(_) => Err(Refusal::Compressed),
        }
    }
}

/// Accepts no more bytes than there is room for.
#[derive(Default)]
struct Capped {
    bytes: Vec<u8>,
    room: usize,
    over: bool,
}

impl std::io::Write for Capped {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        let fits = piece.len().min(self.room - self.bytes.len());
        if fits == 0 && !piece.is_empty() {
            self.over = true;
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(&piece[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the reason for a failed request: this program's own refusal if that is the root cause.
fn reason(error: &reqwest::Error) -> Refusal {
    let mut cause: Option<&dyn Error> = Some(error);
    let mut last = String::new();
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return refusal.clone();
        }
        last = error.to_string();
        cause = error.source();
    }
    Refusal::Unreachable(last.chars().filter(|c| !c.is_control()).take(200).collect())
}
