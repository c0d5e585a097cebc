/*
 * differ_lua.c -- scripts for every conversion and every error of the sandbox, once in each run.
 *
 * Each runs as it stands, with one key (k) and the arguments a, 2 and "".
 */
#include "tests/sim/differ.h"

static const char *const odd[] = {
    /* return values */
    "return", "return nil", "return true", "return false", "return 3.99", "return -3.99", "return 1e300",
    "return -1e300", "return 0/0", "return 2^53", "return 9007199254740993", "return ''", "return 'a\\0b\\r\\nc'",
    "return {}", "return {1, 2, nil, 4}", "return {1, false, true, 'x', {2, {3}}}", "return {ok = 'fine\\r\\n!'}",
    "return {ok = 1}", "return {err = 'MY words'}", "return {err = 'words'}", "return {err = '-MY words\\n'}",
    "return {err = 5, 6}", "return {1, {err = 'E x'}, {ok = 'y'}}", "return {[1] = 1, [2] = 2, [4] = 4}",
    "return function() end", "return {function() end}", "return redis.error_reply('x')",
    "return redis.error_reply('-X y z')", "return redis.error_reply('X y')", "return redis.error_reply('-x')",
    "return redis.error_reply(1)", "return redis.error_reply()", "return redis.status_reply('fine')",
    "return redis.status_reply({})", "return redis.error_reply('MY words').err", "return {1, 2, n = 3}",
    "return unpack({1, 2})", "local t = {} for i = 1, 1000 do t[i] = i end return t",
    "local t = {} t[1] = t[2] return t",
    /* keys and arguments */
    "return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]}", "return {#KEYS, #ARGV}", "return ARGV[2] * 2",
    "return ARGV[2] .. 1", "return ARGV[1] + 1", "return {type(KEYS), type(ARGV), type(redis), type(redis.call)}",
    /* numbers as words of commands */
    "return redis.call('ECHO', 1)", "return redis.call('ECHO', 1.5)", "return redis.call('ECHO', -0)",
    "return redis.call('ECHO', 1e15)", "return redis.call('ECHO', 1e16)", "return redis.call('ECHO', 1e17)",
    "return redis.call('ECHO', 1e18)", "return redis.call('ECHO', 2^63)", "return redis.call('ECHO', 0.1)",
    "return redis.call('ECHO', -123456789012345678)", "return redis.call('ECHO', 1/0)",
    "return redis.call('ECHO', 1e-9)", "return redis.call('ECHO', 9999999999999999)",
    "return redis.call('ECHO', -9999999999999998)",
    /* the library */
    "return string.format('%.0f', 1763701200123456)", "return string.format('%.0f', 0)",
    "return string.format('%.0f', -5)", "return string.format('%.0f', 0.5)", "return string.format('%.0f', 1.5)",
    "return string.format('%.0f', 1e20)", "return string.format('%.0f', '17')", "return string.format('%.0f')",
    "return string.format('%.0f', 1, 2)", "return string.format('%.0f', {})",
    "return string.format('%d %s %5.2f', 3, 'x', 2.5)", "return string.format()", "return tostring(1763701200123456)",
    "return tostring(1e14)", "return 1763701200 * 1000000 + 123456", "return tonumber('0x10')",
    "return tonumber(' 12 ')", "return tostring(tonumber('12a'))", "return tonumber('1e3')",
    "return tonumber('007')", "return tonumber('11', 2)", "return tostring(tonumber(''))",
    "return tostring(tonumber('1\\0'))", "return tostring(tonumber('9007199254740993'))",
    "return string.format('%.0f', tonumber('1763701200123456') + 1)",
    "return redis.sha1hex('')", "return redis.sha1hex('abc')", "return redis.sha1hex(12)", "return redis.sha1hex()",
    "return redis.sha1hex('a', 'b')", "return redis.sha1hex(string.rep('x', 1000))", "return {redis.sha1hex({})}",
    "return ('x'):rep(3)", "return ('abc'):find('b', 1, true)", "return #('a\\0b')", "return ('a,b'):gsub(',', ';')",
    "return {('k=v'):match('(%w+)=(%w+)')}", "local t = {3, 1, 2} table.sort(t) return t",
    "return table.concat({1, 2, 'x'}, '-')", "return math.floor(-1.5)", "return math.max(1, 2 ^ 53)",
    "return {math.huge > 1, select('#', 1, nil, 2)}", "return loadstring('return 7')()", "return {pcall(error, 'x')}",
    "return {pcall(error, {err = 'E y'})}", "return {pcall(error, {})}", "return {pcall(function() return 1, 2 end)}",
    "return {pcall(redis.call, 'NOSUCH')}", "return {pcall(redis.call, 'GET', {})}", "return {pcall(redis.call)}",
    "return {xpcall(function() error('deep') end, function(e) return 'handled ' .. e end)}", "return gcinfo() > 0",
    "return {redis.REPL_ALL, redis.LOG_WARNING, redis.replicate_commands()}", "return redis.REDIS_VERSION",
    "return redis.REDIS_VERSION_NUM", "redis.log(redis.LOG_DEBUG, 'x') return 1",
    "return redis.set_repl(redis.REPL_ALL)",
    "return bit.bor(1, 4)", "return bit.bor(255)", "return bit.bor(2^31, 1)", "return bit.bor(-1, 1)",
    "return redis.call('CLUSTER', 'NODES')", "return redis.call('SETBIT', KEYS[1], 16384, 1)",
    "return bit.bor('6', 1)", "return bit.bor()", "return bit.bor({})", "return bit.bor(2^32 + 5, 2)",
    "local a = {} for w in ('a b c'):gmatch('%a') do a[#a + 1] = w end return a", "return rawset(_G, 'x', 1)",
    /* the globals, without those that the simulator leaves out */
    "local no = {bit = 1, cjson = 1, cmsgpack = 1, struct = 1, getfenv = 1, setfenv = 1, newproxy = 1}\n"
        "local t = {} for k in pairs(_G) do if not no[k] and k:sub(1, 2) ~= '__' then t[#t + 1] = k end end "
        "table.sort(t) return t",
    "local no = {random = 1, randomseed = 1, setresp = 1, breakpoint = 1, debug = 1, acl_check_cmd = 1}\n"
        "local t = {} for _, n in ipairs({'string', 'table', 'math', 'coroutine', 'redis'}) do\n"
        "for k in pairs(_G[n]) do "
        "if not no[k] then t[#t + 1] = n .. '.' .. k end end end table.sort(t) return t",
    /* errors */
    "return redis.call()", "return redis.pcall()", "return redis.call({})", "return redis.call('GET')",
    "return redis.call('GET', nil)", "return redis.call('GET', true)", "return redis.pcall('GET', {})",
    "return redis.pcall('GET').err", "return redis.call('NOSUCH', 'x')", "return redis.pcall('NOSUCH')",
    "return redis.call('EVAL', 'return 1', 0)", "return redis.pcall('SCRIPT', 'FLUSH').err",
    "redis.call('SET', 'k', 'x') return redis.call('HGET', 'k', 'y')",
    "redis.call('SET', 'k', 'x')\nreturn redis.pcall('HGET', 'k', 'y')",
    "redis.call('SET', 'k', 'x')\nreturn redis.pcall('INCR', 'k').err", "\n\nredis.call('INCR', 'k')",
    "local e = redis.pcall('INCR', 'k') return {e.err, e.ok == nil, tostring(e.ignore_error_stats_update)}",
    "local function f()\nredis.call('INCR', 'k')\nend\nf()", "error('mine')", "error({err = 'MY own'})",
    "error(redis.error_reply('MY own'))", "error({err = 'MY own', line = 7})", "error(5)", "error('no place', 0)",
    "return nosuch", "nosuch = 1", "function nosuch() end", "return nosuch.field", "local x = nil; return x.y",
    "return ('x')()", "return {} + 1", "return #nil", "return 'a' < 1", "x y", "return (", "", "-- nothing",
    "return redis.nosuch", "return redis.nosuch()", "return math.nosuch()", "return print", "return os",
    "return io.open", "return require('x')", "dofile('x')", "return debug", "return package", "setmetatable(_G, nil)",
    "return rawget(_G, 'x')", "return getmetatable('').__index == string",
    "local t = setmetatable({}, {__index = function() return 5 end}) return t.x",
    "local t = setmetatable({}, {__index = function() return 5 end}) return t",
    "coroutine.wrap(function() error('c') end)()",
    "return coroutine.wrap(function() return redis.call('ECHO', 'c') end)()",
    "local function deep(n) return deep(n + 1) + 1 end deep(1)",
    /* results of commands */
    "return {redis.call('SET', 'k', 'v'), redis.call('GET', 'k'), redis.call('GET', 'none'), redis.call('DEL', 'k')}",
    "return redis.call('SET', 'k', 'v').ok", "return redis.call('TYPE', 'none')",
    "return redis.call('TYPE', 'none').ok", "return type(redis.call('GET', 'none'))",
    "return type(redis.call('SET', 'k', 'v', 'XX', 'PX', 5))",
    "redis.call('RPUSH', 'k2', 1, 2, 3) return {redis.call('LRANGE', 'k2', 0, -1), redis.call('DEL', 'k2')}",
    "redis.call('HSET', 'k3', 'a', 1, 'b', 2) return {redis.call('HGETALL', 'k3'), redis.call('DEL', 'k3')}",
    "redis.call('ZADD', 'k4', 1.5, 'a') return {redis.call('ZRANGE', 'k4', 0, -1, 'WITHSCORES'), "
        "redis.call('DEL', 'k4')}",
    "return {redis.call('TIME')[1], #redis.call('TIME')}", "return redis.call('time')", "return redis.call('pInG')",
    "return redis.call('INFO', 'replication'):find('role:master', 1, true)",
    "return redis.call('INFO', 'server'):match('redis_version:(%S+)')",
    "return #redis.call('INFO'):match('run_id:(%w+)')",
    "return #redis.call('INFO', 'replication'):match('master_replid:(%w+)')",
    "return tonumber(redis.call('INFO', 'server'):match('uptime_in_seconds:(%d+)')) >= 0",
    "return redis.call('INFO', 'server'):match('server_time_usec:(%d+)')",
    "return redis.call('INFO', 'memory'):match('maxmemory_policy:(%w+)')", "return redis.call('DEL', KEYS[1])",
};

const char *
lua_odd(size_t i)
{
    return i < sizeof(odd) / sizeof(odd[0]) ? odd[i] : NULL;
}
