/*
 * fuzz_conf.c -- a configuration file of any bytes, which is taken or refused as a whole. Refused: each complaint is
 * one printable line with a place in the file. Taken: each value is within the bounds of the table of keys; the output
 * of -T is taken again and prints the same; each name has settings, and a key that contains the name.
 *
 * Input: the file. It is a memory file, so nothing is written to disk.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "conf/conf.h"
#include "tests/fuzz/fuzz.h"

#define FILE_NAME "/proc/self/fd/%d"

/* Each complaint is "path:line:col: text", in the order of the file. */
static void
check_complaints(const struct buf *errors, const char *path)
{
    const char *p = errors->p, *end = errors->p + errors->n;
    unsigned long last = 0;

    CHECK(errors->n > 0 && end[-1] == '\n');
    while (p < end) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));
        char *rest;
        unsigned long line;

        CHECK(strncmp(p, path, strlen(path)) == 0 && p[strlen(path)] == ':');
        line = strtoul(p + strlen(path) + 1, &rest, 10);
        CHECK(*rest == ':' && line >= last && strtoul(rest + 1, &rest, 10) > 0 && rest[0] == ':' && rest[1] == ' ');
        CHECK(is_printable_line((struct slice){rest, (size_t)(lf - rest)}), "%.*s", (int)(lf - p), p);
        last = line;
        p = lf + 1;
    }
}

static struct conf *
load(struct slice text, struct buf *errors, char path[40])
{
    int fd = memfd_create("conf", MFD_CLOEXEC);
    struct conf *cf;

    CHECK(fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n);
    snprintf(path, 40, FILE_NAME, fd);
    buf_init(errors, 0);
    cf = conf_load(path, NULL, errors);
    close(fd);
    return cf;
}

static void
check_locks(const struct conf_locks *cl)
{
    CHECK(cl->lease_us >= 1000000 && cl->wait_us >= 0 && cl->owner_grace_us >= 0 && cl->queue_grace_us >= 0);
    CHECK((unsigned)cl->kind < KINDS && (unsigned)cl->value < VALUES);
    CHECK(cl->limit >= 1 && cl->limit <= INT32_MAX && cl->waiters >= 0 && cl->waiters <= UINT32_MAX);
    CHECK(cl->key != NULL && strstr(cl->key, "{name}") != NULL && cl->prefix != NULL);
}

/* Values that the daemon relies on without a check of its own. */
static void
check_bounds(const struct conf *cf)
{
    CHECK(cf->limit_words >= 1 && cf->limit_words <= 64);
    CHECK(cf->limit_line_bytes >= 1 && cf->limit_line_bytes <= 1 << 20);
    CHECK(cf->limit_name_bytes >= 1 && cf->limit_sessions >= 1);
    CHECK(cf->limit_pipeline >= 1 && cf->limit_output_bytes >= 1);
    CHECK(cf->redis_links >= 1 && cf->redis_batch >= 1 && cf->redis_timeout_us > 0 && cf->redis_url != NULL);
    CHECK(cf->redis_backoff_min_us > 0 && cf->redis_backoff_min_us <= cf->redis_backoff_max_us);
    CHECK(cf->auth_bytes >= 1 && cf->auth_timeout_us > 0 && cf->dead_peer_us > 0 && cf->max_poll_us > 0);
    CHECK(cf->limit_waiters <= UINT32_MAX && cf->limit_locks <= UINT32_MAX && cf->handoff_max <= UINT32_MAX);
    check_locks(&cf->locks);
    for (size_t i = 0; i < cf->rules_n; i++) {
        CHECK(cf->rules[i].match != NULL);
        check_locks(&cf->rules[i].locks);
    }
}

static void
check_names(const struct conf *cf)
{
    static const struct slice names[] = {{"a", 1}, {"order:42", 8}, {"x\0\n", 3}, {"[a-z]*", 6}};
    struct buf key;

    buf_init(&key, 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        buf_clear(&key, SIZE_MAX);
        conf_key_of(conf_locks_for(cf, names[i]), names[i], &key);
        CHECK(!key.failed && memmem(key.p, key.n, names[i].p, names[i].n) != NULL);
    }
    buf_fini(&key);
}

static void
see_key(void *ctx, const char *path, const char *value, bool reloadable)
{
    (void)reloadable;
    CHECK(path[0] != '\0' && value != NULL);
    *(size_t *)ctx += 1;
}

static void
print(const struct conf *cf, struct buf *out)
{
    buf_init(out, 0);
    conf_print(cf, out);
    CHECK(!out->failed && out->n > 0);
}

/* Passwords are printed as stars, also those that were read from printed stars. */
static void
check_again(const struct conf *cf)
{
    struct buf first, second, errors;
    struct conf *again;
    char path[40];

    print(cf, &first);
    again = load(buf_slice(&first), &errors, path);
    CHECK(again != NULL, "%.*s\n%.*s", (int)errors.n, errors.p, (int)first.n, first.p);
    print(again, &second);
    CHECK(slice_eq(buf_slice(&first), buf_slice(&second)), "%.*s\n---\n%.*s", (int)first.n, first.p, (int)second.n,
          second.p);
    conf_free(&again);
    buf_fini(&first);
    buf_fini(&second);
    buf_fini(&errors);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t keys = 0;
    struct buf errors;
    char path[40];
    struct conf *cf;

    /* This target reads no further files. */
    if (memmem(data, size, "_file", 5) != NULL) {
        return 0;
    }
    cf = load((struct slice){(const char *)data, size}, &errors, path);
    if (cf == NULL) {
        check_complaints(&errors, path);
    } else {
        CHECK(errors.n == 0);
        check_bounds(cf);
        check_names(cf);
        conf_each(cf, see_key, &keys);
        CHECK(keys > 20);
        check_again(cf);
        conf_free(&cf);
    }
    buf_fini(&errors);
    return 0;
}
