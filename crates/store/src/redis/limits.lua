-- The law of limits as one step of the server, on the server's clock: the window of a member and any number of accounts. The same
-- law is crates/domain/src/limits/window_log.rs. The script is this file, then limits/shares.lua (accounts), limits/sum.lua and
-- limits/lists.lua (the member).
--
-- KEYS: the list of messages (`at:turn`) and the list of tokens (`at:tokens:turn`, with `:lease` while it is not settled; a
--       lease of 0 is that of a turn that ended with its estimate), and a hash that sums them up: field `sum`, and for each turn
--       `t` and its name with its place. Then the list of each account. A step about accounts alone has no keys of a member.
-- ARGV: step, window in ms, messages allowed, tokens allowed, exempt (1), tokens, turn, lease in ms, most entries, the version
--       of the lists that the process knows (0: none), the number of accounts; for each account its
--       window in ms, limit, amount (empty: the estimate stays), whether it counts turns or calls (1), the number of groups that
--       follow, and these groups; then, about the member, what another place decided while this server was away, in groups
--       of four: at, turn, tokens, lease. Tokens are `-` for a turn that was cancelled there, the lease is empty for one that
--       was settled.
-- Answer: the member's part alone, or, where there are accounts, this part, the number of the account that refuses (0: none), the
--       time in microseconds, and the list of each account. The member's part: word, now in ms, tier, wait in ms (-1 for
--       never), basis, version, messages, tokens, whether the lists follow, both lists. The word `lost` says that the process
--       knows of more than is here: nothing was done.
--
-- The lists alone are the truth; the sum spares reading them. Programs that write to the lists and know nothing of the sum
-- change a length, the newest entry or one that is not settled, and each of these is compared before the sum is believed.

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

