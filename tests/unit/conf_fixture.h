/*
 * conf_fixture.h -- what both tests of conf/ share: a private directory, files in it, and the complaints about them.
 */
#ifndef RLOCKD_TESTS_CONF_FIXTURE_H
#define RLOCKD_TESTS_CONF_FIXTURE_H

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf.h"
#include "tests/unit/suite.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

#define PATH_27 "/abcdefghijklmnopqrstuvwxyz"
#define PATH_108 PATH_27 PATH_27 PATH_27 PATH_27

static char dir[64];
static char path[128];
static struct buf errors, text;

static inline void
begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/rlockd-test-conf-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/c.yaml", dir);
    buf_init(&errors, 0);
    buf_init(&text, 0);
}

static inline void
end(void)
{
    static const char *const names[] = {"c.yaml", "pw", "fifo"};
    char p[128];

    for (size_t i = 0; i < ROWS(names); i++) {
        snprintf(p, sizeof(p), "%s/%s", dir, names[i]);
        unlink(p);
    }
    ck_assert_int_eq(rmdir(dir), 0);
    buf_fini(&errors);
    buf_fini(&text);
}

static inline void
put(const char *file, const void *p, size_t n, mode_t mode)
{
    int fd;

    unlink(file); /* a new file each time: ext4 flushes one that is truncated */
    fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    ck_assert_int_eq(write(fd, p, n), (ssize_t)n);
    close(fd);
}

/* The contents of a buf as a C string. */
static inline const char *
str(struct buf *b)
{
    ck_assert(!b->failed);
    buf_add(b, "", 1);
    b->n--;
    return b->p;
}

static inline struct conf *
load_bytes(const void *p, size_t n, mode_t mode)
{
    buf_clear(&errors, SIZE_MAX);
    put(path, p, n, mode);
    return conf_load(path, NULL, &errors);
}

/* Loads a configuration that must be valid. */
static inline struct conf *
load(const char *yaml)
{
    struct conf *cf = load_bytes(yaml, strlen(yaml), 0600);

    ck_assert_msg(cf != NULL, "%s", str(&errors));
    ck_assert_uint_eq(errors.n, 0);
    return cf;
}

/* The complaints of the last load, without the name of the file in front. */
static inline const char *
complaints(void)
{
    static char out[65536];
    const char *p = str(&errors);
    size_t n = 0, skip = strlen(path) + 1;

    while (*p != '\0') {
        size_t line = strcspn(p, "\n") + 1;

        ck_assert_msg(strncmp(p, path, skip - 1) == 0 && p[skip - 1] == ':', "%s", p);
        ck_assert_uint_lt(n + line, sizeof(out));
        memcpy(out + n, p + skip, line - skip);
        n += line - skip;
        p += line;
    }
    out[n] = '\0';
    return out;
}

static inline char *
printed(const struct conf *cf)
{
    struct buf b;
    char *copy;

    buf_init(&b, 0);
    conf_print(cf, &b);
    copy = strdup(str(&b));
    buf_fini(&b);
    ck_assert_ptr_nonnull(copy);
    return copy;
}

/* The sample with every key in force; with `rules` also the example of rules. */
static inline void
uncommented(struct buf *out, bool rules)
{
    struct buf sample;
    const char *p;

    buf_init(&sample, 0);
    conf_print_sample(&sample);
    for (p = str(&sample); *p != '\0'; p += strcspn(p, "\n") + 1) {
        size_t blanks = strspn(p, " ");
        const char *q = p + blanks;
        bool key = q[0] == '#' && q[1] != ' ' && q[1] != '\n' && (rules || q[1] != '-');

        buf_add(out, p, blanks);
        buf_add(out, q + key, strcspn(q, "\n") + 1 - key);
    }
    buf_fini(&sample);
}

/* The output of -T, loaded again, gives the same output. */
static inline void
round_trip(const struct conf *cf)
{
    char *first = printed(cf), *second;
    struct conf *again = load_bytes(first, strlen(first), 0600);

    ck_assert_msg(again != NULL, "%s%s", str(&errors), first);
    second = printed(again);
    ck_assert_str_eq(first, second);
    conf_free(&again);
    free(first);
    free(second);
}

static inline int
run_suite(const char *name, TCase *tc)
{
    Suite *s = suite_create(name);

    tcase_add_checked_fixture(tc, begin, end);
    tcase_set_timeout(tc, 120);
    suite_add_tcase(s, tc);
    return suite_run(s);
}

#endif
