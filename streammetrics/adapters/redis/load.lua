-- Reads the users that are due, the earliest first, and others by name.
--
-- KEYS  users, due, totals of one task (one hash tag, so one slot)
-- ARGV  a time, the most due users wanted and the most bytes of them, how many of them are read before a look at their bytes, a count, as
-- many fields of users, then fields of totals
-- Answers {members due before that time, parts of their values, parts of their totals, parts of the named values, parts of the named
-- totals, due time of the next or nil}.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000

local users, due, totals = KEYS[1], KEYS[2], KEYS[3]
local bytes_left, slice, named = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function read(key, fields, first, last)
    local parts = {}
    for start = first, last, CHUNK do
        parts[#parts + 1] = redis.call('HMGET', key, unpack(fields, start, math.min(start + CHUNK - 1, last)))
    end
    return parts
end

local members = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
local taken, states, sums = 0, {}, {}
while taken < #members and bytes_left > 0 do
    local last = math.min(taken + slice, #members)
    for key, parts in pairs({ [users] = states, [totals] = sums }) do
        local values = redis.call('HMGET', key, unpack(members, taken + 1, last))
        for _, value in ipairs(values) do
            bytes_left = bytes_left - (value and #value or 0)
        end
        parts[#parts + 1] = values
    end
    taken = last
end
for number = #members, taken + 1, -1 do
    members[number] = nil
end
local following = redis.call('ZRANGE', due, taken, taken, 'WITHSCORES')
-- The placeholder has an infinite score: it is never due, and always last.
local next_due = following[1] and following[1] ~= '_' and following[2] or false
return {
    members,
    states,
    sums,
    read(users, ARGV, 6, 5 + named),
    read(totals, ARGV, 6 + named, #ARGV),
    next_due,
}
