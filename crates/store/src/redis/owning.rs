//! Writes of owners: one script compares the fencing token of their range and applies them atomically.

use ::redis::{Cmd, RedisResult, cmd};

use super::counting::{self, Count, FUNCTIONS};
use super::pool::Link;
use super::{TTL_MOST, command};
use crate::{Batch, OwnedWrites};
use domain::keys;
use domain::ownership::{FencingToken, Range, Term};
use ports::Write;

/// Keys: the newest token of the range, the mark of the increments, the keys that are set or removed, the counters.
/// Arguments: the token, the number of the batch, the TTL of the mark, the number of keys that are set or removed, for
/// each of these its value and TTL (0: no expiry; -: removed), for each counter its increment and TTL. Returns 0 if
/// nothing was done because there is a newer token.
const OWNED: &str = r"
local token = tonumber(ARGV[1])
local newest = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if newest > token then return 0 end
if newest < token then redis.call('SET', KEYS[1], ARGV[1]) end
local again = counted(KEYS[2], ARGV[2], ARGV[3])
local puts = tonumber(ARGV[4])
for i = 3, #KEYS do
    local key, value, life = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
    if i - 2 > puts then
        if not again then add(key, value, life) end
    elseif life == '-' then
        redis.call('DEL', key)
    elseif life == '0' then
        redis.call('SET', key, value)
    else
        redis.call('SET', key, value, 'PX', life)
    end
end
return 1
";

/// Key: the newest token of a range. Argument: a token. Returns 0 if there is a newer one.
const CHECK: &str = r"
local newest = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if newest > tonumber(ARGV[1]) then return 0 end
if newest < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return 1
";

/// Key: the newest token of a range. Creates and returns the next one: the server's time in milliseconds, or the newest
/// token plus one if this is higher. The time keeps tokens rising after the server lost its data. A token more than a
/// year ahead of that time was issued by no server and is replaced: nothing could ever exceed the highest number.
const TAKE: &str = r"
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local newest = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if not (newest < now + 31536000000) then newest = 0 end
local token = math.max(newest + 1, now)
redis.call('SET', KEYS[1], string.format('%.0f', token))
return token
";

/// Applies a batch and returns the ranges whose writes were refused. A single server applies it atomically. A cluster
/// cannot do so for keys of several servers: there, a separate request compares the tokens immediately before the
/// writes are sent.
pub async fn apply(link: &mut Link, batch: &Batch) -> RedisResult<Vec<Range>> {
    if !link.is_spread() {
        let counting = counting::commands(batch, false).into_iter();
        let plain = counting.chain(batch.writes.iter().filter_map(command)).map(|(_, command)| command);
        let owned = batch.owned.iter().map(|owned| script(owned, batch));
        let applied = link.transaction(plain, owned).await?;
        let refused = batch.owned.iter().zip(applied).filter(|(_, applied)| !applied);
        return Ok(refused.map(|(owned, _)| owned.term.range.clone()).collect());
    }
    let mut allowed = Batch { writes: batch.writes.clone(), owned: Vec::new(), ticket: batch.ticket.clone() };
    let mut refused = Vec::new();
    for owned in &batch.owned {
        if is_newest(link, &owned.term).await? {
            allowed.writes.extend(owned.writes.iter().cloned());
        } else {
            refused.push(owned.term.range.clone());
        }
    }
    let counting = counting::commands(&allowed, true).into_iter();
    link.spread(counting.chain(allowed.writes.iter().filter_map(command))).await?;
    Ok(refused)
}

pub async fn take_token(link: &mut Link, range: &Range) -> RedisResult<FencingToken> {
    taking(range).query_async(link).await.map(FencingToken)
}

/// Returns the request for the next token of a range.
pub fn taking(range: &Range) -> Cmd {
    let mut take = cmd("EVAL");
    take.arg(TAKE).arg(1).arg(keys::term(range));
    take
}

async fn is_newest(link: &mut Link, term: &Term) -> RedisResult<bool> {
    checking(term).query_async(link).await
}

/// Returns the request whether no newer token of the range exists.
pub fn checking(term: &Term) -> Cmd {
    let mut check = cmd("EVAL");
    check.arg(CHECK).arg(1).arg(keys::term(&term.range)).arg(term.token.0);
    check
}

fn script(owned: &OwnedWrites, batch: &Batch) -> Cmd {
    let Term { range, token } = &owned.term;
    let (mut puts, mut adds) = (Vec::new(), Vec::new());
    for write in &owned.writes {
        match write {
            Write::Put { key, ttl: Some(ttl), .. } if ttl.as_millis() == 0 => puts.push((key, "", "-".to_owned())),
            Write::Put { key, value, ttl } | Write::Join { key, value, ttl } => {
                let life = ttl.map_or(0, |ttl| ttl.as_millis().min(TTL_MOST));
                puts.push((key, value.as_str(), life.to_string()));
            }
            Write::Delete { key } => puts.push((key, "", "-".to_owned())),
            Write::Add { .. } => adds.extend(Count::of(write)),
        }
    }
    let ticket = batch.ticket.as_ref().filter(|_| !adds.is_empty());
    let mark = ticket.map_or_else(String::new, |ticket| keys::applied_under(&ticket.writer, range));
    let mut eval = cmd("EVAL");
    eval.arg(format!("{FUNCTIONS}{OWNED}")).arg(2 + puts.len() + adds.len()).arg(keys::term(range)).arg(mark);
    for (key, ..) in &puts {
        eval.arg(key.as_str());
    }
    for add in &adds {
        eval.arg(add.key);
    }
    let number = ticket.map_or(0, |ticket| ticket.number);
    eval.arg(token.0).arg(number).arg(keys::APPLIED_TTL.as_millis().to_string()).arg(puts.len());
    for (_, value, life) in puts {
        eval.arg(value).arg(life);
    }
    for add in adds {
        eval.arg(add.by.to_string()).arg(add.life.to_string());
    }
    eval
}
