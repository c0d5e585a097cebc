-- quorum.lua -- whether a node of a quorum is established, and the token that its clock has reached. Can admit it.
--
-- Only an established node votes: its tokens have been raised to what a majority of the other nodes knew after the
-- epoch of its data (presence.lua) had begun. A loss of the data loses rlock:quorum, too, or begins another epoch.
--   KEYS   rlock:clock, rlock:epoch, rlock:quorum (the value of rlock:epoch when the node was admitted)
--   ARGV   the value of rlock:epoch for which the node is to be admitted (outside of a grace period: in one the value
--          is another; '' = only look), the token to which its clock is raised then
--   reply  { rlock:epoch, 1 if it is established, rlock:clock }
-- @use text
local call, pcall = redis.call, redis.pcall

-- The value of a key; '' also for a key of another type, which somebody else has made.
local function get(key)
    local is = pcall('GET', key)
    return type(is) == 'string' and is or ''
end

local epoch, clock = get(KEYS[2]), tonumber(get(KEYS[1])) or 0
if not (clock >= 0 and clock < 2 ^ 53) then
    clock = 0 -- somebody else has written it: the next vote sets it anew (common.lua)
end
if ARGV[1] ~= '' and epoch == ARGV[1] then
    if clock < tonumber(ARGV[2]) then
        clock = tonumber(ARGV[2])
        call('SET', KEYS[1], text(clock))
    end
    call('SET', KEYS[3], epoch)
end
return {epoch, epoch ~= '' and get(KEYS[3]) == epoch and 1 or 0, clock}
