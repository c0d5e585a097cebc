/*
 * state_fixture.h -- a private state directory for each test.
 */
#ifndef RLOCKD_TESTS_STATE_FIXTURE_H
#define RLOCKD_TESTS_STATE_FIXTURE_H

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char top[64], error[160];
static int dir = -1;

static inline void
setup(void)
{
    snprintf(top, sizeof(top), "/tmp/rlockd-held.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    dir = open(top, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(dir, 0);
}

static inline void
teardown(void)
{
    DIR *d = opendir(top);

    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        unlinkat(dir, e->d_name, 0);
    }
    closedir(d);
    close(dir);
    rmdir(top);
}

static inline void
write_all(const char *file, const unsigned char *p, size_t n)
{
    int fd = openat(dir, file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    ck_assert(fd >= 0 && write(fd, p, n) == (ssize_t)n);
    close(fd);
}

/* Returns the value for main(). */
static inline int
state_main(const char *suite, const TTest *const *tests, size_t n)
{
    return suite_main_with(suite, tests, n, setup, teardown);
}

#endif
