-- One step of the sliding-window limits, atomic and on the server's clock: the window of a member and any number of
-- accounts. crates/domain/src/limits/window_log.rs implements the same rules. The script is this file, then
-- limits/shares.lua (accounts), limits/sum.lua and limits/lists.lua (the member).
--
-- KEYS: the list of messages (`at:turn`) and the list of tokens (`at:tokens:turn`, with `:lease` while it is not
--       settled; a lease of 0 belongs to a turn that ended with its estimate), and a hash with their sum: field `sum`,
--       and for each turn field `t` + name with its place. Then the list of each account. A step about accounts alone
--       has no keys of a member.
-- ARGV: step, window in ms, messages allowed, tokens allowed, exempt (1), tokens, turn, lease in ms, maximum of
--       entries, the process' version of the lists (0: none), the number of accounts; for each account its window in
--       ms, limit, amount (empty: the estimate stays), 1 if it counts turns or calls, the number of groups that follow,
--       and these groups; then, about the member, the decisions made elsewhere while this server was unavailable, in
--       groups of four: at, turn, tokens, lease. Tokens are `-` for a turn cancelled there; the lease is empty for a
--       settled turn.
-- Reply: the member's part alone or, with accounts, this part, the number of the refusing account (0: none), the time
--       in microseconds, and the list of each account. The member's part: word, now in ms, tier, wait in ms (-1 for
--       never), basis, version, messages, tokens, 1 if the lists follow, both lists. The word `lost` means that the
--       process has entries that are missing here: nothing was changed.
--
-- The lists are the source of truth; the sum avoids reading them. Programs that write to the lists without the sum
-- change a length, the newest entry or an unsettled one, and the script compares each of these before it uses the sum.

local step, window = ARGV[1], tonumber(ARGV[2])
local allowed_messages, allowed_tokens = tonumber(ARGV[3]), tonumber(ARGV[4])
local exempt, tokens, turn, lease, most = ARGV[5] == '1', ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local known_version = tonumber(ARGV[10])
local TOKENS_MAX = 1000000000000

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function read_moment(field)
  local number = tonumber(field)
  if not number or number ~= number or number < 0 then return nil end
  local ms = number < 1e11 and number * 1000 or number
  if ms > 253402300799999 then return nil end
  return math.floor(ms + 0.5)
end

local function read_tokens(text)
  local when, amount, id, until_when = string.match(text, '^([^:]*):([^:]*):?([^:]*):?(.*)$')
  local at, spent = read_moment(when), tonumber(amount)
  if not (at and spent and spent == spent and spent >= 0 and spent < math.huge) then return nil end
  if id == '' then id = nil end
  return {
    at = at, tokens = math.min(math.floor(spent + 0.5), TOKENS_MAX), turn = id, spent = true, message = false,
    lease = id and until_when ~= '' and read_moment(until_when) or nil, as_tokens = text,
    as_message = id and when .. ':' .. id,
  }
end

