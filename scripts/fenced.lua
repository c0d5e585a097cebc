-- fenced.lua -- Redisson's FencedLock: its RLock, and beside it a counter that rises with every grant, for ever.
--
-- Redisson's clients draw their tokens from that counter (re-entries included); ours have to be larger than all of
-- those, and theirs than all of ours. So a token of ours is at least the counter's next, and becomes the counter. What
-- is no counter (another type, no number, no room above it) is not ours to mend: it stays, and our tokens rise alone.
-- @like reentrant
local plain_acquire = acquire
local plain_clear = clear

local function fence(key, drawn)
    local counter = prefixed('redisson_lock_token', key)
    local count = sound(pcall('GET', counter))
    count = count == false and 0 or tonumber(count)
    if not (count and count >= 0 and count < 2 ^ 53 - 1) then
        return drawn
    end
    last = math.max(drawn, count + 1)
    call('SET', counter, text(last))
    return last
end

local function acquire(key, owner, lease, holds, reentry)
    local outcome, drawn, expiry = plain_acquire(key, owner, lease, holds, reentry)
    if outcome == OK and reentry == '0' then
        drawn = fence(key, drawn)
    end
    return outcome, drawn, expiry
end

local function clear(key, channel)
    local outcome, drawn, woken = plain_clear(key, channel)
    if outcome ~= FOREIGN then
        drawn = fence(key, drawn)
    end
    return outcome, drawn, woken
end
