-- Writes one commit whole, or nothing and says why.
--
-- KEYS  ctl, users, due, panes, totals, experiments of one task (one hash tag, so one slot)
-- ARGV  epoch, token, seq, the seq before it, control, panes_from_ms, reaches_from_ms, nine counts, and as many arguments of each of
--       users (field, value ...), due (score, member ...), panes, totals, experiments (field, value ... each), users gone, panes
--       gone, totals gone, experiments gone
-- Answers written, already, fenced or conflict.
--
-- An error after the first write is not rolled back, so nothing there may fail: what comes from outside is only passed on. Redis
-- judges its memory at the first command that may need some, and a deletion before that would let all the rest through over the
-- limit: a write comes first. The seq goes last: as long as it has not changed, the same commit can be sent again.

local CHUNK = 4000 -- arguments of one call: even, as they may be pairs, and Lua's stack ends at 8000
local PARTS = 9
local HEAD = 7 + PARTS

local ctl, users, due, panes, totals, experiments = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
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

local ends = { [0] = HEAD }
for part = 1, PARTS do
    ends[part] = ends[part - 1] + tonumber(ARGV[HEAD - PARTS + part])
end
if ends[PARTS] ~= #ARGV then
    return redis.error_reply('ERR the counts of a commit do not match its arguments')
end

local function pass_on(command, key, part)
    local done = ends[part - 1]
    while done < ends[part] do
        local upto = math.min(done + CHUNK, ends[part])
        redis.call(command, key, unpack(ARGV, done + 1, upto))
        done = upto
    end
end

redis.call('HSET', ctl, 'control', ARGV[5], 'panes_from_ms', ARGV[6], 'reaches_from_ms', ARGV[7])
pass_on('HSET', users, 1)
pass_on('HSET', panes, 3)
pass_on('HSET', totals, 4)
pass_on('HSET', experiments, 5)
pass_on('HDEL', users, 6)
pass_on('ZREM', due, 6)
pass_on('ZADD', due, 2) -- after it: a user whose state is gone may still be due
pass_on('HDEL', panes, 7)
pass_on('HDEL', totals, 8)
pass_on('HDEL', experiments, 9)
redis.call('HSET', ctl, 'seq', seq)
return 'written'
