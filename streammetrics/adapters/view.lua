-- Reads one task's committed state as of one instant, for display.
--
-- KEYS  ctl, users, panes, experiments of one task (one hash tag, so one slot)
-- ARGV  the seq that the reader has already or '', the least start wanted of panes or '', that of reaches or ''
-- Answers nil, if there is nothing new; else {version, seq, control, number of users, fields of panes, their values, fields and values
-- of experiments}.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000

local ctl, users, panes, experiments = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stored = redis.call('HMGET', ctl, 'version', 'seq', 'control')
if not stored[3] or stored[2] == ARGV[1] then
    return false
end

local fields, read = {}, {}
local from, reaches_from = tonumber(ARGV[2]), tonumber(ARGV[3])
for _, field in ipairs(redis.call('HKEYS', panes)) do
    local start, reach = tonumber(field), tonumber(string.match(field, '^r(.+)'))
    if start and (not from or start >= from) then -- the placeholder is no number
        fields[#fields + 1] = field
    elseif reach and (not reaches_from or reach >= reaches_from) then
        fields[#fields + 1] = field
    end
end
for first = 1, #fields, CHUNK do
    for _, pane in ipairs(redis.call('HMGET', panes, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))) do
        read[#read + 1] = pane
    end
end
return { stored[1], stored[2], stored[3], redis.call('HLEN', users) - 1, fields, read, redis.call('HGETALL', experiments) }
