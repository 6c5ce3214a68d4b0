-- The usual case: uses the sum without reading the whole lists.

-- The sum: { version, entries, tokens, settled tokens, place of the first entry, moment of the first, moment of the
-- last, the last one's member of the list of tokens, the same members of unsettled turns by place }. Places rise with
-- each entry and are never reused. A sum without entries has only a version: another program wrote the lists in its own
-- form. A server that denies access to the hash is treated as one without sums.
local sum, place_of_turn
local found = redis.pcall('HMGET', KEYS[3], 'sum', 't' .. turn)
if type(found[1]) == 'string' then
  local fine, unpacked = pcall(cmsgpack.unpack, found[1])
  if fine and type(unpacked) == 'table' and tonumber(unpacked[1]) then
    sum, place_of_turn = unpacked, found[2] and tonumber(found[2])
  end
end
local version = sum and sum[1] or 0
if known_version > version then return finish({ 'lost', now, '', 0, '', 0, 0, 0, 0, {}, {} }) end

-- Returns a version greater than all earlier ones, also on a server that has lost the previous one.
local function next_version()
  return math.max(version + 1, now * 1000)
end

local function agrees()
  if not sum or not sum[2] or sum[7] > now then return false end
  local long, first, open = sum[2], sum[5], sum[9]
  if redis.pcall('LLEN', KEYS[2]) ~= long or redis.pcall('LLEN', KEYS[1]) ~= long then return false end
  if not open[first + long - 1] and redis.call('LINDEX', KEYS[2], -1) ~= sum[8] then return false end
  for place, text in pairs(open) do
    if redis.call('LINDEX', KEYS[2], place - first) ~= text then return false end
  end
  return true
end

-- Decides from the sum alone; returns nothing if the whole lists must be read.
local function by_sum()
  local messages, used, settled, first, oldest, open = sum[2], sum[3], sum[4], sum[5], sum[6], sum[9]
  local aged = {}
  -- Calls `visit` with the entries from this place on, until it returns true.
  local function walk(from, visit)
    local size = 4
    while from < sum[2] do
      for _, text in ipairs(redis.call('LRANGE', KEYS[2], from, from + size - 1)) do
        local entry = read_tokens(text)
        if visit(entry) then return end
      end
      from, size = from + size, math.min(size * 2, 100)
    end
  end
  if oldest + window <= now then
    walk(0, function(entry)
      if entry.at + window > now then
        oldest = entry.at
        return true
      end
      aged[#aged + 1] = entry
      aged[entry.turn] = true
      messages, used = messages - 1, used - entry.tokens
      if not entry.lease then settled = settled - entry.tokens end
    end)
  end
  local function answer(word, tier, wait, basis, blocked)
    return finish({ word, now, tier or '', wait or 0, basis or '', version, messages, used, 0, {}, {} }, blocked)
  end
  local function refusal(wanted)
    local allowed = math.min(allowed_messages, most)
    local full, dear = messages >= allowed, allowed_tokens == 0 or used + wanted > allowed_tokens
    if not full and not dear then return nil end
    local wait = -1
    if allowed > 0 and allowed_tokens > 0 then
      local excess, debt, last = math.max(messages + 1 - allowed, 0), math.max(used + wanted - allowed_tokens, 0), now
      walk(#aged, function(entry)
        if excess == 0 and debt == 0 then return true end
        if excess > 0 then excess = excess - 1 end
        debt = math.max(debt - entry.tokens, 0)
        last = entry.at + window
      end)
      wait = last - now
    end
    local basis = 'open'
    if full or settled >= allowed_tokens then
      basis = 'use'
    elseif settled + wanted > allowed_tokens then
      basis = 'remainder'
    end
    return dear and (not full or settled >= allowed_tokens) and 'tokens' or 'messages', wait, basis
  end
  local place = not aged[turn] and place_of_turn or nil
  if step == 'read' then
    local refused, how_long = refusal(1)
    return answer('used', '', refused and how_long or -1)
  elseif step == 'reserve' then
    if place then return answer('admitted') end
    local wanted = math.min(tonumber(tokens), TOKENS_MAX)
    if not exempt then
      wanted = math.min(wanted, math.floor(allowed_tokens / 2) + 1, allowed_tokens)
      local tier, wait, basis = refusal(wanted)
      if tier then return answer('refused', tier, wait, basis) end
      if blocking_share then
        local blocked, how_long, rests_on = blocking_share()
        if blocked then return answer('refused', '', how_long, rests_on, blocked) end
      end
    end
    if messages >= most then return nil end
    if #aged > 0 then
      local gone = {}
      for index, entry in ipairs(aged) do
        gone[index], open[first + index - 1] = 't' .. entry.turn, nil
      end
      redis.call('LTRIM', KEYS[1], #aged, -1)
      redis.call('LTRIM', KEYS[2], #aged, -1)
      for from = 1, #gone, 500 do redis.call('HDEL', KEYS[3], unpack(gone, from, math.min(from + 499, #gone))) end
      first = first + #aged
    end
    local at = moment(now)
    local as_tokens = at .. ':' .. whole(wanted) .. ':' .. turn .. ':' .. moment(now + lease)
    redis.call('RPUSH', KEYS[1], at .. ':' .. turn)
    redis.call('RPUSH', KEYS[2], as_tokens)
    for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[2]) end
    place = first + messages
    if messages == 0 then oldest = now end
    messages, used, version = messages + 1, used + wanted, next_version()
    open[place] = as_tokens
    sum = { version, messages, used, settled, first, oldest, now, as_tokens, open }
    redis.call('HSET', KEYS[3], 't' .. turn, place, 'sum', cmsgpack.pack(sum))
    if reserve_shares then reserve_shares() end
    return answer('admitted')
  end
  if not place or not open[place] then return answer('done') end
  if step == 'cancel' then return nil end
  local before, text = open[place], nil
  local at, estimate = string.match(before, '^([^:]*):([^:]*)')
  estimate = tonumber(estimate)
  version = next_version()
  sum[1] = version
  if tokens == '' then
    text = at .. ':' .. whole(estimate) .. ':' .. turn .. ':' .. moment(0)
  else
    local spent = math.min(tonumber(tokens), TOKENS_MAX)
    text = at .. ':' .. whole(spent) .. ':' .. turn
    used, settled = used + spent - estimate, settled + spent
    sum[3], sum[4] = sum[3] + spent - estimate, sum[4] + spent
  end
  redis.call('LSET', KEYS[2], place - first, text)
  open[place] = nil
  if sum[8] == before then sum[8] = text end
  redis.call('HSET', KEYS[3], 'sum', cmsgpack.pack(sum))
  return answer('done')
end

local trusted = #ARGV < first_change and step ~= 'merge' and agrees()
if trusted and known_version == version then
  local answered = by_sum()
  if answered then return answered end
end

