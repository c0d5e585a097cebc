-- record.lua -- the record of a slot: the generation of its data, and whether it grants (R6 of proto/SCRIPTS.md).
--
-- Every verb of a lock names the record that it expects (common.lua): "<number> 0" while the slot grants, or
-- "<number> 0 0" while holders reclaim. After the slot was open its record is "<number> 0 1" (spoiled), which no verb
-- expects: keys may be missing, and not every daemon has noticed. `open` creates none: no record means lost data.
--   KEYS   rlock:{tag}:epoch
--   ARGV   number, mode: read = writes nothing; reclaim, grant = creates the record with that phase if there is none or
--          one with a lower number; open = lets it grant if it has this number and reclaims; spoil = spoils any record
--   reply  { TIME in us, number of the record now (0 = there is none), 1 = it grants, 2 = it is spoiled }
local call = redis.call
local key, number, mode = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local time = call('TIME')
local kind = call('TYPE', key).ok

if mode ~= 'read' then
    call('PERSIST', key) -- a full Redis accepts this write, and then all later writes of the script
end
if kind ~= 'string' and kind ~= 'none' then
    call('DEL', key) -- somebody else has made it
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
