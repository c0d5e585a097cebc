-- anchor.lua -- one of three slots in which the daemons of a cluster register, and which keep the generations of all
-- slots; two of them decide (R1, R2, R4 to R7 of proto/SCRIPTS.md).
--
-- An anchor that may have lost data has a new birth. It registers daemons and takes in generations, but abstains until
-- each member that one of the other anchors knows has registered here, or its lease has ended (without lists: R7).
--
-- Arguments, reply and keys: proto/SCRIPTS.md.
local VOTES, ABSTAINS, WANTS, DUPLICATE = 1, 2, 3, 4
-- In ms. ASK: between two requests for lists; LISTS: from the birth to the first one, unless the anchor is new.
local BEAT, ASK, LISTS, DAY = 2000, 500, 6100, 86400000
local HEAD, ALL = 11, 1000 -- elements of the reply before the generations; generations in it
local END = 2 ^ 52 -- above the numbers of all generations
local call = redis.call
local seen, who, gen, back, used = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5] -- named as the keys are: SCRIPTS.md
local uuid, nonce, former, lease, strict = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local leaving, holds, lists, known = ARGV[6] == '1', ARGV[7] == '1', ARGV[8] == '1', tonumber(ARGV[9])
local version_known, back_given, suspect = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

local function text(number)
    return string.format('%.0f', number)
end

local server, replication = call('INFO', 'server'), call('INFO', 'replication')
if replication:match('role:(%w+)') ~= 'master' then
    return redis.error_reply('READONLY not a master: what a replica is given, its master does not know of')
end
local origin = redis.sha1hex(server:match('run_id:(%x+)') .. replication:match('master_replid:(%x+)')):sub(1, 16)

call('PERSIST', gen) -- a full Redis accepts this write, and then all later writes of the script

-- A key of another type is not rlockd's, and is deleted: what it had is lost.
local lost = false
for i, type in ipairs({'zset', 'hash', 'hash', 'zset', 'string'}) do
    local found = call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= type then
        lost = call('DEL', KEYS[i]) == 1
    end
end

-- ---- the head, and whether the data below it is what it was ----

local birth, saved_origin, version, state, began, longest, awaited, asked, new =
    (call('HGET', gen, '#') or ''):match('^(%d+) (%x+) (%d+) (%a) (%d+) (%d+) (%d+) (%d+) ([01])$')
local head = birth ~= nil
birth, version = tonumber(birth or 0), tonumber(version or 0)
began, longest = tonumber(began or 0), tonumber(longest or 0)
awaited, asked, new = tonumber(awaited or 0), tonumber(asked or 0), new == '1'
local saved = {birth, version, state, longest, awaited, asked, new}
local whole = head and call('EXISTS', seen, who, gen, back, used) == 5

if not whole or saved_origin ~= origin or suspect >= began then
    if whole then -- the data may be of an earlier time; the generations in it have begun all the same
        call('DEL', seen, who, back)
    else
        call('DEL', seen, who, gen, back, used)
        version = 0
        new = not head and not lost and not holds and known == 0 and not strict and
            not call('INFO', 'commandstats'):find('cmdstat_flush', 1, true)
        call('SETBIT', used, 16384, 1)
    end
    new = new and not whole
    call('ZADD', seen, 'inf', '#')
    call('ZADD', back, 'inf', '#')
    call('HSET', who, '#', '0')
    birth, saved_origin, state, began, awaited, asked = math.max(now, birth + 1), origin, 'a', now, 0, 0
end
if known ~= 0 and known ~= birth and new then
    new = false
end
-- An anchor that abstains does not know all members, so what others know counts, too, and `longest` only rises.
longest = math.min(math.max(longest, lease, state == 'v' and 0 or tonumber(ARGV[13])), DAY)
local same = known == birth

-- ---- members ----

local old_nonce, old_lease = (call('HGET', who, uuid) or ''):match('^(%x+) (%d+)$')
if old_nonce and old_nonce ~= nonce and not former:find(old_nonce, 1, true) and
    tonumber(call('ZSCORE', seen, uuid)) - tonumber(old_lease) > now_ms - 3 * BEAT then
    return {now, DUPLICATE, 0, birth, 0, 0, longest, 0, '', '', '0 0 0'}
end

local shrinks = false -- a lease of a member has ended, or is shorter now
local function forget(member)
    call('ZREM', seen, member)
    shrinks = true
    if member:sub(1, 1) == '?' then
        awaited = awaited - 1
    else
        call('HDEL', who, member)
        call('ZREM', back, member)
    end
end

for _, member in ipairs(call('ZRANGEBYSCORE', seen, '-inf', now_ms, 'LIMIT', 0, 64)) do
    forget(member)
end

-- ---- generations ----

-- The entries of `gen` as a list, and by their fields; for each slot its entry. They are read once, and only if they
-- are needed: so a message costs as many steps as there are slots and entries, however many generations it begins. The
-- list for the slots (in_slot) is costly: it is made only if the ranges of the entries do not show, within `steps_left`
-- steps, that a generation comes too late, or which entry has a slot.
local entries, entry_of, in_slot
local steps_left = 4096
local function ranges_of(words)
    local ranges = {}
    for first, last in words:gmatch('(%d+)%-?(%d*)') do
        ranges[#ranges + 1] = {tonumber(first), tonumber(last) or tonumber(first)}
    end
    return ranges
end

local function words_of(ranges)
    local words = {}
    for i, r in ipairs(ranges) do
        words[i] = r[1] == r[2] and text(r[1]) or text(r[1]) .. '-' .. text(r[2])
    end
    return table.concat(words, ' ')
end

local function add_slot(ranges, slot)
    local last = ranges[#ranges]
    if last and last[2] == slot - 1 then
        last[2] = slot
    else
        ranges[#ranges + 1] = {slot, slot}
    end
end

local function load_entries()
    if entries then
        return
    end
    entries, entry_of = {}, {}
    local all = call('HGETALL', gen)
    for i = 1, #all, 2 do
        if all[i] ~= '#' then
            local o, since, v, ranges = all[i + 1]:match('^(%x+) (%d+) (%d+) ([%d%- ]*)$')
            local number = o and tonumber(all[i]:match('^%d+$')) or END
            if number < END and tonumber(v) < END then
                entries[#entries + 1] = {number = number, field = all[i], origin = o, since = since,
                    version = tonumber(v), ranges = ranges_of(ranges)}
                entry_of[all[i]] = entries[#entries]
            else
                call('HDEL', gen, all[i]) -- not written by rlockd
            end
        end
    end
end

local function load_slots()
    if in_slot then
        return
    end
    load_entries()
    in_slot = {}
    for _, e in ipairs(entries) do
        for _, r in ipairs(e.ranges) do
            for slot = r[1], r[2] do
                in_slot[slot] = e
            end
        end
    end
end

-- Whether this generation comes too late to begin with any of these ranges. expected above 0: one of their slots is in
-- a generation above the expected number. expected 0: each range lies in a generation with this number or a higher one.
-- When 1,000 daemons have noticed the same loss, this answers all but the first. False: begin() decides.
local function is_late(number, expected, ranges)
    local inside = 0
    for _, e in ipairs(entries) do
        for _, own in ipairs((e.number >= number or expected > 0 and e.number > expected) and e.ranges or {}) do
            for _, r in ipairs(ranges) do
                steps_left = steps_left - 1
                if steps_left < 0 then
                    return false
                elseif expected > 0 and own[1] <= r[2] and r[1] <= own[2] then
                    return true
                elseif own[1] <= r[1] and r[2] <= own[2] then
                    inside = inside + 1
                end
            end
        end
    end
    return expected == 0 and inside == #ranges
end

local function entry_with(slot)
    for _, e in ipairs(in_slot and {} or entries) do
        for _, own in ipairs(e.ranges) do
            steps_left = steps_left - 1
            if steps_left < 0 then
                load_slots()
                return in_slot[slot]
            elseif own[1] <= slot and slot <= own[2] then
                return e
            end
        end
    end
    return in_slot and in_slot[slot]
end

local function set_bits(ranges, to)
    for _, r in ipairs(ranges) do
        local slot, last = r[1], r[2]
        while slot <= last do
            if slot % 8 == 0 and last - slot >= 7 then
                local bytes = math.floor((last - slot + 1) / 8)
                call('SETRANGE', used, slot / 8, string.rep(to == 1 and '\255' or '\0', bytes))
                slot = slot + 8 * bytes
            else
                call('SETBIT', used, slot, to)
                slot = slot + 1
            end
        end
    end
end

-- Begins a generation, unless one of its slots is in a generation above the expected number. expected 0: the generation
-- has begun at another anchor; slots that are in a higher generation here stay in it.
local function begin(field, o, since, expected, ranges)
    local number, takes, e = tonumber(field), {}, entry_of[field]
    if number >= END then
        return
    end
    for _, r in ipairs(ranges) do
        for slot = r[1], math.min(r[2], 16383) do
            local present = in_slot[slot]
            if not present or present.number < number and (expected == 0 or present.number <= expected) then
                add_slot(takes, slot)
            elseif expected > 0 then
                return
            end
        end
    end
    if #takes == 0 then
        return
    end
    if not e then
        e = {number = number, field = field, origin = o, since = since}
        entries[#entries + 1], entry_of[field] = e, e
    end
    version = version + 1
    e.version, e.changed = version, true
    for _, r in ipairs(takes) do
        for slot = r[1], r[2] do
            if in_slot[slot] then
                in_slot[slot].changed = true
            end
            in_slot[slot] = e
        end
    end
    -- If the generation has begun elsewhere, some of its records may exist. Then the bits stay as they are, except at
    -- an anchor that has no lists yet (state a): the lists will set the bits of these records.
    if expected > 0 or state == 'a' then
        set_bits(takes, 0)
    end
end

-- A generation without slots is removed.
local function save_changed()
    local rest = {}
    for _, e in ipairs(entries) do
        e.ranges = e.changed and {} or e.ranges
    end
    for slot = 0, 16383 do
        if in_slot[slot] and in_slot[slot].changed then
            add_slot(in_slot[slot].ranges, slot)
        end
    end
    for _, e in ipairs(entries) do
        if #e.ranges == 0 then
            call('HDEL', gen, e.field)
        else
            rest[#rest + 1] = e
        end
        if e.changed and #e.ranges > 0 then
            call('HSET', gen, e.field, table.concat({e.origin, e.since, text(e.version), words_of(e.ranges)}, ' '))
        end
    end
    entries = rest
end

if ARGV[14] ~= '' then
    load_entries()
    for field, o, since, expected, words in ARGV[14]:gmatch('(%d+) (%x+) (%d+) (%d+) ([%d%- ]*)\n') do
        local ranges = ranges_of(words)
        expected = tonumber(expected)
        if in_slot or not is_late(tonumber(field), expected, ranges) then
            load_slots()
            begin(field, o, since, expected, ranges)
        end
    end
    if in_slot then
        save_changed()
    end
end

-- ---- an anchor that lost its data ----

-- Takes in the list of another anchor: awaits its members that have not registered here, and sets its bits here, too.
local function take_list(list)
    local members, bits = list:match('^([^|]*)|(.*)$')
    for member, ms in (members or ''):gmatch('(%S+) (%d+)') do
        local runs_out = tonumber(call('ZSCORE', seen, '?' .. member) or 0)
        if not call('HGET', who, member) and now_ms + tonumber(ms) > runs_out then
            awaited = awaited + call('ZADD', seen, now_ms + tonumber(ms), '?' .. member)
        end
    end
    local mine, all = call('GET', used), {}
    for i = 1, #mine do
        all[i] = string.char(bit.bor(mine:byte(i), (bits or ''):byte(i) or 0))
    end
    call('SET', used, table.concat(all))
end

if state ~= 'v' and tonumber(ARGV[16]) == birth then
    if ARGV[17] == '1' then
        state = new and 'v' or state
    elseif state == 'a' and ARGV[18] ~= '' and ARGV[19] ~= '' then
        take_list(ARGV[18])
        take_list(ARGV[19])
        state = 'w'
    end
end

-- ---- the caller ----

if leaving then
    shrinks = true
    if old_nonce == nonce then
        forget(uuid)
    end
else
    -- reached: the version up to which the caller has reclaimed. It is the reported one if the caller knows this birth;
    -- else 0 if it may hold locks, and the latest version if it holds none and is new here. It never falls (was).
    local was = tonumber(call('ZSCORE', back, uuid) or -1)
    local reached = same and math.min(back_given, version) or holds and 0 or was < 0 and version or 0
    call('ZADD', seen, now_ms + lease, uuid)
    call('HSET', who, uuid, nonce .. ' ' .. text(lease))
    shrinks = shrinks or tonumber(old_lease or 0) > lease
    if reached > was then
        call('ZADD', back, reached, uuid)
    end
    if state == 'w' then
        awaited = awaited - call('ZREM', seen, '?' .. uuid)
    end
end
if state == 'a' and now_ms - began / 1000 >= longest * 1.5 then
    state, shrinks = 'v', true
    set_bits({{0, 16383}}, 1) -- no lists have come: any slot may be in use
elseif state == 'w' and awaited <= 0 then
    state, shrinks = 'v', true
end
if state == 'v' and shrinks then -- every lease that may run is that of a member: R7 in SCRIPTS.md
    longest = 0
    for _, member in ipairs(call('HVALS', who)) do
        longest = math.max(longest, tonumber(member:match('^%x+ (%d+)$')) or 0)
    end
    longest = math.min(longest, DAY)
end
local status = state == 'v' and VOTES or ABSTAINS
if state == 'a' and now_ms - asked >= ASK and (new or now_ms - began / 1000 >= LISTS) then
    status, asked = WANTS, now_ms
end
new = new and state ~= 'v'

-- ---- the reply ----

local bits = {}
if ARGV[15] ~= '' then
    load_entries()
    for slot, number in ARGV[15]:gmatch('(%d+) (%d+)') do
        local e = entry_with(tonumber(slot))
        bits[#bits + 1] = e and e.field == number and text(call('SETBIT', used, slot, 1)) or '2'
    end
end

local owners = call('HGET', who, '#owners') or '0 0 0'
local epoch, epoch_given = {owners:match('^(%d+) (%d+) (%d+)$')}, {ARGV[21]:match('^(%d+) (%d+) (%d+)$')}
for i = 1, 3 do
    epoch[i] = tonumber(epoch_given[i]) > tonumber(epoch[i]) and epoch_given[i] or epoch[i]
end
local owners_now = table.concat(epoch, ' ')
if owners_now ~= owners then
    owners = owners_now
    call('HSET', who, '#owners', owners)
end

local list = ''
if lists and state == 'v' then
    local all, words = call('ZRANGE', seen, 0, -1, 'WITHSCORES'), {}
    for i = 1, #all, 2 do
        if all[i] ~= '#' and all[i]:sub(1, 1) ~= '?' then
            words[#words + 1] = all[i] .. ' ' .. text(math.max(tonumber(all[i + 1]) - now_ms, 0))
        end
    end
    list = table.concat(words, ' ') .. '|' .. call('GET', used)
end

local least = call('ZRANGE', back, 0, 0, 'WITHSCORES')
local done = math.min(least[1] == '#' and version or tonumber(least[2]), version)
local floor = tonumber(call('HGET', who, '#')) or 0
if tonumber(ARGV[20]) > floor then
    floor = tonumber(ARGV[20])
    call('HSET', who, '#', text(floor))
end
local reply = {now, status, new and 1 or 0, birth, version, done, longest, floor, list, table.concat(bits), owners}
if version > (same and version_known or 0) then
    load_entries()
    table.sort(entries, function(a, b) return a.version < b.version end)
    local listed = 0
    for _, e in ipairs(entries) do
        if e.version > (same and version_known or 0) then
            if #reply == HEAD + ALL then -- the next reply has the rest; until then no daemon counts this anchor
                reply[2], reply[5] = ABSTAINS, listed
                break
            end
            reply[#reply + 1] = table.concat({e.field, e.origin, e.since, text(e.version), words_of(e.ranges)}, ' ')
            listed = e.version
        end
    end
end

local head_now = {birth, version, state, longest, awaited, asked, new}
for i = 1, 7 do
    if head_now[i] ~= saved[i] then
        call('HSET', gen, '#', table.concat({text(birth), saved_origin, text(version), state, text(began),
            text(longest), text(awaited), text(asked), new and '1' or '0'}, ' '))
        break
    end
end
return reply
