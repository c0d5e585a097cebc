/*
 * rlockd_options.h -- the command line of rlockd.
 */
#ifndef RLOCKD_OPTIONS_H
#define RLOCKD_OPTIONS_H

#include "conf/conf.h"

#define EXIT_USAGE 64

struct options {
    const char *conf_path;            /* NULL = none */
    char *listen[CONF_LISTEN_MAX];    /* borrowed from argv; over.listen points here */
    char redis_url[CONF_URL_BYTES_MAX + 1]; /* a copy of the URL, if that has a password */
    struct conf_overrides over;
    enum { MODE_SERVE, MODE_TEST, MODE_PRINT } mode;
};

/* Reads argv into a zeroed `o`. -1: the process goes on; else it ends with that status, and its message is written. */
int options_read(int argc, char **argv, struct options *o);

#endif
