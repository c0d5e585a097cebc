-- bundle.lua -- calls of one verb and kind together, each of one name in a slot of its own: a bundle, in a cluster.
--
--   ARGV   verb, kind, guard, floor, room, lease, holds, then of each name
--          acquire: tag of the slot, epoch, name, owner     renew: name, owner     release: name, owner, channel
--   reply  { TIME in us, token, expiry in ms, then for each name: 0 = left, or 1 + the number of subscribers woken };
--          { TIME in us } behind the guard: all names are left
--
-- No command may name keys of several slots, so this script names none: each access of a key by pcall shows whether the
-- node has the key. Only the usual case of a name is done here. Any other name is left to the script of its verb, which
-- may find it half done.
local pcall, ARGV = redis.pcall, ARGV
local verb, kind = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local expiry = (now - now % 1000) / 1000 + ARGV[6]
local token = math.max(now, ARGV[4] + 1)
local till, kept, holds = string.format('%.0f', expiry), string.format('%.0f', token + ARGV[5]), ARGV[7]
local reply, to = {now, token, expiry}, 3

if ARGV[3] ~= '0' and now > tonumber(ARGV[3]) then
    return {now}
end

-- By kind. take: takes a free name; has: whether the owner holds the name; free: frees a name that the owner holds.
local take, has, free
if kind == 'reentrant' then
    take = function(key, owner)
        return pcall('EXISTS', key) == 0 and pcall('HSET', key, owner, holds) == 1 and
            pcall('PEXPIREAT', key, till) == 1
    end
    has = function(key, owner)
        return pcall('HEXISTS', key, owner) == 1
    end
    free = function(key, owner)
        return pcall('HDEL', key, owner) == 1
    end
else
    take = function(key, value)
        return (pcall('SET', key, value, 'NX', 'PXAT', till) or {}).ok
    end
    has = function(key, value)
        return pcall('GETRANGE', key, 0, #value) == value
    end
    free = function(key, value)
        return has(key, value) and pcall('DEL', key) == 1
    end
end

-- Raises the token clock of the slot. Not true: the clock has reached this token already, and is not changed.
local function tick(clock)
    local was = pcall('GETSET', clock, kept)
    if was == false or (tonumber(was) or token) < token then
        return true
    end
    if type(was) == 'string' then
        pcall('SET', clock, was)
    end
end

if verb == 'acquire' then
    for i = 8, #ARGV, 4 do
        local own = 'rlock:{' .. ARGV[i] .. '}:'
        to = to + 1
        reply[to] = pcall('GET', own .. 'epoch') == ARGV[i + 1] and take(ARGV[i + 2], ARGV[i + 3]) and
            tick(own .. 'clock') and 1 or 0
    end
elseif verb == 'renew' then
    for i = 8, #ARGV, 2 do
        to = to + 1
        reply[to] = has(ARGV[i], ARGV[i + 1]) and pcall('PEXPIREAT', ARGV[i], till, 'GT') == 1 and 1 or 0
    end
else
    for i = 8, #ARGV, 3 do
        local receivers = free(ARGV[i], ARGV[i + 1]) and pcall('SPUBLISH', ARGV[i + 2], '0')
        to = to + 1
        reply[to] = receivers and 1 + (tonumber(receivers) or 0) or 0
    end
end
return reply
