-- Prepended to the scripts that read a whole task.
--
-- Checks the keys of a task other than `ctl`. Returns
--   {version, keys} if these keys of a claimed task are missing,
--   {nil, keys}     if the task is not claimed but these keys have data,
--   nil             if all is well.
-- `sizes` has pairs of a key and its size. `epoch` and `version` are those of `ctl`.
local function problem_with(epoch, version, sizes)
    local missing, left_over = {}, {}
    for _, pair in ipairs(sizes) do
        if pair[2] == 0 then
            missing[#missing + 1] = pair[1]
        elseif pair[2] > 1 then -- it has more than the placeholder
            left_over[#left_over + 1] = pair[1]
        end
    end
    if epoch and #missing > 0 then -- a claim creates all of them before it sets an epoch
        return { version, missing }
    elseif not epoch and #left_over > 0 then
        return { false, left_over }
    end
end
