-- quorum.lua -- whether a node of a quorum is established, and the token that its clocks have reached. Can admit it.
--
-- Only an established node votes: its tokens have been raised to what a majority of the other nodes (or all: A4 of
-- quorum_admit.c) knew after its epoch had begun. A loss of the data loses rlock:quorum, too, or begins another epoch.
--   KEYS   rlock:clock (the highest token that a registered daemon knew of; behind it :0 to :63, the token clocks of
--          the votes: clocks.lua), rlock:epoch, rlock:quorum (the value of rlock:epoch when the node was admitted)
--   ARGV   the value of rlock:epoch, outside of a grace period, for which the node is to be admitted ('' = none),
--          the token to which its clocks are raised then
--   reply  { rlock:epoch, 1 if it is established, the highest of rlock:clock and the token clocks }
-- @use text
local PARTS = 64
local call, pcall = redis.call, redis.pcall

-- The value of a key; '' also for a key of another type, which is not rlockd's.
local function get(key)
    local value = pcall('GET', key)
    return type(value) == 'string' and value or ''
end

local epoch, clocks = get(KEYS[2]), {KEYS[1]}
for part = 0, PARTS - 1 do
    clocks[part + 2] = KEYS[1] .. ':' .. part
end
local reached, highest = call('MGET', unpack(clocks)), 0
for i, value in ipairs(reached) do
    reached[i] = tonumber(value) or 0
    if not (reached[i] >= 0 and reached[i] < 2 ^ 53) then
        reached[i] = 0 -- not written by rlockd: the next vote sets it anew
    end
    highest = math.max(highest, reached[i])
end

local admits = ARGV[1] ~= '' and epoch == ARGV[1]
-- Every run raises the token clocks to rlock:clock. A daemon lets a node vote only after a run that follows its
-- registration (membership.lua) in the same epoch. So the votes that it gets are above all tokens that it knew then,
-- and a beat need not raise 64 clocks: tokens that the daemon learns later are covered by a majority of this epoch.
local least = math.max(reached[1], admits and tonumber(ARGV[2]) or 0)
local behind = {}
for i = 2, #clocks do
    if reached[i] < least then
        behind[#behind + 1], behind[#behind + 2] = clocks[i], text(least)
    end
end
if #behind > 0 then
    if not admits then
        call('PERSIST', KEYS[2]) -- a full Redis accepts it, and then all later writes of the script
    end
    call('MSET', unpack(behind))
end
if admits then
    call('SET', KEYS[3], epoch)
end
return {epoch, epoch ~= '' and get(KEYS[3]) == epoch and 1 or 0, math.max(highest, least)}
