//! The REST interface: every request passes the same checks (delays, planned answers, token, rate limits) before its
//! route.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    limits::{Bucket, RateDecision, Standing},
    line::Line,
    world::{Core, World},
};

mod answer;
mod body;
mod draft;
mod guilds;
mod interactions;
mod messages;
pub(super) mod routes;

use answer::{ApiError, RestReply};
use routes::{Call, Lookup, Route};

/// Maximum size of a body, in bytes: ten files of Discord's usual limit.
const LONGEST_BODY: usize = 100 << 20;

/// A request without its transport.
pub struct RestRequest {
    path: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
}

impl RestRequest {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

pub async fn answer(State(core): State<Arc<Core>>, ConnectInfo(line): ConnectInfo<Line>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let lookup = routes::find(&parts.method, parts.uri.path());
    let (name, channel, exempt) = match &lookup {
        Lookup::Found(route) => (route.name, route.channel, route.bucket == Bucket::Exempt),
        Lookup::NoSuchMethod | Lookup::NoSuchPath => ("unknown", None, false),
    };
    let delay = {
        let mut world = core.world();
        world.tally.request(name, exempt, Instant::now());
        world.script.delay(name, channel)
    };
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let asked = RestRequest {
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(body::query).unwrap_or_default(),
        headers: parts.headers,
        body: to_bytes(body, LONGEST_BODY).await.unwrap_or_default(),
    };
    let mut world = core.world();
    let (answer, standing) = gate(&core, &mut world, lookup, &asked);
    // The message was created, but its sender must not learn that.
    if name == routes::CREATE_MESSAGE && answer.status == 200 && world.script.drop_answers > 0 {
        world.script.drop_answers -= 1;
        world.tally.answer(0);
        line.cut();
    } else {
        world.tally.answer(answer.status);
    }
    let now = world.now();
    drop(world);
    respond(&answer, standing.as_ref(), now)
}

fn gate(core: &Core, world: &mut World, lookup: Lookup, asked: &RestRequest) -> (RestReply, Option<Standing>) {
    let route = match lookup {
        Lookup::Found(route) => route,
        Lookup::NoSuchPath => return (ApiError::plain(404).into(), None),
        Lookup::NoSuchMethod => return (ApiError::plain(405).into(), None),
    };
    if let Some(planned) = world.script.planned(route.name) {
        return (RestReply::planned(&planned), None);
    }
    if matches!(route.call, Call::CreateMessage(_) | Call::EditMessage(..))
        && let Some(refused) = world.script.refused(&asked.body)
    {
        return (RestReply::planned(&refused), None);
    }
    if route.call.needs_token() && !authorized(core, world, asked) {
        return (ApiError::plain(401).into(), None);
    }
    match world.limits.charge(route.bucket, route.major, Instant::now()) {
        RateDecision::RefusedGlobally(wait) => (RestReply::limited(wait, true), None),
        RateDecision::Refused(standing) => (RestReply::limited(standing.reset_after, false), Some(standing)),
        RateDecision::Pass(standing) => {
            (route_answer(core, world, &route, asked).unwrap_or_else(RestReply::from), standing)
        }
    }
}

fn authorized(core: &Core, world: &World, asked: &RestRequest) -> bool {
    let shown = asked.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    shown.and_then(|value| value.strip_prefix("Bot ")) == Some(&core.token) && !world.script.reject_token
}

fn route_answer(core: &Core, world: &mut World, route: &Route, asked: &RestRequest) -> Result<RestReply, ApiError> {
    match route.call {
        Call::Gateway => Ok(RestReply::ok(json!({"url": core.gateway_url()}))),
        Call::GatewayBot => Ok(RestReply::ok(gateway_bot(core, world))),
        Call::Me => Ok(guilds::me(world)),
        Call::User(user) => guilds::user(world, user),
        Call::MyGuilds => Ok(guilds::mine(world)),
        Call::OpenDirect => guilds::open_direct(world, asked),
        Call::Application => Ok(guilds::application(core, world)),
        Call::Guild(guild) => guilds::guild(world, guild),
        Call::GuildChannels(guild) => guilds::channels(world, guild),
        Call::GuildRoles(guild) => guilds::roles(world, guild),
        Call::GuildMembers(guild) => guilds::members(world, guild, asked),
        Call::GuildMember(guild, user) => guilds::member(world, guild, user),
        Call::VoiceState(guild, user) => guilds::voice_state(world, guild, user),
        Call::SetRole(guild, user, role, held) => guilds::set_role(world, guild, user, role, held, asked),
        Call::Channel(channel) => guilds::channel(world, channel),
        Call::CreateMessage(channel) => messages::create(world, channel, asked),
        Call::ListMessages(channel) => messages::list(world, channel, asked),
        Call::Message(channel, message) => messages::get(world, channel, message),
        Call::EditMessage(channel, message) => messages::edit(world, channel, message, asked),
        Call::DeleteMessage(channel, message) => messages::delete(world, channel, message),
        Call::Typing(channel) => messages::typing(world, channel),
        Call::OpenThread(channel, message) => messages::open_thread(world, channel, message, asked),
        Call::GuildThreads(guild) => guilds::threads(world, guild),
        Call::React(channel, message, held) => messages::react(world, channel, message, held, asked),
        Call::Commands(scope) => Ok(interactions::commands(world, scope, asked)),
        Call::SetCommands(scope) => interactions::set_commands(world, scope, asked),
        Call::Callback(id, token) => interactions::callback(world, id, token, asked),
        Call::FollowUp(token) => interactions::follow_up(world, token, asked),
        Call::GetAnswer(token, id) => interactions::get(world, token, id),
        Call::EditAnswer(token, id) => interactions::edit(world, token, id, asked),
        Call::DeleteAnswer(token, id) => interactions::delete(world, token, id),
    }
}

fn gateway_bot(core: &Core, world: &World) -> Value {
    let day = u64::try_from(Duration::from_secs(24 * 60 * 60).as_millis()).unwrap_or(0);
    json!({
        "url": core.gateway_url(),
        "shards": core.shards,
        "session_start_limit": {
            "total": world.hub.starts_total(),
            "remaining": world.hub.starts_left(),
            "reset_after": day,
            "max_concurrency": core.max_concurrency,
        },
    })
}

fn respond(answer: &RestReply, standing: Option<&Standing>, now: u64) -> Response {
    let mut response = Response::builder().status(StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK));
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    if let Some(standing) = standing {
        let after = standing.reset_after.as_secs_f64();
        let now = Duration::from_millis(now).as_secs_f64();
        response = response
            .header("x-ratelimit-limit", standing.limit)
            .header("x-ratelimit-remaining", standing.remaining)
            .header("x-ratelimit-reset", format!("{:.3}", now + after))
            .header("x-ratelimit-reset-after", format!("{after:.3}"))
            .header("x-ratelimit-bucket", &standing.bucket);
    }
    let body = answer.body.as_ref().map(|body| Body::from(body.to_string()));
    if body.is_some() {
        response = response.header(header::CONTENT_TYPE, "application/json");
    }
    response.body(body.unwrap_or_default()).unwrap_or_default()
}
