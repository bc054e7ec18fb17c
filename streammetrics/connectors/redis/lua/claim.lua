-- Takes a task over: a new epoch and owner token, and what the last commit left. Sent again with the same token it changes nothing.
--
-- KEYS  ctl, users, due, panes, totals, experiments of one task (one hash tag, so one slot)
-- ARGV  the owner's token, the version of the keys' layout
-- Answers {version}, if the stored layout is another; {version, keys}, if these keys of a claimed task are gone; {nil, keys}, if nobody
-- has claimed the task, and these hold something; else {version, epoch, seq, control or nil, starts, fields of panes read, their values,
-- fields and values of experiments, the bytes of the largest user ever written or nil}.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000

local ctl, users, due, panes, totals, experiments = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, version = ARGV[1], ARGV[2]

-- Every key is read before the first write: a key that somebody else made with another type shows here, not half way through this or
-- a commit, which is not rolled back then.
local stored = redis.call('HMGET', ctl, 'version', 'epoch', 'token', 'seq', 'control', 'panes_from_ms', 'reaches_from_ms',
    'user_bytes_max')
if stored[1] and stored[1] ~= version then
    return { stored[1] }
end
local refused = unfit(stored[2], stored[1], {
    { users, redis.call('HLEN', users) }, { due, redis.call('ZCARD', due) }, { panes, redis.call('HLEN', panes) },
    { totals, redis.call('HLEN', totals) }, { experiments, redis.call('HLEN', experiments) }
})
if refused then
    return refused
end
local cells = redis.call('HGETALL', experiments)
local starts, wanted = {}, {}
local from, reaches_from = tonumber(stored[6] or ''), tonumber(stored[7] or '')
for _, field in ipairs(redis.call('HKEYS', panes)) do
    local start, reach = tonumber(field), tonumber(string.match(field, '^r(.+)'))
    if start then -- the placeholder is no number
        starts[#starts + 1] = field
        if from and start >= from then
            wanted[#wanted + 1] = field
        end
    elseif reach and reaches_from and reach >= reaches_from then
        wanted[#wanted + 1] = field
    end
end
local read = {}
for first = 1, #wanted, CHUNK do
    for _, pane in ipairs(redis.call('HMGET', panes, unpack(wanted, first, math.min(first + CHUNK - 1, #wanted)))) do
        read[#read + 1] = pane
    end
end

local epoch = stored[2]
if stored[3] ~= token then
    redis.call('HSETNX', ctl, 'seq', '0')
    -- From here on every key exists, also when its last user is gone: a commit that names a missing key cannot pass while its slot moves.
    redis.call('HSETNX', users, '_', '')
    redis.call('HSETNX', panes, '_', '')
    redis.call('HSETNX', totals, '_', '')
    redis.call('HSETNX', experiments, '_', '')
    redis.call('ZADD', due, '+inf', '_')
    -- What a commit does besides, on fields that nobody has: a right that the user lacks shows here, before any event is read.
    redis.call('HDEL', users, '')
    redis.call('HDEL', panes, '')
    redis.call('HDEL', totals, '')
    redis.call('HDEL', experiments, '')
    redis.call('ZREM', due, '')
    epoch = string.format('%.0f', redis.call('HINCRBY', ctl, 'epoch', 1))
    redis.call('HSET', ctl, 'token', token, 'version', version)
end
return { version, epoch, stored[4] or '0', stored[5], starts, wanted, read, cells, stored[8] }
