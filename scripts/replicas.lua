-- replicas.lua -- a write after all grants of this Redis, which a WAIT then counts; see daemon/backend/replicas.c.
--
-- KEYS rlock:clock, rlock:epoch; ARGV the value of rlock:epoch when the locks were granted; in a cluster also the
-- origin of that epoch. Reply: 1 = written; 0 = not written, because the process or the line of replication may be
-- another one by now: see origin in membership.lua, and that of a cluster in node.lua.
local call = redis.call
local process = call('INFO', 'server'):match('run_id:(%x+)')
local line = call('INFO', 'replication'):match('master_replid:(%x+)')
local granted = ARGV[2] or ARGV[1]:match('^%d+ (%x+)$')
local clock = call('GET', KEYS[1])

if ARGV[2] then
    line = line .. ' ' .. call('CLUSTER', 'NODES'):match(' myself,%S* %S+ %S+ %S+ (%d+) ')
end
if not clock or call('GET', KEYS[2]) ~= ARGV[1] or granted ~= redis.sha1hex(process .. line):sub(1, 16) then
    return 0
end
call('SET', KEYS[1], clock) -- a write that changes nothing: the key exists, and has no expiry
return 1
