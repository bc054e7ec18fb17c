-- Put before scripts that read a whole task.
--
-- Says what is wrong with the keys of a task beside its `ctl`: {version, keys}, if these keys of a claimed task are gone; {nil, keys}, if
-- nobody has claimed the task, and these hold something; else nil. `sizes` is of pairs of a key and its size; `epoch` and `version` are
-- those of `ctl`.
local function unfit(epoch, version, sizes)
    local gone, left = {}, {}
    for _, pair in ipairs(sizes) do
        if pair[2] == 0 then
            gone[#gone + 1] = pair[1]
        elseif pair[2] > 1 then -- more than the placeholder
            left[#left + 1] = pair[1]
        end
    end
    if epoch and #gone > 0 then -- a claim makes all of them before it gives an epoch
        return { version, gone }
    elseif not epoch and #left > 0 then
        return { false, left }
    end
end
