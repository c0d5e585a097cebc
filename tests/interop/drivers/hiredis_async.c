/* hiredis, the half with callbacks, on libevent, as a client of rlockd: hiredis_async PORT. */
#include <async.h>
#include <event2/event.h>
#include <hiredis.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <adapters/libevent.h>

#define WORDS_MAX 32

struct driver {
    redisAsyncContext *commands, *events;
    char line[8192]; /* of standard input, not complete yet */
    size_t n;
    struct event_base *base;
};

static void on_reply(redisAsyncContext *c, void *reply, void *ctx)
{
    redisReply *r = reply;
    char *id = ctx;

    (void)c;
    if (!r)
        printf("%s err connection lost\n", id);
    else if (r->type == REDIS_REPLY_ERROR)
        printf("%s err %s\n", id, r->str);
    else if (r->type == REDIS_REPLY_NIL)
        printf("%s no\n", id);
    else if (r->type == REDIS_REPLY_INTEGER)
        printf("%s ok %lld\n", id, r->integer);
    else
        printf("%s ok %s\n", id, r->str ? r->str : "(array)");
    fflush(stdout);
    free(id);
}

static void on_event(redisAsyncContext *c, void *reply, void *ctx)
{
    redisReply *r = reply;

    (void)c;
    (void)ctx;
    if (!r || r->elements != 3)
        return;
    if (!strcmp(r->element[0]->str, "subscribe"))
        printf("subscribed %s\n", r->element[1]->str);
    else
        printf("event %s %s\n", r->element[1]->str, r->element[2]->str);
    fflush(stdout);
}

static void run(struct driver *d, char *line)
{
    const char *word[WORDS_MAX];
    size_t n = 0;

    for (char *w = strtok(line, " "); w && n < WORDS_MAX; w = strtok(NULL, " "))
        word[n++] = w;
    if (n < 3)
        return;
    if (!strcmp(word[2], "version")) {
        printf("%s ok %d.%d.%d\n", word[0], HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
        fflush(stdout);
    } else if (!strcmp(word[2], "subscribe")) {
        printf("%s ok 1\n", word[0]);
        redisAsyncCommand(d->events, on_event, NULL, "SUBSCRIBE %s", word[3]);
    } else {
        redisAsyncCommandArgv(d->commands, on_reply, strdup(word[0]), (int)n - 3, word + 3, NULL);
    }
}

static void on_input(evutil_socket_t fd, short what, void *ctx)
{
    struct driver *d = ctx;
    ssize_t got = read(fd, d->line + d->n, sizeof d->line - 1 - d->n);
    char *end;

    (void)what;
    if (got <= 0) {
        event_base_loopbreak(d->base);
        return;
    }
    d->n += (size_t)got;
    d->line[d->n] = '\0';
    while ((end = strchr(d->line, '\n'))) {
        *end++ = '\0';
        run(d, d->line);
        d->n -= (size_t)(end - d->line);
        memmove(d->line, end, d->n + 1);
    }
}

int main(int argc, char **argv)
{
    struct driver d = {.base = event_base_new()};
    int port = argc > 1 ? atoi(argv[1]) : 0;
    struct event *input = event_new(d.base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, &d);

    d.commands = redisAsyncConnect("127.0.0.1", port);
    d.events = redisAsyncConnect("127.0.0.1", port);
    if (!d.commands || d.commands->err || !d.events || d.events->err)
        return 1;
    redisLibeventAttach(d.commands, d.base);
    redisLibeventAttach(d.events, d.base);
    event_add(input, NULL);
    printf("ready\n");
    fflush(stdout);
    event_base_dispatch(d.base);
    return 0; /* the process ends, and with it the connections */
}
