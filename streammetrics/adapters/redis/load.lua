-- Reads the users that are due, the earliest first, and others by name, as many as are wanted or until they have the bytes wanted.
--
-- KEYS  users, due, totals of one task (one hash tag, so one slot)
-- ARGV  how many users are read before a look at their bytes, a time, the most due users wanted and the most bytes of them, the most bytes
-- of users by name, a count, as many fields of users, then fields of totals
-- Answers {members due before that time, parts of their values, parts of their totals, parts of the named values, parts of the named
-- totals, due time of the next or nil}.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000
local FIRST_FIELD = 7

local users, due, totals = KEYS[1], KEYS[2], KEYS[3]
local slice, due_bytes, named_bytes, named = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

-- Reads fields from `first` to `last`, a slice at a time, until their values have the bytes wanted; `hashes` tells of each hash where its
-- values go. Answers the first field that is left.
local function read(fields, first, last, count, bytes_wanted, hashes)
    while first <= last and bytes_wanted > 0 do
        local upto = math.min(first + count - 1, last)
        for key, parts in pairs(hashes) do
            local values = redis.call('HMGET', key, unpack(fields, first, upto))
            for _, value in ipairs(values) do
                bytes_wanted = bytes_wanted - (value and #value or 0)
            end
            parts[#parts + 1] = values
        end
        first = upto + 1
    end
    return first
end

local due_states, due_sums, states, sums = {}, {}, {}, {}
local members = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
local taken = read(members, 1, #members, slice, due_bytes, { [users] = due_states, [totals] = due_sums }) - 1
for number = #members, taken + 1, -1 do
    members[number] = nil
end
local following = redis.call('ZRANGE', due, taken, taken, 'WITHSCORES')
-- The placeholder has an infinite score: it is never due, and always last.
local next_due = following[1] and following[1] ~= '_' and following[2] or false
read(ARGV, FIRST_FIELD, FIRST_FIELD + named - 1, slice, named_bytes, { [users] = states })
read(ARGV, FIRST_FIELD + named, #ARGV, CHUNK, math.huge, { [totals] = sums })
return { members, due_states, due_sums, states, sums, next_due }
