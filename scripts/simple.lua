-- simple.lua -- a string that only its owner knows: SET NX PX, then compare before anything else.
--
-- Others' locks are told from an application's strings by the shape of the value, as the rule says it. They need not
-- have an expiry: redis-py's Lock has none unless it is told.

-- Without the rule's word for it a string of that shape may be anything: applications have uuids, too.
local function is_lock(key, _, shape, declared)
    local value = declared == '1' and sound(pcall('GETRANGE', key, 0, 63))
    return value and value:find(shape) ~= nil
end

local function acquire(key, value, lease)
    local set = pcall('SET', key, value, 'NX', 'PX', lease)
    if set and set.ok then
        return OK, token(), now_ms + lease
    end
    local there = sound(pcall('GETRANGE', key, 0, #value)) -- somebody's data may be long
    if there == value then -- our own, from an attempt whose reply was lost
        local expiry = lengthen(key, lease, call('PTTL', key))
        return OK, token(), expiry
    elseif set and there == '' then -- refused
        failed = set
        return
    end
    return there == nil and FOREIGN or TAKEN, call('PTTL', key)
end

local function renew(key, value, lease, exact)
    local has = pcall('GETRANGE', key, 0, #value)
    if has ~= value then
        sound(has)
        return GONE
    end
    return OK, 0, lengthen(key, lease, exact == '1' and -2 or nil)
end

local function release(key, value, channel)
    local has = pcall('GETRANGE', key, 0, #value)
    if has ~= value then
        sound(has)
        return GONE
    end
    call('DEL', key)
    return OK, wake(channel, '0')
end
