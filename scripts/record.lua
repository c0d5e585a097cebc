-- record.lua -- the record of a slot: the generation of its data, and whether it grants (R6 of proto/SCRIPTS.md).
--
-- Every verb of a lock names the record that it expects (common.lua): "<number> 0" while the slot grants, or
-- "<number> 0 0" while holders reclaim. After the slot was open its record is "<number> 0 1" (spoiled), which no verb
-- expects: keys may be missing, and not every daemon has noticed.
--   KEYS   rlock:{tag}:epoch
--   ARGV   number, mode: read = writes nothing; reclaim, grant = creates the record with that phase if there is none or
--          one with a lower number; open = lets the record grant if it has this number and reclaims, and creates none,
--          since no record means lost data (nothing to do with an open slot); spoil = spoils any record
--   reply  { TIME in us, number of the record now (0 = there is none), 1 = it grants, 2 = it is spoiled }
local call = redis.call
local END = 2 ^ 52 -- see SCRIPTS.md, :gen
local key, number, mode = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local time = call('TIME')
local found = call('TYPE', key).ok

if mode ~= 'read' then
    call('PERSIST', key) -- a full Redis accepts this write, and then all later writes of the script
end
if found ~= 'string' and found ~= 'none' then
    call('DEL', key) -- not made by rlockd
end
local was, was_phase = (call('GET', key) or ''):match('^(%d+) 0( ?[01]?)$')
local current, phase = tonumber(was or 0), ({[''] = 1, [' 0'] = 0, [' 1'] = 2})[was_phase] or 0

if current >= END then
    current, phase = 0, 0 -- not written by rlockd
end

local function set(to, new_phase)
    current, phase = to, new_phase
    call('SET', key, string.format('%.0f', to) .. ({[0] = ' 0 0', ' 0', ' 0 1'})[new_phase])
end

if (mode == 'reclaim' or mode == 'grant') and current < number then
    set(number, mode == 'grant' and 1 or 0)
elseif mode == 'open' and current == number and phase == 0 then
    set(number, 1)
elseif mode == 'spoil' and current > 0 then
    set(current, 2)
end
return {time[1] * 1000000 + time[2], current, phase}
