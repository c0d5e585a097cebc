-- clear.lua -- the verb that is the same for every kind that has no clear of its own: free the name whoever has it
-- (BREAK).
--
-- A key of another type than the kind's is somebody's data, not a lock, and stays. GONE: there was nothing. The
-- token rises either way, so that a holder who does not know yet is refused by whoever looks at tokens. DEL comes
-- first, so that it goes through in a full Redis.
local function clear(key, channel)
    local kind = call('TYPE', key).ok
    if kind ~= 'none' and kind ~= TYPE then
        return FOREIGN, call('PTTL', key)
    end
    local there = call('DEL', key)
    return there == 1 and OK or GONE, token(), wake(channel, '0')
end
