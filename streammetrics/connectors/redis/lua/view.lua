-- Reads one task's committed state at one instant, for display.
--
-- KEYS  ctl, users, panes, experiments of one task (one hash tag, so one slot)
-- ARGV  token and seq of the commit that the reader has ('' and '' if none), the first pane start to return or '', the same for user
--       counts of panes, the version of the key layout
-- Returns
--   nil        if the reader has the last commit,
--   {nil}      if the reader has a commit and the task has none,
--   {version}  if the stored layout differs,
--   the result of `problem_with` if keys are missing or left over,
--   else {version, token, seq, 1 or 0, control, number of users, fields of panes, their values, fields and values of experiments}.
-- 1 means a snapshot: the reader's commit is of another claim or later than the stored one, so the first starts are ignored.

local CHUNK = 4000 -- arguments per call; Lua's stack has 8000

local ctl, users, panes, experiments = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stored = redis.call('HMGET', ctl, 'version', 'token', 'seq', 'control', 'epoch')
local token, seq = ARGV[1], ARGV[2]
if stored[1] and stored[1] ~= ARGV[5] then
    return { stored[1] }
end
local users_size = redis.call('HLEN', users)
local problem = problem_with(stored[5], stored[1], {
    { users, users_size }, { panes, redis.call('HLEN', panes) }, { experiments, redis.call('HLEN', experiments) }
})
if problem then
    return problem
elseif not stored[4] then
    return seq ~= '' and { false } or false
elseif stored[2] == token and stored[3] == seq then
    return false
end
local is_snapshot = seq ~= '' and (stored[2] ~= token or tonumber(stored[3]) < tonumber(seq))

local fields, read = {}, {}
local from, counts_from = tonumber(ARGV[3]), tonumber(ARGV[4])
if is_snapshot then
    from, counts_from = nil, nil
end
for _, field in ipairs(redis.call('HKEYS', panes)) do
    local start, counts_of = tonumber(field), tonumber(string.match(field, '^r(.+)'))
    if start and (not from or start >= from) then -- not the placeholder
        fields[#fields + 1] = field
    elseif counts_of and (not counts_from or counts_of >= counts_from) then
        fields[#fields + 1] = field
    end
end
for first = 1, #fields, CHUNK do
    for _, pane in ipairs(redis.call('HMGET', panes, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))) do
        read[#read + 1] = pane
    end
end
return {
    stored[1], stored[2], stored[3], is_snapshot and 1 or 0, stored[4], users_size - 1, fields, read,
    redis.call('HGETALL', experiments)
}
