-- Changes values that belong to a whole namespace, each only if it still is what it was said to be.
--
-- KEYS  settled (hash: name -> value)
-- ARGV  of each change: name, 1 or 0 (was there before or not), the value before, 1 or 0 (shall be there or not), the value after
-- Answers names and values of all that are settled, in turn.

local settled = KEYS[1]
for first = 1, #ARGV, 5 do
    local name, was_there, before, shall_be, after = unpack(ARGV, first, first + 4)
    local stored = redis.call('HGET', settled, name)
    local unchanged = (was_there == '1' and stored == before) or (was_there == '0' and not stored)
    if unchanged and shall_be == '1' then
        redis.call('HSET', settled, name, after)
    elseif unchanged then
        redis.call('HDEL', settled, name)
    end
end
return redis.call('HGETALL', settled)
