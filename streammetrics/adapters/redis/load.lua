-- Reads the users that are due, the earliest first, and others by name.
--
-- KEYS  users, due, totals of one task (one hash tag, so one slot)
-- ARGV  a time, the most due users wanted, a count, as many fields of users, then fields of totals
-- Answers {members due before that time, parts of their values, parts of their totals, parts of the named values, parts of the named
-- totals, due time of the next or nil}.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000

local users, due, totals = KEYS[1], KEYS[2], KEYS[3]
local named = tonumber(ARGV[3])

local function read(key, fields, first, last)
    local parts = {}
    for start = first, last, CHUNK do
        parts[#parts + 1] = redis.call('HMGET', key, unpack(fields, start, math.min(start + CHUNK - 1, last)))
    end
    return parts
end

local members = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
local following = redis.call('ZRANGE', due, #members, #members, 'WITHSCORES')
-- The placeholder has an infinite score: it is never due, and always last.
local next_due = following[1] and following[1] ~= '_' and following[2] or false
return {
    members,
    read(users, members, 1, #members),
    read(totals, members, 1, #members),
    read(users, ARGV, 4, 3 + named),
    read(totals, ARGV, 4 + named, #ARGV),
    next_due,
}
