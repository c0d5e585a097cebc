-- clear.lua -- BREAK, for all kinds without a `clear` of their own: frees the name, and wakes its remote waiters.
--
-- A key that is no lock of this kind is an application's data, and stays. `declared`: the operator's rules say that the
-- key is a lock of this kind, or this daemon holds it. `pattern`: no kind that uses this function needs it. GONE: there
-- was no key. The token rises either way, so that resources that check tokens refuse a holder that does not know of
-- BREAK.
-- DEL comes first: a full Redis accepts it, and then all later writes of the script.
local function clear(key, pattern, declared, channel)
    local pttl = call('PTTL', key)
    if pttl ~= -2 and not is_lock(key, pttl, pattern, declared) then
        return FOREIGN, pttl
    end
    local there, drawn = call('DEL', key), token(key)
    if there == 1 then -- a holder that does not know of BREAK must not reclaim the lock while its lease lasts
        end_earlier(key, text(drawn), pttl)
    end
    return there == 1 and OK or GONE, drawn, wake(channel, '0')
end
