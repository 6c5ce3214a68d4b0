//! Discord's request API: one attempt for each call. The client never retries, follows redirects, contacts a host other
//! than the configured one or reveals the token.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret;
use serde_json::value::RawValue;
use serenity::model::channel::{MessageReference, MessageReferenceKind};
use serenity::model::gateway::BotGateway;
use serenity::model::id::{ChannelId, MessageId as WireMessageId, UserId};
use tokio::time::{Instant, timeout_at};

use super::message::{AllowedMentions, Body};
use super::rights::Rights;
use super::threads::Threads;
use super::{Access, BadAccess, DOOR, TEXT_LIMIT, address, events, message};
use domain::ids::{MessageId, Place};
use domain::incoming::Posted;
use domain::outgoing::{Capabilities, Medium, Piece};
use domain::question::FIELDS_MAX;
use domain::rejection::Rejection;
use http_client::{HttpClient, Outgoing, Settings};
use ports::{HistoryRange, PlaceKind, PostError, PostReply, PostRequest, PostResult, Poster};

pub mod account;

pub mod invite;

pub mod setup;

mod commands;

mod answer;

mod counted;

mod roles;

mod surroundings;

use answer::{RestError, RestResponse};
use counted::Fine;
use telemetry::events::DISCORD_MESSAGE_DROPPED;

/// The timeout of a whole request.
const TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The idle timeout of a connection; each takes about thirty kilobytes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The most messages returned by one read.
const HISTORY_LIMIT: u8 = 100;
/// The user agent in the form that Discord requires of bots, with an address and a version. Others may be rejected.
pub(super) const USER_AGENT: &str =
    concat!("DiscordBot (", env!("CARGO_PKG_HOMEPAGE"), ", ", env!("CARGO_PKG_VERSION"), ") staffai");

/// Discord's request API.
#[derive(Debug)]
pub struct Rest {
    client: HttpClient,
    /// The prefix of all request addresses.
    base: String,
    /// Counters of successful requests.
    fine: Fine,
    authorization: HeaderValue,
    /// The bot's id; empty until known.
    me: OnceLock<UserId>,
    /// The id of the bot's application; empty until known.
    application: OnceLock<String>,
    /// The bot's permissions, as far as known.
    pub(super) rights: Rights,
    /// Known threads and guilds; messages do not contain this data.
    pub(super) threads: Threads,
    pings: AllowedMentions,
}

impl Rest {
    /// Creates a client for this address and token. Sends nothing yet.
    ///
    /// # Errors
    /// The address or the token is invalid.
    pub fn new(access: &Access) -> Result<Self, BadAccess> {
        let base = address::api(&access.api_url, access.allow_insecure)?;
        let token = bare_token(access);
        let mut authorization = HeaderValue::from_str(&format!("Bot {token}")).map_err(|_| BadAccess::Token)?;
        if token.is_empty() {
            return Err(BadAccess::Token);
        }
        authorization.set_sensitive(true);
        let client = HttpClient::new(Settings {
            user_agent: USER_AGENT,
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            proxied: false,
            encrypted: !(base.starts_with("http://") && address::is_local(&base)),
        })
        .map_err(BadAccess::Client)?;
        Ok(Self {
            client,
            base: format!("{base}/api/v10"),
            fine: Fine::default(),
            authorization,
            me: OnceLock::new(),
            application: OnceLock::new(),
            rights: Rights::default(),
            threads: Threads::default(),
            pings: AllowedMentions::default(),
        })
    }

    /// Returns the underlying client, which has read the system's certificates.
    pub(super) fn client(&self) -> HttpClient {
        self.client.clone()
    }

    /// Sets the accounts that posts may notify.
    #[must_use]
    pub fn pinging(self, pings: AllowedMentions) -> Self {
        Self { pings, ..self }
    }

    /// Requests Discord's connection advice and the gateway's address.
    ///
    /// # Errors
    /// See [`PostError`].
    pub(super) async fn gateway(&self) -> Result<BotGateway, PostError> {
        self.send(Method::GET, "/gateway/bot", None).await?.json()
    }

    /// Returns the bot's id, requested once.
    ///
    /// # Errors
    /// See [`PostError`].
    pub(super) async fn me(&self) -> Result<UserId, PostError> {
        if let Some(me) = self.me.get() {
            return Ok(*me);
        }
        let told: events::Me = self.send(Method::GET, "/users/@me", None).await?.json()?;
        Ok(*self.me.get_or_init(|| told.id))
    }

    pub(super) fn known_me(&self) -> Option<UserId> {
        self.me.get().copied()
    }

    /// Stores the bot's id, which READY also contains.
    pub(super) fn know_me(&self, me: UserId) {
        // The first value is final: a token belongs to one account permanently.
        self.me.get_or_init(|| me);
    }

    /// Sends one request and returns a response with a success status.
    async fn send(&self, method: Method, path: &str, body: Option<Body>) -> Result<RestResponse, RestError> {
        self.send_with(HeaderMap::new(), method, path, body).await
    }

    /// Like `send`, with further headers.
    async fn send_with(
        &self,
        headers: HeaderMap,
        method: Method,
        path: &str,
        body: Option<Body>,
    ) -> Result<RestResponse, RestError> {
        let answer = match self.request(headers, method, path, body) {
            Ok(request) => self.exchange(request).await,
            Err(error) => Err(error),
        };
        self.fine.count(answer.as_ref().ok().map(|answer| answer.status));
        answer?.success()
    }

    async fn exchange(&self, request: Request<Outgoing>) -> Result<RestResponse, PostError> {
        let until = Instant::now() + TIMEOUT;
        let response = timeout_at(until, self.client.send(request)).await.map_err(|_| answer::late())?;
        RestResponse::read(response.map_err(|failure| answer::lost(&failure))?, until).await
    }

    fn request(
        &self,
        headers: HeaderMap,
        method: Method,
        path: &str,
        body: Option<Body>,
    ) -> Result<Request<Outgoing>, PostError> {
        let request = Request::builder().method(method).uri([&self.base, path].concat());
        let (content_type, bytes) = body.map(|Body { content_type, bytes }| (content_type, bytes)).unzip();
        let mut request =
            request.body(Outgoing::Whole(bytes.unwrap_or_default())).map_err(|_| foreign("the request"))?;
        *request.headers_mut() = headers;
        if let Some(content_type) = content_type {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        request.headers_mut().insert(AUTHORIZATION, self.authorization.clone());
        Ok(request)
    }

    async fn create(&self, post: &PostRequest) -> Result<RestResponse, PostError> {
        let PostRequest::Create { place, piece, reply_to, nonce } = post else {
            return Err(foreign("the request"));
        };
        let channel = channel(place)?;
        let mut reference = None;
        if let Some(reply_to) = reply_to {
            let to = MessageReference::new(MessageReferenceKind::Default, channel);
            // A post without its reference would answer a deleted question, and would not be found after a restart.
            reference = Some(to.message_id(message_id(reply_to)?).fail_if_not_exists(true));
        }
        let body = message::create(piece, reference, nonce, self.pings)?;
        let path = format!("/channels/{channel}/messages");
        Ok(self.send(Method::POST, &path, Some(body)).await?)
    }

    async fn edit(&self, place: &Place, message: &MessageId, piece: &Piece) -> Result<RestResponse, PostError> {
        let path = format!("/channels/{}/messages/{}", channel(place)?, message_id(message)?);
        Ok(self.send(Method::PATCH, &path, Some(message::edit(piece, self.pings)?)).await?)
    }

    async fn history(&self, place: &Place, range: &HistoryRange, limit: u8) -> Result<PostReply, PostError> {
        let limit = limit.clamp(1, HISTORY_LIMIT);
        let mut path = format!("/channels/{}/messages?limit={limit}", channel(place)?);
        match range {
            HistoryRange::Newest => {}
            HistoryRange::After(message) => path = format!("{path}&after={}", message_id(message)?),
            HistoryRange::Before(message) => path = format!("{path}&before={}", message_id(message)?),
        }
        let me = self.me().await?;
        let mut answer = self.send(Method::GET, &path, None).await?;
        let body = answer.take_body();
        // A hundred messages can be some megabytes; parsing them on a task would occupy a core for too long.
        let read = tokio::task::spawn_blocking(move || posted(&body, me));
        let messages =
            read.await.map_err(|_| PostError::Unsure("the answer of discord could not be read".to_owned()))??;
        Ok(answer.reply(PostResult::Messages(messages)))
    }

    async fn fetch(&self, place: &Place, message: &MessageId) -> Result<PostReply, PostError> {
        let path = format!("/channels/{}/messages/{}", channel(place)?, message_id(message)?);
        let me = self.me().await?;
        let answer = self.send(Method::GET, &path, None).await?;
        let message = fetched(&answer, me)?;
        Ok(answer.reply(PostResult::Messages(vec![message])))
    }

    /// Reads a response without headers as that of each kind of request.
    #[cfg(test)]
    pub(super) fn read_as_any(&self, status: http::StatusCode, body: &[u8]) {
        use ports::GuildField::{Itself, Ourselves, Place as OnePlace, Places, Threads};

        let me = UserId::new(1);
        match RestResponse::without_headers(status, body.to_vec()).success() {
            Err(error) => drop(PostError::from(error)),
            Ok(mut answer) => {
                drop((answer.posted(), answer.json::<BotGateway>(), answer.json::<events::Me>(), fetched(&answer, me)));
                let place = OnePlace(Place::new(DOOR, "7"));
                for aspect in [Itself, Places, Threads, Ourselves, place] {
                    drop(self.learn_from(&answer, &aspect, 5, me));
                }
                drop(posted(&answer.take_body(), me));
            }
        }
    }
}

fn fetched(answer: &RestResponse, me: UserId) -> Result<Posted, PostError> {
    let raw: &RawValue = answer.json()?;
    events::posted(raw.get(), me, None).map_err(|error| answer::undecodable(&error))
}

#[async_trait]
impl Poster for Rest {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            text_limit: TEXT_LIMIT,
            cards: message::CARDS_MAX,
            files: message::FILES_MAX,
            file_bytes: message::FILE_BYTES_MAX,
            buttons: message::BUTTONS_MAX,
            forms: FIELDS_MAX,
            medium: Medium::Messages,
        }
    }

    fn community(&self, place: &Place) -> Option<String> {
        let parent = self.threads.parent(place);
        self.rights.guild_of(parent.as_ref().unwrap_or(place))
    }

    fn kind(&self, place: &Place) -> PlaceKind {
        match self.threads.parent(place) {
            Some(channel) => PlaceKind::Thread(channel),
            None if self.rights.guild_of(place).is_some() => PlaceKind::Channel,
            None => PlaceKind::Unknown,
        }
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        match request {
            PostRequest::Create { .. } => self.create(request).await?.posted(),
            PostRequest::Edit { place, message, piece } => self.edit(place, message, piece).await?.posted(),
            PostRequest::Delete { place, message } => {
                let path = format!("/channels/{}/messages/{}", channel(place)?, message_id(message)?);
                Ok(self.send(Method::DELETE, &path, None).await?.reply(PostResult::Done))
            }
            PostRequest::Typing { place } => {
                let path = format!("/channels/{}/typing", channel(place)?);
                Ok(self.send(Method::POST, &path, None).await?.reply(PostResult::Done))
            }
            PostRequest::React { place, message, emoji } => {
                let emoji = utf8_percent_encode(emoji, NON_ALPHANUMERIC);
                let (channel, message) = (channel(place)?, message_id(message)?);
                let path = format!("/channels/{channel}/messages/{message}/reactions/{emoji}/@me");
                Ok(self.send(Method::PUT, &path, None).await?.reply(PostResult::Done))
            }
            PostRequest::History { place, range, limit } => self.history(place, range, *limit).await,
            PostRequest::Fetch { place, message } => self.fetch(place, message).await,
            PostRequest::FetchGuild { community, aspect } => self.learn(community, aspect).await,
            PostRequest::RegisterCommands(specs) => self.register(specs).await,
            PostRequest::Defer(callback) => self.defer(callback).await,
            PostRequest::OpenForm { to, name, title, form, locale } => {
                self.open_form(to, &super::forms::modal(name, title, form, *locale)).await
            }
            PostRequest::Respond { to, piece, .. } => self.respond(to, piece).await,
            PostRequest::Suggest { to, choices } => self.suggest(to, choices).await,
            PostRequest::Roles(member) => self.roles(member).await,
            PostRequest::AddRole(appointment) => self.set_role(Method::PUT, appointment).await,
            PostRequest::RemoveRole(appointment) => self.set_role(Method::DELETE, appointment).await,
        }
    }
}

/// Returns the messages of a response, oldest first; unreadable ones are skipped.
fn posted(body: &[u8], me: UserId) -> Result<Vec<Posted>, PostError> {
    let raws: Vec<&RawValue> = serde_json::from_slice(body).map_err(|error| answer::undecodable(&error))?;
    let mut messages: Vec<Posted> = Vec::with_capacity(raws.len());
    for raw in raws {
        match events::posted(raw.get(), me, None) {
            Ok(message) => messages.push(message),
            Err(error) => {
                let reason = super::frame::reason(&error);
                tracing::debug!(event = DISCORD_MESSAGE_DROPPED, reason, "a message could not be read");
            }
        }
    }
    // Discord sends the newest first. Ids are numbers without leading zeros, so a longer one is later.
    messages.sort_by(|a, b| (a.id.id.len(), &a.id.id).cmp(&(b.id.id.len(), &b.id.id)));
    Ok(messages)
}

/// Returns the token without the prefix `Bot`, which requests add.
pub(super) fn bare_token(access: &Access) -> &str {
    let token = access.token.expose_secret().trim();
    match token.strip_prefix("Bot") {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => token,
    }
}

/// Validates an id as a number before it becomes part of a path.
fn channel(place: &Place) -> Result<ChannelId, PostError> {
    if place.door != DOOR {
        return Err(foreign("the place"));
    }
    number(&place.id).map(ChannelId::new).ok_or_else(|| foreign("the place"))
}

fn message_id(message: &MessageId) -> Result<WireMessageId, PostError> {
    if message.door != DOOR {
        return Err(foreign("the message"));
    }
    number(&message.id).map(WireMessageId::new).ok_or_else(|| foreign("the message"))
}

fn number(id: &str) -> Option<u64> {
    id.parse::<u64>().ok().filter(|id| *id != 0 && *id != u64::MAX)
}

fn foreign(what: &str) -> PostError {
    PostError::unsent(Rejection::Content, format!("{what} is not of this door"))
}

#[cfg(test)]
mod tests;
