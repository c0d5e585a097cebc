-- presence.lua -- registers a daemon among the members, and tells it whether this Redis still has its data.
--
-- Run on every new connection, and every few seconds. Redis may lose what it has acknowledged: it restarts empty or
-- from an old snapshot, is flushed, or a replica that lacks the last writes becomes master. Then a new epoch begins,
-- with a grace period: nothing is granted (see common.lua) until all members that may hold a lock have reclaimed
-- theirs, or have lost what they could not reclaim. That takes at most the longest lease that one of them renews: each
-- registers its own (`grace`, in ms), is told those of the others, and brings them to a Redis that has lost them.
--
--   KEYS   rlock:clock, rlock:epoch, rlock:daemons, rlock:absent
--   ARGV   uuid, nonce, former nonces, epoch known, epoch reclaimed (0 = none), grace, beat (ms), strict (0, 1), floor,
--          leaving (0, 1), stranded (0, 1), a channel that every daemon listens to once it knows an epoch, then "<uuid>
--          <grace>" of other members that may hold locks, as this daemon was told; ? = there are members that it does
--          not know; !<ms> = the grace period of the epoch known was to last so long, and was not over when last heard
--   reply  { TIME in us, status, epoch, end of its grace period in ms (0 = none), what rlock:epoch is outside of the
--          grace period, "<uuid> <grace>" of the other members }
--
-- rlock:epoch    "<number> <origin>", in a grace period "<number> <origin> <until>". The number is the time in us at
--                which the epoch began, so it rises. The origin stands for the process and the line of replication that
--                the data belongs to: one of them changes whenever the data may not be what it was. (The line also
--                changes when the first replica joins: then the grace period ends when all members have registered.)
-- rlock:daemons  uuid -> "<nonce> <ms of the last registration> <grace>". The nonce is the process's own. Of two with
--                one uuid the later one is refused, unless it names the other as its predecessor. A missing grace
--                counts as that of the daemon that runs the script.
-- rlock:absent   in a grace period: uuid -> 1 = awaited, 0 = it has reclaimed its locks, 2 = it has left; # -> how many
--                have to be at 0, as so many listened when the epoch began; ? -> 1: a restarted daemon knows that there
--                were members, but not which, 0: a daemon that does know has come. When nothing is awaited any more,
--                the grace period is over. ^ -> the epoch before, whose grace period goes on in this one, because the
--                data still lists whom it awaited. If it does not, the awaited are unknown (?), and the grace period
--                lasts at least as long as that one.
--
-- Stranded: the epoch that the daemon knows is later than that of the data, and it cannot reach any Redis in that
-- epoch: a failover back to an older master. All that was granted in the later epoch is lost here, so a new one begins.
-- A daemon that is not stranded is told the older number, and stays with its Redis.
--
-- Strict: a Redis without an epoch is not trusted, even by daemons that know of no epoch: locks may have been held in
-- the data it had before. Their leases are over when Redis has been up for one grace period and was not flushed since.
-- Data with an epoch is another case: the uptime of a promoted replica says nothing about its data.
local OK, TWIN = 1, 2
local HEAD = 5 -- elements of the reply before the other members
local FAR = 2 ^ 52 -- us: the year 2112
local DAY, MOST = 86400000, 256 -- members in a reply, and members that are kept though they are silent
local call, pcall = redis.call, redis.pcall
local clock, epoch_key, daemons, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local uuid, nonce, former, known, reclaimed = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local grace, beat, strict, floor, leaving = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]
local stranded, channel, PEERS = ARGV[11], ARGV[12], 13

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

-- Makes all other daemons register, and so learn of this one. A daemon that begins to listen registers too (shard.c),
-- since it missed earlier messages. One trip remains, or as long as all others are cut off: if the data is lost
-- meanwhile, no grace period waits for a newcomer (or one that was forgotten) that was granted a lock and comes back
-- last. Where they stood still instead, they bring a ? (membership_lost() in membership.c). False: the daemon has no
-- right to publish, and `refused` is the error; the others would not learn of it in time, nor it of them.
local woken, refused = false
local function wake()
    local heard = not woken and pcall('PUBLISH', channel, '')
    refused = type(heard) == 'table' and heard or refused
    woken = not refused
    return woken
end

-- How many daemons listen. Subscribers by a pattern do not count.
local function listening()
    local heard = pcall('PUBSUB', 'NUMSUB', channel)
    refused = heard.err and heard or refused
    return tonumber(heard[2])
end

local function text(number)
    return string.format('%.0f', number)
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
for key, type in pairs({[epoch_key] = 'string', [daemons] = 'hash', [absent] = 'hash'}) do
    local is = call('TYPE', key).ok
    if is ~= 'none' and is ~= type then
        call('DEL', key)
    end
end

-- The longest lease that a daemon renews, as registered, else the caller's. No lease is longer than a day.
local function lasting(said)
    return math.min(tonumber(said) or grace, DAY)
end

-- The members: uuid -> ms of its last registration; and the latest of all. met: the others know the caller already.
local there, lasts, latest, kept, met = {}, {}, 0, 0, false
local all = call('HGETALL', daemons)
for i = 1, #all, 2 do
    local was, seen, its = all[i + 1]:match('^(%x+) (%d+) ?(%d*)$')
    seen = tonumber(seen or 0)
    if all[i] == uuid then
        met = seen > now_ms - 3 * beat - lasting(its)
        local is_new = seen > now_ms - 3 * beat and seen <= now_ms + beat
        if was ~= nonce and not former:find(was or '', 1, true) and is_new then
            return {now, TWIN, 0, 0, ''}
        end
    else
        there[all[i]] = math.min(seen, now_ms) -- clocks are set back, too
        lasts[all[i]] = lasting(its)
        latest = math.max(latest, there[all[i]])
    end
end

-- A daemon may hold a lock for so long after its last registration: it takes and renews locks for two beats behind that
-- (membership.h); the third is for a clock that is slower than Redis's, and for commands that run late.
local function window(who)
    return 3 * beat + lasts[who]
end

-- Forget members whose last registration is far older than the latest of all, and silent ones where there are too many.
-- A member that registers is never forgotten.
for who, seen in pairs(there) do
    if #who ~= 36 or seen < latest - 10 * window(who) or kept >= MOST and seen < latest - 3 * beat then
        call('HDEL', daemons, who)
        there[who] = nil
    else
        kept = kept + 1
    end
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

if not met and till == 0 and not wake() then -- in a grace period the next heartbeat is soon enough
    return refused
end

local function is_waited_for(who)
    call('HSETNX', absent, who, '1')
end

if number == 0 or of ~= origin or (stranded == '1' and number < known) then
    local empty, began, longest, wanted = number == 0, now_ms, grace, 0
    local listeners = wake() and listening()
    if refused then
        return refused
    end
    if till > 0 then -- lost again in a grace period: its awaited may still hold locks, its returned hold some again
        local of_all = call('HGETALL', absent)
        for i = 1, #of_all, 2 do
            if #of_all[i] == 36 and of_all[i + 1] == '0' then
                call('HSET', absent, of_all[i], '1')
            end
        end
        if #of_all > 0 then
            call('HSET', absent, '^', text(number))
        end
        wanted = tonumber(call('HGET', absent, '#')) or 0
        longest = math.max(longest, math.min(till - math.floor(number / 1000), DAY)) -- by the clock that wrote it
    else
        call('DEL', absent)
    end
    if not empty then -- an old snapshot, or a replica: await the members of that time
        for who, seen in pairs(there) do
            if seen > latest - window(who) then
                is_waited_for(who)
                longest = math.max(longest, lasts[who])
            end
        end
    end
    -- A listener may hold locks, and neither it nor the others may know of the loss yet. So many have to come back.
    if listeners > wanted then
        call('HSET', absent, '#', listeners)
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

if till > 0 then
    if known ~= 0 and known ~= number then -- from another epoch: it may hold locks, as may the members there
        local whole, longest = true, grace
        is_waited_for(uuid)
        for i = PEERS, #ARGV do
            local before = ARGV[i]:match('^!(%d+)$')
            local who = before and '?' or ARGV[i]:sub(1, 36)
            if not (before and over) then
                whole = whole and who ~= '?' -- a daemon from a grace period does not know all that were awaited
            end
            if not before or not over and call('HGET', absent, '^') ~= text(known) then
                is_waited_for(who)
                longest = math.max(longest, lasting(before or ARGV[i]:match(' (%d+)$')))
            end
        end
        if whole then
            call('HSET', absent, '?', '0')
        end
        longest = math.min(now_ms, math.floor(number / 1000)) + longest -- the number may be above the time it began
        if longest > till then
            till = longest
            call('SET', epoch_key, text(number) .. ' ' .. origin .. ' ' .. text(till))
        end
    end
    if (reclaimed == number or leaving == '1') and call('HEXISTS', absent, uuid) == 1 then
        call('HSET', absent, uuid, leaving == '1' and '2' or '0')
    end
    local of_all, waits, back, wanted = call('HGETALL', absent), false, 0, 0
    for i = 1, #of_all, 2 do
        local who, is = of_all[i], of_all[i + 1]
        if who == '#' then
            wanted = tonumber(is) or 0
        elseif who ~= '^' then
            waits = waits or is == '1'
            back = back + (#who == 36 and is ~= '1' and 1 or 0)
        end
    end
    waits = waits or back < wanted
    if waits and now_ms < till then
        call('PEXPIRE', absent, DAY)
    else
        till = 0
        call('SET', epoch_key, text(number) .. ' ' .. origin)
        call('DEL', absent)
    end
end

if floor > (tonumber(pcall('GET', clock)) or 0) then -- no token is given twice, whatever was lost
    call('SET', clock, text(floor))
end
if leaving == '1' then
    call('HDEL', daemons, uuid)
else
    call('HSET', daemons, uuid, nonce .. ' ' .. text(now_ms) .. ' ' .. text(grace))
end
local reply = {now, OK, number, till, text(number) .. ' ' .. origin}
for who, seen in pairs(there) do
    if seen > now_ms - window(who) and #reply < HEAD + MOST then
        reply[#reply + 1] = who .. ' ' .. text(lasts[who])
    end
end
return reply
