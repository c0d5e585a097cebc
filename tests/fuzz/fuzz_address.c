/*
 * fuzz_address.c -- a Redis URL into an address: taken as a whole or refused, in bounds, and no output has the
 * password.
 *
 * The same bytes as a URL of sentinels: its list and its name fit into their buffers, and are printable.
 *
 * Input: whether user and password are given beside the URL, the URL (up to its first NUL).
 */
#include "daemon/backend/address.h"
#include "daemon/backend/sentinel_url.h"
#include "tests/fuzz/fuzz.h"

static void
take_sentinels(const char *url)
{
    struct sentinel_url u;
    char error[160];

    if (!sentinel_url_parse(url, &u, error)) {
        CHECK(is_printable_line(slice_of(error)));
        return;
    }
    CHECK(u.listed_n > 0 && u.listed_n <= SENTINELS_MAX && u.master[0] != '\0' && u.db >= 0 && u.db <= 65535);
    CHECK(memchr(u.master, '\0', sizeof(u.master)) != NULL);
    for (unsigned i = 0; i < u.listed_n; i++) {
        CHECK(memchr(u.listed[i].host, '\0', sizeof(u.listed[i].host)) != NULL && u.listed[i].host[0] != '\0');
        CHECK(u.listed[i].port > 0 && u.listed[i].port <= 65535);
        CHECK(strpbrk(u.listed[i].host, "\r\n ,/") == NULL);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    unsigned given = take_byte(&c);
    char error[160], *url = exact_copy(take_rest(&c), true);
    struct link_address *a;

    take_sentinels(url);
    memset(error, '#', sizeof(error));
    a = address_parse(url, given & 1 ? "other" : NULL, given & 2 ? "another" : NULL, error);
    if (a == NULL) {
        CHECK(memchr(error, '\0', sizeof(error)) != NULL && is_printable_line(slice_of(error)));
    } else {
        CHECK((a->path != NULL) != (a->host != NULL));
        CHECK(a->port > 0 && a->port <= 65535 && a->db >= 0 && a->db <= 65535);
        CHECK(memchr(a->shown, '\0', sizeof(a->shown)) != NULL);
        CHECK(strncmp(a->shown, a->secure ? "rediss://" : "redis://", 8 + a->secure) == 0 ||
              (a->path != NULL && strncmp(a->shown, "unix:", 5) == 0));
        CHECK(a->tls == NULL && !(a->path != NULL && a->secure));
        CHECK(strchr(a->shown, '@') == NULL || a->path != NULL, "what stands before the host may be a password");
        CHECK(a->password != NULL || !(given & 2));
        address_login(a, given & 4 ? "other" : NULL, given & 8 ? "another" : NULL);
        CHECK(a->url_password || (a->password != NULL) == ((given & 8) != 0));
        address_free(a);
    }
    free(url);
    return 0;
}
