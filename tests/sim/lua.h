/*
 * lua.h -- the Lua state that runs the scripts of the simulated Redis: lua.c makes it, scripts.c runs them.
 */
#ifndef RLOCKD_TESTS_SIM_LUA_H
#define RLOCKD_TESTS_SIM_LUA_H

#include <lauxlib.h>
#include <lua.h>

#include "tests/sim/inside.h"

/* What lies on its stack all the time. */
enum { AT_HANDLER = 1, AT_KEYS, AT_ARGV };

struct engine {
    lua_State *lua;
    struct script *scripts;    /* uthash, by sha: scripts.c */
    struct script *by_text;    /* the same, by text */
    struct sim_redis *running; /* whose script runs */
};

/* That of this thread; made with the first use. */
struct engine *lua_engine(void);

#endif
