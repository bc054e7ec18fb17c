-- Tells who is due, the earliest first, and reads users by name, as many as are wanted or until they have the bytes wanted.
--
-- KEYS  users, due, totals of one task (one hash tag, so one slot)
-- ARGV  how many users are looked at before a look at their bytes, a time, the most due users wanted and the most bytes of them, the most
-- bytes of users by name, a count, as many fields of users, then fields of totals
-- Answers {members due before that time, parts of their totals, parts of the named values, parts of the named totals, due time of the
-- next or nil}. The values of who is due are not among them, only what they weigh is looked at: whoever asks has most of them at hand.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000
local FIRST_FIELD = 7

local users, due, totals = KEYS[1], KEYS[2], KEYS[3]
local slice, due_bytes, named_bytes, named = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

-- Reads fields from `first` to `last`, a slice at a time, until they have the bytes wanted: those of their values, and what `weigh` says
-- of each. Answers the first field that is left, and the values in parts.
local function read(key, fields, first, last, count, bytes_wanted, weigh)
    local parts = {}
    while first <= last and bytes_wanted > 0 do
        local upto = math.min(first + count - 1, last)
        local values = redis.call('HMGET', key, unpack(fields, first, upto))
        for number, value in ipairs(values) do
            bytes_wanted = bytes_wanted - (value and #value or 0) - (weigh and weigh(fields[first + number - 1]) or 0)
        end
        parts[#parts + 1] = values
        first = upto + 1
    end
    return first, parts
end

local function weight(member)
    return redis.call('HSTRLEN', users, member)
end

local members = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
local left, due_sums = read(totals, members, 1, #members, slice, due_bytes, weight)
for number = #members, left, -1 do
    members[number] = nil
end
local following = redis.call('ZRANGE', due, left - 1, left - 1, 'WITHSCORES')
-- The placeholder has an infinite score: it is never due, and always last.
local next_due = following[1] and following[1] ~= '_' and following[2] or false
local _, states = read(users, ARGV, FIRST_FIELD, FIRST_FIELD + named - 1, slice, named_bytes)
local _, sums = read(totals, ARGV, FIRST_FIELD + named, #ARGV, CHUNK, math.huge)
return { members, due_sums, states, sums, next_due }
