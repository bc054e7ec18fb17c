-- Claims a task: sets a new epoch and owner token, and returns the state of the last commit. A repeated call with the same token
-- changes nothing.
--
-- KEYS  ctl, users, due, panes, totals, experiments, pieces of one task (one hash tag, so one slot)
-- ARGV  the owner's token, the version of the key layout
-- Returns {version} if the stored layout differs; the result of `problem_with` if keys are missing or left over; else {version, epoch,
-- seq, control or nil, pane starts, fields of panes read, their values, fields and values of experiments, the size in bytes of the
-- largest user state ever written or nil}.

local CHUNK = 4000 -- arguments per call; Lua's stack has 8000

local ctl, users, due, panes, totals, experiments, pieces = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local token, version = ARGV[1], ARGV[2]

-- Read every key before the first write. A key of another program with another type fails here, before anything is written.
local stored = redis.call('HMGET', ctl, 'version', 'epoch', 'token', 'seq', 'control', 'panes_from_ms', 'reaches_from_ms',
    'user_bytes_max')
if stored[1] and stored[1] ~= version then
    return { stored[1] }
end
local problem = problem_with(stored[2], stored[1], {
    { users, redis.call('HLEN', users) }, { due, redis.call('ZCARD', due) }, { panes, redis.call('HLEN', panes) },
    { totals, redis.call('HLEN', totals) }, { experiments, redis.call('HLEN', experiments) },
    { pieces, redis.call('HLEN', pieces) }
})
if problem then
    return problem
end
local cells = redis.call('HGETALL', experiments)
local starts, fields = {}, {}
local from, counts_from = tonumber(stored[6] or ''), tonumber(stored[7] or '')
for _, field in ipairs(redis.call('HKEYS', panes)) do
    local start, counts_of = tonumber(field), tonumber(string.match(field, '^r(.+)'))
    if start then -- not the placeholder
        starts[#starts + 1] = field
        if from and start >= from then
            fields[#fields + 1] = field
        end
    elseif counts_of and counts_from and counts_of >= counts_from then
        fields[#fields + 1] = field
    end
end
local read = {}
for first = 1, #fields, CHUNK do
    for _, pane in ipairs(redis.call('HMGET', panes, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))) do
        read[#read + 1] = pane
    end
end

local epoch = stored[2]
if stored[3] ~= token then
    redis.call('HSETNX', ctl, 'seq', '0')
    -- From here on every key exists, even without users. While a slot moves, a commit with a missing key would fail.
    redis.call('HSETNX', users, '_', '')
    redis.call('HSETNX', panes, '_', '')
    redis.call('HSETNX', totals, '_', '')
    redis.call('HSETNX', experiments, '_', '')
    redis.call('HSETNX', pieces, '_', '')
    redis.call('ZADD', due, '+inf', '_')
    -- Run the other commands of a commit on fields that do not exist. A missing right fails here, before any event is read.
    redis.call('HDEL', users, '')
    redis.call('HDEL', panes, '')
    redis.call('HDEL', totals, '')
    redis.call('HDEL', experiments, '')
    redis.call('HDEL', pieces, '')
    redis.call('ZREM', due, '')
    epoch = string.format('%.0f', redis.call('HINCRBY', ctl, 'epoch', 1))
    redis.call('HSET', ctl, 'token', token, 'version', version)
end
return { version, epoch, stored[4] or '0', stored[5], starts, fields, read, cells, stored[8] }
