-- record.lua -- the record of a slot: in which generation its data is, and whether it grants (R6 of proto/SCRIPTS.md).
--
-- Every verb of a lock names what the record has to be (common.lua). It is "<number> 0" where the slot grants,
-- "<number> 0 0" while holders reclaim, and "<number> 0 1", which nobody names, once the slot was open: keys may have
-- gone astray then, and not every daemon has seen it.
--
--   KEYS   rlock:{tag}:epoch
--   ARGV   number, mode: read = writes nothing; reclaim, grant = creates it so, where there is none or a lower number;
--          open = lets it grant, where it is the number's and reclaims; spoil = whatever its number is, it is spoiled
--   reply  { TIME in us, its number now (0 = there is none), 1 = it grants, 2 = it is spoiled }
--
-- It is never created by `open`: where it has gone its data has gone, whatever the caller believes.
local call = redis.call
local key, number, mode = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local time = call('TIME')
local kind = call('TYPE', key).ok

if kind ~= 'string' and kind ~= 'none' then
    call('DEL', key) -- not made by us
end
local was, phase = (call('GET', key) or ''):match('^(%d+) 0( ?[01]?)$')
local is, now = tonumber(was or 0), ({[''] = 1, [' 0'] = 0, [' 1'] = 2})[phase] or 0

local function set(to, phase_now)
    is, now = to, phase_now
    call('SET', key, string.format('%.0f', to) .. ({[0] = ' 0 0', ' 0', ' 0 1'})[phase_now])
end

if (mode == 'reclaim' or mode == 'grant') and is < number then
    set(number, mode == 'grant' and 1 or 0)
elseif mode == 'open' and is == number and now == 0 then
    set(number, 1)
elseif mode == 'spoil' and is > 0 then
    set(is, 2)
end
return {time[1] * 1000000 + time[2], is, now}
