/*
 * load_look.c -- figures of the machine and of Redis; see load.h.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

/* schedstat's first number: nanoseconds on a processor. */
static double
cpu_of_thread(const char *path)
{
    unsigned long long ns = 0;
    FILE *f = fopen(path, "re");

    if (f != NULL) {
        if (fscanf(f, "%llu", &ns) != 1) {
            ns = 0;
        }
        fclose(f);
    }
    return (double)ns / 1e9;
}

double
cpu_of(pid_t pid)
{
    char path[320];
    struct dirent *e;
    double sum = 0;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    d = opendir(path);
    if (d == NULL) {
        die("no process %d", (int)pid);
    }
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof(path), "/proc/%d/task/%.32s/schedstat", (int)pid, e->d_name);
            sum += cpu_of_thread(path);
        }
    }
    closedir(d);
    return sum;
}

long
rss_of(pid_t pid)
{
    char path[64], line[128];
    long kib = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    if (f == NULL) {
        die("no process %d", (int)pid);
    }
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) {
            break;
        }
    }
    fclose(f);
    return kib;
}

static bool
is_script(const char *name)
{
    return strncmp(name, "eval", 4) == 0 || strncmp(name, "fcall", 5) == 0;
}

void
redis_counts(int fd, struct redis_counts *out)
{
    const char *words[] = {"INFO", "commandstats"};
    char *text = net_ask(fd, 2, words, NULL), *rest = text, *line;

    memset(out, 0, sizeof(*out));
    while ((line = strsep(&rest, "\n")) != NULL) {
        unsigned long long calls, usec;
        char name[64];

        if (sscanf(line, "cmdstat_%63[^:]:calls=%llu,usec=%llu", name, &calls, &usec) == 3 &&
            strcmp(name, "info") != 0) {
            out->commands += calls;
            out->scripts += is_script(name) ? calls : 0;
            out->script_us += is_script(name) ? (double)usec : 0;
        }
    }
    free(text);
}
