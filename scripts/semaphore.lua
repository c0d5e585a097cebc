-- semaphore.lua -- Redisson's PermitExpirableSemaphore: the number of free permits, and a sorted set of the taken ones:
-- 16 bytes that only their owner knows -> expiry in ms.
--
-- The number of permits, and the proof that a number is a semaphore: proto/SCRIPTS.md.
local NEVER = 922337203685477 -- Redisson's expiry of a permit without a lease
local MOST = 256              -- expired permits that one call takes back

-- The number of free permits; false: there is no number, nil: not a number of a semaphore. pttl: of the key.
local function free_of(key, pttl)
    local free = checked(pcall('GETRANGE', key, 0, 12)) -- an application's data may be long
    if free == '' and pttl == -2 then
        return false
    elseif not free or #free > 12 or not free:find('^%-?%d+$') then
        return nil
    end
    return tonumber(free)
end

-- The permit that expires first, and its expiry in ms; false: none is taken, nil: the key is no set of permits.
local function first_of(set)
    local first = checked(pcall('ZRANGE', set, 0, 0, 'WITHSCORES'))
    if not first or first[1] and (#first[1] ~= 16 or tonumber(first[2]) < 1e12) then
        return nil
    end
    return first[1] or false, tonumber(first[2] or NEVER)
end

local function mark_of(key)
    return suffixed(key, 'rlockd')
end

-- True: a daemon has left the number for subscribers, and no client has changed it since.
local function is_marked(key, pttl)
    return pttl > 0 and math.abs(call('PTTL', mark_of(key)) - pttl) <= 2
end

-- Makes the permit last `lease` ms; shortens it only if the lease is exact. pttl: of the number; nil: the key is no
-- number of a semaphore. A full Redis accepts the first writes.
local function prolong(key, pttl, set, permit, lease, score, exact)
    if pttl == -1 then
        call('PERSIST', set)
    else
        local longer = math.max(pttl or -2, call('PTTL', set))
        if pttl then
            lengthen(key, lease, longer)
        end
        lengthen(set, lease, longer)
    end
    local till = now_ms + lease
    if exact ~= '1' then
        till = math.max(till, score)
    end
    call('ZADD', set, text(till), permit)
    return till
end

-- How long it takes at most until a permit is free, in ms: until the first one expires; -1: for ever.
local function nearest(set)
    local _, score = first_of(set)
    return (not score or score >= NEVER) and -1 or math.max(score - now_ms, 1)
end

local function acquire(key, permit, lease, limit, declared, channel)
    local set = suffixed(key, 'timeout')
    local pttl = call('PTTL', key)
    local free, first, expiry_of_first = free_of(key, pttl), first_of(set)
    if free == nil or first == nil then
        return FOREIGN, pttl
    elseif free and not first and declared ~= '1' and not is_marked(key, pttl) then
        -- A number with an expiry may be a semaphore of an older daemon, which sets no mark.
        return pttl ~= -1 and TAKEN or FOREIGN, pttl
    end
    local taken = first and call('ZCARD', set) or 0
    local score = first and call('ZSCORE', set, permit)
    if score then -- the owner's permit, from an earlier attempt whose reply was lost
        local expiry = prolong(key, pttl, set, permit, lease, tonumber(score))
        return OK, token(), expiry
    end
    local expired = first and expiry_of_first <= now_ms
        and call('ZRANGEBYSCORE', set, '-inf', text(now_ms), 'LIMIT', 0, MOST) or {}
    taken = taken - #expired
    local now_free = pttl == -1 and free + #expired or limit - taken
    local granted = now_free > 0 and taken < tonumber(limit) or is_reclaiming()
    if granted then
        if not checked(pcall('ZADD', set, text(now_ms + lease), permit)) then
            return
        end
        taken, now_free = taken + 1, now_free - 1
    end
    if #expired > 0 then
        call('ZREM', set, unpack(expired))
    end
    if granted and not free or free and free ~= now_free then
        checked(pcall('INCRBY', key, text(now_free - (free or 0))))
        forget_oom() -- if a full Redis has refused a mere correction, the next attempt corrects the number
    end
    if #expired > 0 and now_free > 0 then
        wake(channel, text(now_free))
    end
    if not granted then
        return TAKEN, nearest(set), taken
    end
    return OK, token(), prolong(key, pttl, set, permit, lease, 0)
end

local function renew(key, permit, lease, exact)
    local set = suffixed(key, 'timeout')
    local score = checked(pcall('ZSCORE', set, permit))
    if not score then
        return GONE
    end
    local pttl = call('PTTL', key)
    if free_of(key, pttl) == nil then
        pttl = nil
    end
    return OK, 0, prolong(key, pttl, set, permit, lease, tonumber(score), exact)
end

-- Adds n free permits, and returns the number of woken subscribers. Without a number nothing is counted: the next
-- acquire creates it.
local function give_back(key, set, n, channel)
    local free = free_of(key, -2)
    if not free then
        return wake(channel, text(n))
    end
    free = call('INCRBY', key, text(n))
    local woken = free > 0 and wake(channel, text(free)) or 0
    local pttl = call('EXISTS', set) == 0 and call('PTTL', key) or -1
    if pttl ~= -1 then
        local mark = mark_of(key)
        local was = checked(pcall('GETRANGE', mark, 0, 1))
        if woken == 0 then
            call('DEL', key, was == '1' and mark or key)
        elseif was == '1' or was == '' and call('EXISTS', mark) == 0 then
            call('SET', mark, '1', 'PX', text(math.max(pttl, 1)))
        end
    end
    return woken
end

local function release(key, permit, channel)
    local set = suffixed(key, 'timeout')
    local score = checked(pcall('ZSCORE', set, permit))
    if not score then
        return GONE
    end
    call('ZREM', set, permit)
    local woken = give_back(key, set, 1, channel)
    if tonumber(score) <= now_ms then
        return GONE
    end
    return OK, woken
end

-- Frees all permits.
local function clear(key, channel)
    local set = suffixed(key, 'timeout')
    local pttl = call('PTTL', key)
    local free, first = free_of(key, pttl), first_of(set)
    if free == nil or first == nil then
        return FOREIGN, pttl
    end
    local taken = first and call('ZCARD', set) or 0
    call('DEL', set) -- also if there is none: a full Redis accepts DEL, and then all later writes of the script
    if taken == 0 then
        return GONE, token(), free and free > 0 and is_marked(key, pttl) and wake(channel, text(free)) or 0
    end
    return OK, token(), give_back(key, set, taken, channel)
end
