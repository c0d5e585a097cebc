-- quorum.lua -- whether a node of a quorum is established, and what its clock has reached; admits it, if that is asked.
--
-- An established node has had its tokens raised to what a majority of the others knew since the epoch of its data began
-- (presence.lua): only then it votes. Whatever loses the data loses the record, or begins another epoch.
--
--   KEYS   rlock:clock, rlock:epoch, rlock:quorum
--   ARGV   the epoch in which it is to be admitted, as rlock:epoch is outside of a grace period ('' = only look), and
--          what the clock is raised to then
--   reply  { rlock:epoch, 1 if it is established, rlock:clock }
--
-- rlock:quorum   what rlock:epoch was when the node was admitted; in a grace period it is another word
-- @use text
local call, pcall = redis.call, redis.pcall

-- Neither key is a string of ours if it has another type.
local function get(key)
    local is = pcall('GET', key)
    return type(is) == 'string' and is or ''
end

local epoch, clock = get(KEYS[2]), tonumber(get(KEYS[1])) or 0
if ARGV[1] ~= '' and epoch == ARGV[1] then
    if clock < tonumber(ARGV[2]) then
        clock = tonumber(ARGV[2])
        call('SET', KEYS[1], text(clock))
    end
    call('SET', KEYS[3], epoch)
end
return {epoch, epoch ~= '' and get(KEYS[3]) == epoch and 1 or 0, clock}
