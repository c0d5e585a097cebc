/*
 * rlockd_options.c -- the command line of rlockd: its form only; conf checks the values.
 */
#include "daemon/rlockd_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf_keys.h"
#include "daemon/version.h"

static const char usage_text[] =
    "rlockd " RLOCKD_VERSION " -- a lock manager in front of Redis\n"
    "\n"
    "usage: rlockd [-c FILE] [-t | -T] [--listen ADDR]... [--redis URL] [--log-level LEVEL]\n"
    "\n"
    "  -c, --config FILE    read this configuration; without -c the defaults apply\n"
    "  -t, --test           check the configuration, and the rights at Redis if it answers; print every error, end\n"
    "  -T, --print          print the configuration in force, end\n"
    "      --listen ADDR    unix:PATH or tcp:HOST:PORT; repeatable; replaces the configured list\n"
    "      --redis URL      redis[s]://[user:pass@]host:port[/db], unix:PATH[?db=N],\n"
    "                       sentinel[+tls]:host:port,host:port/MASTER[?db=N],\n"
    "                       cluster[+tls]:host:port,host:port,\n"
    "                       quorum:URL,URL,URL (a majority of them),\n"
    "                       or embedded (a private Redis that ends with rlockd)\n"
    "      --log-level L    error, warn, info or debug\n"
    "      --sample-config  print a configuration with every key explained, end\n"
    "      --version        print the version, end\n"
    "  -h, --help           print this, end\n"
    "\n"
    "signals: HUP reloads the configuration; TERM drains, then ends; INT or a second TERM ends at once\n"
    "exit:    0 success, 1 error, 64 usage, 71 out of memory\n";

enum { OPT_LISTEN = 256, OPT_REDIS, OPT_LOG_LEVEL, OPT_SAMPLE, OPT_VERSION };

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},        {"test", no_argument, NULL, 't'},
    {"print", no_argument, NULL, 'T'},               {"listen", required_argument, NULL, OPT_LISTEN},
    {"redis", required_argument, NULL, OPT_REDIS},   {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"sample-config", no_argument, NULL, OPT_SAMPLE}, {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},                {NULL, 0, NULL, 0},
};

static int
usage_error(const char *message)
{
    fprintf(stderr, "rlockd: %s\nTry 'rlockd --help'.\n", message);
    return EXIT_USAGE;
}

static int
print_sample(void)
{
    struct buf b;

    buf_init(&b, 0);
    conf_print_sample(&b);
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
    return 0;
}

/*
 * Copies a URL that has a password, and overwrites the password on the command line, which every user can read. Of a
 * URL that is too long for the copy, the daemon only says that it is too long, and needs no password for that.
 */
static const char *
take_url(struct options *o, char *arg)
{
    struct slice password = conf_url_password(slice_of(arg));

    bool fits = strlen(arg) < sizeof(o->redis_url);

    if (password.n == 0) {
        return arg;
    }
    if (fits) {
        strcpy(o->redis_url, arg);
    }
    memset(arg + (password.p - arg), 'x', password.n);
    return fits ? o->redis_url : arg;
}

int
options_read(int argc, char **argv, struct options *o)
{
    int c;

    o->over.listen.item = o->listen;
    while ((c = getopt_long(argc, argv, "c:tTh", long_options, NULL)) != -1) {
        switch (c) {
        case 'c':
            o->conf_path = optarg;
            break;
        case 't':
            o->mode = MODE_TEST;
            break;
        case 'T':
            o->mode = MODE_PRINT;
            break;
        case OPT_LISTEN:
            if (o->over.listen.n == CONF_LISTEN_MAX) {
                return usage_error("too many --listen");
            }
            o->listen[o->over.listen.n++] = optarg;
            break;
        case OPT_REDIS:
            o->over.redis_url = take_url(o, optarg);
            break;
        case OPT_LOG_LEVEL:
            o->over.log_level = optarg;
            break;
        case OPT_SAMPLE:
            return print_sample();
        case OPT_VERSION:
            printf("rlockd %s\n", RLOCKD_VERSION);
            return 0;
        case 'h':
            fputs(usage_text, stdout);
            return 0;
        default:
            fputs("Try 'rlockd --help'.\n", stderr);
            return EXIT_USAGE;
        }
    }
    return optind < argc ? usage_error("unexpected argument") : -1;
}
