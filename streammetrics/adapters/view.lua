-- Reads one task's committed state as of one instant, for display.
--
-- KEYS  ctl, users, panes, experiments of one task (one hash tag, so one slot)
-- ARGV  the seq that the reader has already or '', the least pane start wanted or ''
-- Answers nil, if there is nothing new; else {version, seq, control, number of users, starts, panes, fields and values of experiments}.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000

local ctl, users, panes, experiments = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stored = redis.call('HMGET', ctl, 'version', 'seq', 'control')
if not stored[3] or stored[2] == ARGV[1] then
    return false
end

local starts, read = {}, {}
local from = tonumber(ARGV[2])
for _, field in ipairs(redis.call('HKEYS', panes)) do
    local start = tonumber(field)
    if start and (not from or start >= from) then -- the placeholder is no number
        starts[#starts + 1] = field
    end
end
for first = 1, #starts, CHUNK do
    for _, pane in ipairs(redis.call('HMGET', panes, unpack(starts, first, math.min(first + CHUNK - 1, #starts)))) do
        read[#read + 1] = pane
    end
end
return { stored[1], stored[2], stored[3], redis.call('HLEN', users) - 1, starts, read, redis.call('HGETALL', experiments) }
