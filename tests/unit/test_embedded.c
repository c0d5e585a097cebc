/*
 * test_embedded.c -- the private redis-server: it answers, and it ends with its daemon, also when that is killed.
 */
#include <check.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/backend/embedded.h"
#include "daemon/base/clock.h"

#define PATIENCE_US (20 * US_PER_S)

static char dir[64], sock[96], run_log[96];

static void
begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/rlockd-test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(sock, sizeof(sock), "%s/redis.sock", dir);
    snprintf(run_log, sizeof(run_log), "%s/redis.log", dir);
}

static void
end(void)
{
    unlink(run_log);
    unlink(sock);
    ck_assert_int_eq(rmdir(dir), 0); /* the directory is empty: no other file is left */
}

/* embedded_start() does not wait for the server, so this function connects until it succeeds. */
static redisContext *
connected(const char *path)
{
    int64_t began_us = clock_now_us();

    for (;;) {
        redisContext *c = redisConnectUnix(path);

        if (c->err == 0) {
            return c;
        }
        redisFree(c);
        ck_assert_int_lt(clock_now_us() - began_us, PATIENCE_US);
    }
}

static void
must_answer_text(redisContext *c, const char *command, const char *want)
{
    redisReply *r = redisCommand(c, command);

    ck_assert_ptr_nonnull(r);
    if (r->type == REDIS_REPLY_ARRAY) {
        ck_assert_uint_eq(r->elements, 2);
        ck_assert_str_eq(r->element[1]->str, want);
    } else {
        ck_assert_msg(strstr(r->str, want) != NULL, "%s: %s", command, r->str);
    }
    freeReplyObject(r);
}

START_TEST(it_answers_and_ends)
{
    char error[160] = "";
    struct embedded *e = embedded_start(dir, "redis", error);
    struct stat st;
    redisContext *c;
    pid_t pid;

    ck_assert_msg(e != NULL, "%s", error);
    pid = embedded_pid(e);
    ck_assert_str_eq(embedded_url(e) + strlen("unix:"), sock);
    c = connected(sock);
    must_answer_text(c, "PING", "PONG");
    must_answer_text(c, "CONFIG GET port", "0");
    must_answer_text(c, "CONFIG GET save", "");
    must_answer_text(c, "CONFIG GET appendonly", "no");
    must_answer_text(c, "CONFIG GET maxmemory-policy", "noeviction");
    must_answer_text(c, "CONFIG GET dir", dir);
    ck_assert_int_eq(stat(sock, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0700);
    ck_assert_int_eq(stat(run_log, &st), 0);
    embedded_stop(&e);
    ck_assert_ptr_null(e);
    ck_assert_int_eq(kill(pid, 0), -1); /* it has ended, and has been reaped */
    ck_assert_int_eq(access(sock, F_OK), -1);
    embedded_stop(&e); /* harmless */
    redisFree(c);
}
END_TEST

START_TEST(again_after_one_that_was_killed)
{
    char error[160] = "";
    struct embedded *e = embedded_start(dir, "redis", error);
    redisContext *c;

    ck_assert_msg(e != NULL, "%s", error);
    redisFree(connected(sock));
    kill(embedded_pid(e), SIGKILL);
    embedded_stop(&e);
    e = embedded_start(dir, "redis", error);
    ck_assert_msg(e != NULL, "%s", error);
    c = connected(sock);
    must_answer_text(c, "PING", "PONG");
    redisFree(c);
    embedded_stop(&e);
}
END_TEST

/* kill -9 of the daemon ends its Redis, too. This process adopts orphans, so that the test can wait for the end. */
START_TEST(it_never_is_an_orphan)
{
    int fds[2], status;
    pid_t daemon_pid, redis_pid = 0;
    char left[112];

    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    ck_assert_int_eq(pipe(fds), 0);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        char error[160];
        struct embedded *e = embedded_start(dir, "redis", error);
        pid_t pid = e != NULL ? embedded_pid(e) : -1;

        (void)!write(fds[1], &pid, sizeof(pid));
        for (;;) {
            pause();
        }
    }
    ck_assert_int_eq(read(fds[0], &redis_pid, sizeof(redis_pid)), sizeof(redis_pid));
    ck_assert_int_gt(redis_pid, 0);
    redisFree(connected(sock));
    kill(daemon_pid, SIGKILL);
    ck_assert_int_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
    ck_assert_int_eq(waitpid(redis_pid, &status, 0), redis_pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    snprintf(left, sizeof(left), "%s.lock", sock);
    ck_assert_int_eq(unlink(left), 0); /* the file locks no process out, see a_directory_has_one */
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(a_missing_binary_is_reported)
{
    char error[160] = "", *path = strdup(getenv("PATH"));

    ck_assert_int_eq(setenv("PATH", "/nowhere", 1), 0);
    ck_assert_ptr_null(embedded_start(dir, "redis", error));
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    free(path);
    ck_assert_ptr_nonnull(strstr(error, "redis-server"));
    ck_assert_ptr_nonnull(strstr(error, "installed"));
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no zombie is left */
}
END_TEST

START_TEST(a_directory_has_one)
{
    char error[160] = "", want[80];
    struct embedded *e = embedded_start(dir, "redis", error);
    redisContext *c;

    ck_assert_msg(e != NULL, "%s", error);
    c = connected(sock);
    ck_assert_ptr_null(embedded_start(dir, "redis", error));
    snprintf(want, sizeof(want), "already running: process %ld", (long)getpid());
    ck_assert_msg(strstr(error, want) != NULL, "%s", error);
    must_answer_text(c, "PING", "PONG");
    redisFree(c);
    c = connected(sock); /* the socket is still there */
    redisFree(c);
    embedded_stop(&e);
    e = embedded_start(dir, "redis", error);
    ck_assert_msg(e != NULL, "%s", error);
    embedded_stop(&e);
}
END_TEST

START_TEST(a_missing_directory_is_reported)
{
    char error[160] = "", path[300], deep[400];

    snprintf(path, sizeof(path), "%s/not/there", dir);
    ck_assert_ptr_null(embedded_start(path, "redis", error));
    ck_assert_str_ne(error, "");
    snprintf(deep, sizeof(deep), "%s/%0*d", dir, 120, 0); /* longer than any path of a Unix socket */
    error[0] = '\0';
    ck_assert_ptr_null(embedded_start(deep, "redis", error));
    ck_assert_str_ne(error, "");
    rmdir(deep);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {it_answers_and_ends, again_after_one_that_was_killed, it_never_is_an_orphan,
                                  a_missing_binary_is_reported, a_directory_has_one, a_missing_directory_is_reported};
    Suite *s = suite_create("embedded");
    TCase *tc = tcase_create("embedded");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, begin, end);
    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
