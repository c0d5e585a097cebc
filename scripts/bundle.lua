-- bundle.lua -- calls of one verb and kind together, each of one name in a slot of its own: a bundle, in a cluster.
--
--   ARGV   verb, kind, guard, floor, reserve, lease, holds, then of each name
--          acquire: tag of the slot, epoch, name, owner     renew: name, owner     release: name, owner, channel
--   reply  { TIME in us, token, expiry in ms, length of the reserve, then for each name: 0 = left undone, or 1 + the
--          number of subscribers woken }; { TIME in us } after the guard: all names are left undone
--
-- No command may name keys of several slots, so this script names none: each access of a key by pcall shows whether the
-- node has the key. Only names in their usual state are handled here. Any other name is left undone, for the script of
-- its verb.
local pcall, ARGV = redis.pcall, ARGV
local verb, kind = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local expiry = (now - now % 1000) / 1000 + ARGV[6]
local token = math.max(now, ARGV[4] + 1)
local reserve = tonumber(ARGV[5])
if token - now > 1000 and token - now < 1e7 then
    reserve = 0 -- as in token() of common.lua: reserves must not carry the token clocks ahead of the time
end
local till, ceiling, holds = string.format('%.0f', expiry), string.format('%.0f', token + reserve), ARGV[7]
local reply, to = {now, token, expiry, reserve}, 4

if ARGV[3] ~= '0' and now > tonumber(ARGV[3]) then
    return {now}
end

-- Frees a name that was taken and cannot be granted.
local function undo(key)
    pcall('DEL', key)
end

-- By kind. take: takes a free name; has: whether the owner holds the name; free: frees a name that the owner holds.
local take, has, free
if kind == 'reentrant' then
    take = function(key, owner)
        return pcall('EXISTS', key) == 0 and pcall('HSET', key, owner, holds) == 1 and
            (pcall('PEXPIREAT', key, till) == 1 or undo(key))
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

-- Raises the token clock of the slot. nil: the clock has reached this token already, and is not changed.
local function raise_clock(clock)
    local was = pcall('GETSET', clock, ceiling)
    if was == false or (tonumber(was) or token) < token then
        return true
    end
    if type(was) == 'string' then
        pcall('SET', clock, was)
    end
end

if verb == 'acquire' then
    for i = 8, #ARGV, 4 do
        local prefix = 'rlock:{' .. ARGV[i] .. '}:'
        to = to + 1
        reply[to] = pcall('GET', prefix .. 'epoch') == ARGV[i + 1] and take(ARGV[i + 2], ARGV[i + 3]) and
            (raise_clock(prefix .. 'clock') or undo(ARGV[i + 2])) and 1 or 0
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
