/*
 * lua.c -- scripts of the simulated Redis: liblua5.1 with the sandbox, the conversions and the errors of 7.0.15.
 *
 * One Lua state serves all simulated Redis of a thread, so a script is compiled once and not with every seed; each
 * Redis has its own bits of the scripts that it knows (by script.id). A script leaves no trace in the state: globals
 * cannot be written, KEYS and ARGV are set anew. Differences to Redis: a script may overwrite an existing global
 * (`redis = 1`) and is not stopped; pairs() has another order; there are no cjson, cmsgpack and struct, no bit but
 * bit.bor, no math.random, no redis.setresp, breakpoint, debug and acl_check_cmd, and no shebang.
 */
#include <lualib.h>
#include <stdlib.h>

#include "daemon/backend/sha1.h"
#include "tests/sim/inside.h"
#include "tests/sim/lua.h"

enum { NAMES = 1024, NAMES_SHIFT = 64 - 10, WORDS = 64, SIZES = 32, SIZE_STEP = 16, SLAB_BYTES = 65536 };

/* Memory of Lua: blocks of up to SIZES steps from slabs that are never freed, since the state lives for ever. */
struct pool {
    void *free[SIZES + 1];
    char *slab;
    size_t left;
};

/* A Lua string that the registry keeps: its address identifies it. */
struct name {
    const char *p;
    const struct command *command;
};

/* One per thread, never freed. */
static _Thread_local struct engine engine;
static _Thread_local struct pool pool;
static _Thread_local struct name names[NAMES];

/* ---- memory ---- */

static void *
pool_take(struct pool *p, size_t n)
{
    size_t step = (n + SIZE_STEP - 1) / SIZE_STEP;
    void *got;

    if (step > SIZES) {
        return data_alloc(NULL, n);
    }
    got = p->free[step];
    if (got != NULL) {
        memcpy(&p->free[step], got, sizeof(void *));
        return got;
    }
    if (p->left < step * SIZE_STEP) {
        p->slab = data_alloc(NULL, SLAB_BYTES);
        p->left = SLAB_BYTES;
    }
    got = p->slab;
    p->slab += step * SIZE_STEP;
    p->left -= step * SIZE_STEP;
    return got;
}

static void
pool_give(struct pool *p, void *block, size_t n)
{
    size_t step = (n + SIZE_STEP - 1) / SIZE_STEP;

    if (step > SIZES) {
        free(block);
    } else {
        memcpy(block, &p->free[step], sizeof(void *));
        p->free[step] = block;
    }
}

static void *
lua_memory(void *ctx, void *block, size_t was, size_t n)
{
    struct pool *p = ctx;
    void *got = NULL;

    if (n > 0) {
        if (block != NULL && (was + SIZE_STEP - 1) / SIZE_STEP == (n + SIZE_STEP - 1) / SIZE_STEP &&
            n <= SIZES * SIZE_STEP) {
            return block;
        }
        got = pool_take(p, n);
        if (block != NULL) {
            memcpy(got, block, was < n ? was : n);
        }
    }
    if (block != NULL && was > 0) {
        pool_give(p, block, was);
    }
    return got;
}

/* ---- errors, as Redis pushes them ---- */

/* "-CODE text" or "text" becomes {err = "CODE text"} or {err = "ERR text"}. */
static void
push_error(lua_State *lua, const char *text, bool counted)
{
    size_t n = strlen(text);

    while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == '\n')) {
        n--;
    }
    lua_createtable(lua, 0, 2);
    lua_pushliteral(lua, "err");
    if (text[0] == '-' && strchr(text, ' ') != NULL) {
        lua_pushlstring(lua, text + 1, n - 1);
    } else {
        lua_pushliteral(lua, "ERR ");
        lua_pushlstring(lua, text + (text[0] == '-'), n - (text[0] == '-'));
        lua_concat(lua, 2);
    }
    lua_rawset(lua, -3);
    if (counted) {
        lua_pushliteral(lua, "ignore_error_stats_update");
        lua_pushboolean(lua, 1);
        lua_rawset(lua, -3);
    }
}

/* ---- replies to Lua ---- */

static void
push_reply(lua_State *lua, const struct reply *r)
{
    luaL_checkstack(lua, 4, "a deep reply");
    switch (r->type) {
    case REPLY_NULL:
        lua_pushboolean(lua, 0);
        break;
    case REPLY_INT:
        lua_pushnumber(lua, (lua_Number)r->n);
        break;
    case REPLY_TEXT:
        lua_pushlstring(lua, r->text.p, r->text.n);
        break;
    case REPLY_STATUS:
        lua_createtable(lua, 0, 1);
        lua_pushliteral(lua, "ok");
        lua_pushlstring(lua, r->text.p, r->text.n);
        lua_rawset(lua, -3);
        break;
    case REPLY_ERROR:
        lua_createtable(lua, 0, 2);
        lua_pushliteral(lua, "err");
        lua_pushlstring(lua, r->text.p, r->text.n);
        lua_rawset(lua, -3);
        lua_pushliteral(lua, "ignore_error_stats_update");
        lua_pushboolean(lua, 1);
        lua_rawset(lua, -3);
        break;
    case REPLY_ARRAY:
        lua_createtable(lua, (int)r->count, 0);
        for (size_t i = 0; i < r->count; i++) {
            push_reply(lua, r->item[i]);
            lua_rawseti(lua, -2, (int)i + 1);
        }
        break;
    }
}

/* ---- redis.call ---- */

/* The command of a Lua string, identified by its address. */
static const struct command *
command_named(lua_State *lua, int at, struct slice name)
{
    size_t slot = ((uintptr_t)name.p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> NAMES_SHIFT;
    const struct command *c;

    if (names[slot].p == name.p) {
        return names[slot].command;
    }
    c = command_find(name);
    if (c != NULL && lua_type(lua, at) == LUA_TSTRING) {
        lua_pushvalue(lua, at); /* kept for ever, so that its address is not used again */
        lua_pushboolean(lua, 1);
        lua_rawset(lua, LUA_REGISTRYINDEX);
        names[slot].p = name.p;
        names[slot].command = c;
    }
    return c;
}

/* The words of a call; they lie in Lua's strings, which stay on its stack, and numbers in memory of the reply. */
static const struct slice *
take_words(lua_State *lua, struct out *out, int n, struct slice *few)
{
    struct slice *word = n <= WORDS ? few : out_alloc(out, (size_t)n * sizeof(*word));

    for (int i = 0; i < n; i++) {
        switch (lua_type(lua, i + 1)) {
        case LUA_TNUMBER:
            word[i] = print_double(lua_tonumber(lua, i + 1), out_alloc(out, DIGITS_ROOM));
            break;
        case LUA_TSTRING:
            word[i].p = lua_tolstring(lua, i + 1, &word[i].n);
            break;
        default:
            return NULL;
        }
    }
    return word;
}

/* The reason why Redis does not run the command for a script, or NULL. */
static const char *
refused(struct sim_redis *r, const struct command *c, int n, const struct slice *w)
{
    const char *elsewhere;

    if (c == NULL) {
        return "Unknown Redis command called from script";
    } else if (!command_arity_ok(c, n)) {
        return "Wrong number of args calling Redis command from script";
    } else if (c->flags & CMD_NO_SCRIPT) {
        return "This Redis command is not allowed from script";
    } else if ((c->flags & CMD_WRITE) && !r->dirty && r->replica) {
        return "-READONLY You can't write against a read only replica.";
    } else if ((c->flags & CMD_WRITE) && !r->dirty && r->alone) {
        return "-NOREPLICAS Not enough good replicas to write.";
    } else if ((c->flags & CMD_OOM) && !r->dirty && r->full) {
        return "-OOM command not allowed when used memory > 'maxmemory'.";
    } else if (r->slots != NULL && (elsewhere = slots_refuse(r, c, n, w)) != NULL) {
        return elsewhere;
    }
    return NULL;
}

/* Pushes one value; true: it is an error. */
static bool
call(lua_State *lua)
{
    struct sim_redis *r = engine.running;
    int n = lua_gettop(lua);
    const struct command *c;
    struct slice few[WORDS];
    const struct slice *word;
    const struct reply *reply;
    const char *why;

    if (n == 0) {
        push_error(lua, "Please specify at least one argument for this redis lib call", false);
        return true;
    }
    word = take_words(lua, &r->out, n, few);
    if (word == NULL) {
        push_error(lua, "Lua redis lib command arguments must be strings or integers", false);
        return true;
    }
    c = command_named(lua, 1, word[0]);
    why = refused(r, c, n, word);
    if (why != NULL) {
        push_error(lua, why, true);
        return true;
    }
    r->dirty = r->dirty || (c->flags & CMD_WRITE);
    r->calls++;
    reply = c->run(r, n, word);
    push_reply(lua, reply);
    return reply->type == REPLY_ERROR;
}

static int
redis_call(lua_State *lua)
{
    return call(lua) ? lua_error(lua) : 1;
}

static int
redis_pcall(lua_State *lua)
{
    (void)call(lua);
    return 1;
}

/* ---- the rest of the sandbox ---- */

static int
redis_sha1hex(lua_State *lua)
{
    char hex[SHA1_HEX_BYTES + 1];
    struct slice text;

    if (lua_gettop(lua) != 1) {
        push_error(lua, "wrong number of arguments", false);
        return lua_error(lua);
    }
    text.p = lua_tolstring(lua, 1, &text.n);
    if (text.p == NULL) {
        text = SLICE_LIT("");
    }
    sha1_hex(text, hex);
    lua_pushlstring(lua, hex, SHA1_HEX_BYTES);
    return 1;
}

static int
redis_error_reply(lua_State *lua)
{
    const char *text;

    if (lua_gettop(lua) != 1 || lua_type(lua, -1) != LUA_TSTRING) {
        push_error(lua, "wrong number or type of arguments", false);
        return 1;
    }
    text = lua_tostring(lua, -1);
    if (text[0] != '-') {
        text = lua_pushfstring(lua, "-%s", text);
    }
    push_error(lua, text, false);
    return 1;
}

static int
redis_status_reply(lua_State *lua)
{
    if (lua_gettop(lua) != 1 || lua_type(lua, -1) != LUA_TSTRING) {
        push_error(lua, "wrong number or type of arguments", false);
        return 1;
    }
    lua_createtable(lua, 0, 1);
    lua_pushvalue(lua, -2);
    lua_setfield(lua, -2, "ok");
    return 1;
}

static int
redis_nothing(lua_State *lua)
{
    (void)lua;
    return 0;
}

static int
redis_true(lua_State *lua)
{
    lua_pushboolean(lua, 1);
    return 1;
}

/* Lua's pcall, except that an error of Redis is its text, as before 7.0. */
static int
plain_pcall(lua_State *lua)
{
    int n = lua_gettop(lua);

    lua_pushboolean(lua, 1);
    lua_insert(lua, 1);
    if (lua_pcall(lua, n - 1, LUA_MULTRET, 0) != 0) {
        lua_remove(lua, 1);
        if (lua_istable(lua, -1)) {
            lua_getfield(lua, -1, "err");
            if (lua_isstring(lua, -1)) {
                lua_replace(lua, -2);
            }
        }
        lua_pushboolean(lua, 0);
        lua_insert(lua, 1);
    }
    return lua_gettop(lua);
}

static int
no_such_global(lua_State *lua)
{
    const char *name = lua_tostring(lua, -1);

    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", name != NULL ? name : "?");
}

static int
no_new_global(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* A wrapped function of Lua continues in the wrapper's frame, so that its errors name that frame. */
static int
go_on(lua_State *lua)
{
    return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

/* string.format of Lua, with a short way for its most frequent use in scripts: a whole number as "%.0f". */
static int
fast_format(lua_State *lua)
{
    double d;

    if (lua_gettop(lua) == 2 && lua_type(lua, 2) == LUA_TNUMBER && lua_rawequal(lua, 1, lua_upvalueindex(2)) &&
        (d = lua_tonumber(lua, 2)) >= 1 && d <= 9e15 && d == (double)(int64_t)d) {
        char room[DIGITS_ROOM];
        struct slice digits = print_int((int64_t)d, room);

        lua_pushlstring(lua, digits.p, digits.n);
        return 1;
    }
    return go_on(lua);
}

/* tonumber of Lua, with a short way for its most frequent use in scripts: some digits, which Lua would read twice. */
static int
fast_tonumber(lua_State *lua)
{
    size_t n = 0;
    const char *p = lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING ? lua_tolstring(lua, 1, &n) : "";
    int64_t number = 0;
    size_t i = 0;

    while (i < n && n <= 16 && p[i] >= '0' && p[i] <= '9') {
        number = 10 * number + (p[i++] - '0');
    }
    if (n == 0 || i < n || number > INT64_C(9000000000000000)) {
        return go_on(lua);
    }
    lua_pushnumber(lua, (lua_Number)number);
    return 1;
}

/* setmetatable and rawset, which leave the globals as they are. */
static int
not_of_globals(lua_State *lua)
{
    if (lua_rawequal(lua, 1, LUA_GLOBALSINDEX)) {
        lua_pushliteral(lua, "Attempt to modify a readonly table");
        return lua_error(lua);
    }
    return go_on(lua);
}

/* bit.bor, the only function of its library here: it takes numbers as 32 bits, and returns a signed number. */
static int
bit_or(lua_State *lua)
{
    uint32_t bits = 0;

    for (int i = 1; i == 1 || i <= lua_gettop(lua); i++) {
        bits |= (uint32_t)(uint64_t)(int64_t)luaL_checknumber(lua, i);
    }
    lua_pushnumber(lua, (int32_t)bits);
    return 1;
}

static const luaL_Reg redis_functions[] = {
    {"call", redis_call},
    {"pcall", redis_pcall},
    {"sha1hex", redis_sha1hex},
    {"error_reply", redis_error_reply},
    {"status_reply", redis_status_reply},
    {"log", redis_nothing},
    {"set_repl", redis_nothing},
    {"replicate_commands", redis_true},
    {NULL, NULL},
};

static const struct {
    const char *name;
    int n;
} redis_numbers[] = {
    {"LOG_DEBUG", 0},   {"LOG_VERBOSE", 1}, {"LOG_NOTICE", 2}, {"LOG_WARNING", 3},          {"REPL_NONE", 0},
    {"REPL_AOF", 1},    {"REPL_SLAVE", 2},  {"REPL_REPLICA", 2}, {"REPL_ALL", 3}, {"REDIS_VERSION_NUM", 0x0007000f},
};

/* Redis's own, word for word: the error contains the stack that it finds. */
static const char error_handler[] = "local dbg = debug\n"
                                    "debug = nil\n"
                                    "return function(err)\n"
                                    "  local i = dbg.getinfo(2,'nSl')\n"
                                    "  if i and i.what == 'C' then\n"
                                    "    i = dbg.getinfo(3,'nSl')\n"
                                    "  end\n"
                                    "  if type(err) ~= 'table' then\n"
                                    "    err = {err='ERR ' .. tostring(err)}"
                                    "  end"
                                    "  if i then\n"
                                    "    err['source'] = i.source\n"
                                    "    err['line'] = i.currentline\n"
                                    "  end"
                                    "  return err\n"
                                    "end\n";

static void
open_libraries(lua_State *lua)
{
    static const luaL_Reg libraries[] = {{"", luaopen_base},
                                         {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string},
                                         {LUA_MATHLIBNAME, luaopen_math},
                                         {LUA_DBLIBNAME, luaopen_debug}};
    static const char *const gone[] = {"dofile", "loadfile", "print", "module", "require",
                                       "getfenv", "setfenv", "newproxy"}; /* the last three: as Debian has it */
    static const char *const guarded[] = {"setmetatable", "rawset"};

    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        lua_pushcfunction(lua, libraries[i].func);
        lua_pushstring(lua, libraries[i].name);
        lua_call(lua, 1, 0);
    }
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, gone[i]);
    }
    lua_getglobal(lua, "math"); /* two Redis would share its state */
    lua_pushnil(lua);
    lua_setfield(lua, -2, "random");
    lua_pushnil(lua);
    lua_setfield(lua, -2, "randomseed");
    lua_pop(lua, 1);
    for (size_t i = 0; i < sizeof(guarded) / sizeof(guarded[0]); i++) {
        lua_getglobal(lua, guarded[i]);
        lua_pushcclosure(lua, not_of_globals, 1);
        lua_setglobal(lua, guarded[i]);
    }
    lua_newtable(lua);
    lua_pushcfunction(lua, bit_or);
    lua_setfield(lua, -2, "bor");
    lua_setglobal(lua, "bit");
    lua_getglobal(lua, "tonumber");
    lua_pushcclosure(lua, fast_tonumber, 1);
    lua_setglobal(lua, "tonumber");
    lua_getglobal(lua, "string");
    lua_getfield(lua, -1, "format");
    lua_pushliteral(lua, "%.0f");
    lua_pushcclosure(lua, fast_format, 2);
    lua_setfield(lua, -2, "format");
    lua_pop(lua, 1);
}

static void
start(void)
{
    lua_State *lua = lua_newstate(lua_memory, &pool);

    if (lua == NULL) {
        abort();
    }
    engine.lua = lua;
    open_libraries(lua);
    lua_pushcfunction(lua, plain_pcall);
    lua_setglobal(lua, "pcall");
    lua_newtable(lua);
    luaL_register(lua, NULL, redis_functions);
    for (size_t i = 0; i < sizeof(redis_numbers) / sizeof(redis_numbers[0]); i++) {
        lua_pushnumber(lua, redis_numbers[i].n);
        lua_setfield(lua, -2, redis_numbers[i].name);
    }
    lua_pushliteral(lua, "7.0.15");
    lua_setfield(lua, -2, "REDIS_VERSION");
    lua_setglobal(lua, "redis");
    if (luaL_loadbuffer(lua, error_handler, sizeof(error_handler) - 1, "@err_handler_def") != 0 ||
        lua_pcall(lua, 0, 1, 0) != 0) {
        abort();
    }
    lua_pushliteral(lua, "KEYS");
    lua_pushliteral(lua, "ARGV");
    lua_newtable(lua);
    lua_pushcfunction(lua, no_such_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, no_new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, LUA_GLOBALSINDEX);
    /* The few live objects live for ever: collect at once, and so often that new objects reuse warm memory. */
    lua_gc(lua, LUA_GCSETPAUSE, 150);
    lua_gc(lua, LUA_GCSETSTEPMUL, 1000);
}

struct engine *
lua_engine(void)
{
    if (engine.lua == NULL) {
        start();
    }
    return &engine;
}
