/*
 * fuzz_session.c -- whole sessions as byte streams, through reader, commands, core and writer, with a Redis whose
 * answers the bytes choose. talk.h has the instructions between the bytes, and the invariants.
 */
#include "tests/fuzz/talk.h"
#include "tests/unit/core_check.h"

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
