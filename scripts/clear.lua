-- clear.lua -- BREAK, for all kinds that define no `clear` of their own: frees the name, whichever owner holds it.
--
-- A key that is no lock of this kind is an application's data, and stays. `declared`: the operator's rules say that the
-- key is a lock of this kind, or this daemon holds it; `shape`: the pattern of a `simple` lock's value. GONE: there was
-- no key. The token rises either way, so that resources that check tokens refuse a holder that does not know of BREAK.
-- DEL comes first: a full Redis accepts it, and then all later writes of the script.
local function clear(key, shape, declared, channel)
    local pttl = call('PTTL', key)
    if pttl ~= -2 and not is_lock(key, pttl, shape, declared) then
        return FOREIGN, pttl
    end
    local there = call('DEL', key)
    return there == 1 and OK or GONE, token(), wake(channel, '0')
end
