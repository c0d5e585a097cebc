-- fenced.lua -- Redisson's FencedLock: its RLock, and beside it a counter that rises with every grant, for ever.
--
-- Redisson's clients draw their tokens from that counter (re-entries included). So that the tokens of both rise in one
-- sequence, a token of rlockd is at least the next number of the counter, and becomes its value.
-- * Redisson's counter is a bare number without an expiry. A key of that name that is anything else (a lock, a list)
--   stays unchanged: the name is then foreign, except for a former holder that reclaims it.
-- * A number too high to be raised stays unchanged, too, and the tokens of rlockd rise without it.
-- @like reentrant
local plain_acquire = acquire
local plain_clear = clear

-- The value of the counter; nil: the key is no counter.
local function count_of(counter)
    local count = checked(pcall('GETRANGE', counter, 0, 19)) -- it may be long data; INCR stops at 19 digits
    if count == '' and call('EXISTS', counter) == 0 then
        return 0
    end
    return count and #count < 20 and count:find('^%d+$') and call('PTTL', counter) == -1 and tonumber(count) or nil
end

local function fence(counter, count, drawn)
    if not count or count >= 2 ^ 53 - 1 then
        return drawn
    end
    last = math.max(drawn, count + 1)
    call('SET', counter, text(last))
    return last
end

local function acquire(key, owner, lease, holds, reentry)
    if reentry == '1' then
        return plain_acquire(key, owner, lease, holds, reentry)
    end
    local counter = prefixed('redisson_lock_token', key)
    local count = count_of(counter)
    if not count and not is_reclaiming() then
        return FOREIGN, call('PTTL', key)
    end
    local outcome, drawn, expiry = plain_acquire(key, owner, lease, holds, reentry)
    if outcome == OK then
        drawn = fence(counter, count, drawn)
    end
    return outcome, drawn, expiry
end

local function clear(key, pattern, declared, channel)
    local outcome, drawn, woken = plain_clear(key, pattern, declared, channel)
    if outcome ~= FOREIGN then
        local counter = prefixed('redisson_lock_token', key)
        drawn = fence(counter, count_of(counter), drawn)
    end
    return outcome, drawn, woken
end
