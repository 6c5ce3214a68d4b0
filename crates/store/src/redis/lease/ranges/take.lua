-- Takes and renews ranges. Key: the record. Arguments: the name of the caller; the duration of a term and the time for
-- which a process that stands by is remembered, in milliseconds; 1 if the caller stands by; the number of ranges; the
-- name of the division; the agreed number of connections (0: unknown); 1 if the server may have given a range to the
-- caller without its knowledge; the time within which a process that stands by asks again, and the time for which a process
-- with an equal share lets others take a free range (-1: the caller takes none), in milliseconds; then the numbers of the ranges that the caller holds. Returns 1, 1 if another process stands by, and the numbers of the ranges
-- that the caller holds now; or -1 and the holder.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local name, term, keep, patient = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local ranges, division, fresh, lets = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[9]), tonumber(ARGV[10])
local mine, holds = {}, #ARGV > 10
local told, whole = {}, false
local function number(field) return tonumber(told[field] or 0) or 0 end
local function ends(field) return math.min(number(field), now + term) end
local function text(time) return string.format('%.0f', time) end
local function read(fields)
    for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do told[fields[i]] = value or nil end
end
local function read_all()
    local flat = redis.call('HGETALL', KEYS[1])
    for i = 1, #flat, 2 do told[flat[i]] = flat[i + 1] end
    whole = true
end
local function waits(holder)
    redis.call('HSET', KEYS[1], 'waiting', name, 'waits_until', text(now + keep))
    redis.call('PEXPIRE', KEYS[1], keep)
    return {-1, holder, ''}
end

-- Before `next`, no range becomes free without a release, because renewals only extend terms. Until then, a request
-- costs the same for any number of ranges of other processes.
local fields = {'holder', 'until', 'released', 'waiting', 'waits_until', 'next'}
for i = 11, #ARGV do
    mine[tonumber(ARGV[i])] = true
    fields[#fields + 1] = 'holder:' .. ARGV[i]
    fields[#fields + 1] = 'until:' .. ARGV[i]
end
read(fields)
local soonest = number('next')
local quiet = told.holder == division and now < soonest and soonest <= now + term
if quiet and not holds and patient and ARGV[8] == '0' then return waits(division) end
if not (quiet and holds) then read_all() end

local holder = told.holder
if not holder and not told.released and patient then
    holder, told['until'] = '', text(now + term)
    redis.call('HSET', KEYS[1], 'holder', holder, 'until', told['until'])
end
if holder and holder ~= division and ends('until') > now and (holder ~= '' or patient) then
    redis.call('HSET', KEYS[1], 'until', text(ends('until')))
    return waits(holder)
end
if holder ~= division then
    -- An active process that begins a record which was not released follows one that the server may have lost: until
    -- `grace`, a process that stands by takes no range without a known holder.
    local lost = (holder or '') == '' and not told.released and not patient
    told = {waiting = told.waiting, waits_until = told.waits_until, grace = text(lost and now + term or 0), begun = text(now)}
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'grace', told.grace, 'begun', told.begun)
    if told.waiting then redis.call('HSET', KEYS[1], 'waiting', told.waiting, 'waits_until', told.waits_until or '0') end
    whole = true
end

-- A term that ends later than one term from now, because the clock was set back, is shortened once.
local function shorten(field)
    if number(field) > now + term then
        told[field] = text(now + term)
        redis.call('HSET', KEYS[1], field, told[field])
    end
end
local function held(k) return told['holder:' .. k] and ends('until:' .. k) > now end

local found = {}
for i = 11, #ARGV do
    local k = tonumber(ARGV[i])
    shorten('until:' .. k)
    local other = told['holder:' .. k]
    if other and other ~= name and held(k) then return {-1, other, ''} end
    -- A range that the caller released is not taken again by a request that was sent before.
    if other ~= '' then found[#found + 1] = k else mine[k] = nil end
end
if whole then
    shorten('grace')
    shorten('begun')
    local processes, seen, reserved = 1, {[name] = true}, {}
    local function count(process)
        if not seen[process] then seen[process], processes = true, processes + 1 end
    end
    for k = 0, ranges - 1 do
        shorten('until:' .. k)
        shorten('for_until:' .. k)
        if number('for_until:' .. k) > now then reserved[k] = told['for:' .. k] end
        if held(k) and not mine[k] then
            if told['holder:' .. k] == name then
                mine[k], found[#found + 1] = true, k
            else
                count(told['holder:' .. k])
            end
        end
    end
    -- A free range is for a process with less than an equal share. A process that stands by, and asked lately, is one.
    local asked = number('waits_until') - keep
    if told.waiting and asked + fresh > now and asked <= now then count(told.waiting) end
    local wants = (holds and math.ceil(ranges / processes) or 1) - #found
    if holds and lets < 0 then wants = -ranges end
    for k = 0, ranges - 1 do
        local known = told['holder:' .. k]
        local first = known or (holds and number('begun') + term <= now) or (not holds and (not patient or ends('grace') <= now))
        -- The process for which it is free may have ended, too.
        local late = holds and lets >= 0 and math.max(number('until:' .. k), number('for_until:' .. k)) + lets <= now
        if not held(k) and not mine[k] and first and ((reserved[k] == name and lets >= 0) or ((wants > 0 or late) and not reserved[k])) then
            mine[k], found[#found + 1], wants = true, k, wants - 1
        end
    end
    soonest = now + term
    for k = 0, ranges - 1 do
        if held(k) then
            soonest = math.min(soonest, ends('until:' .. k))
        elseif not mine[k] then
            -- A range that had a holder is free now; the others may still have one until the end of the grace.
            soonest = math.min(soonest, (holds or told['holder:' .. k]) and now or ends('grace'))
        end
    end
    redis.call('HSET', KEYS[1], 'next', text(soonest))
end
if #found == 0 then return waits(division) end

local over = text(now + term)
redis.call('HDEL', KEYS[1], 'released')
redis.call('HSET', KEYS[1], 'holder', division, 'until', over)
for _, k in ipairs(found) do
    local before = told['holder:' .. k]
    redis.call('HSET', KEYS[1], 'holder:' .. k, name, 'until:' .. k, over)
    if before ~= name then
        redis.call('HSET', KEYS[1], 'since:' .. k, text(now))
        if before then redis.call('HINCRBY', KEYS[1], 'moves:' .. k, 1) end
        if whole and told['for:' .. k] then
            redis.call('HDEL', KEYS[1], 'for:' .. k, 'for_until:' .. k)
            if told['for:' .. k] == name then redis.call('HDEL', KEYS[1], 'moving', 'moving_until') end
        end
    end
end
if ARGV[7] ~= '0' then redis.call('HSETNX', KEYS[1], 'shards', ARGV[7]) end
local waiting = told.waiting
if waiting == name then
    redis.call('HDEL', KEYS[1], 'waiting', 'waits_until')
    waiting = nil
end
redis.call('PEXPIRE', KEYS[1], keep)
return {1, waiting and number('waits_until') > now and '1' or '0', table.concat(found, ',')}
