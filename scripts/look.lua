-- look.lua -- what Redis has under one key, for people who ask: reads only, and little of what is large.
--
-- KEYS key; reply { TIME in us, type, owner, holds, PTTL, value }. The owner is the first field of a hash that is a
-- lock's, an RLock or (then it has a `mode`) a ReadWriteLock: at most 64 fields, each with the name of an owner and a
-- count, and an expiry.
-- The value is that of a string, cut to 128 bytes: it may be anything, and is for the daemon's eyes alone.
-- @use is_owner is_count
local key, call = KEYS[1], redis.call
local time = call('TIME')
local kind, pttl = call('TYPE', key).ok, call('PTTL', key)

-- The number of holds of a field; nil: it is no lock's.
local function holds_of(field)
    local count = is_owner((field:gsub(':write$', ''))) and call('HSTRLEN', key, field) < 16 and
        call('HGET', key, field)
    return count and is_count(count) and tonumber(count) or nil
end

local owner, holds, value = '', 0, ''
if kind == 'string' then
    value, holds = call('GETRANGE', key, 0, 127), 1
elseif kind == 'hash' and pttl >= 0 and call('HLEN', key) <= 64 then
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
return {time[1] * 1000000 + time[2], kind, owner, holds, pttl, value}
