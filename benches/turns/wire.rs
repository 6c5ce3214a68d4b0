//! The texts on the wire: gateway events, responses of the request API, and an instant model's completion.

use std::fmt::Write as _;
use std::time::Duration;

/// The bot's account on the rig.
pub const BOT: u64 = 900_000_000_000_000_001;
/// The only guild.
pub const GUILD: u64 = 800_000_000_000_000_001;
/// The first ids of users and channels; further ones follow.
const USERS: u64 = 700_000_000_000_000_000;
const CHANNELS: u64 = 600_000_000_000_000_000;
/// Discord's epoch, in milliseconds since 1970.
const EPOCH: u64 = 1_420_070_400_000;

/// The model's constant answer.
const REPLY: &str = r#"{\"type\":\"text\",\"response\":\"Certainly. Here is a short answer of a usual length for a chat.\",\"data\":\"\"}"#;

/// Words of a streamed answer, and the interval between two of them.
pub const PIECES: usize = 64;
pub const PIECE_EVERY: Duration = Duration::from_millis(20);

/// A member in a channel.
#[derive(Clone, Copy)]
pub struct Seat {
    /// The user's number.
    pub user: u64,
    /// The channel's number.
    pub channel: u64,
}

/// Returns an id of this time, with a number below 2^22.
pub fn id_at(ms: u64, number: u64) -> u64 {
    ((ms - EPOCH) << 22) + number
}

/// Returns a `MESSAGE_CREATE` as Discord writes it, about 1 KB long; it mentions the bot, or another user.
pub fn message(sequence: u64, id: u64, at: &str, seat: Seat, ours: bool) -> String {
    let (user, channel) = (USERS + seat.user, CHANNELS + seat.channel);
    let whom = if ours { BOT } else { USERS + seat.user + 1 };
    let name = if ours { "staffai" } else { "another" };
    let mut text = String::with_capacity(1400);
    let _ = write!(
        text,
        r#"{{"t":"MESSAGE_CREATE","s":{sequence},"op":0,"d":{{"type":0,"tts":false,"timestamp":"{at}","pinned":false,"nonce":"{id}","mentions":[{{"username":"{name}","public_flags":0,"member":{{"roles":[],"premium_since":null,"pending":false,"nick":null,"mute":false,"joined_at":"2025-01-02T03:04:05.678000+00:00","flags":0,"deaf":false,"communication_disabled_until":null,"banner":null,"avatar":null}},"id":"{whom}","global_name":null,"discriminator":"0","clan":null,"avatar_decoration_data":null,"avatar":null}}],"mention_roles":[],"mention_everyone":false,"member":{{"roles":[],"premium_since":null,"pending":false,"nick":null,"mute":false,"joined_at":"2025-02-03T04:05:06.789000+00:00","flags":0,"deaf":false,"communication_disabled_until":null,"banner":null,"avatar":null}},"id":"{id}","flags":0,"embeds":[],"edited_timestamp":null,"content":"<@{whom}> what would you say about number {id}, in a sentence or two?","components":[],"channel_type":0,"channel_id":"{channel}","author":{{"username":"member{user}","public_flags":0,"primary_guild":null,"id":"{user}","global_name":"Member","discriminator":"0","collectibles":null,"clan":null,"avatar_decoration_data":null,"avatar":"0123456789abcdef0123456789abcdef"}},"attachments":[],"guild_id":"{GUILD}"}}}}"#
    );
    text
}

/// Returns the first event of a session.
pub fn ready(sequence: u64, gateway: &str) -> String {
    format!(
        r#"{{"t":"READY","s":{sequence},"op":0,"d":{{"v":10,"user_settings":{{}},"user":{{"verified":true,"username":"staffai","mfa_enabled":false,"id":"{BOT}","global_name":null,"flags":0,"email":null,"discriminator":"0","bot":true,"avatar":null}},"session_type":"normal","session_id":"0123456789abcdef","resume_gateway_url":"{gateway}","shard":[0,1],"relationships":[],"private_channels":[],"presences":[],"guilds":[],"guild_join_requests":[],"geo_ordered_rtc_regions":[],"auth":{{}},"application":{{"id":"{BOT}","flags":565248}},"_trace":[]}}}}"#
    )
}

/// Returns the response about the gateway.
pub fn gateway_bot(gateway: &str) -> String {
    format!(
        r#"{{"url":"{gateway}","shards":1,"session_start_limit":{{"total":1000,"remaining":999,"reset_after":86400000,"max_concurrency":1}}}}"#
    )
}

/// Returns the bot's account.
pub fn me() -> String {
    format!(
        r#"{{"id":"{BOT}","username":"staffai","global_name":null,"discriminator":"0","bot":true,"avatar":null,"flags":0}}"#
    )
}

/// Returns the bot's application.
pub fn application() -> String {
    format!(
        r#"{{"id":"{BOT}","name":"staffai","icon":null,"description":"","summary":"","bot_public":false,"bot_require_code_grant":false,"verify_key":"","flags":0,"team":null,"owner":{}}}"#,
        me()
    )
}

/// Returns the guild, or a part of it. Its members may see and write.
pub fn guild(of_it: &[&str]) -> String {
    match of_it {
        [] => format!(
            r#"{{"id":"{GUILD}","owner_id":"{USERS}","roles":[{{"id":"{GUILD}","permissions":"274877910016"}}]}}"#
        ),
        ["members", ..] => format!(r#"{{"user":{},"roles":[]}}"#, me()),
        ["threads", ..] => r#"{"threads":[],"members":[]}"#.to_owned(),
        _ => "[]".to_owned(),
    }
}

/// Returns a message of the bot that replies to another.
pub fn posted(id: u64, channel: &str, trigger: u64, at: &str) -> String {
    format!(
        r#"{{"id":"{id}","type":19,"channel_id":"{channel}","content":"Certainly. Here is a short answer of a usual length for a chat.","timestamp":"{at}","edited_timestamp":null,"tts":false,"mention_everyone":false,"mentions":[],"mention_roles":[],"attachments":[],"embeds":[],"components":[],"pinned":false,"flags":0,"author":{{"id":"{BOT}","username":"staffai","discriminator":"0","global_name":null,"avatar":null,"bot":true}},"message_reference":{{"type":0,"message_id":"{trigger}","channel_id":"{channel}"}}}}"#
    )
}

pub fn completion() -> String {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"rig","choices":[{{"index":0,"message":{{"role":"assistant","content":"{REPLY}","refusal":null}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":420,"completion_tokens":21,"total_tokens":441}}}}"#
    )
}

/// Returns the same as an event stream.
pub fn completion_stream() -> String {
    let head =
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"rig","choices""#;
    format!(
        "{head}:[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"{REPLY}\"}},\"finish_reason\":null}}]}}\n\n\
         {head}:[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
         {head}:[],\"usage\":{{\"prompt_tokens\":420,\"completion_tokens\":21,\"total_tokens\":441}}}}\n\ndata: [DONE]\n\n"
    )
}

/// Returns the text of a streamed answer.
pub fn streamed_text() -> String {
    (1..=PIECES).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ")
}

/// Returns one piece of a streamed completion, from 0 to [`PIECES`]; each but the last has a word of the text.
pub fn piece(number: usize) -> String {
    let content = match number {
        0 => r#"{\"type\":\"text\",\"response\":\"word1"#.to_owned(),
        PIECES => r#"\",\"data\":\"\"}"#.to_owned(),
        number => format!(" word{}", number + 1),
    };
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"rig\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// Returns one piece of a streamed plain text.
pub fn word(number: usize) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"rig\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word{number}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// Returns the end of a streamed completion.
pub fn end_of_stream() -> &'static str {
    concat!(
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"rig","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"rig","choices":[],"usage":{"prompt_tokens":420,"completion_tokens":150,"total_tokens":570}}"#,
        "\n\ndata: [DONE]\n\n"
    )
}

/// Returns the digits after `marker` in a text.
pub fn number_behind(text: &[u8], marker: &str) -> Option<u64> {
    let at = memchr::memmem::find(text, marker.as_bytes())? + marker.len();
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let mut number = None;
    for digit in digits {
        number = Some(number.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?);
    }
    number
}
