-- common.lua -- the code around every verb of every kind: the time, the guard, the token, the loop over the names.
--
--   KEYS   rlock:clock, rlock:epoch, then the N keys
--   ARGV   guard, floor, epoch, reserve, then the terms and the other parameters of each key
--   reply { TIME in us, then rows: outcome, a, b, number of successive names with this answer (of granted names a rises
--          by STEP from one to the next); then 1 if the reserve was denied }
--
-- Arguments, outcomes, and the rules of every verb (expiry, a full Redis, keys of others): proto/SCRIPTS.md.
local OK, TAKEN, GONE, FOREIGN, FULL, STALE, GRACE = 1, 2, 3, 4, 5, 6, 7
-- The longest time in ms that is reported or set: a client may have set any expiry, but whole numbers of Lua, and the
-- numbers that the daemon takes in an answer, end at 2^53.
local FAR = 4503599627370496
local MARK = '726c6f636b64:' -- "rlockd", in which the uuids of daemons end; characters 25 to 37 of an owner
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = (now - now % 1000) / 1000
-- reserve: the length of the reserve; reserve_denied: the reserve is 0 now, since the token clock is ahead of the time;
-- last: the last token that was given; clock: the token clock as this call has set it.
local reserve = ARGV[4] == '0' and 0 or tonumber(ARGV[4])
local failed, last, clock, epoch, reserve_denied

-- Whether the data is of the epoch that the daemon knows. Redis is asked once, and only if a verb needs the answer.
local function is_known()
    if epoch == nil then
        epoch = pcall('GET', KEYS[2])
    end
    return epoch == ARGV[3]
end

-- Whether the call is a reclaim in a grace period: nothing else is granted then.
local grace
local function is_reclaiming()
    if grace == nil then
        grace = is_known() and epoch:find(' %x+ ') ~= nil
    end
    return grace
end

-- The answer of a pcall; nil if the key is of another type, or if Redis has refused: then `failed` is the error.
local function checked(reply)
    if type(reply) == 'table' and reply.err then
        if not reply.err:find('^-?WRONGTYPE') then
            failed = reply
        end
        return nil
    end
    return reply
end

-- Wakes remote waiters; returns the number of subscribers. If an ACL forbids PUBLISH, the lock is freed all the same.
-- Redisson reads only the number: 0 wakes one waiter of each client, 1 all of them; a semaphore sends its free permits.
local function wake(channel, number)
    local receivers = pcall('PUBLISH', channel, number)
    return receivers ~= 0 and type(receivers) == 'number' and receivers or 0
end

-- A whole number as text for Redis: Lua's own text of a large number is not a whole number everywhere. Printing two
-- integers, each of which fits on any machine, takes half as long as %.0f.
local function text(number)
    if number >= 1e9 and number < 2e15 and number % 1 == 0 then
        local low = number % 1e6
        return string.format('%d%06d', (number - low) / 1e6, low)
    end
    return string.format('%.0f', number)
end

-- Redisson's names of further keys of a lock: braces around the name, unless the name has an opening brace.
local function prefixed(prefix, key)
    return prefix .. (key:find('{', 1, true) and ':' .. key or ':{' .. key .. '}')
end

local function suffixed(key, suffix)
    return (key:find('{', 1, true) and key or '{' .. key .. '}') .. ':' .. suffix
end

-- Whether this is the name of an owner, as Redisson's clients and daemons write it: a uuid and a number.
local function is_owner(name)
    return name:find('^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$') ~= nil
end

-- Whether this is a number of holds, as in a hash or a counter.
local function is_count(value)
    return value:find('^%d+$') ~= nil and #value <= 10
end

-- Whether an owner that is not the caller's has lost the lock: each owner of a daemon has, if the caller reclaims the
-- name in a grace period.
local function has_lost_lock(owner)
    return owner:sub(25, 37) == MARK and is_reclaiming()
end

-- The key with the token below which all locks of the name have ended (proto/SCRIPTS.md); few names have such a key.
local function ended_key(key)
    return KEYS[2]:sub(1, -6) .. 'ended:' .. key
end

-- Whether the lock with that token has ended, so that it is not reclaimed.
local function has_ended(key, lock_token)
    local limit = checked(pcall('GET', ended_key(key)))
    return limit and (tonumber(limit) or 0) > tonumber(lock_token)
end

-- Notes that all locks of the name with tokens below `limit` have ended. The caller has written before, so that a full
-- Redis takes this, too.
local function end_earlier(key, limit, ms)
    ms = math.min(math.max(ms, call('PTTL', ended_key(key))), FAR)
    if ms > 0 then
        checked(pcall('SET', ended_key(key), limit, 'PX', text(ms)))
    end
end

-- Whether Redis was full, by the error. Redis 6 puts the line of the script in front.
local function is_oom(err)
    return err:find('OOM command not allowed', 1, true) ~= nil
end

-- Forgets the error of a write that the verb can do without, if a full Redis has refused it.
local function forget_oom()
    if failed and is_oom(failed.err) then
        failed = nil
    end
end

-- The next token: above all tokens of this Redis and all that the daemon has seen, and not below the time. One write
-- sets the token clock for all names of the call, to the last token that the call may give. At a node of a quorum each
-- name has one of 64 clocks: clocks.lua.
local function token()
    if not last then
        clock = now + #KEYS - 3 + reserve
        local was = pcall('GETSET', KEYS[1], text(clock))
        last = tonumber(was) or 0
        if not (last >= 0 and last < 2 ^ 53) then
            last = 0 -- not written by rlockd
        end
        last = math.max(last, tonumber(ARGV[2]) or 0)
        if last >= now or type(was) == 'table' then -- written now, since a later name may end the script
            if reserve > 0 and last - now > 1000 and last - now < 1e7 then
                reserve, reserve_denied = 0, true
            end
            clock = last + #KEYS - 2 + reserve
            pcall('SET', KEYS[1], text(clock))
        end
    end
    last = last < now and now or last + 1
    return last
end

-- lengthen() moves the expiry of the owner's key to `lease` ms from now unless it is later already; it always writes,
-- and returns the expiry. pttl: the answer of PTTL; -2: the expiry moves in any case, also to an earlier time; nil:
-- PTTL was not sent, and is not needed if the expiry moves. GT is new in Redis 7: an older Redis refuses it once in a
-- call, twice in a wide call (one of more than four names). PEXPIREAT is cheaper than PEXPIRE, but needs the time as
-- text, which pays in a wide call only.
local last_lease, lease_ms, expire, till -- of the last name: mostly all names of a call have the same lease
local has_gt = true
local function set_lease(lease)
    last_lease, lease_ms, expire, till = lease, tonumber(lease), 'PEXPIRE', lease
    if #KEYS > 6 then
        expire, till = 'PEXPIREAT', text(now_ms + lease_ms)
    end
end

local function lengthen(key, lease, pttl)
    if lease ~= last_lease then
        set_lease(lease)
    end
    if not pttl and has_gt then
        local moved = pcall(expire, key, till, 'GT')
        if moved == 1 then
            return now_ms + lease_ms
        end
        has_gt = moved == 0 -- Redis knows GT: the expiry is as late already, or there is none
    end
    pttl = pttl or call('PTTL', key)
    if pttl > lease_ms then
        pttl = math.min(pttl, FAR)
        call('PEXPIRE', key, text(pttl))
        return now_ms + pttl
    end
    call(expire, key, till)
    return now_ms + lease_ms
end

-- scripts/embed puts the verb here, and `takes` (true: the verb is acquire); TERMS and OWN (how many of the parameters
-- of a name are terms, and how many are not); STEP, by which the token of each name is above that of the name before
-- it; and for some verbs `many`, between the marks below.
-- @verb

local refusal, wait -- refusal: the outcome of all names, if the verb is not run
if ARGV[1] ~= '0' and now > tonumber(ARGV[1]) then
    refusal = STALE
elseif takes and not is_known() then
    refusal = GRACE
    wait = math.max((tonumber(type(epoch) == 'string' and epoch:match('^%d+ %x+ (%d+)$')) or 0) - now_ms, 0)
end

if refusal then
    return {now, refusal, wait or 0, 0, #KEYS - 2}
end

local term, own, term_on, own_on = 5, 5 + TERMS, 0, OWN
if #ARGV > 4 + TERMS + OWN * (#KEYS - 2) then
    term_on, own_on = TERMS + OWN, TERMS + OWN
end
local reply, to = {now}, 1
local was, next_a, was_b, row
local first = 3 -- the first key for which the verb runs by itself
-- if many
if term_on == 0 and #KEYS > 6 then
    -- many
    first, next_a, was_b = many(ARGV[5], ARGV[6], ARGV[7])
    if first > 3 then
        was, row, to, own = OK, first - 3, 5, own + OWN * (first - 3)
        reply = {now, OK, next_a, was_b, row}
        next_a = next_a + STEP * row
    end
end
-- end if
for i = first, #KEYS do
    local outcome, a, b = verb(KEYS[i], unpack(ARGV)) -- scripts/embed writes the arguments out
    term, own = term + term_on, own + own_on
    if failed then
        if not is_oom(failed.err) then
            reply = failed
            break
        end
        outcome, a, b, failed = FULL, 0, 0, nil
    elseif outcome == GONE and not is_known() then
        outcome = GRACE
    end
    a, b = a or 0, b or 0
    if a > FAR and (outcome == TAKEN or outcome == FOREIGN) then
        a = FAR
    end
    if outcome == was and a == next_a and b == was_b then
        row = row + 1
    else
        reply[to + 1], reply[to + 2], reply[to + 3] = outcome, a, b
        was, was_b, row, to = outcome, b, 1, to + 4
    end
    reply[to] = row
    next_a = outcome == OK and a + STEP or a
end
if last and last + reserve > clock then -- fence() of fenced.lua has raised `last`
    call('SET', KEYS[1], text(last + reserve))
end
if reserve_denied and not failed then
    reply[to + 1] = 1
end
return reply
