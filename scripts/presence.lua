-- presence.lua -- registers a daemon among the members, and tells it whether this Redis still has its data.
--
-- Run on every new connection and at every beat. Data that may not be what it was begins a new epoch, with a grace
-- period: nothing is granted until all members that may hold a lock have reclaimed theirs, or have lost what they could
-- not reclaim. Where no epoch begins, the cost of a run does not depend on the number of members.
--
-- Words, reply and keys: proto/SCRIPTS.md.
local OK, TWIN = 1, 2
local FAR = 2 ^ 52 -- us: the year 2112
local DAY, MOST, LEFT_MOST, FORGET_MOST, ASKED_MS = 86400000, 10000, 1000, 16, 20
-- Scores in rlock:awaited, of what is awaited from AWAITED to below LEFT: a member that others name; one from another
-- epoch whose list is to come, which knows all members (WHOLE) or not; one whose list has been heard.
local BACK, AWAITED, PARTIAL, WHOLE, HEARD, LEFT, KNOWN = 0, 1, 1.25, 1.5, 1.75, 2, 3
local call, pcall = redis.call, redis.pcall
local clock, epoch_key, members, ends, changes, left, awaited = unpack(KEYS)
local uuid, nonce, former, known, reclaimed = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local grace, beat, strict, floor, leaving = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]
local stranded, channel = ARGV[11], ARGV[12]
local since, cursor, page = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])
local from, list_whole, list_last = tonumber(ARGV[16]), tonumber(ARGV[17]), tonumber(ARGV[18])
local list_n, unknown, list_grace, lasts, part, PEERS = tonumber(ARGV[19]), ARGV[20], ARGV[21], ARGV[22], ARGV[23], 24

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

local function text(number)
    return string.format('%.0f', number)
end

local function score(key, who)
    return tonumber(call('ZSCORE', key, who) or nil)
end

-- Without it an old snapshot, or a replica, cannot be told from the data that was there before.
local function info(section)
    local all = pcall('INFO', section)
    return type(all) == 'string' and all or ''
end

local server, replication = info('server'), info('replication')
local process, line = server:match('run_id:(%x+)'), replication:match('master_replid:(%x+)')
if not (process and line) then
    return redis.error_reply("NOPERM it needs to run the 'info' command, and an answer that says what data this is")
end
if replication:match('role:(%w+)') ~= 'master' then -- also one that is writable: its next sync drops the writes
    return redis.error_reply('READONLY not a master: what a replica is given, its master does not know of')
end
local origin = redis.sha1hex(process .. line):sub(1, 16)

-- The key never expires. And PERSIST is a write that a full Redis accepts: it checks memory for none behind it.
call('PERSIST', epoch_key)

-- A key of ours that has another type was not made by us: delete it.
for i, type in ipairs({'string', 'hash', 'zset', 'zset', 'zset', 'zset'}) do
    local is = call('TYPE', KEYS[i + 1]).ok
    if is ~= 'none' and is ~= type then
        call('DEL', KEYS[i + 1])
    end
end

-- The longest lease that a daemon renews, as registered, else the caller's. No lease is longer than a day.
local function lasting(said)
    return math.min(tonumber(said) or grace, DAY)
end

-- A daemon may hold a lock for so long after its last registration: it takes and renews locks for two beats behind that
-- (membership.h); the third is for a clock that is slower than Redis's, and for commands that run late.
local function window(said)
    return 3 * beat + lasting(said)
end

-- The members are in three keys. Where somebody has removed one of them, all register anew, and are told of anew.
local count, version, first = call('HLEN', members), score(changes, '>') or 0, score(changes, '<') or 0
if call('ZCARD', ends) ~= count or call('ZCARD', changes) ~= (count > 0 and count + 2 or version > 0 and 2 or 0)
    or version >= FAR or first > version or version > 0 and first <= 0 then
    call('DEL', members, ends, changes, left)
    count, version, first = 0, 0, 0
end

-- The version of a change that is made now.
local function next_version()
    return math.max(version + 1, now)
end
local function change()
    if version == 0 then
        first = now
        call('ZADD', changes, text(first), '<')
    end
    version = next_version()
    call('ZADD', changes, text(version), '>')
    return text(version)
end

local function forget(who)
    call('HDEL', members, who)
    call('ZREM', ends, who)
    call('ZREM', changes, who)
    call('ZADD', left, change(), who)
    if call('ZCARD', left) > LEFT_MOST then
        local oldest = call('ZRANGE', left, 0, 0, 'WITHSCORES')
        call('ZREM', left, oldest[1])
        first = math.max(first, tonumber(oldest[2]))
        call('ZADD', changes, text(first), '<')
    end
end

-- met: the others know the caller already, by the grace that it registered.
local was, its = (call('HGET', members, uuid) or ''):match('^(%x+) (%d+)$')
local ends_at = score(ends, uuid) or 0
local met = was and ends_at > now_ms
if met and was ~= nonce and not former:find(was, 1, true) then
    local seen = ends_at - window(its)
    if seen > now_ms - 3 * beat and seen <= now_ms + beat then
        return {now, TWIN, 0, 0, '', 0, 0, 0, 0}
    end
end
if not was and count >= MOST and leaving ~= '1' then
    return redis.error_reply('ERR ' .. MOST .. ' daemons are registered at this Redis, and it takes no more')
end

-- False: the daemon has no right to publish, and `refused` is the error; the others would not learn of it in time, nor
-- it of them.
local refused
local function say(what)
    local heard = pcall('PUBLISH', channel, what)
    refused = type(heard) == 'table' and heard or refused
    return not refused
end

-- How many daemons listen. Subscribers by a pattern do not count.
local function listening()
    local heard = pcall('PUBSUB', 'NUMSUB', channel)
    refused = heard.err and heard or refused
    return tonumber(heard[2])
end

local word = call('GET', epoch_key)
local number, of, till = (word or ''):match('^(%d+) (%x+) ?(%d*)$')
number, till = tonumber(number or 0), tonumber(till or 0) or 0

local over = number == known and till == 0 -- the grace period of the epoch known is over

if number >= FAR then -- not written by us: above it numbers cannot rise for ever
    number, till = 0, 0
end
if known >= FAR then
    known = 1
end
local begins = number == 0 or of ~= origin or (stranded == '1' and number < known)

-- All who listen hear of a newcomer, or of a longer grace, before it is answered, so before it is granted anything.
-- Who begins to listen asks (shard.c), since it missed earlier messages. One trip remains, or as long as all others are
-- cut off: if the data is lost meanwhile, no grace period waits for a newcomer (or one that was forgotten) that was
-- granted a lock and comes back last. Where they stood still instead, they say so (membership_lost() in membership.c).
-- In a grace period there is no need: whoever has not heard its end knows that it does not know all members, and with
-- its end a daemon is told all of them, or knows that it was not.
if not begins and till == 0 and leaving ~= '1' and not (met and lasting(its) >= lasting(grace)) then
    if not say('+' .. uuid .. ' ' .. text(lasting(grace)) .. ' ' .. text(next_version())) then
        return refused
    end
end

local function is_waited_for(who)
    call('ZADD', awaited, 'NX', AWAITED, who)
end

if begins then
    local empty, began, longest, wanted = number == 0, now_ms, grace, 0
    local listeners = say('') and listening()
    if refused then
        return refused
    end
    if till > 0 then -- lost again in a grace period: its awaited may still hold locks, its returned hold some again
        local of_all = call('ZRANGE', awaited, 0, -1, 'WITHSCORES')
        for i = 1, #of_all, 2 do
            local is = tonumber(of_all[i + 1])
            if #of_all[i] == 36 and is < LEFT and is ~= AWAITED then
                call('ZADD', awaited, AWAITED, of_all[i])
            end
        end
        call('ZREM', awaited, '!')
        if #of_all > 0 then
            call('ZADD', awaited, text(-number), '^')
        end
        wanted = -(score(awaited, '#') or 0)
        longest = math.max(longest, math.min(till - math.floor(number / 1000), DAY)) -- by the clock that wrote it
    else
        call('DEL', awaited)
    end
    if not empty then -- an old snapshot, or a replica: await the members of that time
        local all, of_all, latest = call('ZRANGE', ends, 0, -1, 'WITHSCORES'), call('HGETALL', members), 0
        local said = {}
        for i = 1, #of_all, 2 do
            said[of_all[i]] = of_all[i + 1]:match(' (%d+)$')
        end
        for i = 1, #all, 2 do -- clocks are set back, too
            all[i + 1] = math.min(tonumber(all[i + 1]) - window(said[all[i]]), now_ms)
            latest = math.max(latest, all[i] == uuid and 0 or all[i + 1])
        end
        for i = 1, #all, 2 do
            local who, seen = all[i], all[i + 1]
            if who ~= uuid and #who == 36 and seen > latest - window(said[who]) then
                is_waited_for(who)
                longest = math.max(longest, lasting(said[who]))
            end
        end
    end
    -- A listener may hold locks, and neither it nor the others may know of the loss yet. So many have to come back.
    if listeners > wanted then
        call('ZADD', awaited, -listeners, '#')
    end
    if strict == '1' and known == 0 then
        is_waited_for('strict')
        -- After a flush the uptime says nothing about the data.
        if empty and listeners == 0 and not info('commandstats'):find('cmdstat_flush', 1, true) then
            began = now_ms - 1000 * (tonumber(server:match('uptime_in_seconds:(%d+)')) or 0)
        end
    end
    number, till = math.max(number, known), began + longest
    if number < now then
        number = now
    else -- the clock was set back. Not + 1: two Redis that begin an epoch like this must not give it one number
        number = number + 1 + tonumber(redis.sha1hex(nonce .. text(now)):sub(1, 4), 16)
    end
    if empty and known == 0 and listeners == 0 and strict == '0' then -- no member can have lost anything
        till = 0
    end
    call('SET', epoch_key, text(number) .. ' ' .. origin .. (till > 0 and ' ' .. text(till) or ''))
end

-- A daemon from another epoch may hold locks, as may the members there: its first word in this one.
local function returns()
    local goes_on = over or score(awaited, '^') == -known
    local whole = unknown == '0' and (lasts == '' or over) -- in a grace period not all that are awaited are known
    local longest = math.max(grace, lasting(list_grace))
    if unknown == '1' or lasts ~= '' and not goes_on then
        is_waited_for('?')
    end
    if lasts ~= '' and not goes_on then
        longest = math.max(longest, lasting(lasts))
    end
    if whole and list_n == 0 then
        call('ZADD', awaited, KNOWN, '?')
    end
    longest = math.min(now_ms, math.floor(number / 1000)) + longest -- the number may be above the time it began
    if longest > till then
        till = longest
        call('SET', epoch_key, text(number) .. ' ' .. origin .. ' ' .. text(till))
    end
    return list_n == 0 and HEARD or whole and WHOLE or PARTIAL
end

-- What is known of its list now; and whether it is to bring it.
local function hears(mark)
    local list = '=' .. text(from)
    if mark == WHOLE and list_last > 0 and list_last <= (score(awaited, list) or 0) then
        return HEARD, 0
    end
    if part ~= '0' and known == number then
        for i = PEERS, #ARGV do
            is_waited_for(ARGV[i])
        end
        if part == '2' and mark == WHOLE then
            call('ZADD', awaited, KNOWN, '?')
            if list_whole > (score(awaited, list) or 0) then
                call('ZADD', awaited, text(list_whole), list)
            end
        end
        if part == '2' then
            return HEARD, 0
        end
    else
        local asked_ms = score(awaited, '!') or 0
        if now_ms < asked_ms and asked_ms <= now_ms + ASKED_MS and leaving ~= '1' then
            return mark, 1
        end
    end
    call('ZADD', awaited, text(now_ms + ASKED_MS), '!')
    return mark, 2
end

local bring = 0
if till > 0 then
    local is = score(awaited, uuid)
    local mark = is
    -- A process that comes after one whose list was to come does not bring that.
    local first_word = not is or is == AWAITED or (is == PARTIAL or is == WHOLE) and was ~= nonce
    if known ~= 0 and known ~= number and first_word then
        mark = returns()
    end
    if (mark == PARTIAL or mark == WHOLE) and from ~= 0 and from ~= number then
        mark, bring = hears(mark)
    end
    if mark and mark ~= PARTIAL and mark ~= WHOLE and (reclaimed == number or leaving == '1') then
        mark = leaving == '1' and LEFT or BACK
    end
    if mark ~= is then
        call('ZADD', awaited, mark, uuid)
    end
    local waits = call('ZCOUNT', awaited, AWAITED, '(' .. LEFT) > 0
    local back = call('ZCOUNT', awaited, BACK, BACK) + call('ZCOUNT', awaited, LEFT, LEFT)
    waits = waits or back < -(score(awaited, '#') or 0)
    if waits and now_ms < till then
        call('PEXPIRE', awaited, DAY)
    else
        till, bring = 0, 0
        call('SET', epoch_key, text(number) .. ' ' .. origin)
        call('DEL', awaited)
        say('')
    end
end

if floor > (tonumber(pcall('GET', clock)) or 0) then -- no token is given twice, whatever was lost
    call('SET', clock, text(floor))
end
if leaving ~= '1' then
    local value = nonce .. ' ' .. text(grace)
    if not met or lasting(its) ~= lasting(grace) then
        call('ZADD', changes, change(), uuid)
        call('ZREM', left, uuid)
    end
    if was ~= nonce or its ~= text(grace) then
        call('HSET', members, uuid, value)
    end
    call('ZADD', ends, text(now_ms + window(grace)), uuid)
elseif was then
    forget(uuid)
end
for _, who in ipairs(call('ZRANGEBYSCORE', ends, '-inf', '(' .. text(now_ms), 'LIMIT', 0, FORGET_MOST)) do
    forget(who)
end

local reply = {now, OK, number, till, text(number) .. ' ' .. origin, version, 0, 0, bring}
if page > 0 and till == 0 then
    local upto, anew = version, since == 0 or since < first or since > version
    if anew then
        cursor = 0
    end
    if cursor < version then
        local after, told = '(' .. text(cursor), {}
        local all = call('ZRANGEBYSCORE', changes, after, '+inf', 'WITHSCORES', 'LIMIT', 0, page)
        upto = #all == 2 * page and tonumber(all[#all]) or upto
        local gone = call('ZRANGEBYSCORE', left, after, text(upto), 'WITHSCORES', 'LIMIT', 0, page)
        upto = #gone == 2 * page and tonumber(gone[#gone]) or upto
        for i = 1, #all, 2 do
            if #all[i] == 36 and all[i] ~= uuid and tonumber(all[i + 1]) <= upto then
                told[#told + 1] = i
            end
        end
        for _, i in ipairs(told) do
            local said = (call('HGET', members, all[i]) or ''):match(' (%d+)$')
            reply[#reply + 1] = all[i] .. ' ' .. text(lasting(said)) .. ' ' .. text(tonumber(all[i + 1]))
        end
        for i = 1, #gone, 2 do
            if gone[i] ~= uuid then
                reply[#reply + 1] = gone[i] .. ' - ' .. text(tonumber(gone[i + 1]))
            end
        end
    end
    reply[7], reply[8] = upto, anew and 1 or 0
end
return reply
