/*
 * conf_load.c -- a file and a command line into a conf, or every reason why not.
 *
 * Complaints are collected with the line and column that they are about, and are written in the order of the file. A
 * conf is handed out only when there is none.
 */
#include "conf/conf_loader.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_keys.h"
#include "daemon/base/credential.h"
#include "daemon/base/memory.h"

#define FILE_BYTES_MAX ((size_t)256 * 1024)
#define SECRET_BYTES_MAX ((size_t)4096)

void
loader_complain_since(struct loader *ld, struct line_col at, size_t begin)
{
    if (ld->complaints_n == ld->complaints_room) {
        ld->complaints_room = ld->complaints_room > 0 ? 2 * ld->complaints_room : 16;
        ld->complaints = mem_array(ld->complaints, ld->complaints_room, sizeof(*ld->complaints));
    }
    ld->complaints[ld->complaints_n] = (struct complaint){at, ld->complaints_n, begin, ld->texts.n - begin};
    ld->complaints_n++;
}

void
loader_complain(struct loader *ld, struct line_col at, const char *fmt, ...)
{
    size_t begin = ld->texts.n;
    va_list args;

    va_start(args, fmt);
    buf_vprintf(&ld->texts, fmt, args);
    va_end(args);
    loader_complain_since(ld, at, begin);
}

static int
compare_complaints(const void *a, const void *b)
{
    const struct complaint *x = a, *y = b;

    if (x->at.line != y->at.line) {
        return x->at.line < y->at.line ? -1 : 1;
    }
    if (x->at.col != y->at.col) {
        return x->at.col < y->at.col ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

static void
print_complaints(struct loader *ld, struct buf *errors)
{
    if (ld->complaints_n > 0) {
        qsort(ld->complaints, ld->complaints_n, sizeof(ld->complaints[0]), compare_complaints);
    }
    for (size_t i = 0; i < ld->complaints_n; i++) {
        const struct complaint *c = &ld->complaints[i];

        buf_printf(errors, "%s:%zu:%zu: ", ld->path, c->at.line, c->at.col);
        buf_add(errors, ld->texts.p + c->begin, c->bytes);
        buf_adds(errors, "\n");
    }
}

/* Reads a whole file of at most max bytes into p. False with a sentence in `why`. */
static bool
read_all(int fd, char *p, size_t max, size_t *n, struct buf *why)
{
    ssize_t got;

    *n = 0;
    do {
        got = read(fd, p + *n, max + 1 - *n);
        if (got < 0 && errno != EINTR) {
            buf_printf(why, "cannot be read: %s", strerror(errno));
            return false;
        }
        *n += got > 0 ? (size_t)got : 0;
        if (*n > max) {
            buf_printf(why, "is larger than %zu bytes", max);
            return false;
        }
    } while (got != 0);
    return true;
}

/* The open file and its status, or -1 with a sentence in `why`. */
static int
open_file(const char *path, struct stat *st, struct buf *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0 || fstat(fd, st) < 0) {
        buf_printf(why, "cannot be opened: %s", strerror(errno));
        goto fail;
    }
    if (S_ISDIR(st->st_mode)) {
        buf_adds(why, "is a directory");
        goto fail;
    }
    return fd;

fail:
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

/* A password from its file: the contents without the end of the last line (LF, CR LF or CR). */
static bool
read_secret(const char *path, char text[SECRET_BYTES_MAX + 1], size_t *n, struct buf *why)
{
    char sentence[CREDENTIAL_WHY_ROOM];
    int fd = credential_open(path, sentence);
    bool ok;

    if (fd < 0) {
        buf_adds(why, sentence);
        return false;
    }
    ok = read_all(fd, text, SECRET_BYTES_MAX, n, why);
    close(fd);
    if (ok && *n > 0 && text[*n - 1] == '\n') {
        (*n)--;
    }
    if (ok && *n > 0 && text[*n - 1] == '\r') {
        (*n)--;
    }
    if (ok && *n == 0) {
        buf_adds(why, "has no password in it");
        ok = false;
    }
    return ok;
}

static void
read_config(struct loader *ld)
{
    const struct line_col top = {1, 1};
    size_t begin = ld->texts.n, n = 0;
    char *p = mem_alloc(FILE_BYTES_MAX + 1);
    struct stat st;
    int fd = open_file(ld->path, &st, &ld->texts);

    if (fd < 0 || !read_all(fd, p, FILE_BYTES_MAX, &n, &ld->texts)) {
        loader_complain_since(ld, top, begin);
    } else {
        ld->file_mode = st.st_mode;
        loader_read_yaml(ld, p, n);
    }
    if (fd >= 0) {
        close(fd);
    }
    explicit_bzero(p, n);
    free(p);
}

/* Conditions that concern several keys. */

static const char *
text_at(const struct loader *ld, const struct conf_key *k)
{
    const char *text;

    assert(k != NULL && k->type == CONF_TEXT);
    memcpy(&text, conf_key_field(k, ld->cf, NULL), sizeof(text));
    return text != NULL ? text : "";
}

/* Takes a password from the file that its `..._file` key names. */
static void
take_secret(struct loader *ld, const struct conf_key *secret, const struct conf_key *file)
{
    struct line_col at = ld->seen[file - conf_keys];
    char text[SECRET_BYTES_MAX + 1];
    size_t begin, n = 0;
    bool ok;

    if (ld->seen[secret - conf_keys].line != 0 && text_at(ld, secret)[0] != '\0') {
        loader_complain(ld, at, "%s.%s: %s is given as well; give only one of them", file->section, file->name,
                        secret->name);
        return;
    }
    begin = ld->texts.n;
    buf_printf(&ld->texts, "%s.%s: ", file->section, file->name);
    ok = read_secret(text_at(ld, file), text, &n, &ld->texts) &&
         conf_key_set(secret, conf_key_field(secret, ld->cf, NULL), (struct slice){text, n}, &ld->texts);
    if (!ok) {
        loader_complain_since(ld, at, begin);
    } else {
        ld->texts.n = begin;
    }
    explicit_bzero(text, sizeof(text));
}

static void
take_secrets(struct loader *ld)
{
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *file = conf_key_file_of(&conf_keys[i]);

        if (file != NULL && text_at(ld, file)[0] != '\0') {
            take_secret(ld, &conf_keys[i], file);
        }
    }
}

/* Where to complain of a pair of keys: at the one that the file sets. */
static struct line_col
line_col_of_pair(const struct loader *ld, const struct conf_key *a, const struct conf_key *b)
{
    struct line_col at = ld->seen[a - conf_keys];

    return at.line != 0 ? at : ld->seen[b - conf_keys];
}

static void
check_pairs(struct loader *ld)
{
    static const struct {
        const char *section, *less, *more;
    } pairs[] = {
        {"redis", "backoff_min", "backoff_max"},
        {"limits", "name_bytes", "line_bytes"},
    };
    const struct conf_key *unix_key = conf_key_find("auth", SLICE_LIT("unix"));

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const struct conf_key *less = conf_key_find(pairs[i].section, slice_of(pairs[i].less));
        const struct conf_key *more = conf_key_find(pairs[i].section, slice_of(pairs[i].more));
        int64_t a, b;

        memcpy(&a, conf_key_field(less, ld->cf, NULL), sizeof(a));
        memcpy(&b, conf_key_field(more, ld->cf, NULL), sizeof(b));
        if (a > b) {
            loader_complain(ld, line_col_of_pair(ld, less, more), "%s.%s must not be more than %s.%s", less->section,
                            less->name, more->section, more->name);
        }
    }
    if (ld->cf->auth_unix && ld->cf->auth_password == NULL && ld->cf->auth_admin_password == NULL) {
        loader_complain(ld, ld->seen[unix_key - conf_keys], "auth.unix: there is no password to log in with");
    }
}

struct conf_tls
conf_url_tls(const char *url)
{
    struct conf_tls tls = {.with = false};

    if (strncmp(url, "quorum:", 7) != 0) {
        tls.with = strncmp(url, "rediss:", 7) == 0 || strncmp(url, "sentinel+tls:", 13) == 0 ||
                   strncmp(url, "cluster+tls:", 12) == 0;
        tls.without = !tls.with;
        return tls;
    }
    for (const char *node = url + 7; node != NULL; node = strchr(node, ',') != NULL ? strchr(node, ',') + 1 : NULL) {
        tls.with = tls.with || strncmp(node, "rediss:", 7) == 0;
        tls.without = tls.without || strncmp(node, "redis:", 6) == 0;
    }
    return tls;
}

/* Why some connections to Redis would be without TLS. NULL: at least one is by TCP, and all by TCP have TLS. */
static const char *
why_no_tls(const char *url)
{
    struct conf_tls tls = conf_url_tls(url);

    if (tls.with && !tls.without) {
        return NULL;
    }
    return strncmp(url, "quorum:", 7) != 0 ? "redis.url has no TLS (rediss://, sentinel+tls:, cluster+tls:)"
           : tls.without                   ? "redis.url has a node without TLS"
                                           : "redis.url has no node with TLS";
}

/*
 * Refuses keys of TLS if a connection would be without TLS: the password would go to any listener on the way. `errors`:
 * of the command line, whose URL is in place; NULL: the URL is that of the file.
 */
static void
check_tls(struct loader *ld, struct buf *errors)
{
    static const char *const keys[] = {"tls_ca_file", "tls_cert_file", "tls_key_file", "tls_server_name"};
    const char *why = why_no_tls(ld->cf->redis_url);

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && why != NULL; i++) {
        const struct conf_key *k = conf_key_find("redis", slice_of(keys[i]));

        if (text_at(ld, k)[0] == '\0') {
            continue;
        }
        if (errors != NULL) {
            buf_printf(errors, "--redis: redis.%s: %s\n", k->name, why);
        } else {
            loader_complain(ld, ld->seen[k - conf_keys], "redis.%s: %s", k->name, why);
        }
    }
}

/* Why a quorum cannot have the locks of a rule; NULL: it can. */
static const char *
not_for_quorum(const struct conf_locks *locks)
{
    if ((kind_rows[locks->kind].flags & KIND_F_ONE_KEY) == 0) {
        return kind_rows[locks->kind].name;
    }
    return locks->replicas > 0 ? "replicas" : NULL;
}

/* The channel or list by which another library is woken is in another slot, where no script may reach it. */
static const char *
not_for_cluster(const struct conf_locks *locks)
{
    return locks->wakes != WAKES_NONE ? "wakes" : NULL;
}

/* Finds the first of `locks` and the rules for which not_for() has a reason. True: there is one, and `why` names it. */
static bool
find_bad_rule(const struct conf *cf, const char *(*not_for)(const struct conf_locks *), struct buf *why)
{
    const char *bad = not_for(&cf->locks);
    size_t i = 0;

    if (bad != NULL) {
        buf_printf(why, "locks says %s", bad);
        return true;
    }
    while (i < cf->rules_n && (bad = not_for(&cf->rules[i].locks)) == NULL) {
        i++;
    }
    if (bad != NULL) {
        buf_printf(why, "rules.%zu (%s) says %s", i, cf->rules[i].match != NULL ? cf->rules[i].match : "", bad);
    }
    return bad != NULL;
}

static bool
find_bad_kind(const struct conf *cf, const char *url, struct buf *why)
{
    if (strncmp(url, "quorum:", 7) == 0) {
        buf_adds(why, "a quorum has the kinds reentrant and simple, without replicas, and ");
        return find_bad_rule(cf, not_for_quorum, why);
    }
    if (strncmp(url, "cluster:", 8) == 0 || strncmp(url, "cluster+tls:", 12) == 0) {
        buf_adds(why, "locks in a cluster have no wakes, and ");
        return find_bad_rule(cf, not_for_cluster, why);
    }
    return false;
}

static void
check_kinds(struct loader *ld)
{
    struct buf why;

    buf_init(&why, 0);
    if (find_bad_kind(ld->cf, ld->cf->redis_url, &why)) {
        loader_complain(ld, ld->seen[conf_key_find("redis", SLICE_LIT("url")) - conf_keys], "redis.url: %.*s",
                        (int)why.n, why.p);
    }
    buf_fini(&why);
}

bool
conf_suits_url(const struct conf *cf, const char *url, struct buf *why)
{
    size_t begin = why->n;

    buf_adds(why, "redis.url: the URL in use stays until a restart: ");
    if (find_bad_kind(cf, url, why)) {
        return false;
    }
    why->n = begin;
    return true;
}

/* Protected mode: where it is violated, the error names the first address that other hosts may reach. */
static const char *
find_open_address(const struct conf *cf)
{
    for (size_t i = 0; cf->protected_mode && cf->auth_password == NULL && i < cf->listen.n; i++) {
        if (!conf_address_is_local(cf->listen.item[i])) {
            return cf->listen.item[i];
        }
    }
    return NULL;
}

#define OPEN_ADDRESS "%s: other hosts may reach it without a password: set auth.password, or protected_mode: false"

static void
check_addresses(struct loader *ld)
{
    struct line_col at = ld->seen[conf_key_find("", SLICE_LIT("listen")) - conf_keys];
    const char *open = find_open_address(ld->cf);

    if (ld->cf->listen.n > CONF_LISTEN_MAX) {
        loader_complain(ld, at, "listen: has %zu addresses; at most %d can be served", ld->cf->listen.n,
                        CONF_LISTEN_MAX);
    }
    if (open != NULL) {
        loader_complain(ld, at, "listen: " OPEN_ADDRESS, open);
    }
}

/* The command line. */

static void
override(struct loader *ld, const char *option, const struct conf_key *k, const char *text, struct buf *errors)
{
    size_t begin = errors->n;

    buf_printf(errors, "%s: ", option);
    if (conf_key_set(k, conf_key_field(k, ld->cf, NULL), slice_of(text), errors)) {
        errors->n = begin;
    } else {
        buf_adds(errors, "\n");
    }
}

/* What a file may not have beside the URL of the command line is the same as beside its own. */
static void
override_url(struct loader *ld, const char *url, struct buf *errors)
{
    size_t begin = errors->n;

    override(ld, "--redis", conf_key_find("redis", SLICE_LIT("url")), url, errors);
    if (errors->n > begin) {
        return;
    }
    buf_adds(errors, "--redis: ");
    if (find_bad_kind(ld->cf, ld->cf->redis_url, errors)) {
        buf_adds(errors, "\n");
    } else {
        errors->n = begin;
    }
    check_tls(ld, errors);
}

static void
override_all(struct loader *ld, const struct conf_overrides *over, struct buf *errors)
{
    const struct conf_key *listen = conf_key_find("", SLICE_LIT("listen"));

    if (over->listen.n > 0) {
        conf_key_clear(listen, conf_key_field(listen, ld->cf, NULL));
    }
    for (size_t i = 0; i < over->listen.n; i++) {
        override(ld, "--listen", listen, over->listen.item[i], errors);
    }
    if (over->listen.n > 0 && find_open_address(ld->cf) != NULL) {
        buf_printf(errors, "--listen: " OPEN_ADDRESS "\n", find_open_address(ld->cf));
    }
    if (over->redis_url != NULL) {
        override_url(ld, over->redis_url, errors);
    }
    if (over->log_level != NULL) {
        override(ld, "--log-level", conf_key_find("log", SLICE_LIT("level")), over->log_level, errors);
    }
}

struct conf *
conf_load(const char *path, const struct conf_overrides *over, struct buf *errors)
{
    struct loader ld = {.path = path};
    size_t begin = errors->n;

    buf_init(&ld.texts, 0);
    ld.cf = conf_new();
    ld.seen = mem_zalloc(conf_keys_n * sizeof(*ld.seen));
    if (path != NULL) {
        read_config(&ld);
    }
    take_secrets(&ld);
    check_pairs(&ld);
    if (over == NULL || over->redis_url == NULL) {
        check_tls(&ld, NULL);
        check_kinds(&ld);
    }
    if (over == NULL || over->listen.n == 0) {
        check_addresses(&ld);
    }
    print_complaints(&ld, errors);
    if (over != NULL) {
        override_all(&ld, over, errors);
    }
    if (errors->n > begin) {
        conf_free(&ld.cf);
    }
    buf_fini(&ld.texts);
    free(ld.complaints);
    free(ld.seen);
    return ld.cf;
}
