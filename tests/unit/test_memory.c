/*
 * test_memory.c -- allocations, and the line and the status with which the process ends when memory is exhausted.
 */
#include "daemon/base/memory.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

/* The process that runs fn ends with MEMORY_STATUS, and prints this on stderr. */
static void
ends(void (*fn)(void), const char *says)
{
    char text[200];
    int out[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t child;

    ck_assert_int_eq(pipe(out), 0);
    child = fork();
    if (child == 0) {
        unsetenv("JOURNAL_STREAM");
        dup2(out[1], 2);
        fn();
        _exit(0);
    }
    close(out[1]);
    while (n < sizeof(text) - 1 && (got = read(out[0], text + n, sizeof(text) - 1 - n)) > 0) {
        n += (size_t)got;
    }
    text[n] = '\0';
    close(out[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), MEMORY_STATUS);
    ck_assert_str_eq(text, says);
}

#define HALF ((size_t)PTRDIFF_MAX + 1)
static volatile size_t half = HALF; /* volatile, or the compiler would warn */

static void
take(void)
{
    mem_alloc(half);
}

static void
take_zeroed(void)
{
    mem_zalloc(half);
}

static void
take_more(void)
{
    mem_realloc(mem_alloc(1), half);
}

static void
take_array(void)
{
    mem_array(NULL, half / 8, 8);
}

/* 2^32 + 1 times 2^32 bytes: the product overflows to 2^32, which may be there. */
static void
take_too_many(void)
{
    mem_array(NULL, (half >> 31) + 1, (half >> 31));
}

static void
take_text(void)
{
    mem_text((struct slice){"", half});
}

/* No memory is left, not even for the line; the exit handlers do not run. */
static void
handler(void)
{
    (void)!write(2, "handler\n", 8);
}

static void
take_all(void)
{
    struct rlimit none = {0, 0};

    atexit(handler);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
    for (;;) {
        mem_alloc(100000);
    }
}

START_TEST(the_end)
{
    static const char half_line[] = "error memory exhausted bytes=9223372036854775807\n";

    ends(take, half_line);
    ends(take_zeroed, half_line);
    ends(take_more, half_line);
    ends(take_array, half_line);
    ends(take_too_many, half_line);
    ends(take_text, half_line);
    ends(take_all, "error memory exhausted bytes=100000\n");
}
END_TEST

START_TEST(there)
{
    char *p = mem_zalloc(100), *q = mem_alloc(0), *text = mem_text((struct slice){"a\0b", 3});

    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(p[i], 0);
    }
    ck_assert_ptr_nonnull(q);
    free(q);
    q = mem_zalloc(0);
    ck_assert_ptr_nonnull(q);
    p[99] = 'x';
    p = mem_array(p, 50, 10);
    ck_assert_int_eq(p[99], 'x');
    memset(p, 1, 500);
    p = mem_realloc(p, 0);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(memcmp(text, "a\0b", 4), 0);
    free(text);
    text = mem_text((struct slice){NULL, 0});
    ck_assert_str_eq(text, "");
    free(text);
    free(p);
    free(q);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {there, the_end};
    bool ours = getenv("RLOCKD_SEEDS") == NULL; /* the malloc of a sanitizer or of valgrind ends in its own way */

    return suite_main("memory", tests, ours ? 2 : 1);
}
