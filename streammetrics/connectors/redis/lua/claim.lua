-- Claims a task: sets a new epoch and owner token, and returns the state of the last commit. A repeated call with the same token
-- changes nothing.
--
-- KEYS  ctl, users, due, rows, totals, pieces of one task (one hash tag, so one slot)
-- ARGV  the owner's token, the version of the key layout
-- Returns {version} if the stored layout differs; the result of `problem_with` if keys are missing or left over; else {version, epoch,
-- seq, control or nil, fields of rows from the bounds of the last commit on, their values, fields of earlier rows, the size in bytes of
-- the largest user state ever written or nil}.

local ctl, users, due, rows, totals, pieces = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, version = ARGV[1], ARGV[2]

-- Read every key before the first write. A key of another program with another type fails here, before anything is written.
local stored = redis.call('HMGET', ctl, 'version', 'epoch', 'token', 'seq', 'control', 'rows_from', 'user_bytes_max')
if stored[1] and stored[1] ~= version then
    return { stored[1] }
end
local problem = problem_with(stored[2], stored[1], {
    { users, redis.call('HLEN', users) }, { due, redis.call('ZCARD', due) }, { rows, redis.call('HLEN', rows) },
    { totals, redis.call('HLEN', totals) }, { pieces, redis.call('HLEN', pieces) }
})
if problem then
    return problem
end
local fields, values, older = read_rows(rows, stored[6] or '')

local epoch = stored[2]
if stored[3] ~= token then
    redis.call('HSETNX', ctl, 'seq', '0')
    -- From here on every key exists, even without users. While a slot moves, a commit with a missing key would fail.
    redis.call('HSETNX', users, '_', '')
    redis.call('HSETNX', rows, '_', '')
    redis.call('HSETNX', totals, '_', '')
    redis.call('HSETNX', pieces, '_', '')
    redis.call('ZADD', due, '+inf', '_')
    -- Run the other commands of a commit on fields that do not exist. A missing right fails here, before any event is read.
    redis.call('HDEL', users, '')
    redis.call('HDEL', rows, '')
    redis.call('HDEL', totals, '')
    redis.call('HDEL', pieces, '')
    redis.call('ZREM', due, '')
    epoch = string.format('%.0f', redis.call('HINCRBY', ctl, 'epoch', 1))
    redis.call('HSET', ctl, 'token', token, 'version', version)
end
return { version, epoch, stored[4] or '0', stored[5], fields, values, older, stored[7] }
