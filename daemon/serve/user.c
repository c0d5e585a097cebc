/*
 * user.c -- the user of a connection.
 */
#include "daemon/serve/user.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/serve/session_record.h"

uint64_t
user_key(const struct session *s)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    unsigned char id[9] = {0};
    socklen_t n = sizeof(a);

    memset(&a, 0, sizeof(a));
    if (s->is_unix) {
        id[0] = 'u';
        memcpy(id + 1, &s->uid, sizeof(s->uid));
    } else if (getpeername(s->fd, &a.any, &n) != 0) {
        id[0] = '?';
    } else if (a.any.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr)) {
        id[0] = '6';
        memcpy(id + 1, &a.v6.sin6_addr, 8);
    } else {
        id[0] = '4';
        memcpy(id + 1, a.any.sa_family == AF_INET6 ? (const void *)(a.v6.sin6_addr.s6_addr + 12) : &a.v4.sin_addr, 4);
    }
    return hash_bytes(&s->engine->hash, id, sizeof(id)) | 1;
}
