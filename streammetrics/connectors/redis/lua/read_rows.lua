-- Prepended to the scripts that read rows. It knows no table: the field of a row is its table, a colon, and its key.
--
-- Reads the rows of a task. `rows` is the key. `bounds` is text, such as 'panes=60000 other=5': of these tables, the keys are whole
-- numbers, and earlier rows are not read. `wanted` is a set of tables; nil: all.
-- Returns the fields of rows that are read, their values, and the fields of earlier rows.

local CHUNK = 4000 -- arguments per call; Lua's stack has 8000

local function read_rows(rows, bounds, wanted)
    local from = {}
    for name, number in string.gmatch(bounds, '(%S+)=(%S+)') do
        from[name] = tonumber(number)
    end
    local fields, values, older = {}, {}, {}
    for _, field in ipairs(redis.call('HKEYS', rows)) do
        local name, key = string.match(field, '^([^:]*):(.*)$') -- nil for the placeholder
        if name and (not wanted or wanted[name]) then
            local into = from[name] and tonumber(key) < from[name] and older or fields
            into[#into + 1] = field
        end
    end
    for first = 1, #fields, CHUNK do
        for _, value in ipairs(redis.call('HMGET', rows, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))) do
            values[#values + 1] = value
        end
    end
    return fields, values, older
end
