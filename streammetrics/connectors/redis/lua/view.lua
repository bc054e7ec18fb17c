-- Reads one task's committed state at one instant, for display.
--
-- KEYS  ctl, users, rows of one task (one hash tag, so one slot)
-- ARGV  token and seq of the commit that the reader has ('' and '' if none), the bounds of `read_rows`, the version of the key layout,
--       1 to read all tables or 0, then the tables to read
-- Returns
--   nil        if the reader has the last commit,
--   {nil}      if the reader has a commit and the task has none,
--   {version}  if the stored layout differs,
--   the result of `problem_with` if keys are missing or left over,
--   else {version, token, seq, 1 or 0, control, number of users, fields of rows, their values}.
-- 1 means a snapshot: the reader's commit is of another claim or later than the stored one, so the bounds are ignored.

local ctl, users, rows = KEYS[1], KEYS[2], KEYS[3]
local stored = redis.call('HMGET', ctl, 'version', 'token', 'seq', 'control', 'epoch')
local token, seq, bounds, version = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if stored[1] and stored[1] ~= version then
    return { stored[1] }
end
local users_size = redis.call('HLEN', users)
local problem = problem_with(stored[5], stored[1], { { users, users_size }, { rows, redis.call('HLEN', rows) } })
if problem then
    return problem
elseif not stored[4] then
    return seq ~= '' and { false } or false
elseif stored[2] == token and stored[3] == seq then
    return false
end
local is_snapshot = seq ~= '' and (stored[2] ~= token or tonumber(stored[3]) < tonumber(seq))
local wanted
if ARGV[5] == '0' then
    wanted = {}
    for number = 6, #ARGV do
        wanted[ARGV[number]] = true
    end
end
local fields, values = read_rows(rows, is_snapshot and '' or bounds, wanted)
return { stored[1], stored[2], stored[3], is_snapshot and 1 or 0, stored[4], users_size - 1, fields, values }
