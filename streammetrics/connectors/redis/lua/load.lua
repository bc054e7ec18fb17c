-- Lists due users, earliest first, and reads the states of named users, up to a number and a size in bytes.
--
-- KEYS  users, due, totals, pieces of one task (one hash tag, so one slot)
-- ARGV  users per slice (sizes are checked after each slice), a time, the most due users, the most bytes of due users, the most bytes of
--       named users, the number of named users, their fields in `users`, then fields in `totals`
-- Returns {users due before the time, slices of their totals, slices of the named states, slices of the named totals, the due time of the
-- next user or nil}. States of due users are not returned, because the caller has most of them cached. Only their sizes count.

local CHUNK = 4000 -- arguments per call; Lua's stack has 8000
local FIRST_FIELD = 7

local users, due, totals, pieces = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local GROWS = 193 -- the first byte of a state to which pieces are appended
local slice, due_bytes, named_bytes, named = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

-- Returns a state with its pieces.
local function with_pieces(field, state)
    if not state or string.byte(state) ~= GROWS then
        return state
    end
    local parts = { state }
    repeat
        local piece = redis.call('HGET', pieces, #parts .. ':' .. field)
        parts[#parts + 1] = piece or nil
    until not piece
    return table.concat(parts)
end

-- Reads fields `first` to `last`, `count` at a time, until they have `bytes_left` bytes. A field counts the bytes of its value, plus
-- those that `extra_size` returns. `complete` may change a value. Returns the first field not read, and the values in slices.
local function read(key, fields, first, last, count, bytes_left, extra_size, complete)
    local slices = {}
    while first <= last and bytes_left > 0 do
        local upto = math.min(first + count - 1, last)
        local values = redis.call('HMGET', key, unpack(fields, first, upto))
        for number, value in ipairs(values) do
            if complete then
                value = complete(fields[first + number - 1], value)
                values[number] = value
            end
            bytes_left = bytes_left - (value and #value or 0) - (extra_size and extra_size(fields[first + number - 1]) or 0)
        end
        slices[#slices + 1] = values
        first = upto + 1
    end
    return first, slices
end

local function state_size(member)
    local size, number = redis.call('HSTRLEN', users, member), 0
    repeat
        number = number + 1
        local more = redis.call('HSTRLEN', pieces, number .. ':' .. member)
        size = size + more
    until more == 0
    return size
end

local members = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
local unread, due_sums = read(totals, members, 1, #members, slice, due_bytes, state_size)
for number = #members, unread, -1 do
    members[number] = nil
end
local following = redis.call('ZRANGE', due, unread - 1, unread - 1, 'WITHSCORES')
-- The placeholder has an infinite score, so it is last and never due.
local next_due = following[1] and following[1] ~= '_' and following[2] or false
local _, states = read(users, ARGV, FIRST_FIELD, FIRST_FIELD + named - 1, slice, named_bytes, nil, with_pieces)
local _, sums = read(totals, ARGV, FIRST_FIELD + named, #ARGV, CHUNK, math.huge)
return { members, due_sums, states, sums, next_due }
