-- clear.lua -- the verb that is the same for every kind that has no clear of its own: free the name, whoever holds it
-- (BREAK).
--
-- A key that is no lock of this kind is an application's data, and stays. `declared`: the operator's rules say that the
-- key is one of this kind, or a lock of it is held here; `shape`: the pattern of a `simple` lock's value. GONE: there
-- was nothing. The token rises either way, so that a holder that does not know of it is refused by resources that check
-- tokens. DEL comes first, so that it goes through in a full Redis.
local function clear(key, shape, declared, channel)
    local pttl = call('PTTL', key)
    if pttl ~= -2 and not is_lock(key, pttl, shape, declared) then
        return FOREIGN, pttl
    end
    local there = call('DEL', key)
    return there == 1 and OK or GONE, token(), wake(channel, '0')
end
