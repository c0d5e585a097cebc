-- counter.lua -- INCR == 1 wins; the winner sets the expiry, a loser touches nothing.
--
-- The value names no owner: the expiry (parameter `expiry`), to the millisecond, proves ownership. proto/SCRIPTS.md has
-- the consequences, and the one case in which this fails.

local function is_lock(key, pttl, _, declared)
    local count = pttl ~= -1 and declared == '1' and checked(pcall('GETRANGE', key, 0, 15))
    return count and is_count(count)
end

-- True: the value is a count, and the expiry is that of the owner, up to rounding and the time between TIME and PTTL.
local function still_held(key, expiry, pttl)
    if expiry == '0' or pttl < 0 or not is_lock(key, pttl, nil, '1') then
        return false
    end
    local early = expiry - (now_ms + pttl)
    if early > 2 then -- the call may have taken long: asks for the time again
        local later = call('TIME')
        local gone_ms = math.floor((later[1] * 1000000 + later[2]) / 1000) - now_ms
        early = math.max(early - gone_ms, 0)
    end
    return early >= -2 and early <= 2
end

local function acquire(key, expiry, lease)
    local pttl = call('PTTL', key)
    if still_held(key, expiry, pttl) then -- the owner holds it still
        local new_expiry = math.max(now_ms + lease, expiry)
        call('PEXPIREAT', key, text(new_expiry))
        return OK, token(), new_expiry
    elseif pttl ~= -2 then
        return checked(pcall('STRLEN', key)) and TAKEN or FOREIGN, pttl
    end
    if not checked(pcall('INCR', key)) then
        return
    end
    call('PEXPIREAT', key, text(now_ms + lease))
    return OK, token(), now_ms + lease
end

local function renew(key, expiry, lease, exact)
    if not still_held(key, expiry, call('PTTL', key)) then
        return GONE
    end
    local new_expiry = now_ms + lease
    if exact == '0' then
        new_expiry = math.max(new_expiry, expiry)
    end
    call('PEXPIREAT', key, text(new_expiry))
    return OK, 0, new_expiry
end

local function release(key, expiry, channel)
    if not still_held(key, expiry, call('PTTL', key)) then
        return GONE
    end
    call('DEL', key)
    return OK, wake(channel, '0')
end
