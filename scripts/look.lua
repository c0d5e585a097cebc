-- look.lua -- what Redis has under one key, for people who ask: reads only, and little of what is large.
--
-- KEYS key; reply { TIME in us, type, owner, holds, PTTL }. The owner is a string's value or a hash's first field
-- that is no mode, cut to 128 bytes; a hash with many fields is no lock, and is not read.
local time = redis.call('TIME')
local kind = redis.call('TYPE', KEYS[1]).ok
local owner, holds = '', 0
if kind == 'string' then
    owner, holds = redis.call('GETRANGE', KEYS[1], 0, 127), 1
elseif kind == 'hash' and redis.call('HLEN', KEYS[1]) <= 64 then
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
        if field ~= 'mode' then
            owner = field:sub(1, 128)
            holds = redis.call('HSTRLEN', KEYS[1], field) < 16 and tonumber(redis.call('HGET', KEYS[1], field)) or 0
            break
        end
    end
end
return {time[1] * 1000000 + time[2], kind, owner, holds, redis.call('PTTL', KEYS[1])}
