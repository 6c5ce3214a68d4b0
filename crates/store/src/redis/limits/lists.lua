-- Any other case: reads the whole lists, and recomputes the sum after a write.

-- A key of another type is replaced by the first write. The Python bot's sorted sets have the same members as lists.
-- `rewrite`: a write replaces both lists. `must`: both lists are written in any case.
local rewrite, must = false, false
local function members(key)
  local found = redis.pcall('LRANGE', key, -most, -1)
  if not found.err then return found end
  rewrite = true
  found = redis.pcall('ZRANGE', key, -most, -1)
  if found.err then return {} end
  return found
end

local entries, by_turn = {}, {}
-- `aligned`: both lists have the same turns at the same places. `wrote`: something was written.
local aligned, wrote = true, false

-- Unchanged members are written as they were read: formatting is the most expensive part of a member.
local function write_message(entry)
  if entry.as_message then return entry.as_message end
  return entry.turn and moment(entry.at) .. ':' .. entry.turn or moment(entry.at)
end

local function write_tokens(entry)
  if entry.as_tokens then return entry.as_tokens end
  local text = moment(entry.at) .. ':' .. whole(entry.tokens)
  if entry.turn then text = text .. ':' .. entry.turn end
  if entry.turn and entry.lease then text = text .. ':' .. moment(entry.lease) end
  return text
end

local sorted = true
local function add(entry)
  local last = entries[#entries]
  if last and last.at > entry.at then sorted = false end
  entries[#entries + 1] = entry
  if entry.turn then by_turn[entry.turn] = entry end
end

for _, text in ipairs(members(KEYS[2])) do
  local entry = read_tokens(text)
  if entry then
    add(entry)
  else
    rewrite = true
  end
end
for place, text in ipairs(members(KEYS[1])) do
  local beside = entries[place]
  if beside and beside.spent and beside.as_message == text then
    beside.message = true
  else
    local at, id = string.match(text, '^([^:]*):?([^:]*)')
    at = read_moment(at)
    aligned = false
    local known = at and by_turn[id]
    if known then
      known.message = true
    elseif at then
      add({
        at = at, tokens = 0, turn = id ~= '' and id or nil, spent = false, message = true, as_message = text,
      })
    else
      rewrite = true
    end
  end
end

local function sort()
  for place, entry in ipairs(entries) do entry.place = place end
  table.sort(entries, function(one, other)
    if one.at ~= other.at then return one.at < other.at end
    return one.place < other.place
  end)
  sorted, rewrite = true, true
end
if not sorted then sort() end

-- Entries ahead of the clock, which was set back, count from now.
if #entries > 0 and entries[#entries].at > now then
  rewrite, must = true, true
  for _, entry in ipairs(entries) do
    if entry.at > now then entry.at, entry.as_message, entry.as_tokens = now, nil, nil end
  end
end

-- Removes expired entries.
local over = 0
while entries[over + 1] and entries[over + 1].at + window <= now do over = over + 1 end
local dropped_messages, dropped_tokens = 0, 0
if over > 0 then
  local kept = {}
  for place, entry in ipairs(entries) do
    if place > over then
      kept[#kept + 1] = entry
    else
      dropped_messages = dropped_messages + (entry.message and 1 or 0)
      dropped_tokens = dropped_tokens + (entry.spent and 1 or 0)
      if entry.turn then by_turn[entry.turn] = nil end
    end
  end
  entries = kept
end

local function remove(id)
  for place, entry in ipairs(entries) do
    if entry.turn == id then
      table.remove(entries, place)
      by_turn[id] = nil
      return
    end
  end
end

-- Merges the decisions made elsewhere.
for first = first_change, #ARGV, 4 do
  local at, id, spent, until_when = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  local known = by_turn[id]
  if spent == '-' then
    if known then remove(id); must = true end
  elseif not known then
    at = math.min(tonumber(at), now)
    if at + window > now then
      add({
        at = at, tokens = tonumber(spent), turn = id, spent = true, message = true,
        lease = until_when ~= '' and tonumber(until_when) or nil,
      })
      must = true
    end
  elseif known.lease and known.lease > 0 and (until_when == '' or until_when == '0') then
    known.tokens, known.lease, known.as_tokens, must = tonumber(spent), tonumber(until_when), nil, true
  end
end
if not sorted then sort() end

local function used()
  local many, much, settled = 0, 0, 0
  for _, entry in ipairs(entries) do
    if entry.message then many = many + 1 end
    much = much + entry.tokens
    if not entry.lease then settled = settled + entry.tokens end
  end
  return many, much, settled
end

-- Returns the reason why one more message of so many tokens exceeds a limit: tier, wait, basis; nothing if it fits.
local function refusal(wanted)
  local many, much, settled = used()
  local allowed = math.min(allowed_messages, most)
  local full = many >= allowed
  local dear = allowed_tokens == 0 or much + wanted > allowed_tokens
  if not full and not dear then return nil end
  local wait = -1
  if allowed > 0 and allowed_tokens > 0 then
    local excess, debt, last = math.max(many + 1 - allowed, 0), math.max(much + wanted - allowed_tokens, 0), now
    for _, entry in ipairs(entries) do
      if excess == 0 and debt == 0 then break end
      if excess > 0 and entry.message then excess = excess - 1 end
      debt = math.max(debt - entry.tokens, 0)
      last = entry.at + window
    end
    wait = last - now
  end
  local basis = 'open'
  if full or settled >= allowed_tokens then
    basis = 'use'
  elseif settled + wanted > allowed_tokens then
    basis = 'remainder'
  end
  local tier = dear and (not full or settled >= allowed_tokens) and 'tokens' or 'messages'
  return tier, wait, basis
end

local function push(key, list)
  for first = 1, #list, 500 do
    redis.call('RPUSH', key, unpack(list, first, math.min(first + 499, #list)))
  end
  if #list > 0 then redis.call('PEXPIRE', key, whole(window)) end
end

local function lists()
  local messages, spent = {}, {}
  for _, entry in ipairs(entries) do
    if entry.message then messages[#messages + 1] = write_message(entry) end
    if entry.spent then spent[#spent + 1] = write_tokens(entry) end
  end
  return messages, spent
end

local function write_all()
  local messages, spent = lists()
  aligned, wrote = true, true
  redis.call('DEL', KEYS[1], KEYS[2])
  push(KEYS[1], messages)
  push(KEYS[2], spent)
end

local function trim()
  wrote = true
  if dropped_messages > 0 then redis.call('LTRIM', KEYS[1], dropped_messages, -1) end
  if dropped_tokens > 0 then redis.call('LTRIM', KEYS[2], dropped_tokens, -1) end
end

-- The usual case: removes expired entries at one end, and appends one at the other.
local function append(entry)
  while #entries > most do
    table.remove(entries, 1)
    rewrite = true
  end
  if rewrite or must then return write_all() end
  trim()
  push(KEYS[1], { write_message(entry) })
  push(KEYS[2], { write_tokens(entry) })
end

-- The other usual case: replaces one entry.
local function replace(entry)
  if rewrite or must then return write_all() end
  local place = 0
  for index = #entries, 1, -1 do
    if entries[index].spent then place = place - 1 end
    if entries[index] == entry then break end
  end
  trim()
  redis.call('LSET', KEYS[2], place, write_tokens(entry))
end

local word, tier, wait, basis, blocked = 'done', '', 0, '', nil
local entry = by_turn[turn]
if step == 'reserve' and entry then
  word = 'admitted'
elseif step == 'reserve' then
  local wanted = math.min(tonumber(tokens), TOKENS_MAX)
  if not exempt then
    -- An estimate counts as at most just over half of the limit.
    wanted = math.min(wanted, math.floor(allowed_tokens / 2) + 1, allowed_tokens)
    tier, wait, basis = refusal(wanted)
    if not tier and blocking_share then blocked, wait, basis = blocking_share() end
  else
    tier = nil
  end
  if tier or blocked then
    word = 'refused'
  else
    word, tier, wait, basis = 'admitted', '', 0, ''
    entry = { at = now, tokens = wanted, turn = turn, spent = true, message = true, lease = now + lease }
    add(entry)
    append(entry)
    if reserve_shares then reserve_shares() end
    must = false
  end
elseif step == 'settle' and entry and entry.lease and entry.lease > 0 then
  if tokens ~= '' then
    entry.tokens, entry.lease = math.min(tonumber(tokens), TOKENS_MAX), nil
  else
    entry.lease = 0
  end
  entry.as_tokens = nil
  replace(entry)
  must = false
elseif step == 'cancel' and entry and entry.lease and entry.lease > 0 then
  remove(turn)
  must = true
elseif step == 'read' then
  word = 'used'
  local refused, how_long = refusal(1)
  wait = refused and how_long or -1
end

-- A refusal and a read write nothing, unless entries were repaired or merged.
if must then write_all() end

-- Computes the sum of the current lists.
local function sum_up()
  version = next_version()
  redis.pcall('DEL', KEYS[3])
  sum = { version }
  local used, settled, fields, names, open = 0, 0, {}, {}, {}
  local regular = aligned and #entries > 0
  for place, entry in ipairs(entries) do
    local name = entry.turn
    regular = regular and entry.message and entry.spent and name and not names[name]
    if not regular then break end
    names[name] = true
    fields[#fields + 1], fields[#fields + 2] = 't' .. name, place
    used = used + entry.tokens
    if not entry.lease then
      settled = settled + entry.tokens
    elseif entry.lease > 0 then
      open[place] = write_tokens(entry)
    end
  end
  if regular then
    local newest = entries[#entries]
    sum = { version, #entries, used, settled, 1, entries[1].at, newest.at, write_tokens(newest), open }
    for from = 1, #fields, 500 do
      redis.pcall('HSET', KEYS[3], unpack(fields, from, math.min(from + 499, #fields)))
    end
  end
  if type(redis.pcall('HSET', KEYS[3], 'sum', cmsgpack.pack(sum))) == 'table' then version = 0 end
  redis.pcall('PEXPIRE', KEYS[3], whole(window))
end

if wrote then
  sum_up()
elseif not trusted then
  version = 0
end

local many, much = used()
local messages, spent = lists()
return finish({ word, now, tier or '', wait or 0, basis or '', version, many, much, 1, messages, spent }, blocked)
