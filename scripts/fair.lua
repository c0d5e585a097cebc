-- fair.lua -- Redisson's FairLock: the hash of its RLock, and in front of it a queue, first come, first served.
--
-- The queue is a list of owners, and a sorted set that says for each until when (ms) its place is good; both have names
-- that are made from the lock's. Who is first may take the lock when it is free, others may not. A head whose time is
-- over is dropped by whoever comes by. Here all times are Redis's; Redisson's clients write theirs.
--
-- * How long a place is good: `lease` ms (four minutes at most), kept up by renewals, and WAIT more for every stranger
--   in front. A Redisson client that is granted the lock takes its WAIT (300000, unless it was told otherwise) off
--   every score behind it; daemons take off nothing. So ours never run out because strangers were served, and those of
--   a daemon that has died run out together. A stranger is who has no MARK: the uuids of daemons end in it.
-- * How many strangers are in front is told by the scores themselves, as WAIT is longer than any place is good: nobody
--   has to go through the queue.
-- * A head without a score has no place, and is dropped: Redisson's clients too know by the sorted set alone whether
--   they wait, and put themselves at the end if it does not have them. But they never drop it, and would wait for ever.
-- * Who asks is alive: its own entry is never dropped by its own request.
-- * Who of those that wait at one daemon is first there, the daemon knows: where another place of its own is first here
--   (a replica that was promoted may bring back one that was given up), its turn has come, and the two places change.
--   Each is good for as long as before: one that nobody asks for any more must run out, however often others go before.
-- * Both keys live a day longer than the place that was taken or renewed last: if all who wait die and nobody ever asks
--   for the lock again, they do go away, and later than any client counts on them. Who leaves last takes them along.
-- * List or sorted set of another type, or with something else in them than names of owners (first and last are looked
--   at): there is no queue, nothing is written there, and nobody gets a place. It is a lock as before, without an order;
--   Redisson's clients can not use it at all then.
-- @like reentrant
local plain_acquire = acquire
local plain_renew = renew
local plain_release = release
local plain_clear = clear
local GOOD_MOST, WAIT, DAY = 240000, 300000, 86400000
local STALE_MOST = 1000 -- heads dropped at a time; what is left of them keeps others waiting until somebody asks again

local function queue_of(key)
    return prefixed('redisson_lock_queue', key), prefixed('redisson_lock_timeout', key)
end

-- Who is first (false: nobody, nil: there is no queue), those before it whose time is over, and its score; `owner` is
-- always alive, and its score is not asked for. Only reads.
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

-- Takes those in front out whose time is over. If the lock is free now, who is first then may not know that it is.
local function drop(key, list, set, over, head, channel)
    if #over == 0 then
        return
    end
    call('LTRIM', list, #over, -1)
    call('ZREM', set, unpack(over))
    if head and channel and call('EXISTS', key) == 0 then
        wake(channel, '0')
        wake(channel .. ':' .. head, '0')
    end
end

-- How many strangers the one in the queue has in front of it, and is itself.
local function strangers(name, score)
    local waits = math.max((tonumber(score or 0) - now_ms) / WAIT, 0)
    return name:sub(25, 37) == MARK and math.floor(waits) or math.ceil(waits)
end

-- The same of one of ours that is there already.
local function in_front(score)
    return math.floor(math.max((tonumber(score) - now_ms) / WAIT, 0))
end

-- Keeps the owner's place, or puts it at the end; until when it is good, or nil when it has none: no queue, or no room.
local function stand(list, set, owner, lease)
    local score = sound(pcall('ZSCORE', set, owner))
    local at = score ~= nil and sound(pcall('LPOS', list, owner))
    if score == nil or at == nil then
        return nil
    end
    local n = 0
    if score and at then
        n = in_front(score)
    else -- a new one, or half of one: behind whoever is last, or in front of it now
        local first = call('ZRANGE', set, 0, 0)[1]
        local front = call('LINDEX', list, at and at - 1 or -1)
        if first and not is_owner(first) or front and not is_owner(front) then
            return nil
        end
        if front and at ~= 0 then
            n = strangers(front, call('ZSCORE', set, front))
        end
    end
    local till = math.max(now_ms + math.min(lease, GOOD_MOST) + WAIT * n, tonumber(score or 0))
    if score and at then -- kept in a full Redis as well, for a write that it lets through comes first
        call('PEXPIREAT', list, text(till + DAY))
        call('PEXPIREAT', set, text(till + DAY))
        call('ZADD', set, text(till), owner)
        return till
    end
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

-- Takes the owner out of the queue; whether it was there.
local function leave(list, set, owner)
    local scored = sound(pcall('ZREM', set, owner)) == 1
    local listed = sound(pcall('LREM', list, 0, owner))
    return scored or listed and listed > 0
end

-- Where the owner stands, if it has a whole place and the head is of the same daemon; else false.
local function behind_ours(list, set, head, owner)
    local at = head:sub(1, 36) == owner:sub(1, 36) and sound(pcall('LPOS', list, owner))
    return at and sound(pcall('ZSCORE', set, owner)) and at
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
                call('LSET', list, at, head)
                call('LSET', list, #over, owner)
                local good = math.max(score - now_ms, 0) % WAIT
                call('ZADD', set, text(now_ms + good + WAIT * in_front(call('ZSCORE', set, owner))), head)
            end
            drop(key, list, set, over)
            leave(list, set, owner)
        end
        return outcome, drawn, expiry
    end
    local placed = false
    if head ~= nil and place == '1' then
        placed = stand(list, set, owner, lease)
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

-- Of the place, or of the hold.
local function renew(key, owner, lease, exact, place, channel)
    if place ~= '1' then
        return plain_renew(key, owner, lease, exact)
    end
    local list, set = queue_of(key)
    local head, over = head_of(list, set, owner)
    local whole = head and sound(pcall('LPOS', list, owner)) and sound(pcall('ZSCORE', set, owner))
    local till = whole and stand(list, set, owner, lease)
    if not till then -- half a place is none; its owner asks for another
        leave(list, set, owner)
    end
    drop(key, list, set, over, head, channel)
    return till and OK or GONE, 0, till
end

-- Nothing left: the hold and the place go, whichever there is. If the lock is free now, who is first hears of it by its
-- own channel, as Redisson's clients do, and by the lock's, where daemons and users of the plain lock listen.
local function release(key, owner, lease, holds, channel)
    if holds ~= '0' then
        return plain_release(key, owner, lease, holds, channel)
    end
    local list, set = queue_of(key)
    local held = sound(pcall('HDEL', key, owner)) == 1
    local had = leave(list, set, owner) or held
    local head, over = head_of(list, set)
    drop(key, list, set, over, not had and head, channel)
    if not had then
        return GONE
    end
    local woken = 0
    if call('EXISTS', key) == 0 then
        woken = wake(channel, '0') + (head and wake(channel .. ':' .. head, '0') or 0)
    end
    return OK, woken
end

-- The lock is taken from its holder; who waits goes on waiting, and is woken.
local function clear(key, shape, declared, channel)
    local outcome, drawn, woken = plain_clear(key, shape, declared, channel)
    if outcome ~= FOREIGN then
        local list, set = queue_of(key)
        local head, over = head_of(list, set)
        drop(key, list, set, over)
        woken = woken + (head and wake(channel .. ':' .. head, '0') or 0)
    end
    return outcome, drawn, woken
end
