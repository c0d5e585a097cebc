-- presence.lua -- each daemon says that it is there, and hears whether this Redis still has what it had.
--
-- Said on every new connection, and every few seconds. Redis may lose what it has acknowledged: it restarts empty or
-- from an old snapshot, is flushed, or a replica that lacks the last writes becomes master. Then a new epoch begins,
-- with a grace: nothing is granted (see common.lua) until all daemons that may hold a lock have asserted theirs anew,
-- `grace` ms at most, which is the longest lease that is renewed: by then they have lost what they could not assert.
--
--   KEYS   rlock:clock, rlock:epoch, rlock:daemons, rlock:absent
--   ARGV   uuid, nonce, former nonces, epoch known, epoch reclaimed (0 = none), grace, beat (ms), strict (0, 1), floor,
--          leaving (0, 1), then the uuids of other daemons that may hold locks, as this one knows
--   reply  { TIME in us, status, epoch, until when its grace lasts in ms (0 = none), what rlock:epoch is while there is
--          no grace, the uuids of the other daemons that are there }
--
-- rlock:epoch    "<number> <origin>", in a grace "<number> <origin> <until>". The number is the time in us at which the
--                epoch began, so it rises. The origin tells of which process and which line of replication the data is:
--                one of them changes whenever the data may not be what it was. (The line also does when the first
--                replica joins: then the grace is as short as all daemons need to say that they are there.)
-- rlock:daemons  uuid -> "<nonce> <ms when it was heard last>". The nonce is the process's own. Of two with one uuid the
--                later one is refused, unless it says that it comes after the other.
-- rlock:absent   in a grace: uuid -> 1, 0 = it has its locks again. None is left at 1: the grace is over.
--
-- Strict: a Redis without an epoch is not trusted, even by daemons that know nothing; for others may have held locks in
-- what it had before. What is lost there is over when Redis has been up for one grace.
local OK, TWIN = 1, 2
local DAY, MOST = 86400000, 256 -- daemons told of
local call, pcall = redis.call, redis.pcall
local clock, epoch_key, daemons, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local uuid, nonce, former, known, reclaimed = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local grace, beat, strict, floor, leaving = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

local function text(number)
    return string.format('%.0f', number)
end

-- Without it nobody can tell an old snapshot, or a replica, from what was there before.
local function info(section, name)
    local all = pcall('INFO', section)
    return type(all) == 'string' and all:match(name .. ':(%x+)')
end

local process, line = info('server', 'run_id'), info('replication', 'master_replid')
if not (process and line) then
    return redis.error_reply('NOPERM INFO is not allowed, or does not say what data this is: ACL SETUSER ... +info')
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

-- Who is there: uuid -> ms when it was heard last; and the latest of all.
local there, latest, told = {}, 0, 0
local all = call('HGETALL', daemons)
for i = 1, #all, 2 do
    local was, seen = all[i + 1]:match('^(%x+) (%d+)$')
    seen = tonumber(seen or 0)
    if all[i] == uuid then
        if was ~= nonce and not former:find(was or '', 1, true) and seen > now_ms - 3 * beat and seen <= now_ms + beat then
            return {now, TWIN, 0, 0, ''}
        end
    else
        there[all[i]] = math.min(seen, now_ms) -- clocks are set back, too
        latest = math.max(latest, there[all[i]])
    end
end

-- A daemon may hold a lock for so long after it was heard last. Longer ago by far, by the time of whoever was heard last:
-- it is no more.
local window = math.max(3 * beat, grace)
for who, seen in pairs(there) do
    if #who ~= 36 or told == MOST or seen < latest - 10 * window then
        call('HDEL', daemons, who)
        there[who] = nil
    else
        told = told + 1
    end
end

local word = call('GET', epoch_key)
local number, of, till = (word or ''):match('^(%d+) (%x+) ?(%d*)$')
number, till = tonumber(number or 0), tonumber(till or 0) or 0

local function is_waited_for(who)
    call('HSETNX', absent, who, '1')
end

if number == 0 or of ~= origin then
    local trusted = number == 0 and strict == '0'
    call('DEL', absent)
    if number ~= 0 then -- an old snapshot, or a replica: of those that were there when it was made
        for who, seen in pairs(there) do
            if seen > latest - window then
                is_waited_for(who)
            end
        end
    end
    number, till = math.max(now, number + 1, known + 1), now_ms + grace
    if strict == '1' and known == 0 then
        till = till - 1000 * (tonumber(info('server', 'uptime_in_seconds')) or 0)
        is_waited_for('strict')
    end
    if trusted and known == 0 then
        till = 0
    end
    call('SET', epoch_key, text(number) .. ' ' .. origin .. (till > 0 and ' ' .. text(till) or ''))
end

if till > 0 then
    if known ~= 0 and known ~= number then -- it has been somewhere else, and may hold locks, and so may those it met
        is_waited_for(uuid)
        for i = 11, #ARGV do
            is_waited_for(ARGV[i])
        end
    end
    if reclaimed == number or leaving == '1' then
        call('HSET', absent, uuid, '0')
    end
    local waits = false
    for _, one in ipairs(call('HVALS', absent)) do
        waits = waits or one == '1'
    end
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
    call('HSET', daemons, uuid, nonce .. ' ' .. text(now_ms))
end
local reply = {now, OK, number, till, text(number) .. ' ' .. origin}
for who, seen in pairs(there) do
    if seen > now_ms - window then
        reply[#reply + 1] = who
    end
end
return reply
