-- semaphore.lua -- Redisson's PermitExpirableSemaphore: a number that says how many permits are free, and a sorted set
-- of those that are taken: 16 bytes that only their owner knows -> until when it has it, in ms.
--
-- How many there are in all:
-- * The number has no expiry: Redisson's trySetPermits has made it, and it counts. But `limit` is never exceeded by us.
-- * It has one: we have made it. Then there are `limit`, and who knows another limit corrects it. Number and set live
--   as long as the longest lease that was asked for, are renewed with the permits, and go with the last of them; but
--   not while somebody listens who may need the number (Redisson's clients do, ours make it).
-- Permits whose time is over are taken back by whoever asks for one. The owner of such a one may still renew it, if
-- nobody has; it is gone when it is given back.
-- The number that is published is what is free, as Redisson does, if there is any: its clients wake so many.
-- No number, or a set of another type: foreign.
local TYPE = 'string'
local NEVER = 922337203685477 -- what Redisson writes for a permit without a lease
local MOST = 256              -- permits taken back at a time

-- What is free; false: nobody has said, nil: no number (or none that a semaphore has).
local function free_of(key)
    local free = sound(pcall('GET', key))
    if free and (#free > 12 or not free:find('^%-?%d+$')) then
        return nil
    end
    return free and tonumber(free)
end

-- The permit is good for `lease` ms, or longer if it is already and this is not exact. pttl: of the number, as it was.
-- First come writes that a full Redis lets through.
local function prolong(key, pttl, set, permit, lease, score, exact)
    if pttl == -1 then
        call('PERSIST', set)
    else
        lengthen(key, lease, pttl)
        lengthen(set, lease, call('PTTL', set))
    end
    local till = now_ms + lease
    if exact ~= '1' then
        till = math.max(till, score)
    end
    call('ZADD', set, text(till), permit)
    return till
end

-- How long until the next permit is over at the latest, in ms; -1: never.
local function nearest(set)
    local first = call('ZRANGE', set, 0, 0, 'WITHSCORES')
    local score = tonumber(first[2] or NEVER)
    return score >= NEVER and -1 or math.max(score - now_ms, 1)
end

local function acquire(key, permit, lease, limit, channel)
    local set = suffixed(key, 'timeout')
    local free, taken = free_of(key), sound(pcall('ZCARD', set))
    local pttl = call('PTTL', key)
    if free == nil or taken == nil then
        return FOREIGN, pttl
    end
    local score = call('ZSCORE', set, permit)
    if score then -- our own, from an attempt whose reply was lost
        local expiry = prolong(key, pttl, set, permit, lease, tonumber(score))
        return OK, token(), expiry
    end
    local over = call('ZRANGEBYSCORE', set, '-inf', text(now_ms), 'LIMIT', 0, MOST)
    taken = taken - #over
    local now_free = pttl == -1 and free + #over or limit - taken
    local granted = now_free > 0 and taken < tonumber(limit) or is_reclaiming()
    if granted then
        if not sound(pcall('ZADD', set, text(now_ms + lease), permit)) then
            return
        end
        taken, now_free = taken + 1, now_free - 1
    end
    if #over > 0 then
        call('ZREM', set, unpack(over))
    end
    if granted and not free or free and free ~= now_free then
        sound(pcall('INCRBY', key, text(now_free - (free or 0))))
        spare() -- only corrected, and no room for that: the next one will
    end
    if #over > 0 and now_free > 0 then
        wake(channel, text(now_free))
    end
    if not granted then
        return TAKEN, nearest(set), taken
    end
    return OK, token(), prolong(key, pttl, set, permit, lease, 0)
end

local function renew(key, permit, lease, exact)
    local set = suffixed(key, 'timeout')
    local score = sound(pcall('ZSCORE', set, permit))
    if not score then
        return GONE
    end
    return OK, 0, prolong(key, call('PTTL', key), set, permit, lease, tonumber(score), exact)
end

-- So many are free again; how many heard it. Without a number nothing is counted: whoever comes next makes it.
local function give(key, set, n, channel)
    local free = free_of(key)
    if not free then
        return wake(channel, text(math.max(n, 1)))
    end
    free = call('INCRBY', key, text(n))
    local woken = free > 0 and wake(channel, text(free)) or 0
    if woken == 0 and call('PTTL', key) ~= -1 and call('EXISTS', set) == 0 then
        call('DEL', key)
    end
    return woken
end

local function release(key, permit, channel)
    local set = suffixed(key, 'timeout')
    local score = sound(pcall('ZSCORE', set, permit))
    if not score then
        return GONE
    end
    call('ZREM', set, permit)
    local woken = give(key, set, 1, channel)
    if tonumber(score) <= now_ms then
        return GONE
    end
    return OK, woken
end

-- All permits are free.
local function clear(key, channel)
    local set = suffixed(key, 'timeout')
    local taken = sound(pcall('ZCARD', set))
    if free_of(key) == nil or taken == nil then
        return FOREIGN, call('PTTL', key)
    end
    call('DEL', set)
    return taken > 0 and OK or GONE, token(), give(key, set, taken, channel)
end
