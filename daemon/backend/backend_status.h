/*
 * backend_status.h -- the state of a backend and of its servers, for INFO.
 */
#ifndef RLOCKD_BACKEND_BACKEND_STATUS_H
#define RLOCKD_BACKEND_BACKEND_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The state of a backend, for INFO redis and the log. */
struct backend_status {
    bool up;              /* a link that can serve is up; in a quorum, one at each node of a majority */
    char address[160];
    char version[32], run_id[48], role[16], maxmemory_policy[32];
    int64_t offset_us;    /* Redis's clock minus the daemon's, latest estimate */
    int64_t rtt_us;       /* of the last command; cluster: the longest of all masters, quorum: the median */
    unsigned links, links_up;
    char links_away[40];  /* the purposes with a link down, to any server: of "locks,renewals,subscriptions,replicas" */
    bool locks_away;      /* with one shard only: the current link of some names is down, for the reason `last_error` */
    uint64_t in_flight, queued, watched;
    char last_error[320]; /* "" = none */
    char refusal[320];    /* the reason for which nothing is granted although `up`; "" = there is none */
    uint64_t epoch;       /* of the data; 0 = not known */
    char tls_version[16], tls_cipher[40]; /* "" = no TLS, or not connected */
    int64_t tls_peer_expires_s, tls_own_expires_s; /* the certificates; of the wall clock, 0 = not known, or none */
    bool grace;           /* in a grace period: only former holders get their locks; quorum: no majority votes */
    size_t other_daemons; /* members */
};

/* A server that the topology knows, for INFO redis. */
struct backend_node {
    char role[16];     /* "master", "replica", "sentinel"; "" = not known */
    char address[160];
    char state[32];    /* "up", "down", or a word of the topology's */
    int64_t rtt_us;    /* of the last command; 0 = none was answered */
    uint64_t epoch;    /* of the server's data, in a cluster the node's config epoch; 0 = not known, or none */
    char more[64];     /* further fields of the topology, ",key=value" each; "" = none */
};

enum { BACKEND_NODES_MAX = 64 };

#endif
