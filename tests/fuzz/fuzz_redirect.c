/*
 * fuzz_redirect.c -- errors of a node as redirections: an accepted one is in bounds, and is read back as it was.
 *
 * Input: the text of the error.
 */
#include "daemon/backend/redirect.h"
#include "daemon/backend/slot.h"
#include "tests/fuzz/fuzz.h"

static void
check_host(const char *host)
{
    size_t n = strlen(host);

    CHECK(n > 0 && n < HOST_ROOM && strspn(host, "0123456789abcdefghijklmnopqrstuvwxyz"
                                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._:%") == n, "%s", host);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct redirect r, back;
    char *copy = exact_copy((struct slice){(const char *)data, size}, false), text[HOST_ROOM + 40];

    memset(&r, 0xff, sizeof(r));
    if (redirect_parse((struct slice){copy, size}, "asked.example", &r)) {
        CHECK(r.slot < SLOTS && r.port >= 1 && r.port <= 65535);
        CHECK(memcmp(copy, r.ask ? "ASK " : "MOVED ", r.ask ? 4 : 6) == 0);
        check_host(r.host);
        snprintf(text, sizeof(text), "%s %u %s:%d", r.ask ? "ASK" : "MOVED", r.slot, r.host, r.port);
        CHECK(redirect_parse(slice_of(text), "another.example", &back), "%s", text);
        CHECK(back.ask == r.ask && back.slot == r.slot && back.port == r.port && strcmp(back.host, r.host) == 0);
    }
    free(copy);
    return 0;
}
