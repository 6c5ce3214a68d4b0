-- Releases ranges of the caller. Key: the record. Arguments: the name of the caller, the number of ranges, the name of the
-- division, the duration of a term in milliseconds, and a range that the process to which it was given may take alone for
-- one term; or -1: all ranges of the caller, which no longer stands by. The division ends with its last range.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function text(time) return string.format('%.0f', time) end
local only = tonumber(ARGV[5])
local told = redis.call('HMGET', KEYS[1], 'holder', 'waiting', 'waits_until')
if only < 0 and told[2] == ARGV[1] then redis.call('HDEL', KEYS[1], 'waiting', 'waits_until') end
if told[1] ~= ARGV[3] then return 1 end
local last, held = now, false
for k = 0, ARGV[2] - 1 do
    local range = redis.call('HMGET', KEYS[1], 'holder:' .. k, 'until:' .. k)
    if range[1] == ARGV[1] and (only < 0 or only == k) then
        held = true
        redis.call('HSET', KEYS[1], 'holder:' .. k, '', 'until:' .. k, text(now))
        if only == k then redis.call('HSET', KEYS[1], 'for_until:' .. k, text(now + tonumber(ARGV[4]))) end
    elseif range[1] then
        last = math.max(last, tonumber(range[2] or 0) or 0)
    end
end
if not held then return 1 end
redis.call('HDEL', KEYS[1], 'next')
if last > now then
    redis.call('HSET', KEYS[1], 'until', text(last))
else
    redis.call('HDEL', KEYS[1], 'holder', 'until')
    if told[2] and told[2] ~= ARGV[1] and (tonumber(told[3] or 0) or 0) > now then
        redis.call('HSET', KEYS[1], 'released', '1')
    end
end
return 1
