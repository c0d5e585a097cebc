-- reentrant.lua -- Redisson's RLock: a hash with one field, owner -> holds.
--
-- The count is set, never incremented, so that a command that runs twice does no harm.

-- Redisson's lock has one field, an owner with a count, and always an expiry; hashes of applications do not.
local function is_lock(key, pttl)
    local field = pttl ~= -1 and checked(pcall('HLEN', key)) == 1 and call('HKEYS', key)[1]
    return field and is_owner(field) and call('HSTRLEN', key, field) <= 10 and is_count(call('HGET', key, field))
end

-- Deletes the hash if its owner has lost the lock: see has_lost_lock(). True: it is deleted.
local function delete_lost(key)
    local dead = call('HLEN', key) == 1 and has_lost_lock(call('HKEYS', key)[1])
    return dead and call('DEL', key) == 1
end

-- reentry: 1 = only if this owner has it; a larger number = a reclaim, of the lock with that token.
local function acquire(key, owner, lease, holds, reentry)
    -- if quorum
    if taken[key] == owner then -- acquire_many has done the rest
        return OK, token(key), now_ms + lease_ms
    end
    -- end if
    local pttl = call('PTTL', key)
    local reclaims = #reentry > 1 and is_reclaiming()
    if reclaims and has_ended(key, reentry) then
        return TAKEN, math.max(pttl, -1)
    end
    local count = pttl ~= -2 and checked(pcall('HGET', key, owner)) -- false: no key or no field; nil: not a hash
    if not count then
        if reentry == '1' then
            return GONE
        elseif pttl ~= -2 and not (is_reclaiming() and count == false and delete_lost(key)) then
            return count == nil and FOREIGN or TAKEN, pttl
        end
        pttl = -2
    end
    if count ~= holds then
        local new = pcall('HSET', key, owner, holds)
        if new ~= 1 and not checked(new) then
            return
        end
    end
    local expiry = lengthen(key, lease, pttl)
    if reclaims then
        end_earlier(key, reentry, 2 * lease)
    end
    return OK, reentry == '1' and 0 or token(key), expiry
end

-- In a wide call nearly all names are free: one EXISTS for all saves a command for each. If two owners request one name
-- in a call, the second one finds it taken.
local function acquire_many(lease, holds, reentry)
    if reentry ~= '0' or pcall('EXISTS', unpack(KEYS, 3)) ~= 0 then
        return 3
    end
    set_lease(lease)
    local pcall, KEYS, ARGV, expire, till = pcall, KEYS, ARGV, expire, till
    local after, granted = #KEYS + 1, {}
    for i = 3, #KEYS do
        local key = KEYS[i]
        if granted[key] or pcall('HSET', key, ARGV[i + 2 + TERMS], holds) ~= 1 or pcall(expire, key, till) ~= 1 then
            after = i
            break
        end
        granted[key] = true
        -- if quorum
        taken[key] = ARGV[i + 2 + TERMS]
        -- end if
    end
    -- if quorum
    after = 3 -- acquire() draws the tokens: they may differ by more than one
    -- end if
    if after == 3 then
        return 3
    end
    local first = token()
    last = first + after - 4
    return after, first, now_ms + lease_ms
end

local function renew(key, owner, lease, exact)
    local has = pcall('HEXISTS', key, owner)
    if has ~= 1 then
        checked(has)
        return GONE
    end
    -- if quorum
    raise_clock(key)
    -- end if
    return OK, 0, lengthen(key, lease, exact == '1' and -2 or nil)
end

-- In a wide call nearly all names are held, and their expiry moves. The work of Lua between two commands counts: it is
-- a tenth of the time of a name.
local function renew_many(lease, exact)
    local pcall, KEYS, ARGV = pcall, KEYS, ARGV
    if exact == '1' then
        return 3
    end
    -- if quorum
    if proposal > 0 then
        return 3
    end
    -- end if
    set_lease(lease)
    local expire, till = expire, till
    for i = 3, #KEYS do
        local key = KEYS[i]
        if pcall('HEXISTS', key, ARGV[i + 2 + TERMS]) ~= 1 or pcall(expire, key, till, 'GT') ~= 1 then
            return i, 0, now_ms + lease_ms
        end
    end
    return #KEYS + 1, 0, now_ms + lease_ms
end

-- HDEL drops the key with its only field, and cannot drop another owner's field.
local woken -- release_many has freed the name, and has woken this number of subscribers
local function release(key, owner, lease, holds, channel)
    if holds ~= '0' then
        if checked(pcall('HEXISTS', key, owner)) ~= 1 then
            return GONE
        end
        -- As by lengthen(), which release need not contain.
        local pttl = math.min(math.max(call('PTTL', key), tonumber(lease)), FAR)
        call('PEXPIRE', key, string.format('%.0f', pttl))
        call('HSET', key, owner, holds)
        return OK, 0, now_ms + pttl
    end
    local receivers = woken
    if not receivers then
        local had = pcall('HDEL', key, owner)
        if had ~= 1 then
            checked(had)
            return GONE
        end
        receivers = wake(channel, '0')
    end
    woken = nil
    return OK, receivers
end

-- In a wide call nearly all names have no subscriber. The first one that has is left to release(), by `woken`.
local function release_many(_, holds)
    if holds ~= '0' then
        return 3
    end
    local pcall, KEYS, ARGV, own = pcall, KEYS, ARGV, 5 + TERMS
    for i = 3, #KEYS do
        if pcall('HDEL', KEYS[i], ARGV[own]) ~= 1 then
            return i, 0, 0
        end
        local receivers = wake(ARGV[own + 1], '0')
        if receivers > 0 then
            woken = receivers
            return i, 0, 0
        end
        own = own + OWN
    end
    return #KEYS + 1, 0, 0
end
