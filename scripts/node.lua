-- node.lua -- what data this node of a cluster serves: asked first on every connection, and every beat (R3).
--
-- KEYS none: it runs on any node. Reply: { TIME in us, role, origin, id of the node, its config epoch, "<first>-<last>
-- <slot> ..." that are its by its own word, "<slot> ..." that it gives away or gets }
--
-- The origin stands for the process and its line of replication: one of them changes whenever the data may not be what
-- it was. And for its config epoch: that rises when a slot comes (back) from a node with a higher one, so a slot that
-- went, lost something and came back between two beats does not go unseen.
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
