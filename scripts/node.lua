-- node.lua -- the role, the origin and the slots of this node of a cluster. A daemon runs it first on every
-- connection (but that of replicas.lua, which checks the origin itself), and every beat (R3).
--
-- No KEYS: the script runs on any node. Reply: { TIME in us, role, origin, id of the node, its config epoch, the slots
-- that it owns by its own map ("<first>-<last> <slot> ..."), the slots that it gives away or gets ("<slot> ...") }
--
-- The origin stands for the process, its line of replication and its config epoch. The process or the line changes
-- whenever data may have been lost. The config epoch rises when a slot comes from a node with a higher one: so a slot
-- that left, lost data and came back between two beats is noticed.
local call = redis.call
local time = call('TIME')
local process = call('INFO', 'server'):match('run_id:(%x+)')
local replication = call('INFO', 'replication')
local line, role = replication:match('master_replid:(%x+)'), replication:match('role:(%w+)')
local slots, open = {}, {}

for node in call('CLUSTER', 'NODES'):gmatch('[^\r\n]+') do
    local id, flags, epoch, rest = node:match('^(%x+) %S+ (%S+) %S+ %S+ %S+ (%d+) %S+ ?(.*)$')
    if flags and (',' .. flags .. ','):find(',myself,', 1, true) then
        for word in rest:gmatch('%S+') do
            local moving = word:match('^%[(%d+)%-[<>]%-')
            if moving then
                open[#open + 1] = moving
            else
                slots[#slots + 1] = word
            end
        end
        local origin = redis.sha1hex(process .. line .. ' ' .. epoch):sub(1, 16)
        return {time[1] * 1000000 + time[2], role, origin, id, tonumber(epoch), table.concat(slots, ' '),
            table.concat(open, ' ')}
    end
end
return redis.error_reply('ERR CLUSTER NODES does not list this node')
