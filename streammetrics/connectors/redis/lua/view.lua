-- Reads one task's committed state as of one instant, for display.
--
-- KEYS  ctl, users, panes, experiments of one task (one hash tag, so one slot)
-- ARGV  the owner's token and the seq that the reader has already or '' twice, the least start wanted of panes or '', that of reaches or
-- '', the version of the keys' layout
-- Answers nil, if there is nothing new; {nil}, if what the reader has is there no more; {version}, if the stored layout is another;
-- {version, keys}, if these keys of a claimed task are gone; {nil, keys}, if nobody has claimed the task, and these hold something; else
-- {version, token, seq, 1 or 0, control, number of users, fields of panes, their values, fields and values of experiments}. With 1, what
-- the reader has is of another claim, or lost, and the least starts do not count.

local CHUNK = 4000 -- arguments of one call: Lua's stack ends at 8000

local ctl, users, panes, experiments = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stored = redis.call('HMGET', ctl, 'version', 'token', 'seq', 'control', 'epoch')
local token, seq = ARGV[1], ARGV[2]
if stored[1] and stored[1] ~= ARGV[5] then
    return { stored[1] }
end
local users_size = redis.call('HLEN', users)
local refused = unfit(stored[5], stored[1], {
    { users, users_size }, { panes, redis.call('HLEN', panes) }, { experiments, redis.call('HLEN', experiments) }
})
if refused then
    return refused
elseif not stored[4] then
    return seq ~= '' and { false } or false
elseif stored[2] == token and stored[3] == seq then
    return false
end
local anew = seq ~= '' and (stored[2] ~= token or tonumber(stored[3]) < tonumber(seq))

local fields, read = {}, {}
local from, reaches_from = tonumber(ARGV[3]), tonumber(ARGV[4])
if anew then
    from, reaches_from = nil, nil
end
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
return {
    stored[1], stored[2], stored[3], anew and 1 or 0, stored[4], users_size - 1, fields, read,
    redis.call('HGETALL', experiments)
}
