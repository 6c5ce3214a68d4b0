-- Chooses a range that the caller, if no process has more, gives to one that has at least two fewer. Key: the record. Arguments: the name of
-- the caller, the number of ranges, the name of the division, the time for which a process that stands by is remembered,
-- the time within which it asks again, and the longest time of a move, all in milliseconds. Returns the number of the
-- range, or -1. One range moves at a time, so each move leaves the processes more equal than before, and the moves end.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return -1 end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local name, ranges, keep, fresh, lasts = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local told = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do told[flat[i]] = flat[i + 1] end
local function number(field) return tonumber(told[field] or 0) or 0 end
local moving = number('moving_until')
if told.holder ~= ARGV[3] or (now < moving and moving <= now + lasts) then return -1 end
local counts, last = {}, -1
for k = 0, ranges - 1 do
    local holder = told['holder:' .. k]
    if not holder or holder == '' or number('until:' .. k) <= now then return -1 end
    counts[holder] = (counts[holder] or 0) + 1
    if holder == name then last = k end
end
local asked = number('waits_until') - keep
if told.waiting and told.waiting ~= '' and asked <= now and now < asked + fresh then
    counts[told.waiting] = counts[told.waiting] or 0
end
local own, least, to = counts[name] or 0, nil, nil
for process, count in pairs(counts) do
    if count > own then return -1 end
    if not least or count < least or (count == least and process < to) then least, to = count, process end
end
if not to or own - least < 2 then return -1 end
local over = string.format('%.0f', now + lasts)
redis.call('HSET', KEYS[1], 'moving', name, 'moving_until', over, 'for:' .. last, to, 'for_until:' .. last, '0')
return last
