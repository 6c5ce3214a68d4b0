//! Increments as commands. A script checks the ticket first, so that a batch whose answer was lost is not counted
//! twice.

use ::redis::{Cmd, cmd};

use super::TTL_MOST;
use crate::{Batch, Ticket};
use domain::counter::Counter;
use domain::keys;
use ports::Write;

/// Functions for counters. `counted` returns true if increments of this number were counted, and records the number
/// otherwise. `add` adds to a counter and sets its TTL (0: unchanged). Text that is not a counter and keys of other
/// types are replaced. The server itself increments single numbers; sums of several are exact up to 2^53. The mark is
/// written first: if a later line fails, an increment is lost instead of repeated forever.
pub const FUNCTIONS: &str = r"
local function sums(text, most)
    if not text then return nil end
    local found = {}
    for number in string.gmatch(text .. ' ', '(.-) ') do
        if #number > most or not (number == '0' or string.find(number, '^%-?[1-9]%d*$')) then return nil end
        found[#found + 1] = number
    end
    if #found > 6 then return nil end
    return found
end
local function counted(mark, number, life)
    if tonumber(number) <= 0 then return false end
    local last = tonumber(redis.call('GET', mark) or 0)
    if last and last >= tonumber(number) then return true end
    redis.call('SET', mark, number, 'PX', life)
    return false
end
local function add(key, by, life)
    local text = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key)
    local before, more = sums(text, 18), sums(by, 20)
    if not before then
        redis.call('SET', key, by)
    elseif #before == 1 and #more == 1 then
        redis.call('INCRBY', key, by)
    else
        for at = 1, #more do
            before[at] = string.format('%.0f', tonumber(before[at] or 0) + tonumber(more[at]))
        end
        local left = redis.call('PTTL', key)
        redis.call('SET', key, table.concat(before, ' '))
        if left > 0 then redis.call('PEXPIRE', key, left) end
    end
    if life ~= '0' then redis.call('PEXPIRE', key, life) end
end
";

/// Keys: the mark, then the counters. Arguments: the number of the batch (0: always count), the TTL of the mark, then
/// for each counter the increment and the TTL.
const COUNT: &str = r"
if counted(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
for i = 2, #KEYS do add(KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]) end
return 1
";

/// Returns the commands of a batch's increments: one for all, or one for each counter if these are on different
/// servers.
pub fn commands(batch: &Batch, spread: bool) -> Vec<(&str, Cmd)> {
    let adds: Vec<Count> = batch.writes.iter().filter_map(Count::of).collect();
    let Some(first) = adds.first() else { return Vec::new() };
    let ticket = batch.ticket.as_ref();
    if spread {
        let of = |add: &Count<'_>| ticket.and_then(|ticket| keys::applied_to(&ticket.writer, add.key));
        return adds.iter().map(|add| (add.key, script(ticket, of(add), std::slice::from_ref(add)))).collect();
    }
    let mark = ticket.map(|ticket| keys::applied(&ticket.writer));
    vec![(first.key, script(ticket, mark, &adds))]
}

/// An increment in the format of the scripts.
pub struct Count<'a> {
    /// The counter.
    pub key: &'a str,
    /// The increment.
    pub by: Counter,
    /// The new TTL of the counter in milliseconds; zero leaves it unchanged.
    pub life: u128,
}

impl<'a> Count<'a> {
    /// Returns the increment of a write, if it is one.
    pub fn of(write: &'a Write) -> Option<Self> {
        match write {
            Write::Add { key, by, ttl } => {
                // The server would delete the key for a TTL of zero.
                let life = ttl.map_or(0, |ttl| ttl.as_millis().clamp(1, TTL_MOST));
                Some(Self { key, by: *by, life })
            }
            Write::Put { .. } | Write::Join { .. } | Write::Delete { .. } => None,
        }
    }
}

fn script(ticket: Option<&Ticket>, mark: Option<String>, adds: &[Count]) -> Cmd {
    let number = ticket.filter(|_| mark.is_some()).map_or(0, |ticket| ticket.number);
    // Without a mark the first key is ignored, but in a cluster it must be on the same server.
    let mark = mark.unwrap_or_else(|| adds.first().map_or_else(String::new, |add| add.key.to_owned()));
    let mut eval = cmd("EVAL");
    eval.arg(format!("{FUNCTIONS}{COUNT}")).arg(adds.len() + 1).arg(mark);
    for add in adds {
        eval.arg(add.key);
    }
    eval.arg(number).arg(keys::APPLIED_TTL.as_millis().to_string());
    for add in adds {
        eval.arg(add.by.to_string()).arg(add.life.to_string());
    }
    eval
}
