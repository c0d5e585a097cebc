/*
 * lua.h -- the Lua state that runs the scripts of the simulated Redis: lua.c makes it, scripts.c runs them.
 */
#ifndef RLOCKD_TESTS_SIM_LUA_H
#define RLOCKD_TESTS_SIM_LUA_H

#include <lauxlib.h>
#include <lua.h>

#include "tests/sim/inside.h"

/* The values that are always on its stack. */
enum { AT_HANDLER = 1, AT_KEYS, AT_ARGV };

struct engine {
    lua_State *lua;
    struct script *scripts;    /* uthash, by sha: scripts.c */
    struct script *by_text;    /* the same, by text */
    struct sim_redis *running; /* the Redis whose script runs */
};

/* The engine of this thread; made at the first use. */
struct engine *lua_engine(void);

#endif
