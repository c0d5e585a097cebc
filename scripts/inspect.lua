-- inspect.lua -- the lock or the value under one key, for LOCKINFO and GET. Writes nothing; cuts large values.
--
-- KEYS key; reply { TIME in us, type, owner, holds, PTTL, value }. The owner is the first field of the hash of an RLock
-- or a ReadWriteLock (which has a `mode`). Such a hash has an expiry, and at most 64 fields, each with the name of an
-- owner and a count. The value is that of a string, cut to 128 bytes: it may be a secret, so no client is shown it.
-- @use is_owner is_count
local key, call = KEYS[1], redis.call
local time = call('TIME')
local found, pttl = call('TYPE', key).ok, call('PTTL', key)

-- The number of holds in a field; nil: the field is not one of a lock.
local function holds_of(field)
    local count = is_owner((field:gsub(':write$', ''))) and call('HSTRLEN', key, field) < 16 and
        call('HGET', key, field)
    return count and is_count(count) and tonumber(count) or nil
end

local owner, holds, value = '', 0, ''
if found == 'string' then
    value, holds = call('GETRANGE', key, 0, 127), 1
elseif found == 'hash' and pttl >= 0 and call('HLEN', key) <= 64 then
    local fields = call('HKEYS', key)
    local one = call('HEXISTS', key, 'mode') == 0
    for _, field in ipairs(fields) do
        local count = field ~= 'mode' and holds_of(field)
        if count == nil or one and #fields > 1 then
            owner, holds = '', 0
            break
        elseif count and owner == '' then
            owner, holds = field, count
        end
    end
end
return {time[1] * 1000000 + time[2], found, owner, holds, pttl, value}
