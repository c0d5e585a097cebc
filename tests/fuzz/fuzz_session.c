/*
 * fuzz_session.c -- whole sessions as byte streams, through reader, commands, core and writer, with a Redis that
 * answers as the bytes say. What instructions stand between them, and what must be true, is in talk.h.
 */
#include "tests/fuzz/talk.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    struct talk k = {.killed = false};

    build();
    engine->redis_up = true;
    talk(&k, &c);
    talk_end(&k);
    core_check(engine->core, virtual_us);
    take_down();
    return 0;
}
