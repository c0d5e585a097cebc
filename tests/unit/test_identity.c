/*
 * test_identity.c -- the identity of the daemon: the same over restarts, for one process at a time.
 */
#include <sys/wait.h>

#include "daemon/serve/identity.h"
#include "tests/unit/state_fixture.h"

START_TEST(it_stays_the_same)
{
    struct identity id, next;
    char text[512] = "";
    uint64_t nonce[7];
    int fd;

    for (int i = 0; i < 7; i++) {
        ck_assert_msg(identity_take(&next, top, error), "%s", error);
        nonce[i] = next.nonces.now;
        ck_assert_uint_ne(nonce[i], 0);
        if (i > 0) {
            ck_assert_str_eq(next.uuid, id.uuid);
            ck_assert_mem_eq(&next.secret, &id.secret, sizeof(id.secret));
        }
        for (int k = 0; k < IDENTITY_NONCES; k++) { /* the last one first */
            ck_assert_uint_eq(next.nonces.was[k], i - 1 - k >= 0 ? nonce[i - 1 - k] : 0);
        }
        id = next;
        identity_release(&next);
    }
    ck_assert_str_eq(id.uuid + 24, "726c6f636b64");
    fd = openat(dir, "id", O_RDONLY);
    ck_assert(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    ck_assert_ptr_nonnull(strstr(text, id.uuid));
}
END_TEST

START_TEST(one_process_at_a_time)
{
    struct identity id, second;
    char pid[32];
    int status;

    snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
    ck_assert(identity_take(&id, top, error));
    ck_assert(!identity_take(&second, top, error)); /* another open file is as good as another process */
    ck_assert_ptr_nonnull(strstr(error, "in use by another rlockd"));
    ck_assert_ptr_nonnull(strstr(error, pid));
    ck_assert(second.lock == -1 && second.dir == -1);
    if (fork() == 0) {
        _exit(identity_take(&second, top, error) ? 1 : 0);
    }
    ck_assert(wait(&status) > 0 && status == 0);
    identity_release(&id);
    ck_assert(identity_take(&second, top, error));
    identity_release(&second);
}
END_TEST

static void
refused(const char *why)
{
    struct identity id;

    ck_assert(!identity_take(&id, top, error));
    ck_assert_msg(strstr(error, why) != NULL, "%s", error);
}

START_TEST(settings_of_an_identity_that_are_refused)
{
    static const char *const bad[] = {
        "", "rlockd 2\n", "rlockd 1\nid 00000000-0000-4000-8000-726c6f636b64\n",
        "rlockd 1\nid 00000000-0000-4000-8000-000000000000\nsecret 00000000000000010000000000000002\n"
        "nonces 0000000000000001 0000000000000000 0000000000000000 0000000000000000\n",
        "rlockd 1\nid 00000000-0000-4000-8000-726c6f636b64\nsecret 00000000000000010000000000000002\n"
        "nonces 0000000000000001 0000000000000000 0000000000000000 0000000000000000\nx"};
    struct identity id;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_all("id", (const unsigned char *)bad[i], strlen(bad[i]));
        refused("not understood");
    }
    unlinkat(dir, "id", 0);
    ck_assert(identity_take(&id, top, error));
    identity_release(&id);
    ck_assert_int_eq(fchmodat(dir, "id", 0644, 0), 0);
    refused("others may read it (mode 0644");
    ck_assert_int_eq(fchmodat(dir, "id", 0600, 0), 0);
    ck_assert_int_eq(chmod(top, 0770), 0);
    refused("others may write to it (mode 0770)");
    ck_assert_int_eq(chmod(top, 0700), 0);
    ck_assert(identity_take(&id, top, error));
    identity_release(&id);
    unlinkat(dir, "id", 0);
    ck_assert_int_eq(symlinkat("/etc/hostname", dir, "id"), 0);
    refused("id: ");
    snprintf(top + strlen(top), 8, "/id/x");
    refused("");
    top[strlen(top) - 5] = '\0';
}
END_TEST

START_TEST(where_it_is)
{
    char d[IDENTITY_DIR_BYTES];

    unsetenv("STATE_DIRECTORY");
    ck_assert(!identity_dir("", d));
    ck_assert(identity_dir("/a:b", d));
    ck_assert_str_eq(d, "/a:b");
    setenv("STATE_DIRECTORY", "/var/lib/rlockd:/other", 1);
    ck_assert(identity_dir("", d));
    ck_assert_str_eq(d, "/var/lib/rlockd");
    ck_assert(identity_dir("/mine", d));
    ck_assert_str_eq(d, "/mine");
    ck_assert(!identity_dir("none", d));
    unsetenv("STATE_DIRECTORY");
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {it_stays_the_same, one_process_at_a_time, settings_of_an_identity_that_are_refused,
                            where_it_is};

    return state_main("identity", tests, sizeof(tests) / sizeof(tests[0]));
}
