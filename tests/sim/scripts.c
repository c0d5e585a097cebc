/*
 * scripts.c -- EVAL, EVALSHA and SCRIPT of the simulated Redis: texts that are compiled once, and the results of Lua.
 */
#include <stdlib.h>

#include "daemon/backend/sha1.h"
#include "tests/sim/inside.h"
#include "tests/sim/lua.h"

struct script {
    UT_hash_handle hh;      /* by sha */
    UT_hash_handle by_text; /* so that a text that is sent again and again (membership.lua) needs no digest */
    struct str *text;
    char sha[SHA1_HEX_BYTES + 1];
    size_t id;
    int function; /* reference in the registry */
};

/* ---- Lua to replies ---- */

/* The result of a double's cast on x86, which is all that Redis does. */
static int64_t
truncated(double d)
{
    return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN;
}

/* The field as a string, left on the stack; NULL, and nothing on the stack, when it is no string. */
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

/* The reply for the value on top, which it pops. */
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
            r = out_error(out, "%s", text); /* without line ends, as an error */
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

/* The reply for the error on top, which it pops. */
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
    unsigned hashv = data_hash((struct slice){sha, SHA1_HEX_BYTES});
    struct script *s;

    HASH_FIND_BYHASHVALUE(hh, lua_engine()->scripts, sha, SHA1_HEX_BYTES, hashv, s);
    return s;
}

static bool
is_loaded(const struct sim_redis *r, const struct script *s)
{
    return s != NULL && s->id / 64 < r->script_words && (r->script[s->id / 64] >> s->id % 64 & 1) != 0;
}

/* The digest in lower case; false: the text is no digest. */
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

static struct script *
script_of_text(struct slice text)
{
    unsigned hashv = data_hash(text);
    struct script *s;

    HASH_FIND_BYHASHVALUE(by_text, lua_engine()->by_text, text.p, text.n, hashv, s);
    return s;
}

static struct script *
script_new(struct engine *e, const char *sha, struct slice text)
{
    unsigned hashv = data_hash((struct slice){sha, SHA1_HEX_BYTES});
    struct script *s = data_alloc(NULL, sizeof(*s));

    memset(s, 0, sizeof(*s));
    memcpy(s->sha, sha, sizeof(s->sha));
    s->id = HASH_COUNT(e->scripts);
    s->function = luaL_ref(e->lua, LUA_REGISTRYINDEX);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, e->scripts, s->sha, SHA1_HEX_BYTES, hashv, s);
    s->text = str_new(text);
    HASH_ADD_KEYPTR_BYHASHVALUE(by_text, e->by_text, s->text->p, s->text->n, data_hash(text), s);
    if (s->hh.tbl == NULL || s->by_text.tbl == NULL) {
        abort();
    }
    return s;
}

/* The script of a text, compiled; NULL with an error. From now on r has the script. */
static const struct script *
compile(struct sim_redis *r, struct slice text, const struct reply **error)
{
    struct engine *e = lua_engine();
    char sha[SHA1_HEX_BYTES + 1];
    struct script *s;

    s = script_of_text(text);
    if (s == NULL) {
        if (text.n >= 2 && memcmp(text.p, "#!", 2) == 0) {
            *error = out_error(&r->out, "ERR the simulated Redis runs no scripts with a shebang");
            return NULL;
        }
        if (luaL_loadbuffer(e->lua, text.p, text.n, "@user_script") != 0) {
            *error = out_error(&r->out, "ERR Error compiling script (new function): %s", lua_tostring(e->lua, -1));
            lua_pop(e->lua, 1);
            return NULL;
        }
        sha1_hex(text, sha);
        s = script_new(e, sha, text);
    }
    learn(r, s);
    return s;
}

const struct reply *
script_load(struct sim_redis *r, struct slice text)
{
    const struct reply *error;
    const struct script *s;

    s = compile(r, text, &error);
    return s == NULL ? error : out_text(&r->out, slice_of(s->sha));
}

bool
script_is_loaded(const struct sim_redis *r, struct slice sha)
{
    char lower[SHA1_HEX_BYTES + 1];

    return read_sha(sha, lower) && is_loaded(r, script_find(lower));
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
    struct engine *e = lua_engine();
    const struct reply *reply;
    int failed;

    set_words(e->lua, AT_KEYS, keys, w + 3);
    set_words(e->lua, AT_ARGV, n - 3 - keys, w + 3 + keys);
    e->running = r;
    r->dirty = false;
    lua_rawgeti(e->lua, LUA_REGISTRYINDEX, s->function);
    failed = lua_pcall(e->lua, 0, 1, AT_HANDLER);
    reply = failed != 0 ? take_error(e->lua, &r->out, s) : take_reply(e->lua, &r->out);
    e->running = NULL;
    return reply;
}

const struct reply *
script_eval(struct sim_redis *r, int n, const struct slice *w, bool by_sha)
{
    const struct script *s = NULL;
    const struct reply *error;
    char sha[SHA1_HEX_BYTES + 1];
    int64_t keys;

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
        if (!is_loaded(r, s)) {
            return out_error(&r->out, "NOSCRIPT No matching script. Please use EVAL.");
        }
    }
    return run(r, s, keys, n, w);
}
