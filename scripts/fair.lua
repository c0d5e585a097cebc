-- fair.lua -- Redisson's FairLock: the hash of its RLock, and a queue before it, first come, first served.
--
-- The queue is a list of owners, and a sorted set with the expiry (ms) of each one's ticket; both names are made from
-- the lock's. The head may take a free lock, others may not. Any caller drops an expired head, but never its own entry.
-- A head without a score has no ticket, and is dropped.
--
-- The life of tickets, and strangers (owners that are not daemons): proto/SCRIPTS.md.
-- @like reentrant
local plain_acquire = acquire
local plain_renew = renew
local plain_release = release
local plain_clear = clear
local GOOD_MOST, WAIT, DAY, CALLED = 240000, 300000, 86400000, 1000
local STALE_MOST = 1000 -- heads dropped at a time; what is left of them keeps others waiting until somebody asks again
local CLOSE_MOST = 1000 -- strangers behind a ticket that move along; of those behind them the first wait is lost
local CALLS_MOST = 8    -- strangers in front that are called, while none of them is subscribed

local function queue_of(key)
    return prefixed('redisson_lock_queue', key), prefixed('redisson_lock_timeout', key)
end

-- The head of the queue (false: it is empty, nil: there is no queue), the expired owners before it, and its score.
-- `owner` never counts as expired, and as the head it has no score here. Only reads.
local function head_of(list, set, owner)
    local over = {}
    while true do
        local head = sound(pcall('LINDEX', list, #over))
        if not head or head == owner then
            return head, over
        elseif not is_owner(head) then
            return nil, {}
        end
        local score = sound(pcall('ZSCORE', set, head))
        if score == nil then
            return nil, {}
        end
        score = tonumber(score or 0)
        if score > now_ms or #over == STALE_MOST then
            return head, over, score
        end
        over[#over + 1] = head
    end
end

local function is_stranger(name)
    return name:sub(25, 37) ~= MARK
end

-- Moves the strangers from this index on by so many ms, up to the next ticket of a daemon. Not the first write of a
-- call: a full Redis would refuse it.
local function shift(list, set, at, by)
    local first = by ~= 0 and call('LINDEX', list, at)
    if not first or not is_stranger(first) then
        return
    end
    for _, name in ipairs(call('LRANGE', list, at, at + CLOSE_MOST - 1)) do
        if not is_stranger(name) then
            return
        end
        pcall('ZADD', set, 'XX', 'INCR', text(by), name)
    end
end

-- Wakes the head by its own channel. A stranger without a subscription may be dead: then the next owner is woken, which
-- drops the stranger in time, and so on. A daemon listens to the lock's channel.
local function call_first(list, head, channel)
    local receivers = wake(channel .. ':' .. head, '0')
    for i = 1, CALLS_MOST - 1 do
        if receivers > 0 or not head or not is_stranger(head) then
            break
        end
        head = call('LINDEX', list, i)
        receivers = head and wake(channel .. ':' .. head, '0') or 0
    end
    return receivers
end

-- Drops the expired owners in front. If the lock is free, the new head may not know it, and is woken.
local function drop(key, list, set, over, head, channel)
    if #over == 0 then
        return
    end
    call('LTRIM', list, #over, -1)
    call('ZREM', set, unpack(over))
    if head and channel and call('EXISTS', key) == 0 then
        wake(channel, '0')
        call_first(list, head, channel)
    end
end

-- How many strangers are in front of this owner of the queue; it counts itself if it is one.
local function strangers(name, score)
    local waits = math.max((tonumber(score or 0) - now_ms) / WAIT, 0)
    return is_stranger(name) and math.ceil(waits) or math.floor(waits)
end

-- The same for an owner of a daemon that is in the queue already.
local function in_front(score)
    return math.floor(math.max((tonumber(score) - now_ms) / WAIT, 0))
end

-- Keeps an existing ticket, which never becomes shorter unless strangers in front have left (`over` have expired).
local function keep(list, set, owner, till, at, over, score)
    if at > over or score <= now_ms + GOOD_MOST then
        till = math.max(till + (at > over and WAIT * in_front(score) or 0), score)
    end
    call('PEXPIREAT', list, text(till + DAY)) -- in a full Redis as well, for a write that it lets through comes first
    call('PEXPIREAT', set, text(till + DAY))
    call('ZADD', set, text(till), owner)
    shift(list, set, at + 1, till - score)
    return till
end

-- Keeps the owner's ticket, or enqueues it; its expiry, or nil when it has none: no queue, or no room.
local function stand(list, set, owner, lease, over)
    local score = sound(pcall('ZSCORE', set, owner))
    local at = score ~= nil and sound(pcall('LPOS', list, owner))
    if score == nil or at == nil then
        return nil
    end
    local till = now_ms + math.min(lease, GOOD_MOST)
    if score and at then
        return keep(list, set, owner, till, at, over, tonumber(score))
    end
    -- A new ticket goes behind the last owner; half a ticket stays behind the owner that is in front of it now.
    local first = call('ZRANGE', set, 0, 0)[1]
    local front = call('LINDEX', list, at and at - 1 or -1)
    if first and not is_owner(first) or front and not is_owner(front) then
        return nil
    end
    if front and at ~= 0 then
        till = till + WAIT * strangers(front, call('ZSCORE', set, front))
    end
    till = math.max(till, tonumber(score or 0))
    if not sound(pcall('ZADD', set, text(till), owner)) then
        return nil
    end
    if not at then
        call('RPUSH', list, owner)
    end
    call('PEXPIREAT', list, text(till + DAY))
    call('PEXPIREAT', set, text(till + DAY))
    return till
end

-- By how much strangers behind this ticket close up when it goes: the first one then has its own wait behind what is in
-- front of it, or from when the lock is free again (`free`, ms).
local function gap(list, set, at, score, free)
    local behind = call('LINDEX', list, at + 1)
    local had = behind and is_stranger(behind) and tonumber(call('ZSCORE', set, behind) or nil)
    if not had then
        return 0
    end
    local from = at > 0 and call('ZSCORE', set, call('LINDEX', list, at - 1)) or free
    return tonumber(from) + math.max(had - tonumber(score), CALLED) - had
end

-- Removes the owner from the queue. True: it was there.
local function leave(list, set, owner, free)
    local score = sound(pcall('ZSCORE', set, owner))
    local at = score and sound(pcall('LPOS', list, owner))
    local by = at and gap(list, set, at, score, free) or 0
    local scored = sound(pcall('ZREM', set, owner)) == 1
    local listed = sound(pcall('LREM', list, 0, owner))
    shift(list, set, at, by)
    return scored or listed and listed > 0
end

-- The index of the owner, if it has a whole ticket and the head is of the same daemon; else false.
local function behind_ours(list, set, head, owner)
    local at = head:sub(1, 36) == owner:sub(1, 36) and sound(pcall('LPOS', list, owner))
    return at and sound(pcall('ZSCORE', set, owner)) and at
end

-- The caller takes its turn at the head in place of another owner of its daemon, which gets the caller's ticket.
local function swap(list, set, at, over, owner, head, score)
    local mine = tonumber(call('ZSCORE', set, owner))
    local till = now_ms + math.max(score - now_ms, 0) % WAIT + WAIT * in_front(mine)
    call('LSET', list, at, head)
    call('LSET', list, over, owner)
    call('ZADD', set, text(till), head, text(score), owner)
    shift(list, set, at + 1, till - mine)
end

local function acquire(key, owner, lease, holds, reentry, place, channel)
    if reentry == '1' or is_reclaiming() then
        return plain_acquire(key, owner, lease, holds, reentry)
    end
    local pttl = call('PTTL', key)
    local list, set = queue_of(key)
    local head, over, score = head_of(list, set, owner)
    local next_one = not head or head == owner
    local at = pttl == -2 and not next_one and place ~= '1' and behind_ours(list, set, head, owner)
    next_one = next_one or at
    if pttl == -2 and next_one or pttl ~= -2 and sound(pcall('HEXISTS', key, owner)) ~= 0 then
        local outcome, drawn, expiry = plain_acquire(key, owner, lease, holds, reentry)
        if outcome == OK then
            if at then
                swap(list, set, at, #over, owner, head, score)
            end
            drop(key, list, set, over)
            leave(list, set, owner, expiry)
        end
        return outcome, drawn, expiry
    end
    local placed = false
    if head ~= nil and place == '1' then
        placed = stand(list, set, owner, lease, #over)
        spare() -- no room for it: the answer is the same
    elseif head ~= nil then
        placed = sound(pcall('ZSCORE', set, owner))
    end
    drop(key, list, set, over, head, channel)
    if pttl == -2 then
        pttl = math.min(score - now_ms, DAY)
    end
    return TAKEN, pttl == -1 and -1 or math.max(pttl, 1), placed and 1 or 0
end

-- The lock is free at `free`, `left` ms sooner than the strangers at the front of the queue expect.
local function sooner(list, set, free, left)
    local head = left > 0 and sound(pcall('LINDEX', list, 0))
    local score = head and is_owner(head) and is_stranger(head) and tonumber(sound(pcall('ZSCORE', set, head)) or nil)
    if score then
        shift(list, set, 0, math.max(score - left, math.min(score, free + CALLED)) - score)
    end
end

-- Renews the ticket (place 1), or else the hold.
local function renew(key, owner, lease, exact, place, channel)
    if place ~= '1' then
        local left = exact == '1' and call('PTTL', key)
        local outcome, _, expiry = plain_renew(key, owner, lease, exact)
        if left and outcome == OK then
            local list, set = queue_of(key)
            sooner(list, set, expiry, now_ms + left - expiry)
        end
        return outcome, 0, expiry
    end
    local list, set = queue_of(key)
    local head, over = head_of(list, set, owner)
    local whole = head and sound(pcall('LPOS', list, owner)) and sound(pcall('ZSCORE', set, owner))
    local till = whole and stand(list, set, owner, lease, #over)
    if not till then -- half a ticket is none; its owner asks for another
        leave(list, set, owner, now_ms)
    end
    drop(key, list, set, over, head, channel)
    return till and OK or GONE, 0, till
end

-- With no hold left, removes the hold and the ticket, whichever exists. If the lock is free then, the head is woken by
-- its own channel, as Redisson's clients do, and by the lock's, to which daemons and users of the plain lock listen.
local function release(key, owner, lease, holds, channel)
    if holds ~= '0' then
        return plain_release(key, owner, lease, holds, channel)
    end
    local list, set = queue_of(key)
    local left = math.max(call('PTTL', key), 0)
    local held = sound(pcall('HDEL', key, owner)) == 1
    local had = leave(list, set, owner, now_ms + (held and 0 or left)) or held
    local head, over = head_of(list, set)
    drop(key, list, set, over, not had and head, channel)
    if not had then
        return GONE
    end
    local woken = 0
    if call('EXISTS', key) == 0 then
        sooner(list, set, now_ms, held and left or 0)
        woken = wake(channel, '0') + (head and call_first(list, head, channel) or 0)
    end
    return OK, woken
end

-- Takes the lock from its holder. The queue stays, and its head is woken.
local function clear(key, shape, declared, channel)
    local left = math.max(call('PTTL', key), 0)
    local outcome, drawn, woken = plain_clear(key, shape, declared, channel)
    if outcome ~= FOREIGN then
        local list, set = queue_of(key)
        local head, over = head_of(list, set)
        drop(key, list, set, over)
        sooner(list, set, now_ms, left)
        woken = woken + (head and call_first(list, head, channel) or 0)
    end
    return outcome, drawn, woken
end
