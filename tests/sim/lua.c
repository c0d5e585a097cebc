/*
 * lua.c -- scripts of the simulated Redis: liblua5.1 with the sandbox, the conversions and the errors of 7.0.15.
 *
 * One Lua state serves all simulated Redis of a thread, so that each script is compiled once and not with every seed;
 * which scripts a Redis knows is its own (bits by script.id). Nothing a script does stays in the state: what is there
 * can not be written, KEYS and ARGV are set anew. Not as in Redis: a script may overwrite what exists (`redis = 1`)
 * instead of being stopped, and there are no cjson, cmsgpack, struct and bit, no math.random and no shebang.
 */
#include <inttypes.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/sha1.h"
#include "tests/sim/inside.h"

enum { NAMES = 1024, NAMES_SHIFT = 64 - 10, WORDS = 64, SIZES = 32, SIZE_STEP = 16, SLAB_BYTES = 65536 };

struct script {
    UT_hash_handle hh;
    char sha[SHA1_HEX_BYTES + 1];
    size_t id;
    int function; /* reference in the registry */
};

/* Memory of Lua: blocks of up to SIZES steps from slabs that are never given back, as the state never ends. */
struct pool {
    void *free[SIZES + 1];
    char *slab;
    size_t left;
};

struct engine {
    lua_State *lua;
    struct pool pool;
    struct script *scripts; /* uthash, by sha */
    struct sim_redis *running;
    struct {
        const char *p;      /* a Lua string that the registry keeps: its address is its name */
        const struct command *command;
    } name[NAMES];
};

/* One per thread, and for good. */
static _Thread_local struct engine engine;

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

/* The command of a Lua string, which is known again by its address. */
static const struct command *
command_named(lua_State *lua, int at, struct slice name)
{
    size_t slot = ((uintptr_t)name.p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> NAMES_SHIFT;
    const struct command *c;

    if (engine.name[slot].p == name.p) {
        return engine.name[slot].command;
    }
    c = command_find(name);
    if (c != NULL && lua_type(lua, at) == LUA_TSTRING) {
        lua_pushvalue(lua, at); /* kept for ever, so that no other string comes to stand there */
        lua_pushboolean(lua, 1);
        lua_rawset(lua, LUA_REGISTRYINDEX);
        engine.name[slot].p = name.p;
        engine.name[slot].command = c;
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

/* Why Redis does not run it for a script, or NULL. */
static const char *
refused(struct sim_redis *r, const struct command *c, int n)
{
    if (c == NULL) {
        return "Unknown Redis command called from script";
    } else if (!command_arity_ok(c, n)) {
        return "Wrong number of args calling Redis command from script";
    } else if (c->flags & CMD_NO_SCRIPT) {
        return "This Redis command is not allowed from script";
    } else if ((c->flags & CMD_WRITE) && !r->dirty && r->replica) {
        return "-READONLY You can't write against a read only replica.";
    } else if ((c->flags & CMD_OOM) && !r->dirty && r->full) {
        return "-OOM command not allowed when used memory > 'maxmemory'.";
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
    why = refused(r, c, n);
    if (why != NULL) {
        push_error(lua, why, true);
        return true;
    }
    r->dirty = r->dirty || (c->flags & CMD_WRITE);
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

/* Lua's pcall, but an error of Redis's is its text, as it was before 7.0. */
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

/* string.format as Lua has it, but for what the scripts do most: a whole number as "%.0f". */
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
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
    return lua_gettop(lua);
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

/* Redis's own, word for word: what it finds on the stack gets into the error. */
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
    static const char *const gone[] = {"dofile", "loadfile", "print", "module", "require"};

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
    lua_getglobal(lua, "string");
    lua_getfield(lua, -1, "format");
    lua_pushliteral(lua, "%.0f");
    lua_pushcclosure(lua, fast_format, 2);
    lua_setfield(lua, -2, "format");
    lua_pop(lua, 1);
}

/* On the stack stay, from 1: the error handler, "KEYS", "ARGV". */
static void
engine_start(void)
{
    lua_State *lua = lua_newstate(lua_memory, &engine.pool);

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
    lua_gc(lua, LUA_GCSETPAUSE, 400); /* what lives is little and lives for good: collect seldom, and then at once */
    lua_gc(lua, LUA_GCSETSTEPMUL, 1000);
}

/* ---- Lua to replies ---- */

/* What a cast of a double gives on x86, for Redis does no more. */
static int64_t
truncated(double d)
{
    return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN;
}

/* The field as a string, left on the stack; NULL and nothing on it when it is none. */
static const char *
string_field(lua_State *lua, const char *name)
{
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    if (lua_type(lua, -1) == LUA_TSTRING) {
        return lua_tostring(lua, -1);
    }
    lua_pop(lua, 1);
    return NULL;
}

/* Of the value on top, which it takes away. */
static struct reply *
take_reply(lua_State *lua, struct out *out)
{
    struct reply *r;
    const char *text;
    size_t n;

    luaL_checkstack(lua, 4, "a deep reply");
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &n);
        r = out_text(out, (struct slice){text, n});
        break;
    case LUA_TBOOLEAN:
        r = lua_toboolean(lua, -1) ? out_int(out, 1) : out_null(out);
        break;
    case LUA_TNUMBER:
        r = out_int(out, truncated(lua_tonumber(lua, -1)));
        break;
    case LUA_TTABLE:
        if ((text = string_field(lua, "err")) != NULL) {
            r = out_error(out, "%s", text);
            lua_pop(lua, 1);
            break;
        }
        if ((text = string_field(lua, "ok")) != NULL) {
            r = out_error(out, "%s", text); /* without line ends, as that is */
            r->type = REPLY_STATUS;
            lua_pop(lua, 1);
            break;
        }
        n = lua_objlen(lua, -1);
        r = out_array(out, n);
        r->count = 0;
        for (;;) {
            lua_rawgeti(lua, -1, (int)r->count + 1);
            if (lua_isnil(lua, -1)) {
                lua_pop(lua, 1);
                break;
            }
            if (r->count == n) { /* a border that is not the first: grow */
                struct reply *more = out_array(out, 2 * n + 8);

                memcpy(more->item, r->item, r->count * sizeof(*r->item));
                r->item = more->item;
                n = 2 * n + 8;
            }
            r->item[r->count++] = take_reply(lua, out);
        }
        break;
    default:
        r = out_null(out);
        break;
    }
    lua_pop(lua, 1);
    return r;
}

/* The error on top, which it takes away. */
static const struct reply *
take_error(lua_State *lua, struct out *out, const struct script *s)
{
    const struct reply *r;
    const char *text, *source, *line;

    if (!lua_istable(lua, -1)) {
        text = lua_isstring(lua, -1) ? lua_tostring(lua, -1) : "execution failure";
        r = out_error(out, "ERR Error running script %s, %.100s", s->sha, text);
        lua_pop(lua, 1);
        return r;
    }
    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "source");
    lua_getfield(lua, -3, "line");
    text = lua_tostring(lua, -3);
    source = lua_tostring(lua, -2);
    line = lua_tostring(lua, -1);
    if (source != NULL && line != NULL) {
        r = out_error(out, "%s script: %s, on %s:%s.", text != NULL ? text : "", s->sha, source, line);
    } else {
        r = out_error(out, "%s", text != NULL ? text : "");
    }
    lua_pop(lua, 4);
    return r;
}

/* ---- scripts ---- */

static struct script *
script_find(const char *sha)
{
    struct script *s;

    HASH_FIND_BYHASHVALUE(hh, engine.scripts, sha, SHA1_HEX_BYTES, data_hash((struct slice){sha, SHA1_HEX_BYTES}), s);
    return s;
}

static bool
knows(const struct sim_redis *r, const struct script *s)
{
    return s != NULL && s->id / 64 < r->script_words && (r->script[s->id / 64] >> s->id % 64 & 1) != 0;
}

/* The digest in lower case; false: it is none. */
static bool
read_sha(struct slice word, char sha[SHA1_HEX_BYTES + 1])
{
    if (word.n != SHA1_HEX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < SHA1_HEX_BYTES; i++) {
        sha[i] = (char)(word.p[i] >= 'A' && word.p[i] <= 'Z' ? word.p[i] + ('a' - 'A') : word.p[i]);
    }
    sha[SHA1_HEX_BYTES] = '\0';
    return true;
}

static void
learn(struct sim_redis *r, const struct script *s)
{
    size_t words = s->id / 64 + 1;

    if (words > r->script_words) {
        r->script = data_alloc(r->script, words * sizeof(*r->script));
        memset(r->script + r->script_words, 0, (words - r->script_words) * sizeof(*r->script));
        r->script_words = words;
    }
    r->script[s->id / 64] |= UINT64_C(1) << s->id % 64;
}

/* The script of a text, compiled; NULL with an error. From now on r knows it. */
static const struct script *
compile(struct sim_redis *r, struct slice text, const struct reply **error)
{
    char sha[SHA1_HEX_BYTES + 1];
    struct script *s;

    sha1_hex(text, sha);
    s = script_find(sha);
    if (s == NULL) {
        if (text.n >= 2 && memcmp(text.p, "#!", 2) == 0) {
            *error = out_error(&r->out, "ERR the simulated Redis runs no scripts with a shebang");
            return NULL;
        }
        if (luaL_loadbuffer(engine.lua, text.p, text.n, "@user_script") != 0) {
            *error = out_error(&r->out, "ERR Error compiling script (new function): %s", lua_tostring(engine.lua, -1));
            lua_pop(engine.lua, 1);
            return NULL;
        }
        s = data_alloc(NULL, sizeof(*s));
        memset(s, 0, sizeof(*s));
        memcpy(s->sha, sha, sizeof(s->sha));
        s->id = HASH_COUNT(engine.scripts);
        s->function = luaL_ref(engine.lua, LUA_REGISTRYINDEX);
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, engine.scripts, s->sha, SHA1_HEX_BYTES,
                                    data_hash((struct slice){s->sha, SHA1_HEX_BYTES}), s);
    }
    learn(r, s);
    return s;
}

const struct reply *
script_load(struct sim_redis *r, struct slice text)
{
    const struct reply *error;
    const struct script *s;

    if (engine.lua == NULL) {
        engine_start();
    }
    s = compile(r, text, &error);
    return s == NULL ? error : out_text(&r->out, slice_of(s->sha));
}

bool
script_knows(const struct sim_redis *r, struct slice sha)
{
    char lower[SHA1_HEX_BYTES + 1];

    return read_sha(sha, lower) && knows(r, script_find(lower));
}

void
script_forget(struct sim_redis *r)
{
    if (r->script_words > 0) {
        memset(r->script, 0, r->script_words * sizeof(*r->script));
    }
}

static void
set_words(lua_State *lua, int name, int64_t n, const struct slice *w)
{
    lua_pushvalue(lua, name);
    lua_createtable(lua, (int)n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushlstring(lua, w[i].p, w[i].n);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

static const struct reply *
run(struct sim_redis *r, const struct script *s, int64_t keys, int n, const struct slice *w)
{
    lua_State *lua = engine.lua;
    const struct reply *reply;
    int failed;

    set_words(lua, 2, keys, w + 3);
    set_words(lua, 3, n - 3 - keys, w + 3 + keys);
    engine.running = r;
    r->dirty = false;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, s->function);
    failed = lua_pcall(lua, 0, 1, 1);
    reply = failed != 0 ? take_error(lua, &r->out, s) : take_reply(lua, &r->out);
    engine.running = NULL;
    return reply;
}

const struct reply *
script_eval(struct sim_redis *r, int n, const struct slice *w, bool by_sha)
{
    const struct script *s = NULL;
    const struct reply *error;
    char sha[SHA1_HEX_BYTES + 1];
    int64_t keys;

    if (engine.lua == NULL) {
        engine_start();
    }
    if (by_sha && !read_sha(w[1], sha)) {
        return out_error(&r->out, "NOSCRIPT No matching script. Please use EVAL.");
    }
    if (!int_of(w[2], &keys)) {
        return not_int(r);
    }
    if (keys > n - 3) {
        return out_error(&r->out, "ERR Number of keys can't be greater than number of args");
    } else if (keys < 0) {
        return out_error(&r->out, "ERR Number of keys can't be negative");
    }
    if (!by_sha) {
        s = compile(r, w[1], &error);
        if (s == NULL) {
            return error;
        }
    } else {
        s = script_find(sha);
        if (!knows(r, s)) {
            return out_error(&r->out, "NOSCRIPT No matching script. Please use EVAL.");
        }
    }
    return run(r, s, keys, n, w);
}
