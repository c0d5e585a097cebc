-- presence.lua -- each daemon says that it is there, and hears whether this Redis still has what it had.
--
-- Said on every new connection, and every few seconds. Redis may lose what it has acknowledged: it restarts empty or
-- from an old snapshot, is flushed, or a replica that lacks the last writes becomes master. Then a new epoch begins,
-- with a grace: nothing is granted (see common.lua) until all daemons that may hold a lock have asserted theirs anew,
-- or have lost what they could not assert. That takes as long as the longest lease that one of them renews: each says
-- how long its own is (`grace`, in ms), hears of those of others, and tells of them where nobody knows them any more.
--
--   KEYS   rlock:clock, rlock:epoch, rlock:daemons, rlock:absent
--   ARGV   uuid, nonce, former nonces, epoch known, epoch reclaimed (0 = none), grace, beat (ms), strict (0, 1), floor,
--          leaving (0, 1), stranded (0, 1), a channel that every daemon listens to once it knows an epoch, then "<uuid>
--          <grace>" of other daemons that may hold locks, as this one was told; ? = there are, but it does not know
--          who; !<ms> = the grace of the epoch known was to last so long, and it has not heard that it is over
--   reply  { TIME in us, status, epoch, until when its grace lasts in ms (0 = none), what rlock:epoch is while there is
--          no grace, "<uuid> <grace>" of the other daemons that are there }
--
-- rlock:epoch    "<number> <origin>", in a grace "<number> <origin> <until>". The number is the time in us at which the
--                epoch began, so it rises. The origin tells of which process and which line of replication the data is:
--                one of them changes whenever the data may not be what it was. (The line also does when the first
--                replica joins: then the grace is as short as all daemons need to say that they are there.)
-- rlock:daemons  uuid -> "<nonce> <ms when it was heard last> <grace>". The nonce is the process's own. Of two with one
--                uuid the later one is refused, unless it says that it comes after the other. Without a grace it is as
--                long as that of whoever looks.
-- rlock:absent   in a grace: uuid -> 1, 0 = it has its locks again, 2 = it has left; # -> how many have to be
--                at 0, as so many listened when the epoch began; ? -> 1: a daemon that was started anew knows that
--                there were others, but not who, 0: one that does has come. When nothing is left to wait for, the
--                grace is over. ^ -> the epoch before, whose grace goes on in this one: the data had whom that waited
--                for. If it had not, it is unknown for whom (?), and the grace lasts as long as that one at least.
--
-- Stranded: the epoch that the daemon knows is later than that of the data, and where it was the daemon reaches nobody
-- any more: a failover back to an older master. All that was granted in the later one is lost here, so a new one
-- begins. Who is not stranded is told the older number, and stays where it is.
--
-- Strict: a Redis without an epoch is not trusted, even by daemons that know nothing; for others may have held locks in
-- what it had before. What is lost there is over when Redis has been up for one grace, and was not flushed since. That
-- does not go for data with an epoch: a replica that has become master has been up for as long as you like.
local OK, TWIN = 1, 2
local HEAD = 5 -- what the reply has before the others
local FAR = 2 ^ 52 -- us: the year 2112
local DAY, MOST = 86400000, 256 -- daemons that are told of, and that are remembered though they are silent
local call, pcall = redis.call, redis.pcall
local clock, epoch_key, daemons, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local uuid, nonce, former, known, reclaimed = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local grace, beat, strict, floor, leaving = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]
local stranded, channel, PEERS = ARGV[11], ARGV[12], 13

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

-- All other daemons say that they are there, and hear of this one; who begins to listen does so too (shard.c): nobody
-- hears what was said before. What is left is one trip: if the data is lost within it, a newcomer that has been granted
-- something already and comes back last was waited for by nobody. False: it may not, and `refused` says why; such a
-- daemon would not be heard of in time, nor hear of others.
local woken, refused = false
local function wake()
    local heard = not woken and pcall('PUBLISH', channel, '')
    refused = type(heard) == 'table' and heard or refused
    woken = not refused
    return woken
end

-- How many daemons listen. Not those who listen to whatever there is.
local function listening()
    local heard = pcall('PUBSUB', 'NUMSUB', channel)
    refused = heard.err and heard or refused
    return tonumber(heard[2])
end

local function text(number)
    return string.format('%.0f', number)
end

-- Without it nobody can tell an old snapshot, or a replica, from what was there before.
local function info(section)
    local all = pcall('INFO', section)
    return type(all) == 'string' and all or ''
end

local server, replication = info('server'), info('replication')
local process, line = server:match('run_id:(%x+)'), replication:match('master_replid:(%x+)')
if not (process and line) then
    return redis.error_reply("NOPERM it needs to run the 'info' command, and an answer that says what data this is")
end
if replication:match('role:(%w+)') ~= 'master' then -- also one that takes writes: it drops them at the next sync
    return redis.error_reply('READONLY not a master: what a replica is given, its master does not know of')
end
local origin = redis.sha1hex(process .. line):sub(1, 16)

-- Ours for ever. And a write that a full Redis lets through: those behind it, small as they are, go through then too.
call('PERSIST', epoch_key)

-- Ours, and of another type: not what we have made. It goes.
for key, type in pairs({[epoch_key] = 'string', [daemons] = 'hash', [absent] = 'hash'}) do
    local is = call('TYPE', key).ok
    if is ~= 'none' and is ~= type then
        call('DEL', key)
    end
end

-- The longest lease that a daemon renews, as it was said to be: ours, when nothing was. No lease is longer than a day.
local function lasting(said)
    return math.min(tonumber(said) or grace, DAY)
end

-- Who is there: uuid -> ms when it was heard last; and the latest of all. Met: the others are told of us already.
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

-- A daemon may hold a lock for so long after it was heard last: it takes and renews locks for two beats behind that, no
-- longer (membership.h); its clock may be slower than ours, and a command may run late, for which is the third.
local function window(who)
    return 3 * beat + lasts[who]
end

-- Longer ago by far, by the time of whoever was heard last: it is no more. Nor are those that are silent, where there
-- are so many; who speaks is never forgotten.
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

local over = number == known and till == 0 -- the grace of the epoch known is, though the daemon may not have heard so

if number >= FAR then -- somebody else's, and above it numbers can not rise for ever
    number, till = 0, 0
end
if known >= FAR then
    known = 1
end

if not met and till == 0 and not wake() then -- in a grace nobody has to hear of it sooner than at the next beat
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
    if till > 0 then -- lost again in a grace: whoever that waited for may hold locks yet, and whoever was back, again
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
        longest = math.max(longest, math.min(till - math.floor(number / 1000), DAY)) -- by the clock it was written by
    else
        call('DEL', absent)
    end
    if not empty then -- an old snapshot, or a replica: of those that were there when it was made
        for who, seen in pairs(there) do
            if seen > latest - window(who) then
                is_waited_for(who)
                longest = math.max(longest, lasts[who])
            end
        end
    end
    -- Who listens may hold locks, and not know yet; nor may others have heard of it. As many have to come back.
    if listeners > wanted then
        call('HSET', absent, '#', listeners)
    end
    if strict == '1' and known == 0 then
        is_waited_for('strict')
        -- Flushed, how long it has been up says nothing of its data.
        if empty and listeners == 0 and not info('commandstats'):find('cmdstat_flush', 1, true) then
            began = now_ms - 1000 * (tonumber(server:match('uptime_in_seconds:(%d+)')) or 0)
        end
    end
    number, till = math.max(number, known), began + longest
    if number < now then
        number = now
    else -- by a clock that was set back. Who has heard of the next one must not take another for it: so it is not + 1
        number = number + 1 + tonumber(redis.sha1hex(nonce .. text(now)):sub(1, 4), 16)
    end
    if empty and known == 0 and listeners == 0 and strict == '0' then -- nobody is here who can have lost anything
        till = 0
    end
    call('SET', epoch_key, text(number) .. ' ' .. origin .. (till > 0 and ' ' .. text(till) or ''))
end

if till > 0 then
    if known ~= 0 and known ~= number then -- it has been somewhere else, and may hold locks, and so may those it met
        local whole, longest = true, grace
        is_waited_for(uuid)
        for i = PEERS, #ARGV do
            local before = ARGV[i]:match('^!(%d+)$')
            local who = before and '?' or ARGV[i]:sub(1, 36)
            if not (before and over) then
                whole = whole and who ~= '?' -- who was in a grace knows no better for whom it was
            end
            if not before or not over and call('HGET', absent, '^') ~= text(known) then
                is_waited_for(who)
                longest = math.max(longest, lasting(before or ARGV[i]:match(' (%d+)$')))
            end
        end
        if whole then
            call('HSET', absent, '?', '0')
        end
        longest = math.min(now_ms, math.floor(number / 1000)) + longest -- the number is not below the time it began
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
