-- simple.lua -- a string that only its owner knows: SET NX PX, then compare before anything else.
local TYPE = 'string'

local function acquire(key, value, lease, floor)
    local set = redis.pcall('SET', key, value, 'NX', 'PX', lease)
    if set and set.ok then
        return OK, token(floor), now_ms + lease
    end
    local there = try('GET', key)
    if there == value then -- our own, from an attempt whose reply was lost
        local expiry = lengthen(key, lease)
        return OK, token(floor), expiry
    elseif set and there == false then -- refused
        failed = set
        return
    end
    return there == nil and FOREIGN or TAKEN, redis.call('PTTL', key)
end

local function renew(key, value, lease, exact)
    if try('GET', key) ~= value then
        return GONE
    end
    if exact == '0' then
        return OK, 0, lengthen(key, lease)
    end
    redis.call('PEXPIRE', key, lease)
    return OK, 0, now_ms + lease
end

local function release(key, value, channel)
    if try('GET', key) ~= value then
        return GONE
    end
    redis.call('DEL', key)
    return OK, redis.call('PUBLISH', channel, '0')
end
