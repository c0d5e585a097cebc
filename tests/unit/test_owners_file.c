/*
 * test_owners_file.c -- the file `owners`: the next process gets its records, if they still count.
 */
#include "daemon/serve/state_file.h"
#include "daemon/serve/owners_file.h"
#include "proto/options.h"
#include "tests/unit/state_fixture.h"

static struct core_restored a;
static uint64_t torn;

/* The next process, after it has loaded and restored them. */
static struct state_file *
next(const char *boot)
{
    struct state_file *h = state_file_open(dir, boot, error);

    ck_assert_msg(h != NULL, "%s", error);
    state_file_loaded_free(&a);
    ck_assert(state_file_load(h, &a));
    torn = state_file_count(h).torn;
    state_file_restored(h);
    return h;
}

static void
keep(struct state_file *h, uint64_t id, const char *name, int64_t until_us)
{
    ck_assert(state_file_keep_owner(h, &(struct core_owner_checkpoint){id, slice_of(name), until_us}));
}

/* The file has alice and bob, and no process runs. */
static void
two_records(void)
{
    struct state_file *h = next("boot");

    ck_assert_uint_eq(a.owners_n, 0);
    keep(h, 11, "alice", 5000);
    keep(h, 12, "bob", 6000);
    keep(h, 13, "carol", 7000);
    state_file_drop_owner(h, 13);
    state_file_drop_owner(h, 999);
    ck_assert_uint_eq(state_file_count(h).owners, 2);
    state_file_close(&h);
}

static void
expect_owner(size_t i, uint64_t id, const char *name, int64_t until_us)
{
    ck_assert_uint_lt(i, a.owners_n);
    ck_assert_uint_eq(a.owner[i].id, id);
    ck_assert(slice_eq(a.owner[i].name, slice_of(name)));
    ck_assert_int_eq(a.owner[i].owner_grace_until_us, until_us);
}

static void
file_bytes(long at, unsigned char *p, size_t n, bool writes)
{
    int fd = openat(dir, OWNERS_FILE, O_RDWR);

    ck_assert_int_ge(fd, 0);
    ck_assert(writes ? pwrite(fd, p, n, at) == (ssize_t)n : pread(fd, p, n, at) == (ssize_t)n);
    close(fd);
}

static void
flip(long at)
{
    unsigned char byte;

    file_bytes(at, &byte, 1, false);
    byte ^= 1;
    file_bytes(at, &byte, 1, true);
}

START_TEST(records_survive_a_restart)
{
    struct state_file *h;

    two_records();
    for (int i = 0; i < 2; i++) { /* also if the process in between has changed nothing */
        h = next("boot");
        ck_assert_uint_eq(a.owners_n, 2);
        expect_owner(0, 11, "alice", 5000);
        expect_owner(1, 12, "bob", 6000);
        state_file_close(&h);
    }
    h = next("boot");
    keep(h, 11, "alice", 5500); /* once more */
    state_file_serial(h, a.serial + 10 * STATE_FILE_IDS); /* ids have been used */
    state_file_close(&h);
    h = next("boot");
    ck_assert_uint_eq(a.owners_n, 2);
    expect_owner(0, 11, "alice", 5500);
    state_file_close(&h);
    state_file_loaded_free(&a);
}
END_TEST

/* After a reboot the times cannot be compared, nor if it is not known whether there was one. */
START_TEST(not_of_another_boot)
{
    static const char *const boots[] = {"another", ""};

    for (size_t i = 0; i < sizeof(boots) / sizeof(boots[0]); i++) {
        struct state_file *h;

        two_records();
        h = next(boots[i]);
        ck_assert_uint_eq(a.owners_n, 0);
        ck_assert_uint_eq(state_file_count(h).owners, 0);
        state_file_close(&h);
        state_file_loaded_free(&a);
    }
}
END_TEST

/* A version without this file has run since, and owners may have come back to it: the file is too old to count. */
START_TEST(not_of_the_process_before_the_last)
{
    unsigned char before[SLOT_FILE_HEAD + 64 * 256];
    struct state_file *h;

    two_records();
    file_bytes(0, before, sizeof(before), false);
    h = next("boot");
    ck_assert_uint_eq(a.owners_n, 2);
    state_file_close(&h);
    file_bytes(0, before, sizeof(before), true);
    h = next("boot");
    ck_assert_uint_eq(a.owners_n, 0);
    ck_assert_uint_eq(state_file_count(h).owners, 0);
    state_file_close(&h);
    state_file_loaded_free(&a);
}
END_TEST

/* If any byte of a checkpoint is damaged, it is dropped, and the other one counts. */
START_TEST(a_broken_record_is_dropped)
{
    two_records();
    for (long at = SLOT_FILE_HEAD + 8; at < SLOT_FILE_HEAD + 8 + 8 + 8 + 2 + OPTIONS_OWNER_BYTES_MAX; at++) {
        struct state_file *h;

        flip(at);
        h = next("boot");
        ck_assert_uint_eq(a.owners_n, 1);
        expect_owner(0, 12, "bob", 6000);
        ck_assert_uint_eq(torn, 1);
        keep(h, 11, "alice", 5000);
        state_file_close(&h);
    }
    state_file_loaded_free(&a);
}
END_TEST

START_TEST(another_version_is_replaced)
{
    static const long places[] = {0, 16, 20}; /* magic, version, size of a slot */

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct state_file *h;

        two_records();
        flip(places[i]);
        h = next("boot");
        ck_assert_uint_eq(a.owners_n, 0);
        state_file_close(&h);
        h = next("boot");
        ck_assert_uint_eq(a.owners_n, 0);
        state_file_close(&h);
    }
    state_file_loaded_free(&a);
}
END_TEST

/* The file grows and shrinks as the table does. */
START_TEST(as_many_as_there_are)
{
    struct state_file *h = next("boot");
    uint64_t least = state_file_count(h).bytes;
    char name[32];

    for (uint64_t id = 1; id <= 20000; id++) {
        snprintf(name, sizeof(name), "owner-%d", (int)id);
        keep(h, id, name, 1000 + (int64_t)id);
    }
    state_file_close(&h);
    h = next("boot");
    ck_assert_uint_eq(a.owners_n, 20000);
    for (size_t i = 0; i < a.owners_n; i++) {
        snprintf(name, sizeof(name), "owner-%d", (int)a.owner[i].id);
        expect_owner(i, a.owner[i].id, name, 1000 + (int64_t)a.owner[i].id);
        state_file_drop_owner(h, a.owner[i].id);
    }
    while (state_file_tidy(h)) {
    }
    ck_assert_uint_eq(state_file_count(h).bytes, least);
    ck_assert(!state_file_keep_owner(h, &(struct core_owner_checkpoint){1, {name, OPTIONS_OWNER_BYTES_MAX + 1}, 1}));
    ck_assert_uint_eq(state_file_count(h).not_written, 1);
    state_file_close(&h);
    state_file_loaded_free(&a);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {records_survive_a_restart, not_of_another_boot, not_of_the_process_before_the_last,
                            a_broken_record_is_dropped, another_version_is_replaced, as_many_as_there_are};

    return state_main("owners' file", tests, sizeof(tests) / sizeof(tests[0]));
}
