/* hiredis, the blocking half, as a client of rlockd: hiredis_sync PORT. Subscribing is the last thing it does. */
#include <hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 32

static void say_reply(const char *id, const redisReply *r)
{
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
}

static void subscribe(redisContext *c, const char *channel)
{
    void *reply = NULL;

    freeReplyObject(redisCommand(c, "SUBSCRIBE %s", channel));
    printf("subscribed %s\n", channel);
    fflush(stdout);
    while (redisGetReply(c, &reply) == REDIS_OK) {
        redisReply *r = reply;

        if (r->elements == 3)
            printf("event %s %s\n", r->element[1]->str, r->element[2]->str);
        fflush(stdout);
        freeReplyObject(r);
    }
}

static size_t split(char *line, const char **word)
{
    size_t n = 0;

    for (char *w = strtok(line, " \n"); w && n < WORDS_MAX; w = strtok(NULL, " \n"))
        word[n++] = w;
    return n;
}

int main(int argc, char **argv)
{
    char line[4096];
    const char *word[WORDS_MAX];
    redisContext *c = redisConnect("127.0.0.1", argc > 1 ? atoi(argv[1]) : 0);

    if (!c || c->err)
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        size_t n = split(line, word);

        if (n < 3)
            continue;
        if (!strcmp(word[2], "version")) {
            printf("%s ok %d.%d.%d\n", word[0], HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
            fflush(stdout);
        } else if (!strcmp(word[2], "subscribe")) {
            printf("%s ok 1\n", word[0]);
            subscribe(c, word[3]);
        } else { /* `long` is `do`: there is no read timeout unless one is set */
            redisReply *r = redisCommandArgv(c, (int)n - 3, word + 3, NULL);

            say_reply(word[0], r);
            freeReplyObject(r);
        }
    }
    redisFree(c);
    return 0;
}
