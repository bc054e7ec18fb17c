-- Writes one commit whole, or nothing and says why.
--
-- KEYS  ctl, users, due, panes of one task (one hash tag, so one slot)
-- ARGV  epoch, token, seq, the seq before it, control, panes_from_ms, five counts, and as many arguments of each of
--       users (field, value ...), due (score, member ...), panes (field, value ...), users gone, panes gone
-- Answers written, already, fenced or conflict.
--
-- An error after the first write is not rolled back, so nothing there may fail: what comes from outside is only passed on. Redis
-- judges its memory at the first command that may need some, and a deletion before that would let all the rest through over the
-- limit: writes come first, deletions after. The seq goes last: as long as it has not changed, the same commit can be sent again.

local CHUNK = 4000 -- arguments of one call: even, as they may be pairs, and Lua's stack ends at 8000
local HEAD = 11

local ctl, users, due, panes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, token, seq, seq_before = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local stored = redis.call('HMGET', ctl, 'epoch', 'token', 'seq')
local stored_epoch = tonumber(stored[1] or '')
if not stored_epoch or epoch < stored_epoch then
    return 'fenced'
elseif epoch > stored_epoch then
    return 'conflict' -- the claim itself was lost, with the end of what the store had written
elseif stored[2] ~= token then
    return 'fenced'
elseif stored[3] == seq then
    return 'already'
elseif stored[3] ~= seq_before then
    return 'conflict'
end

local done = HEAD
local function pass_on(command, key, count)
    local last = done + count
    while done < last do
        local upto = math.min(done + CHUNK, last)
        redis.call(command, key, unpack(ARGV, done + 1, upto))
        done = upto
    end
end

local counts = {}
for index = 1, 5 do
    counts[index] = tonumber(ARGV[HEAD - 5 + index])
end
if HEAD + counts[1] + counts[2] + counts[3] + counts[4] + counts[5] ~= #ARGV then
    return redis.error_reply('ERR the counts of a commit do not match its arguments')
end

redis.call('HSET', ctl, 'control', ARGV[5], 'panes_from_ms', ARGV[6])
pass_on('HSET', users, counts[1])
pass_on('ZADD', due, counts[2])
pass_on('HSET', panes, counts[3])
local users_gone = done
pass_on('HDEL', users, counts[4])
done = users_gone
pass_on('ZREM', due, counts[4])
pass_on('HDEL', panes, counts[5])
redis.call('HSET', ctl, 'seq', seq)
return 'written'
