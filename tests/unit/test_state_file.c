/*
 * test_state_file.c -- the table of checkpoints: growth, versions, and each place at which a process may be killed.
 *
 * A killed process is one that stops storing: its files are copied, and cut or changed at the place in question.
 */
#include "daemon/serve/state_file.h"
#include "tests/unit/state_fixture.h"

static struct state_file *
opened(const char *boot)
{
    struct state_file *h = state_file_open(dir, boot, error);

    ck_assert_msg(h != NULL, "%s", error);
    return h;
}

static struct core_checkpoint
checkpoint(uint64_t claim, const char *name, const char *key, const char *owner)
{
    struct core_checkpoint k = {.name = slice_of(name),
                          .key = slice_of(key),
                          .owner = slice_of(owner),
                          .kind = KIND_RW,
                          .value = VALUE_HEX32,
                          .limit = 7,
                          .owner_grace_us = 8,
                          .queue_grace_us = 9};

    memset(&k.part, 0, sizeof(k.part));
    k.part.claim = claim;
    k.part.redis_owner = claim + 1;
    k.part.token = 100 + claim;
    k.part.deadline_us = 5000;
    k.part.state = CORE_CHECKPOINT_HELD;
    k.part.named = owner[0] != '\0';
    return k;
}

static struct core_checkpoint *
loaded(struct core_restored *a, uint64_t claim)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->checkpoint[i].part.claim == claim) {
            return &a->checkpoint[i];
        }
    }
    return NULL;
}

static void
expect_same(const struct core_checkpoint *k, const struct core_checkpoint *want)
{
    ck_assert_ptr_nonnull(k);
    ck_assert_mem_eq(&k->part, &want->part, sizeof(k->part));
    ck_assert(slice_eq(k->name, want->name) && slice_eq(k->key, want->key) && slice_eq(k->owner, want->owner));
    ck_assert(k->kind == want->kind && k->value == want->value && k->limit == want->limit);
    ck_assert(k->owner_grace_us == want->owner_grace_us && k->queue_grace_us == want->queue_grace_us);
}

/* ---- the table ---- */

START_TEST(records_survive_a_restart)
{
    struct core_checkpoint one = checkpoint(11, "a", "a", ""), two = checkpoint(12, "b", "key-b", "alice"), three = two;
    struct state_file *h = opened("boot");
    struct core_restored a;

    ck_assert(state_file_load(h, &a) && a.n == 0 && a.serial == 0 && a.token == 0);
    state_file_loaded_free(&a);
    state_file_restored(h);
    three.part.claim = 13;
    three.part.token = 113;
    ck_assert(state_file_keep(h, &one) && state_file_keep(h, &two) && state_file_keep(h, &three));
    for (int i = 0; i < 5; i++) {
        two.part.deadline_us++;
        ck_assert(state_file_keep(h, &two));
    }
    state_file_drop(h, 13);
    state_file_drop(h, 999);
    ck_assert_uint_eq(state_file_count(h).checkpoints, 2);
    state_file_close(&h);
    h = opened("boot");
    ck_assert(state_file_load(h, &a));
    ck_assert_uint_eq(a.n, 2);
    expect_same(loaded(&a, 11), &one);
    expect_same(loaded(&a, 12), &two);
    ck_assert_uint_eq(a.token, 113);
    state_file_loaded_free(&a);
    ck_assert_uint_eq(state_file_count(h).torn, 0);
    state_file_drop(h, 11); /* a loaded checkpoint is found by its claim */
    ck_assert_uint_eq(state_file_count(h).checkpoints, 1);
    state_file_close(&h);
}
END_TEST

/* A longer grace is kept with the claim; a process that is killed meanwhile leaves one of the two checkpoints. */
START_TEST(graces_rise)
{
    struct core_checkpoint one = checkpoint(11, "a", "key-a", "alice"), other = checkpoint(12, "b", "b", "bob");
    struct state_file *h = opened("boot");
    struct core_restored a;

    ck_assert(state_file_load(h, &a));
    state_file_loaded_free(&a);
    state_file_restored(h);
    ck_assert(state_file_keep(h, &one) && state_file_keep(h, &other));
    for (int i = 0; i < 300; i++) { /* more often than there are slots */
        one.owner_grace_us++;
        one.part.deadline_us++;
        ck_assert(state_file_keep(h, &one));
        ck_assert_uint_eq(state_file_count(h).checkpoints, 2);
    }
    state_file_close(&h);
    h = opened("boot");
    ck_assert(state_file_load(h, &a));
    ck_assert_uint_eq(a.n, 2);
    expect_same(loaded(&a, 11), &one);
    expect_same(loaded(&a, 12), &other);
    state_file_loaded_free(&a);
    state_file_drop(h, 11);
    state_file_drop(h, 12);
    ck_assert_uint_eq(state_file_count(h).checkpoints, 0);
    state_file_close(&h);
}
END_TEST

/*
 * A process of that boot opens the file, and finds one checkpoint with that deadline, 0 = not known. The first process
 * (deadline -1) finds none, and stores it. `killed`: before state_file_restored().
 */
static void
process(const char *boot, int64_t deadline_us, bool killed)
{
    struct state_file *h = opened(boot);
    struct core_checkpoint one = checkpoint(11, "a", "a", "alice");
    struct core_restored a;
    bool first = deadline_us < 0;

    ck_assert(state_file_load(h, &a));
    ck_assert_uint_eq(a.n, first ? 0 : 1);
    if (!first) {
        ck_assert_int_eq(a.checkpoint[0].part.deadline_us, deadline_us);
    }
    state_file_loaded_free(&a);
    if (first) {
        ck_assert(state_file_keep(h, &one));
    }
    if (!killed) {
        state_file_restored(h);
    }
    state_file_close(&h);
}

/* A process that does not know its boot cannot tell a restart from a reboot. */
START_TEST(unknown_boots)
{
    process("", -1, false);
    process("", 0, false);
    process("boot", 0, false);
    process("boot", 5000, false);
    process("", 0, false);
    process("boot", 0, false);
}
END_TEST

/* After a reboot the deadlines are unknown; the table belongs to the earlier boot until state_file_restored(). */
START_TEST(another_boot)
{
    process("one", -1, false);
    process("two", 0, true);
    process("two", 0, false);
    process("two", 5000, false);
}
END_TEST

START_TEST(ids_rise)
{
    uint64_t used = 0;

    for (int i = 0; i < 5; i++) {
        struct state_file *h = opened(i < 3 ? "boot" : "later");
        struct core_restored a;

        ck_assert(state_file_load(h, &a));
        ck_assert_uint_ge(a.serial, used);
        ck_assert_uint_lt(a.serial, (uint64_t)STATE_FILE_IDS * 6 * (i < 3 ? (unsigned)i + 1 : 100));
        state_file_loaded_free(&a);
        state_file_restored(h);
        used = a.serial + (i == 1 ? 5 * STATE_FILE_IDS / 2 : 0);
        for (uint64_t id = a.serial; id <= used; id += 1000) {
            state_file_serial(h, id);
        }
        used += 1000;
        state_file_close(&h);
    }
}
END_TEST

/* Many checkpoints, long and short, come and go; the table grows, and none gets mixed up with another. */
START_TEST(it_grows)
{
    enum { N = 3000 };
    static char name[N][600];
    struct state_file *h = opened("boot");
    struct core_restored a;
    size_t kept = 0;

    for (int i = 0; i < N; i++) {
        memset(name[i], 'n', sizeof(name[i]) - 1);
        snprintf(name[i] + (i % 10 == 0 ? 500 : 5), 20, "-%d", i);
        struct core_checkpoint k =
            checkpoint((uint64_t)i + 1, name[i], i % 3 == 0 ? "key" : name[i], i % 2 == 0 ? "w" : "");

        ck_assert(state_file_keep(h, &k));
        if (i % 4 == 3) {
            state_file_drop(h, (uint64_t)i);
        }
    }
    state_file_close(&h);
    h = opened("boot");
    ck_assert(state_file_load(h, &a));
    for (int i = 0; i < N; i++) {
        struct core_checkpoint k =
            checkpoint((uint64_t)i + 1, name[i], i % 3 == 0 ? "key" : name[i], i % 2 == 0 ? "w" : "");

        if (i % 4 == 2) {
            ck_assert_ptr_null(loaded(&a, (uint64_t)i + 1));
        } else {
            k.part.deadline_us = 0; /* state_file_restored() was not called */
            expect_same(loaded(&a, (uint64_t)i + 1), &k);
            kept++;
        }
    }
    ck_assert_uint_eq(a.n, kept);
    ck_assert_uint_eq(state_file_count(h).not_written, 0);
    state_file_loaded_free(&a);
    state_file_close(&h);
}
END_TEST

START_TEST(longest_and_too_long)
{
    static char name[4097], key[9000], longer[17000];
    struct state_file *h = opened("boot");
    struct core_checkpoint k;

    memset(name, 'n', 4096);
    memset(key, 'k', sizeof(key) - 1);
    memset(longer, 'l', sizeof(longer) - 1);
    k = checkpoint(1, name, key, "o");
    ck_assert(state_file_keep(h, &k));
    k = checkpoint(2, name, longer, "o");
    ck_assert(!state_file_keep(h, &k));
    ck_assert_uint_eq(state_file_count(h).not_written, 1);
    state_file_drop(h, 2);
    ck_assert_uint_eq(state_file_count(h).checkpoints, 1);
    state_file_close(&h);
}
END_TEST

/* ---- the files are as large as their contents ---- */

static const char *
long_name(uint64_t id, size_t n)
{
    static char name[4097];

    memset(name, 'n', n);
    name[n] = '\0';
    snprintf(name, 20, "%d-", (int)id);
    name[strlen(name)] = '-';
    return name;
}

static void
keep(struct state_file *h, uint64_t id, size_t name_n)
{
    struct core_checkpoint k = checkpoint(id, long_name(id, name_n), long_name(id, name_n), "owner");

    ck_assert(state_file_keep(h, &k));
}

static uint64_t
bytes_on_disk(void)
{
    static const char *const files[] = {"held", "held-1k", "held-2k", "held-long", "owners"};
    uint64_t n = 0;
    struct stat st;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        ck_assert_int_eq(fstatat(dir, files[i], &st, 0), 0);
        n += (uint64_t)st.st_size;
    }
    return n;
}

START_TEST(long_names_take_no_more_than_they_need)
{
    struct state_file *h = opened("boot");

    for (uint64_t id = 1; id <= 5000; id++) {
        keep(h, id, 400);
    }
    ck_assert_uint_lt(state_file_count(h).bytes, 10 << 20);
    ck_assert_uint_eq(state_file_count(h).bytes, bytes_on_disk());
    state_file_close(&h);
}
END_TEST

/* Few of many checkpoints are left, wherever they are: the files become small again, and these few are all there. */
START_TEST(it_shrinks)
{
    enum { N = 40000, EACH = 4000 };
    struct state_file *h = opened("boot");
    struct core_restored a;
    uint64_t least = state_file_count(h).bytes;
    int turns = 0;

    ck_assert(!state_file_tidy(h));
    for (uint64_t id = 1; id <= N; id++) {
        keep(h, id, id % 2 == 0 ? 30 : 450);
    }
    ck_assert(!state_file_tidy(h));
    ck_assert_uint_gt(state_file_count(h).bytes, 20 << 20);
    for (uint64_t id = 1; id <= N; id++) {
        if (id % EACH != 0 && id % EACH != 77) {
            state_file_drop(h, id);
        }
    }
    while (state_file_tidy(h)) {
        ck_assert_int_lt(++turns, 1000);
    }
    ck_assert_int_gt(turns, 10); /* a bit in each turn */
    ck_assert_uint_eq(state_file_count(h).bytes, least);
    ck_assert_uint_eq(bytes_on_disk(), least);
    for (uint64_t id = N + 1; id <= N + 500; id++) { /* and the table grows again */
        keep(h, id, 30);
        state_file_drop(h, id - 1);
    }
    state_file_drop(h, N + 500);
    state_file_restored(h);
    state_file_close(&h);
    h = opened("boot");
    ck_assert(state_file_load(h, &a));
    ck_assert_uint_eq(a.n, 2 * N / EACH - 1); /* id N was forgotten */
    for (uint64_t id = 1; id < N; id++) {
        if (id % EACH == 0 || id % EACH == 77) {
            size_t n = id % 2 == 0 ? 30 : 450;
            struct core_checkpoint k = checkpoint(id, long_name(id, n), long_name(id, n), "owner");

            expect_same(loaded(&a, id), &k);
        }
    }
    state_file_loaded_free(&a);
    state_file_close(&h);
}
END_TEST

/* Whatever comes and goes while the files shrink and grow, the checkpoints that are kept are there, and no others. */
START_TEST(it_shrinks_under_load)
{
    enum { IDS = 6000 };
    static bool there[IDS];
    uint64_t seed = 1, base = 0;
    struct core_restored a;
    struct state_file *h = opened("boot");

    memset(there, 0, sizeof(there));
    for (int round = 0; round < 60; round++) {
        bool fills = round % 3 == 0;

        for (int i = 0; i < 4000; i++) {
            uint64_t id;

            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            id = (seed >> 33) % IDS;
            if (fills || (seed >> 20) % 16 == 0) {
                keep(h, base + id + 1, 30);
                there[id] = true;
            } else {
                state_file_drop(h, base + id + 1);
                there[id] = false;
            }
            if (i % 200 == 0) {
                state_file_tidy(h);
            }
        }
        if (round % 7 == 0) {
            state_file_restored(h);
            state_file_close(&h);
            h = opened("boot");
            ck_assert(state_file_load(h, &a));
            for (uint64_t id = 0; id < IDS; id++) {
                ck_assert_int_eq(loaded(&a, base + id + 1) != NULL, there[id]);
            }
            ck_assert_uint_eq(state_file_count(h).torn, 0);
            state_file_loaded_free(&a);
        }
    }
    state_file_close(&h);
}
END_TEST

/* ---- killed during a store ---- */

static unsigned char *
read_all(const char *file, size_t *n)
{
    int fd = openat(dir, file, O_RDONLY);
    struct stat st;
    unsigned char *p;

    ck_assert(fd >= 0 && fstat(fd, &st) == 0);
    p = malloc((size_t)st.st_size);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(read(fd, p, (size_t)st.st_size), st.st_size);
    close(fd);
    *n = (size_t)st.st_size;
    return p;
}

/*
 * Of the bytes in which both differ the first `cut` have been stored, lowest address first, as in an update in place.
 * If a slot is being filled (fills), its first word comes last.
 */
static void
half_stored(const unsigned char *before, const unsigned char *after, unsigned char *out, size_t n, size_t cut,
            bool fills)
{
    size_t done = 0, word = 4096;

    memcpy(out, before, n);
    for (size_t i = 4096 + (fills ? 8 : 0); i < n && done < cut; i++) {
        done += before[i] != after[i];
        out[i] = after[i];
    }
    if (fills && done < cut) {
        memcpy(out + word, after + word, 8);
    }
}

static size_t
differing(const unsigned char *a, const unsigned char *b, size_t n)
{
    size_t d = 0;

    for (size_t i = 4096; i < n; i++) {
        d += a[i] != b[i];
    }
    return d;
}

/* The torn half is in order again, so the next change may be torn as well. Closes h. */
static void
torn_again(struct state_file *h, const struct core_checkpoint *is)
{
    unsigned char *before, *after, *torn;
    struct core_restored a;
    size_t n;

    before = read_all("held", &n);
    ck_assert(state_file_keep(h, is));
    after = read_all("held", &n);
    state_file_close(&h);
    torn = malloc(n);
    for (int thirds = 1; thirds <= 3; thirds++) {
        half_stored(before, after, torn, n, differing(before, after, n) * (size_t)thirds / 3, false);
        write_all("held", torn, n);
        h = opened("boot");
        ck_assert(state_file_load(h, &a));
        ck_assert_ptr_nonnull(loaded(&a, 11));
        if (thirds == 3) {
            expect_same(loaded(&a, 11), is);
        }
        state_file_loaded_free(&a);
        state_file_close(&h);
    }
    free(before);
    free(after);
    free(torn);
}

/* Whatever part of a change has been stored, the checkpoint is the old one or the new one, and never anything else. */
START_TEST(torn_change)
{
    struct core_checkpoint was = checkpoint(11, "name", "key", "alice"), is = was;
    struct state_file *h = opened("boot");
    unsigned char *before, *after, *torn;
    size_t n, total, old = 0, fresh = 0;
    struct core_restored a;

    ck_assert(state_file_load(h, &a));
    state_file_loaded_free(&a);
    state_file_restored(h);
    ck_assert(state_file_keep(h, &was) && state_file_keep(h, &was) && state_file_keep(h, &was));
    before = read_all("held", &n);
    memset(&is.part.token, 0x55, sizeof(is.part.token));
    is.part.deadline_us = 0x1234567890abcdef;
    is.part.holds = 3;
    is.part.lease_us = 77;
    is.part.expiry_ms = -1;
    ck_assert(state_file_keep(h, &is));
    after = read_all("held", &n);
    state_file_close(&h);
    torn = malloc(n);
    total = differing(before, after, n);
    ck_assert_uint_gt(total, 20);
    for (size_t cut = 0; cut <= total; cut++) {
        const struct core_checkpoint *k;

        half_stored(before, after, torn, n, cut, false);
        write_all("held", torn, n);
        h = opened("boot");
        ck_assert(state_file_load(h, &a));
        ck_assert_uint_eq(a.n, 1);
        k = &a.checkpoint[0];
        expect_same(k, k->part.holds == 3 ? &is : &was);
        old += k->part.holds != 3;
        fresh += k->part.holds == 3;
        state_file_loaded_free(&a);
        torn_again(h, &is);
    }
    ck_assert(old > 0 && fresh > 0);
    free(before);
    free(after);
    free(torn);
}
END_TEST

/* A checkpoint was being moved, and is there twice: it is loaded once, and forgotten with both copies. */
START_TEST(killed_inside_of_a_move)
{
    for (size_t from = 0; from < 2; from++) {
        struct core_checkpoint one = checkpoint(11, "name", "key", "alice");
        struct state_file *h = opened("boot");
        struct core_restored a;
        unsigned char *p;
        size_t n;

        ck_assert(state_file_load(h, &a));
        state_file_loaded_free(&a);
        state_file_restored(h);
        ck_assert(state_file_keep(h, &one));
        state_file_close(&h);
        p = read_all("held", &n);
        memcpy(p + 4096 + 512 * (from == 0 ? 50 : 127), p + 4096, 512);
        write_all("held", p, n);
        free(p);
        h = opened("boot");
        ck_assert(state_file_load(h, &a));
        ck_assert_uint_eq(a.n, 1);
        expect_same(loaded(&a, 11), &one);
        state_file_loaded_free(&a);
        ck_assert_uint_eq(state_file_count(h).torn, 0);
        state_file_drop(h, 11);
        state_file_close(&h);
        h = opened("boot");
        ck_assert(state_file_load(h, &a));
        ck_assert_uint_eq(a.n, 0);
        state_file_loaded_free(&a);
        state_file_close(&h);
    }
}
END_TEST

/* A used slot is being filled anew: it is empty, or has the new checkpoint; never a mixture of both. */
START_TEST(torn_fill)
{
    struct core_checkpoint old = checkpoint(11, "another-name", "another-key", "bob");
    struct core_checkpoint is = checkpoint(12, "name", "key", "alice");
    struct state_file *h = opened("boot");
    unsigned char *before, *after, *torn;
    size_t n, total, none = 0;
    struct core_restored a;

    ck_assert(state_file_load(h, &a));
    state_file_loaded_free(&a);
    state_file_restored(h);
    for (int i = 0; i < 8; i++) {
        ck_assert(state_file_keep(h, &old));
    }
    state_file_drop(h, 11);
    before = read_all("held", &n);
    ck_assert(state_file_keep(h, &is));
    after = read_all("held", &n);
    state_file_close(&h);
    torn = malloc(n);
    total = differing(before, after, n);
    for (size_t cut = 0; cut <= total; cut++) {
        half_stored(before, after, torn, n, cut, true);
        write_all("held", torn, n);
        h = opened("boot");
        ck_assert(state_file_load(h, &a));
        ck_assert_uint_eq(state_file_count(h).torn, 0); /* the id is written last */
        none += a.n == 0;
        if (a.n > 0) {
            expect_same(&a.checkpoint[0], &is);
        }
        state_file_loaded_free(&a);
        state_file_close(&h);
    }
    ck_assert(none > 20 && none <= total);
    free(before);
    free(after);
    free(torn);
}
END_TEST

/* After a loss of power any bytes may be in the file: a damaged slot is dropped, and the others are there. */
START_TEST(damaged)
{
    struct core_checkpoint one = checkpoint(11, "name-one", "name-one", "alice");
    struct core_checkpoint two = checkpoint(12, "name-two", "key", "");
    struct state_file *h = opened("boot");
    unsigned char *good, *bad;
    struct core_restored a;
    size_t n, torn = 0, first = 4096;

    ck_assert(state_file_keep(h, &one) && state_file_keep(h, &two));
    state_file_close(&h);
    good = read_all("held", &n);
    bad = malloc(n);
    for (size_t i = first; i < first + 512; i++) {
        memcpy(bad, good, n);
        bad[i] ^= 0x40;
        write_all("held", bad, n);
        h = opened("boot");
        ck_assert(state_file_load(h, &a));
        ck_assert_ptr_nonnull(loaded(&a, 12));
        ck_assert_uint_eq(a.n + state_file_count(h).torn, 2);
        if (a.n == 2) {
            one.part.deadline_us = 0;
            expect_same(loaded(&a, 11), &one); /* the byte is not used */
        }
        torn += state_file_count(h).torn;
        state_file_loaded_free(&a);
        state_file_close(&h);
    }
    ck_assert_uint_gt(torn, 100);
    free(good);
    free(bad);
}
END_TEST

/* A table of another version, or a file that is no table, is replaced by a new one; but the ids go on. */
START_TEST(another_version)
{
    struct core_checkpoint one = checkpoint(11, "a", "a", "");
    struct state_file *h = opened("boot");
    struct core_restored a;
    uint64_t reserved;
    unsigned char *p;
    size_t n;

    ck_assert(state_file_load(h, &a));
    state_file_loaded_free(&a);
    state_file_serial(h, 5 * STATE_FILE_IDS);
    ck_assert(state_file_keep(h, &one));
    state_file_close(&h);
    h = opened("boot");
    ck_assert(state_file_load(h, &a) && a.n == 1);
    reserved = a.serial;
    state_file_loaded_free(&a);
    state_file_close(&h);
    p = read_all("held", &n);
    p[32]++; /* its version, after magic, ids, tokens and epoch */
    write_all("held", p, n);
    h = opened("boot");
    ck_assert(state_file_load(h, &a));
    ck_assert_uint_eq(a.n, 0);
    ck_assert_uint_gt(a.serial, reserved);
    state_file_loaded_free(&a);
    ck_assert(state_file_keep(h, &one));
    state_file_close(&h);
    memset(p, 'x', n);
    write_all("held", p, n);
    h = opened("boot");
    ck_assert(state_file_load(h, &a));
    ck_assert(a.n == 0 && a.serial == 0);
    state_file_loaded_free(&a);
    state_file_close(&h);
    write_all("held", p, 10); /* cut short */
    h = opened("boot");
    ck_assert(state_file_load(h, &a) && a.n == 0);
    state_file_loaded_free(&a);
    state_file_close(&h);
    free(p);
}
END_TEST

/* Each domain has an epoch of its own, which the next process finds; with one domain there is no other file. */
START_TEST(epochs_of_domains)
{
    enum { DOMAINS = 1000 };
    struct state_file *h = opened("boot");
    struct core_checkpoint one = checkpoint(11, "a", "a", "");
    struct stat st;

    ck_assert_uint_eq(state_file_epoch(h, 0), 0);
    ck_assert_uint_eq(state_file_epoch(h, 7), 0);
    state_file_set_epoch(h, 0, 70);
    ck_assert(state_file_keep(h, &one));
    state_file_close(&h);
    ck_assert(fstatat(dir, "epochs", &st, 0) != 0); /* as a version without domains would leave it */
    h = opened("boot");
    ck_assert_uint_eq(state_file_epoch(h, 0), 70);
    for (uint16_t i = 1; i < DOMAINS; i += 2) {
        state_file_set_epoch(h, i, 5);
        state_file_set_epoch(h, i, 100u + i);
    }
    ck_assert(fstatat(dir, "epochs", &st, 0) == 0 && (st.st_mode & 0777) == 0600);
    for (int times = 0; times < 2; times++) {
        for (uint16_t i = 1; i < DOMAINS; i++) {
            ck_assert_uint_eq(state_file_epoch(h, i), i % 2 == 1 ? 100u + i : 0);
        }
        ck_assert_uint_eq(state_file_epoch(h, 0), 70);
        ck_assert_uint_eq(state_file_count(h).checkpoints, 1);
        ck_assert_uint_eq(state_file_count(h).not_written, 0);
        state_file_close(&h);
        h = opened(times == 0 ? "boot" : "later");
    }
    ck_assert_uint_eq(state_file_epoch(h, 1), 101);
    state_file_close(&h);
}
END_TEST

/* The redis.timeout of a process is known to the next one, also after a reboot; earlier versions have left a 0. */
START_TEST(the_timeout_of_the_former_process)
{
    static const char *const boots[] = {"one", "one", "one", "two"};
    static const int64_t timeouts[] = {0, 60000, 1000, 2000};

    for (int i = 0; i < 4; i++) {
        struct state_file *h = opened(boots[i]);
        struct core_restored a;

        ck_assert(state_file_load(h, &a));
        ck_assert_int_eq(a.op_timeout_us, timeouts[i]);
        state_file_loaded_free(&a);
        state_file_set_timeout(h, timeouts[i < 3 ? i + 1 : 0]);
        state_file_close(&h);
    }
}
END_TEST

/* If `held` has another version, it is replaced, and the epochs with it; if `epochs` has, it alone is replaced. */
START_TEST(epochs_of_another_version)
{
    static const char *const files[] = {"held", "epochs"};
    static const size_t at[] = {24, 8};

    for (int i = 0; i < 2; i++) {
        struct state_file *h = opened("boot");
        unsigned char *p;
        size_t n;

        state_file_set_epoch(h, 0, 70);
        state_file_set_epoch(h, 3, 80);
        state_file_close(&h);
        p = read_all(files[i], &n);
        p[at[i]]++; /* its version */
        write_all(files[i], p, n);
        free(p);
        h = opened("boot");
        ck_assert_uint_eq(state_file_epoch(h, 0), i == 0 ? 0 : 70);
        ck_assert_uint_eq(state_file_epoch(h, 3), 0);
        state_file_set_epoch(h, 3, 81);
        ck_assert_uint_eq(state_file_epoch(h, 3), 81);
        state_file_close(&h);
    }
    unlinkat(dir, "epochs", 0);
    ck_assert_int_eq(symlinkat("/dev/zero", dir, "epochs"), 0);
    ck_assert_ptr_null(state_file_open(dir, "boot", error));
    ck_assert_ptr_nonnull(strstr(error, "epochs: "));
}
END_TEST

/* A file without room (here a pipe) keeps no epoch, and no attempt leaves a descriptor open. */
START_TEST(epochs_that_cannot_be_kept)
{
    struct state_file *h = state_file_open(dir, "boot", error);
    int before, after;

    ck_assert_ptr_nonnull(h);
    ck_assert_int_eq(mkfifoat(dir, "epochs", 0600), 0);
    before = dup(dir);
    close(before);
    for (uint16_t i = 1; i <= 10; i++) {
        state_file_set_epoch(h, i, 5);
        ck_assert_uint_eq(state_file_epoch(h, i), 0);
    }
    after = dup(dir);
    close(after);
    ck_assert_int_eq(after, before);
    ck_assert_uint_eq(state_file_count(h).not_written, 10);
    state_file_close(&h);
}
END_TEST

START_TEST(private)
{
    struct state_file *h = opened("boot");
    struct stat st;

    ck_assert(fstatat(dir, "held", &st, 0) == 0 && (st.st_mode & 0777) == 0600);
    ck_assert(fstatat(dir, "held-long", &st, 0) == 0 && (st.st_mode & 0777) == 0600);
    state_file_close(&h);
    unlinkat(dir, "held", 0);
    ck_assert_int_eq(symlinkat("/dev/zero", dir, "held"), 0);
    ck_assert_ptr_null(state_file_open(dir, "boot", error));
    ck_assert_ptr_nonnull(strstr(error, "held: "));
}
END_TEST

START_TEST(a_boot_has_one_id)
{
    char one[STATE_FILE_BOOT_BYTES], two[STATE_FILE_BOOT_BYTES];

    state_file_boot(one);
    state_file_boot(two);
    ck_assert_str_eq(one, two);
    ck_assert_uint_gt(strlen(one), 36 + 16);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {records_survive_a_restart, graces_rise, another_boot, unknown_boots, ids_rise, it_grows,
                            longest_and_too_long, torn_change, torn_fill, killed_inside_of_a_move,
                            long_names_take_no_more_than_they_need, it_shrinks, it_shrinks_under_load, damaged,
                            another_version, the_timeout_of_the_former_process, epochs_of_domains,
                            epochs_of_another_version, epochs_that_cannot_be_kept, private, a_boot_has_one_id};

    return state_main("held", tests, sizeof(tests) / sizeof(tests[0]));
}
