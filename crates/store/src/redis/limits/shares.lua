-- The further accounts of a step, each a list like that of tokens (`at:amount:turn`, with `:lease` while it is open).
-- The same rules are in crates/domain/src/limits/account.rs. Nothing is written before all accounts, and the member's
-- window, have room.

local function whole(number)
  return string.format('%d', number)
end

local function moment(ms)
  return string.format('%d.%03d', math.floor(ms / 1000), ms % 1000)
end

-- The position of the first change of the member's window in the arguments, and the functions of the accounts. A step
-- without accounts, the usual case, defines none of them.
local first_change = 12
local blocking_share, reserve_shares, is_counted
local function finish(of_member) return of_member end

local many_shares = tonumber(ARGV[11])
local has_member = #KEYS > many_shares

if many_shares > 0 then
  local JOINED_FROM, PARTS, FULL = 128, 64, 1000
  local shares, next_argument = {}, 12

  local function share_text(entry)
    if not entry.as_tokens then
      local text = moment(entry.at) .. ':' .. whole(entry.tokens)
      if entry.turn then text = text .. ':' .. entry.turn end
      if entry.turn and entry.lease then text = text .. ':' .. moment(entry.lease) end
      entry.as_tokens = text
    end
    return entry.as_tokens
  end

  local function share_entry(share, id)
    for place = #share.entries, 1, -1 do
      if share.entries[place].turn == id then return share.entries[place], place end
    end
  end

  local function write_share(share)
    local list = {}
    for place, entry in ipairs(share.entries) do list[place] = share_text(entry) end
    redis.call('DEL', share.key)
    for first = 1, #list, 500 do redis.call('RPUSH', share.key, unpack(list, first, math.min(first + 499, #list))) end
    if #list > 0 then redis.call('PEXPIRE', share.key, whole(share.window)) end
    share.rewrite, share.dropped = false, 0
  end

  local function sort_share(share)
    for place, entry in ipairs(share.entries) do entry.place = place end
    table.sort(share.entries, function(one, other)
      if one.at ~= other.at then return one.at < other.at end
      return one.place < other.place
    end)
    share.rewrite = true
  end

  -- Merges the decisions made elsewhere while this server was unavailable: groups of turn, at, amount, lease, as for
  -- the member.
  local function merge_share(share, many)
    for _ = 1, many do
      local at, id, spent, until_when =
        ARGV[next_argument], ARGV[next_argument + 1], ARGV[next_argument + 2], ARGV[next_argument + 3]
      next_argument = next_argument + 4
      local known, place = share_entry(share, id)
      if spent == '-' then
        if known then table.remove(share.entries, place); share.rewrite, share.must = true, true end
      elseif not known then
        at = math.min(tonumber(at), now)
        if at + share.window > now then
          share.entries[#share.entries + 1] =
            { at = at, tokens = tonumber(spent), turn = id, lease = until_when ~= '' and tonumber(until_when) or nil }
          share.rewrite, share.must = true, true
        end
      elseif known.lease and known.lease > 0 and (until_when == '' or until_when == '0') then
        known.tokens, known.lease, known.as_tokens = tonumber(spent), tonumber(until_when), nil
        share.rewrite, share.must = true, true
      end
    end
    if many > 0 then sort_share(share) end
  end

  local function read_share(key)
    local share = { key = key, entries = {}, dropped = 0, rewrite = false, must = false }
    share.window, share.limit, share.amount = tonumber(ARGV[next_argument]), tonumber(ARGV[next_argument + 1]), ARGV[next_argument + 2]
    share.counted = ARGV[next_argument + 3] == '1'
    local many = tonumber(ARGV[next_argument + 4])
    next_argument = next_argument + 5
    local texts = redis.pcall('LRANGE', key, 0, -1)
    if texts.err then texts, share.rewrite = {}, true end
    local last = 0
    for _, text in ipairs(texts) do
      local entry = read_tokens(text)
      if not entry then
        share.rewrite = true
      elseif entry.at + share.window <= now then
        share.dropped = share.dropped + 1
      else
        if entry.at > now then entry.at, entry.as_tokens, share.rewrite, share.must = now, nil, true, true end
        if entry.at < last then share.unsorted = true end
        last = entry.at
        share.entries[#share.entries + 1] = entry
      end
    end
    if share.unsorted then sort_share(share) end
    merge_share(share, many)
    return share
  end

  -- Joins entries that no turn is expected to change. A joined entry counts from the latest moment of its parts.
  local function join_share(share)
    if #share.entries < JOINED_FROM then return end
    local part, kept, closed = math.max(math.floor(share.window / PARTS), 1), {}, nil
    for place = #share.entries, 1, -1 do
      local entry = share.entries[place]
      if entry.lease and entry.lease > now then
        kept[#kept + 1] = entry
      elseif closed and math.floor(closed.at / part) == math.floor(entry.at / part) then
        closed.tokens, closed.turn, closed.lease, closed.as_tokens = closed.tokens + entry.tokens, nil, nil, nil
      else
        closed = entry
        kept[#kept + 1] = entry
      end
    end
    local entries = {}
    for place = #kept, 1, -1 do entries[#entries + 1] = kept[place] end
    share.entries, share.rewrite = entries, true
  end

  -- Returns the reason why a share exceeds a limit: wait, basis; nothing if it fits.
  local function share_refusal(share, wanted)
    if #share.entries >= most then return FULL, 'open' end
    local used, settled = 0, 0
    for _, entry in ipairs(share.entries) do
      used = used + entry.tokens
      if not entry.lease then settled = settled + entry.tokens end
    end
    if share.limit > 0 and used + wanted <= share.limit then return nil end
    local wait = -1
    if share.limit > 0 then
      local debt, last = math.max(used + wanted - share.limit, 0), now
      for _, entry in ipairs(share.entries) do
        if debt == 0 then break end
        debt = math.max(debt - entry.tokens, 0)
        last = entry.at + share.window
      end
      wait = last - now
    end
    local basis = 'open'
    if share.counted or settled >= share.limit then
      basis = 'use'
    elseif settled + wanted > share.limit then
      basis = 'remainder'
    end
    return wait, basis
  end

  local function share_amount(share)
    local wanted = math.min(tonumber(share.amount) or 0, TOKENS_MAX)
    if exempt then return wanted end
    return math.min(wanted, math.floor(share.limit / 2) + 1, share.limit)
  end

  for place = 1, many_shares do shares[place] = read_share(KEYS[(has_member and 3 or 0) + place]) end
  first_change = next_argument

  -- Returns the first account without room: its number, wait, basis; nothing if all have room.
  function blocking_share()
    if exempt then return nil end
    for place, share in ipairs(shares) do
      if not share_entry(share, turn) then
        join_share(share)
        local wait, basis = share_refusal(share, share_amount(share))
        if wait then return place, wait, basis end
      end
    end
  end

  function reserve_shares()
    for _, share in ipairs(shares) do
      if not share_entry(share, turn) then
        join_share(share)
        while #share.entries >= most do
          table.remove(share.entries, 1)
          share.rewrite = true
        end
        local entry = { at = now, tokens = share_amount(share), turn = turn, lease = now + lease }
        share.entries[#share.entries + 1] = entry
        if share.rewrite then
          write_share(share)
        else
          if share.dropped > 0 then redis.call('LTRIM', share.key, share.dropped, -1) end
          redis.call('RPUSH', share.key, share_text(entry))
          redis.call('PEXPIRE', share.key, whole(share.window))
        end
        share.must = false
      end
    end
  end

  local function end_shares()
    for _, share in ipairs(shares) do
      local entry, place = share_entry(share, turn)
      if entry and entry.lease and entry.lease > 0 then
        if step == 'cancel' then
          table.remove(share.entries, place)
          share.rewrite = true
        elseif share.amount == '' then
          entry.lease, entry.as_tokens = 0, nil
        else
          entry.tokens, entry.lease, entry.as_tokens = math.min(tonumber(share.amount), TOKENS_MAX), nil, nil
        end
        if share.rewrite then
          write_share(share)
        else
          redis.call('LSET', share.key, share.dropped + place - 1, share_text(entry))
        end
        share.must = false
      end
    end
  end

  -- True if the turn counts already, in a step about accounts alone.
  function is_counted() return share_entry(shares[1], turn) end

  -- Returns the whole reply: the member's part, the number of the refusing account, and each account's list.
  function finish(of_member, blocked)
    local lists = {}
    for place, share in ipairs(shares) do
      if share.must then write_share(share) end
      local list = {}
      for index, entry in ipairs(share.entries) do list[index] = share_text(entry) end
      lists[place] = list
    end
    return { of_member, blocked or 0, clock[1] * 1000000 + clock[2], lists }
  end

  if step == 'settle' or step == 'cancel' then end_shares() end
end

if not has_member then
  if step ~= 'reserve' then return finish({ 'done', now, '', 0, '', 0, 0, 0, 0, {}, {} }) end
  if blocking_share and not is_counted() then
    local place, wait, basis = blocking_share()
    if place then return finish({ 'refused', now, '', wait, basis, 0, 0, 0, 0, {}, {} }, place) end
    reserve_shares()
  end
  return finish({ 'admitted', now, '', 0, '', 0, 0, 0, 0, {}, {} })
end
