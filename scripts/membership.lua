-- membership.lua -- registers a daemon among the members, and answers whether this Redis still has its data.
--
-- A daemon runs this script on every new link of locks or renewals, and at every beat. If data may have been lost, a
-- new epoch begins, with a grace period: nothing is granted until each member that may hold a lock has reclaimed its
-- locks, or has lost them. If no epoch begins, the cost of a run does not depend on the number of members.
--
-- Arguments, reply and keys: proto/SCRIPTS.md.
local OK, DUPLICATE = 1, 2
local END = 2 ^ 52 -- epochs and versions are below; in us it is in the year 2112
-- A day in ms; the largest numbers of members, of kept names of members that left, and of members that one run forgets;
-- the time in ms after which the next daemon is asked for its list.
local DAY, MOST, LEFT_MOST, FORGET_MOST, ASKED_MS = 86400000, 10000, 1000, 16, 20
-- Scores in rlock:awaited. The grace period waits for scores from AWAITED to below LEFT. AWAITED: a member that others
-- name; PARTIAL, WHOLE: a member from another epoch that has to bring its list, without or with all members in it;
-- LISTED: a member that has brought its list. BACK: it has reclaimed; LEFT: it has left; KNOWN: of `?` alone.
local BACK, AWAITED, PARTIAL, WHOLE, LISTED, LEFT, KNOWN = 0, 1, 1.25, 1.5, 1.75, 2, 3
local call, pcall = redis.call, redis.pcall
local clock, epoch_key, members, ends, changes, left, awaited = unpack(KEYS)
local uuid, nonce, former, known, reclaimed = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local lease, beat, strict, floor, leaving = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]
local rolled_back, channel = ARGV[11], ARGV[12]
local since, cursor, page = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])
local from, list_whole, list_last = tonumber(ARGV[16]), tonumber(ARGV[17]), tonumber(ARGV[18])
local list_n, unknown, list_lease, known_grace, part = tonumber(ARGV[19]), ARGV[20], ARGV[21], ARGV[22], ARGV[23]
-- known_grace: the length (ms) of the grace period of the known epoch; "": by the last reply it was over.
local FIRST_UUID = 24 -- index in ARGV

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

local function text(number)
    return string.format('%.0f', number)
end

local function score(key, member)
    return tonumber(call('ZSCORE', key, member) or nil)
end

-- Without INFO an old snapshot, or a replica, looks like the data that was there before.
local function info(section)
    local all = pcall('INFO', section)
    return type(all) == 'string' and all or ''
end

local server, replication = info('server'), info('replication')
local process, line = server:match('run_id:(%x+)'), replication:match('master_replid:(%x+)')
if not (process and line) then
    return redis.error_reply("NOPERM it needs to run the 'info' command, and an answer that shows what data this is")
end
if replication:match('role:(%w+)') ~= 'master' then -- also a writable replica: its next sync drops the writes
    return redis.error_reply('READONLY not a master: what a replica is given, its master does not know of')
end
local origin = redis.sha1hex(process .. line):sub(1, 16)

-- The key never expires. A full Redis accepts PERSIST, and then all later writes of the script.
call('PERSIST', epoch_key)

-- A key of another type is not rlockd's, and is deleted.
for i, type in ipairs({'string', 'hash', 'zset', 'zset', 'zset', 'zset'}) do
    local found = call('TYPE', KEYS[i + 1]).ok
    if found ~= 'none' and found ~= type then
        call('DEL', KEYS[i + 1])
    end
end

-- The length in ms that is given, or the caller's lease if none is; a day at most, since no lease is longer.
local function bounded(ms)
    return math.min(tonumber(ms) or lease, DAY)
end

-- The time after its last registration in which a daemon may hold a lock. The daemon takes and renews locks for two
-- beats (membership.h); the third allows for a slower clock than Redis's, and for commands that run late.
local function may_hold_ms(registered)
    return 3 * beat + bounded(registered)
end

-- The members are in three keys. If one of these was removed, all daemons register anew. kept_since: earlier changes
-- are forgotten.
local count, version, kept_since = call('HLEN', members), score(changes, '>') or 0, score(changes, '<') or 0
if call('ZCARD', ends) ~= count or call('ZCARD', changes) ~= (count > 0 and count + 2 or version > 0 and 2 or 0)
    or version >= END or kept_since > version or version > 0 and kept_since <= 0 then
    call('DEL', members, ends, changes, left)
    count, version, kept_since = 0, 0, 0
end

-- The version of the next change.
local function next_version()
    return math.max(version + 1, now)
end
local function change()
    if version == 0 then
        kept_since = now
        call('ZADD', changes, text(kept_since), '<')
    end
    version = next_version()
    call('ZADD', changes, text(version), '>')
    return text(version)
end

local function forget(member)
    call('HDEL', members, member)
    call('ZREM', ends, member)
    call('ZREM', changes, member)
    call('ZADD', left, change(), member)
    if call('ZCARD', left) > LEFT_MOST then
        local oldest = call('ZRANGE', left, 0, 0, 'WITHSCORES')
        call('ZREM', left, oldest[1])
        kept_since = math.max(kept_since, tonumber(oldest[2]))
        call('ZADD', changes, text(kept_since), '<')
    end
end

-- met: the other members know of the caller, with the lease old_lease.
local old_nonce, old_lease = (call('HGET', members, uuid) or ''):match('^(%x+) (%d+)$')
local ends_at = score(ends, uuid) or 0
local met = old_nonce and ends_at > now_ms
if met and old_nonce ~= nonce and not former:find(old_nonce, 1, true) then
    local seen = ends_at - may_hold_ms(old_lease)
    if seen > now_ms - 3 * beat and seen <= now_ms + beat then
        return {now, DUPLICATE, 0, 0, '', 0, 0, 0, 0}
    end
end
if not old_nonce and count >= MOST and leaving ~= '1' then
    return redis.error_reply('ERR ' .. MOST .. ' daemons are registered at this Redis, and it takes no more')
end

-- False: the daemon has no right to publish, and `refused` is the error. Other daemons would not learn of this daemon
-- in time, nor this daemon of them.
local refused
local function publish(what)
    local answer = pcall('PUBLISH', channel, what)
    refused = type(answer) == 'table' and answer or refused
    return not refused
end

-- The number of daemons that are subscribed to the channel. Subscribers by a pattern do not count.
local function count_subscribed()
    local answer = pcall('PUBSUB', 'NUMSUB', channel)
    refused = answer.err and answer or refused
    return tonumber(answer[2])
end

local epoch_value = call('GET', epoch_key)
local number, old_origin, till = (epoch_value or ''):match('^(%d+) (%x+) ?(%d*)$')
number, till = tonumber(number or 0), tonumber(till or 0) or 0

local over = number == known and till == 0 -- the grace period of the epoch known is over

if number >= END then -- not written by rlockd
    number, till = 0, 0
end
if known >= END then
    known = 1
end
local begins = number == 0 or old_origin ~= origin or (rolled_back == '1' and number < known)

-- Subscribed daemons get the message about a newcomer (a daemon that becomes a member), or about a longer lease, before
-- the newcomer gets its answer, so before it takes a lock. A daemon that has just subscribed asks for the members
-- (shard.c), since it missed earlier messages. A gap remains: while the message travels, or while all other daemons are
-- cut off, the newcomer may take a lock; if the data is lost then, and the newcomer returns last, no grace period waits
-- for it. Daemons that stood still meanwhile report that they may not know all members (membership_lost() in
-- membership.c). In a grace period the message is not needed: a daemon that has not learned its end knows that it may
-- not know all members, and asks for them.
if not begins and till == 0 and leaving ~= '1' and not (met and bounded(old_lease) >= bounded(lease)) then
    if not publish('+' .. uuid .. ' ' .. text(bounded(lease)) .. ' ' .. text(next_version())) then
        return refused
    end
end

local function await(member)
    call('ZADD', awaited, 'NX', AWAITED, member)
end

if begins then
    local empty, began, longest, wanted = number == 0, now_ms, lease, 0
    local subscribed = publish('') and count_subscribed()
    if refused then
        return refused
    end
    if till > 0 then -- lost again in a grace period: awaited members may still hold locks, as may returned ones
        local marked = call('ZRANGE', awaited, 0, -1, 'WITHSCORES')
        for i = 1, #marked, 2 do
            local mark = tonumber(marked[i + 1])
            if #marked[i] == 36 and mark < LEFT and mark ~= AWAITED then
                call('ZADD', awaited, AWAITED, marked[i])
            end
        end
        call('ZREM', awaited, '!')
        if #marked > 0 then
            call('ZADD', awaited, text(-number), '^')
        end
        wanted = -(score(awaited, '#') or 0)
        longest = math.max(longest, math.min(till - math.floor(number / 1000), DAY)) -- both are of one clock
    else
        call('DEL', awaited)
    end
    if not empty then -- an old snapshot, or a replica: await the members in it
        local all, values, latest = call('ZRANGE', ends, 0, -1, 'WITHSCORES'), call('HGETALL', members), 0
        local lease_of = {}
        for i = 1, #values, 2 do
            lease_of[values[i]] = values[i + 1]:match(' (%d+)$')
        end
        for i = 1, #all, 2 do -- at most now_ms, since the clock may have been set back
            all[i + 1] = math.min(tonumber(all[i + 1]) - may_hold_ms(lease_of[all[i]]), now_ms)
            latest = math.max(latest, all[i] == uuid and 0 or all[i + 1])
        end
        for i = 1, #all, 2 do
            local member, seen = all[i], all[i + 1]
            if member ~= uuid and #member == 36 and seen > latest - may_hold_ms(lease_of[member]) then
                await(member)
                longest = math.max(longest, bounded(lease_of[member]))
            end
        end
    end
    -- A subscribed daemon may hold locks, and none may know of the loss yet. So as many must return as are subscribed.
    if subscribed > wanted then
        call('ZADD', awaited, -subscribed, '#')
    end
    if strict == '1' and known == 0 then
        await('strict')
        -- After a flush the uptime shows nothing about the data.
        if empty and subscribed == 0 and not info('commandstats'):find('cmdstat_flush', 1, true) then
            began = now_ms - 1000 * (tonumber(server:match('uptime_in_seconds:(%d+)')) or 0)
        end
    end
    number, till = math.max(number, known), began + longest
    if number < now then
        number = now
    else -- the clock was set back. Not + 1: the epochs of two Redis whose clocks were set back need different numbers
        number = number + 1 + tonumber(redis.sha1hex(nonce .. text(now)):sub(1, 4), 16)
    end
    if empty and known == 0 and subscribed == 0 and strict == '0' then -- no daemon can have lost a lock
        till = 0
    end
    call('SET', epoch_key, text(number) .. ' ' .. origin .. (till > 0 and ' ' .. text(till) or ''))
end

-- A daemon from another epoch registers for the first time in this one: it may hold locks, as may the members that it
-- knows. Returns the daemon's score.
local function note_return()
    -- cut_short: the grace period of the known epoch has not ended, by all that is known here, and does not go on in
    -- this one.
    local cut_short = known_grace ~= '' and not (over or score(awaited, '^') == -known)
    -- In a grace period it may not know all awaited members.
    local whole = unknown == '0' and (known_grace == '' or over)
    local longest = math.max(lease, bounded(list_lease))
    if unknown == '1' or cut_short then
        await('?')
    end
    if cut_short then
        longest = math.max(longest, bounded(known_grace))
    end
    if whole and list_n == 0 then
        call('ZADD', awaited, KNOWN, '?')
    end
    longest = math.min(now_ms, math.floor(number / 1000)) + longest -- the number may be ahead of the time
    if longest > till then
        till = longest
        call('SET', epoch_key, text(number) .. ' ' .. origin .. ' ' .. text(till))
    end
    return list_n == 0 and LISTED or whole and WHOLE or PARTIAL
end

-- Takes a part of the caller's list. Returns the caller's score, and the reply's answer about the list (`bring`).
local function take_list(mark)
    local list = '=' .. text(from)
    if mark == WHOLE and list_last > 0 and list_last <= (score(awaited, list) or 0) then
        return LISTED, 0
    end
    if part ~= '0' and known == number then
        for i = FIRST_UUID, #ARGV do
            await(ARGV[i])
        end
        if part == '2' and mark == WHOLE then
            call('ZADD', awaited, KNOWN, '?')
            if list_whole > (score(awaited, list) or 0) then
                call('ZADD', awaited, text(list_whole), list)
            end
        end
        if part == '2' then
            return LISTED, 0
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
    local old_mark = score(awaited, uuid)
    local mark = old_mark
    -- A new process does not have the list that its predecessor had to bring.
    local is_return = not old_mark or old_mark == AWAITED
        or (old_mark == PARTIAL or old_mark == WHOLE) and old_nonce ~= nonce
    if known ~= 0 and known ~= number and is_return then
        mark = note_return()
    end
    if (mark == PARTIAL or mark == WHOLE) and from ~= 0 and from ~= number then
        mark, bring = take_list(mark)
    end
    if mark and mark ~= PARTIAL and mark ~= WHOLE and (reclaimed == number or leaving == '1') then
        mark = leaving == '1' and LEFT or BACK
    end
    if mark ~= old_mark then
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
        publish('')
    end
end

if floor > (tonumber(pcall('GET', clock)) or 0) then -- no token is given twice, whatever data was lost
    call('SET', clock, text(floor))
end
if leaving ~= '1' then
    local value = nonce .. ' ' .. text(lease)
    if not met or bounded(old_lease) ~= bounded(lease) then
        call('ZADD', changes, change(), uuid)
        call('ZREM', left, uuid)
    end
    if old_nonce ~= nonce or old_lease ~= text(lease) then
        call('HSET', members, uuid, value)
    end
    call('ZADD', ends, text(now_ms + may_hold_ms(lease)), uuid)
elseif old_nonce then
    forget(uuid)
end
for _, member in ipairs(call('ZRANGEBYSCORE', ends, '-inf', '(' .. text(now_ms), 'LIMIT', 0, FORGET_MOST)) do
    forget(member)
end

local reply = {now, OK, number, till, text(number) .. ' ' .. origin, version, 0, 0, bring}
if page > 0 and till == 0 then
    local upto, anew = version, since == 0 or since < kept_since or since > version
    if anew then
        cursor = 0
    end
    if cursor < version then
        local after, newer = '(' .. text(cursor), {}
        local all = call('ZRANGEBYSCORE', changes, after, '+inf', 'WITHSCORES', 'LIMIT', 0, page)
        upto = #all == 2 * page and tonumber(all[#all]) or upto
        local gone = call('ZRANGEBYSCORE', left, after, text(upto), 'WITHSCORES', 'LIMIT', 0, page)
        upto = #gone == 2 * page and tonumber(gone[#gone]) or upto
        for i = 1, #all, 2 do
            if #all[i] == 36 and all[i] ~= uuid and tonumber(all[i + 1]) <= upto then
                newer[#newer + 1] = i
            end
        end
        for _, i in ipairs(newer) do
            local registered = (call('HGET', members, all[i]) or ''):match(' (%d+)$')
            reply[#reply + 1] = all[i] .. ' ' .. text(bounded(registered)) .. ' ' .. text(tonumber(all[i + 1]))
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
