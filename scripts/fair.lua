-- fair.lua -- Redisson's FairLock: the hash of its RLock, and a queue of owners, first come, first served.
--
-- The queue is a list of owners, and a sorted set with the expiry (ms) of each owner's ticket: its score. The names of
-- both keys are made from the lock's. The head, the first owner of the list, may take a free lock; of the others
-- only an owner of its daemon may, and changes places with it. Any caller drops an expired head, but never its own
-- entry. A head without a score has no ticket, and is dropped.
--
-- The life of tickets, and strangers (owners that are not daemons): proto/SCRIPTS.md.
-- @like reentrant
local plain_acquire = acquire
local plain_renew = renew
local plain_release = release
local plain_clear = clear
-- In ms: the longest life of a ticket; its extension for each stranger in front; how long both keys outlive the ticket;
-- the time in which a stranger that was woken takes the lock.
local TICKET_MOST, WAIT, DAY, CALLED = 240000, 300000, 86400000, 1000
local EXPIRED_MOST = 1000 -- expired heads that a call drops; the next call drops more, and until then others wait
local SHIFT_MOST = 1000 -- strangers whose scores move with the ticket before them; later ones keep their scores
local WAKES_MOST = 8 -- owners from the head on that are woken, until one of them is subscribed

local function queue_of(key)
    return prefixed('redisson_lock_queue', key), prefixed('redisson_lock_timeout', key)
end

-- The head of the queue without its expired owners (false: it is empty; nil: a key is no queue), the expired owners
-- before that head, and its score. `owner` never counts as expired; if it is the head, there is no score. Only reads.
local function head_of(list, set, owner)
    local expired = {}
    while true do
        local head = checked(pcall('LINDEX', list, #expired))
        if not head or head == owner then
            return head, expired
        elseif not is_owner(head) then
            return nil, {}
        end
        local score = checked(pcall('ZSCORE', set, head))
        if score == nil then
            return nil, {}
        end
        score = tonumber(score or 0)
        if score > now_ms or #expired == EXPIRED_MOST then
            return head, expired, score
        end
        expired[#expired + 1] = head
    end
end

local function is_stranger(owner)
    return owner:sub(25, 37) ~= MARK
end

-- Moves the scores of the strangers from this index on by so many ms, up to the next ticket of a daemon. The caller has
-- written before: a full Redis refuses the first write of a script.
local function shift(list, set, at, by)
    local first = by ~= 0 and call('LINDEX', list, at)
    if not first or not is_stranger(first) then
        return
    end
    for _, owner in ipairs(call('LRANGE', list, at, at + SHIFT_MOST - 1)) do
        if not is_stranger(owner) then
            return
        end
        pcall('ZADD', set, 'XX', 'INCR', text(by), owner)
    end
end

-- Wakes the head by its own channel. A stranger without a subscription may be dead: then the next owner is woken, too,
-- which drops the stranger when its ticket has expired, and so on. A daemon is subscribed to the lock's channel.
local function wake_head(list, head, channel)
    local receivers = wake(channel .. ':' .. head, '0')
    for i = 1, WAKES_MOST - 1 do
        if receivers > 0 or not head or not is_stranger(head) then
            break
        end
        head = call('LINDEX', list, i)
        receivers = head and wake(channel .. ':' .. head, '0') or 0
    end
    return receivers
end

-- Drops the expired owners at the front of the queue. If the lock is free, the new head may not know that: it is woken.
local function drop_expired(key, list, set, expired, head, channel)
    if #expired == 0 then
        return
    end
    call('LTRIM', list, #expired, -1)
    call('ZREM', set, unpack(expired))
    if head and channel and call('EXISTS', key) == 0 then
        wake(channel, '0')
        wake_head(list, head, channel)
    end
end

-- The number of strangers up to this owner in the queue: those before it, and itself if it is one.
local function strangers(owner, score)
    local waits = math.max((tonumber(score or 0) - now_ms) / WAIT, 0)
    return is_stranger(owner) and math.ceil(waits) or math.floor(waits)
end

-- The number of strangers before an owner of a daemon that has a ticket.
local function in_front(score)
    return math.floor(math.max((tonumber(score) - now_ms) / WAIT, 0))
end

-- Renews a ticket. It becomes shorter only if strangers before it have left. expired_n: the number of expired owners at
-- the front of the queue.
local function renew_ticket(list, set, owner, till, at, expired_n, score)
    if at > expired_n or score <= now_ms + TICKET_MOST then
        till = math.max(till + (at > expired_n and WAIT * in_front(score) or 0), score)
    end
    call('PEXPIREAT', list, text(till + DAY)) -- a full Redis accepts this write, and then all later writes
    call('PEXPIREAT', set, text(till + DAY))
    call('ZADD', set, text(till), owner)
    shift(list, set, at + 1, till - score)
    return till
end

-- Renews the owner's ticket, or gives it one. Returns the expiry; nil: it has no ticket, since a key is no queue or
-- Redis is full.
local function get_ticket(list, set, owner, lease, expired_n)
    local score = checked(pcall('ZSCORE', set, owner))
    local at = score ~= nil and checked(pcall('LPOS', list, owner))
    if score == nil or at == nil then
        return nil
    end
    local till = now_ms + math.min(lease, TICKET_MOST)
    if score and at then
        return renew_ticket(list, set, owner, till, at, expired_n, tonumber(score))
    end
    -- A new ticket goes behind the last owner. If only one of the keys has the ticket, the other one gets it: an owner
    -- in the list stays behind the owner that is before it there.
    local first = call('ZRANGE', set, 0, 0)[1]
    local front = call('LINDEX', list, at and at - 1 or -1)
    if first and not is_owner(first) or front and not is_owner(front) then
        return nil
    end
    if front and at ~= 0 then
        till = till + WAIT * strangers(front, call('ZSCORE', set, front))
    end
    till = math.max(till, tonumber(score or 0))
    if not checked(pcall('ZADD', set, text(till), owner)) then
        return nil
    end
    if not at then
        call('RPUSH', list, owner)
    end
    call('PEXPIREAT', list, text(till + DAY))
    call('PEXPIREAT', set, text(till + DAY))
    return till
end

-- By how many ms the scores of the strangers behind this ticket move when it is removed. The wait of the first of them
-- is its score minus that of this ticket, but CALLED at least. It then counts from the score before this ticket, or, if
-- there is none, from the time at which the lock is free again (`free`, ms).
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
    local score = checked(pcall('ZSCORE', set, owner))
    local at = score and checked(pcall('LPOS', list, owner))
    local by = at and gap(list, set, at, score, free) or 0
    local scored = checked(pcall('ZREM', set, owner)) == 1
    local listed = checked(pcall('LREM', list, 0, owner))
    shift(list, set, at, by)
    return scored or listed and listed > 0
end

-- The index of the owner, if both keys have its ticket and the head is of the same daemon; else false or nil.
local function behind_sibling(list, set, head, owner)
    local at = head:sub(1, 36) == owner:sub(1, 36) and checked(pcall('LPOS', list, owner))
    return at and checked(pcall('ZSCORE', set, owner)) and at
end

-- The caller and the head, another owner of its daemon, change places in the list. The head keeps the life of its
-- ticket, and gets WAIT for each stranger before its new place. The caller gets the head's score, until it leaves.
local function swap(list, set, at, expired_n, owner, head, score)
    local mine = tonumber(call('ZSCORE', set, owner))
    local till = now_ms + math.max(score - now_ms, 0) % WAIT + WAIT * in_front(mine)
    call('LSET', list, at, head)
    call('LSET', list, expired_n, owner)
    call('ZADD', set, text(till), head, text(score), owner)
    shift(list, set, at + 1, till - mine)
end

local function acquire(key, owner, lease, holds, reentry, ticket, channel)
    if reentry == '1' or is_reclaiming() then
        return plain_acquire(key, owner, lease, holds, reentry)
    end
    local pttl = call('PTTL', key)
    local list, set = queue_of(key)
    local head, expired, score = head_of(list, set, owner)
    local is_next = not head or head == owner
    local at = pttl == -2 and not is_next and ticket ~= '1' and behind_sibling(list, set, head, owner)
    is_next = is_next or at
    if pttl == -2 and is_next or pttl ~= -2 and checked(pcall('HEXISTS', key, owner)) ~= 0 then
        local outcome, drawn, expiry = plain_acquire(key, owner, lease, holds, reentry)
        if outcome == OK then
            if at then
                swap(list, set, at, #expired, owner, head, score)
            end
            drop_expired(key, list, set, expired)
            leave(list, set, owner, expiry)
        end
        return outcome, drawn, expiry
    end
    local has_ticket = false
    if head ~= nil and ticket == '1' then
        has_ticket = get_ticket(list, set, owner, lease, #expired)
        forget_oom() -- a full Redis gives no ticket, and the answer is the same
    elseif head ~= nil then
        has_ticket = checked(pcall('ZSCORE', set, owner))
    end
    drop_expired(key, list, set, expired, head, channel)
    if pttl == -2 then
        pttl = math.min(score - now_ms, DAY)
    end
    return TAKEN, pttl == -1 and -1 or math.max(pttl, 1), has_ticket and 1 or 0
end

-- The lock is free at `free`, `left` ms sooner than the scores of strangers at the front of the queue assume: moves
-- these scores.
local function move_sooner(list, set, free, left)
    local head = left > 0 and checked(pcall('LINDEX', list, 0))
    local score = head and is_owner(head) and is_stranger(head) and tonumber(checked(pcall('ZSCORE', set, head)) or nil)
    if score then
        shift(list, set, 0, math.max(score - left, math.min(score, free + CALLED)) - score)
    end
end

-- Renews the ticket (ticket 1), or else the hold.
local function renew(key, owner, lease, exact, ticket, channel)
    if ticket ~= '1' then
        local left = exact == '1' and call('PTTL', key)
        local outcome, _, expiry = plain_renew(key, owner, lease, exact)
        if left and outcome == OK then
            local list, set = queue_of(key)
            move_sooner(list, set, expiry, now_ms + left - expiry)
        end
        return outcome, 0, expiry
    end
    local list, set = queue_of(key)
    local head, expired = head_of(list, set, owner)
    local whole = head and checked(pcall('LPOS', list, owner)) and checked(pcall('ZSCORE', set, owner))
    local till = whole and get_ticket(list, set, owner, lease, #expired)
    if not till then -- a ticket that only one key has is dropped; its owner asks for another
        leave(list, set, owner, now_ms)
    end
    drop_expired(key, list, set, expired, head, channel)
    return till and OK or GONE, 0, till
end

-- With no hold left, removes the hold and the ticket, whichever exists. If the lock is free then, the head is woken: by
-- its own channel, as Redisson's clients do, and by the lock's, for daemons and users of the plain lock.
local function release(key, owner, lease, holds, channel)
    if holds ~= '0' then
        return plain_release(key, owner, lease, holds, channel)
    end
    local list, set = queue_of(key)
    local left = math.max(call('PTTL', key), 0)
    local held = checked(pcall('HDEL', key, owner)) == 1
    local had = leave(list, set, owner, now_ms + (held and 0 or left)) or held
    local head, expired = head_of(list, set)
    drop_expired(key, list, set, expired, not had and head, channel)
    if not had then
        return GONE
    end
    local woken = 0
    if call('EXISTS', key) == 0 then
        move_sooner(list, set, now_ms, held and left or 0)
        woken = wake(channel, '0') + (head and wake_head(list, head, channel) or 0)
    end
    return OK, woken
end

-- Takes the lock from its holder. The queue stays, and its head is woken.
local function clear(key, pattern, declared, channel)
    local left = math.max(call('PTTL', key), 0)
    local outcome, drawn, woken = plain_clear(key, pattern, declared, channel)
    if outcome ~= FOREIGN then
        local list, set = queue_of(key)
        local head, expired = head_of(list, set)
        drop_expired(key, list, set, expired)
        move_sooner(list, set, now_ms, left)
        woken = woken + (head and wake_head(list, head, channel) or 0)
    end
    return outcome, drawn, woken
end
