-- rw.lua -- Redisson's ReadWriteLock: a hash of readers (owner -> holds) or of one writer (owner:write -> holds), and
-- `mode`, which shows which. Counts are set, never incremented. The writer may be a reader as well, and stays one when
-- it gives up writing; a reader cannot become the writer. A hash without `mode` (Redisson's RLock), with any other
-- field, or without an expiry is foreign: it may be an application's.
--
-- All readers share the expiry of the hash. Each hold of a reader has a key of its own, {name}:owner:rwlock_timeout:1,
-- :2 ..., that lives as long as its lease: so a leaving reader knows how long the others need the hash. Redisson relies
-- on these keys; their values and types are never read. Only an owner's first READS_MOST holds have one; all are
-- renewed together, so no later hold lasts longer than the first one. With more than READS_MOST readers, or keys of
-- their holds in all, a leaving reader changes no expiry.
local READS_MOST = 256
local WORDS_CHECKED = 16 -- fields and values of the hash that a reader checks before it joins others

local function timeout_prefix(key, owner)
    return suffixed(key, owner) .. ':rwlock_timeout:'
end

-- 'read' or 'write'; nil or false: the key is no lock of this kind.
local function mode_of(key)
    local mode = checked(pcall('HGET', key, 'mode'))
    return (mode == 'read' or mode == 'write') and mode
end

-- True: besides `mode`, the hash has only owners and their holds. Checks at most `most` of its fields and values.
local function is_lock(key, pttl, most)
    local some = pttl ~= -1 and call('HSCAN', key, 0, 'COUNT', WORDS_CHECKED)[2] or {}
    if #some < 4 then
        return false
    end
    for i = 1, math.min(#some, most), 2 do
        if some[i] ~= 'mode' and not (is_owner((some[i]:gsub(':write$', ''))) and is_count(some[i + 1])) then
            return false
        end
    end
    return true
end

-- Makes the keys of `holds` read holds last for `lease` ms, and shortens none unless the lease is exact. The caller has
-- written before: a full Redis refuses the first write of a script, and no later one.
local function prolong_reads(key, owner, holds, lease, exact)
    local ends = timeout_prefix(key, owner)
    for i = 1, math.min(holds, READS_MOST) do
        if exact == '1' or call('PTTL', ends .. i) < tonumber(lease) then
            call('SET', ends .. i, '1', 'PX', lease)
        end
    end
end

-- Deletes the keys of the read holds from..to, and those with higher numbers if there are any.
local function delete_reads(key, owner, from, to)
    local ends = timeout_prefix(key, owner)
    while from <= READS_MOST and (call('DEL', ends .. from) == 1 or from < to) do
        from = from + 1
    end
end

-- The time left of the read hold that lasts longest, in ms; 0 = there is none; nil = too many keys to ask.
local function longest(key)
    if call('HLEN', key) > READS_MOST then
        return nil
    end
    local fields, asked, most = call('HGETALL', key), 0, 0
    for i = 1, #fields, 2 do
        local ends = timeout_prefix(key, fields[i])
        for n = 1, fields[i] ~= 'mode' and tonumber(fields[i + 1]) or 0 do
            asked = asked + 1
            if asked > READS_MOST then
                return nil
            end
            most = math.max(most, call('PTTL', ends .. n))
        end
    end
    return most
end

-- Deletes the hash, and the keys of its read holds, if each owner in it has lost the lock (has_lost_lock()) and none
-- is this owner. True: the hash is deleted.
local function delete_lost(key, owner)
    local fields = call('HLEN', key) <= READS_MOST and call('HGETALL', key) or {}
    for i = 1, #fields, 2 do
        local field = fields[i]
        if field ~= 'mode' and (not has_lost_lock(field) or field == owner or field == owner .. ':write') then
            return false
        end
    end
    for i = 1, #fields, 2 do
        if fields[i] ~= 'mode' then
            delete_reads(key, fields[i], 1, math.min(tonumber(fields[i + 1]) or 0, READS_MOST))
        end
    end
    return #fields > 0 and call('DEL', key) == 1
end

-- reentry: as in reentrant.lua. A reader ends no earlier lock: there may be earlier readers.
local function acquire(key, owner, lease, holds, reentry, mode)
    local pttl = call('PTTL', key)
    local held_mode = pttl ~= -2 and mode_of(key)
    local reclaims = #reentry > 1 and is_reclaiming()
    if reclaims and has_ended(key, reentry) then
        return TAKEN, math.max(pttl, -1)
    end
    if held_mode and is_reclaiming() and (held_mode == 'write' or mode == 'write') and delete_lost(key, owner) then
        held_mode, pttl = false, -2
    end
    if pttl ~= -2 and not held_mode then
        return reentry == '1' and GONE or FOREIGN, reentry == '1' and 0 or pttl
    end
    local reads = held_mode and call('HGET', key, owner)
    local writes = held_mode and call('HGET', key, owner .. ':write')
    if reentry == '1' and not reads and not writes then
        return GONE
    elseif held_mode == 'read' and mode == 'write' or held_mode == 'write' and not writes then
        return TAKEN, pttl, held_mode == 'write' and 1 or call('HLEN', key) - 1
    end
    if held_mode and not reads and not writes and not is_lock(key, pttl, WORDS_CHECKED) then
        return FOREIGN, pttl
    end
    local field = mode == 'write' and owner .. ':write' or owner
    if not held_mode then
        if not checked(pcall('HSET', key, 'mode', mode, field, holds)) then
            return
        end
    elseif (mode == 'write' and writes or mode == 'read' and reads) ~= holds then
        if not checked(pcall('HSET', key, field, holds)) then
            return
        end
    end
    local expiry = lengthen(key, lease, pttl)
    if mode == 'read' then
        prolong_reads(key, owner, tonumber(holds), lease)
    elseif reclaims then
        end_earlier(key, reentry, 2 * lease)
    end
    return OK, reentry == '1' and 0 or token(), expiry
end

-- Renews the owner's holds of both modes. Other readers keep their time, even if this owner's lease becomes shorter.
local function renew(key, owner, lease, exact)
    local held_mode = mode_of(key)
    local reads = held_mode and call('HGET', key, owner)
    if not reads and not (held_mode and call('HEXISTS', key, owner .. ':write') == 1) then
        return GONE
    end
    local expiry = lengthen(key, lease, call('PTTL', key))
    prolong_reads(key, owner, tonumber(reads or 0) or 0, lease, exact)
    if exact == '1' then
        local others = held_mode == 'read' and call('HLEN', key) > 2
        local most = others and longest(key) or not others and 0
        if most then
            call('PEXPIRE', key, text(math.max(most, lease)))
        end
        expiry = now_ms + lease
    end
    return OK, 0, expiry
end

-- Sets this owner's counts to the holds that remain. False: some of these were missing, and are not created anew.
local function set_rest(key, owner, reads, writes, had_reads, had_writes)
    if had_reads and reads ~= '0' and had_reads ~= reads then
        call('HSET', key, owner, reads)
    end
    if had_writes and writes ~= '0' and had_writes ~= writes then
        call('HSET', key, owner .. ':write', writes)
    end
    return (had_reads or reads == '0') and (had_writes or writes == '0')
end

-- This owner has no hold left. The hash gets the time of the other reader that lasts longest; if there is none, the
-- hash is deleted.
local function leave_hash(key, channel, number)
    if call('HLEN', key) > 1 then
        local most = longest(key)
        if most ~= 0 then
            if most then
                call('PEXPIRE', key, text(most))
            end
            return number == '1' and wake(channel, number) or 0
        end
    end
    call('DEL', key)
    return wake(channel, number)
end

-- `holds` of the mode remain, and `rest` of the other mode. A writer that gives up its last exclusive hold wakes all
-- waiters (1): they may read now, even if it still reads itself. The last reader wakes one waiter of each client (0).
local function release(key, owner, lease, holds, rest, mode, channel)
    local reads, writes = holds, rest
    if mode == 'write' then
        reads, writes = rest, holds
    end
    local held_mode = mode_of(key)
    local had_reads = held_mode and call('HGET', key, owner)
    local had_writes = held_mode and call('HGET', key, owner .. ':write')
    if reads == '0' and had_reads then
        call('HDEL', key, owner)
    end
    delete_reads(key, owner, reads + 1, tonumber(had_reads or 0) or 0)
    if not had_reads and not had_writes then
        return GONE
    end
    local number = '0'
    if writes == '0' and had_writes then
        call('HDEL', key, owner .. ':write')
        number = '1'
        if held_mode == 'write' and call('HLEN', key) > 1 then
            held_mode = 'read'
            call('HSET', key, 'mode', held_mode)
        end
    end
    if had_reads and reads ~= '0' or had_writes and writes ~= '0' then
        local expiry = lengthen(key, lease, call('PTTL', key))
        local whole = set_rest(key, owner, reads, writes, had_reads, had_writes)
        prolong_reads(key, owner, had_reads and tonumber(reads) or 0, lease)
        local woken = number == '1' and wake(channel, number) or 0
        return whole and OK or GONE, woken, expiry
    end
    local woken = 0
    if held_mode == 'read' or number == '1' then -- else another owner writes, and keeps the hash
        woken = leave_hash(key, channel, number)
    end
    return reads == '0' and writes == '0' and OK or GONE, woken
end

-- Wakes all waiters (1).
local function clear(key, channel)
    local pttl = call('PTTL', key)
    local held_mode = pttl ~= -2 and mode_of(key)
    if pttl ~= -2 and not (held_mode and is_lock(key, pttl, 2 * READS_MOST)) then
        return FOREIGN, pttl
    end
    local fields = held_mode and call('HLEN', key) <= READS_MOST and call('HGETALL', key) or {}
    local there = call('DEL', key)
    for i = 1, #fields, 2 do
        if fields[i] ~= 'mode' then
            delete_reads(key, fields[i], 1, math.min(tonumber(fields[i + 1]) or 0, READS_MOST))
        end
    end
    local drawn = token()
    if there == 1 then
        end_earlier(key, text(drawn), pttl)
    end
    return there == 1 and OK or GONE, drawn, wake(channel, '1')
end
