-- Changes values of a namespace, each only if its current value is the expected one.
--
-- KEYS  settled (hash: name -> value)
-- ARGV  per change: name, 1 or 0 (expected to exist), expected value, 1 or 0 (shall exist), new value
-- Returns all names and values, alternating.

local settled = KEYS[1]
for first = 1, #ARGV, 5 do
    local name, expected_exists, expected, new_exists, new = unpack(ARGV, first, first + 4)
    local stored = redis.call('HGET', settled, name)
    local unchanged = (expected_exists == '1' and stored == expected) or (expected_exists == '0' and not stored)
    if unchanged and new_exists == '1' then
        redis.call('HSET', settled, name, new)
    elseif unchanged then
        redis.call('HDEL', settled, name)
    end
end
return redis.call('HGETALL', settled)
