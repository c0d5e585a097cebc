-- simple.lua -- a string that only its owner knows: SET NX PX, then compare before anything else.
--
-- The rule gives the pattern of a lock's value, which distinguishes locks of other libraries from strings of an
-- application. Such locks need no expiry: redis-py's Lock has none by default.

-- declared: the rule says that the key is a lock, or this daemon holds it. Otherwise a string of that pattern may be an
-- application's uuid.
local function is_lock(key, _, pattern, declared)
    local value = declared == '1' and checked(pcall('GETRANGE', key, 0, 63))
    return value and value:find(pattern) ~= nil
end

local function acquire(key, value, lease)
    local set = pcall('SET', key, value, 'NX', 'PX', lease)
    if set and set.ok then
        return OK, token(key), now_ms + lease
    end
    local there = checked(pcall('GETRANGE', key, 0, #value)) -- an application's data may be long
    if there == value then -- the owner's value, from an earlier attempt whose reply was lost
        local expiry = lengthen(key, lease, call('PTTL', key))
        return OK, token(key), expiry
    elseif set and there == '' then -- Redis has refused the SET
        failed = set
        return
    end
    return there == nil and FOREIGN or TAKEN, call('PTTL', key)
end

local function renew(key, value, lease, exact)
    local has = pcall('GETRANGE', key, 0, #value)
    if has ~= value then
        checked(has)
        return GONE
    end
    -- if quorum
    raise_clock(key)
    -- end if
    return OK, 0, lengthen(key, lease, exact == '1' and -2 or nil)
end

-- Wakes waiters of other libraries, as the rule says (`wakes`: 1, 2).
--   Spring's RedisLockRegistry: each registry has a channel for every key, `<registry>-channel:<key>`; the key begins
--   with the registry's name and a colon, and either may have more colons in it.
--   python-redis-lock: the waiters for `lock:<name>` sleep in BLPOP of the list `lock-signal:<name>`. Its element stays
--   for a second, for a waiter that begins to sleep now. Any other list or type is an application's data.
local REGISTRIES_MOST, SIGNAL_MS = 4, 1000
local function wake_others(key, wakes)
    if wakes == '1' then
        local colon = key:find(':', 1, true)
        for _ = 1, REGISTRIES_MOST do
            if not colon then
                return
            end
            wake(key:sub(1, colon - 1) .. '-channel:' .. key, key)
            colon = key:find(':', colon + 1, true)
        end
    elseif wakes == '2' and key:sub(1, 5) == 'lock:' then
        local signal = 'lock-signal:' .. key:sub(6)
        local n = pcall('LLEN', signal)
        if n == 0 and pcall('LPUSH', signal, '1') == 1 or n == 1 and pcall('LINDEX', signal, 0) == '1' then
            pcall('PEXPIRE', signal, text(SIGNAL_MS))
        end
    end
end

local function release(key, value, wakes, channel)
    local has = pcall('GETRANGE', key, 0, #value)
    if has ~= value then
        checked(has)
        return GONE
    end
    call('DEL', key)
    wake_others(key, wakes)
    return OK, wake(channel, '0')
end

-- As clear.lua does for other kinds, but without end_earlier(): a reclaim of a simple lock does not ask for that.
local function clear(key, pattern, declared, wakes, channel)
    local pttl = call('PTTL', key)
    if pttl ~= -2 and not is_lock(key, pttl, pattern, declared) then
        return FOREIGN, pttl
    end
    local there = call('DEL', key)
    wake_others(key, wakes)
    return there == 1 and OK or GONE, token(key), wake(channel, '0')
end
