-- Reads the users that are due, the earliest first, and others by name.
--
-- KEYS  users, due of one task (one hash tag, so one slot)
-- ARGV  a time, the most due users wanted, then fields of users
-- Answers {members due before that time, parts of their values, parts of the named users' values, due time of the next or nil}.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000

local users, due = KEYS[1], KEYS[2]

local function read(fields, first)
    local parts = {}
    for start = first, #fields, CHUNK do
        parts[#parts + 1] = redis.call('HMGET', users, unpack(fields, start, math.min(start + CHUNK - 1, #fields)))
    end
    return parts
end

local members = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
local following = redis.call('ZRANGE', due, #members, #members, 'WITHSCORES')
-- The placeholder has an infinite score: it is never due, and always last.
local next_due = following[1] and following[1] ~= '_' and following[2] or false
return { members, read(members, 1), read(ARGV, 3), next_due }
