/*
 * shard_view.c -- what a shard shows of itself: its state for INFO, its last error, the clock of its Redis.
 */
#include "daemon/backend/shard.h"

#include <stdio.h>
#include <string.h>

#include "daemon/backend/shard_links.h"
#include "daemon/base/clock.h"

static void
tls_status(const struct shard *sh, struct backend_status *out)
{
    const struct tls_connection *s = link_tls(shard_any_link(sh));
    struct tls_view view = {.version = ""};

    if (s != NULL) {
        tls_connection_view(s, &view);
    }
    snprintf(out->tls_version, sizeof(out->tls_version), "%s", view.version);
    snprintf(out->tls_cipher, sizeof(out->tls_cipher), "%s", view.cipher);
    out->tls_peer_expires_s = view.peer.expires_s;
    out->tls_own_expires_s = sh->address->tls != NULL ? tls_own(sh->address->tls).expires_s : 0;
}

void
shard_status(const struct shard *sh, struct backend_status *out)
{
    *out = (struct backend_status){
        .up = sh->up, .links = sh->links_n, .queued = sh->gathered_n, .watched = watches_count(sh->watches)};
    snprintf(out->address, sizeof(out->address), "%s", sh->address->shown);
    server_info_status(&sh->server, out);
    tls_status(sh, out);
    out->offset_us = clock_offset_guess(&sh->offset);
    out->rtt_us = link_rtt_us(sh->link[0]);
    out->epoch = sh->membership.epoch.number;
    out->grace = sh->membership.epoch.until_ms != 0;
    out->other_daemons = members_count(&sh->membership.members);
    snprintf(out->last_error, sizeof(out->last_error), "%s", shard_last_error(sh));
    shard_explain(sh, out->refusal, sizeof(out->refusal));
    for (unsigned i = 0; i < sh->links_n; i++) {
        out->links_up += link_up(sh->link[i]);
        out->in_flight += link_in_flight(sh->link[i]);
        if (!link_up(sh->link[i]) && strstr(out->links_away, shard_purpose_of(sh, i)) == NULL) {
            size_t at = strlen(out->links_away);

            snprintf(out->links_away + at, sizeof(out->links_away) - at, "%s%s", at > 0 ? "," : "",
                     shard_purpose_of(sh, i));
        }
    }
}

const char *
shard_run_id(const struct shard *sh)
{
    return sh->server.run_id;
}

void
shard_explain(const struct shard *sh, char *out, size_t room)
{
    out[0] = '\0';
    if (sh->up && sh->conf->strict) {
        server_info_explain(&sh->server, out, room);
    }
}

const char *
shard_last_error(const struct shard *sh)
{
    unsigned i = 0;

    while (i + 1 < sh->links_n && link_last_error(sh->link[i])[0] == '\0') {
        i++;
    }
    return link_last_error(sh->link[i]);
}

bool
shard_clock_offset(const struct shard *sh, int64_t *us)
{
    *us = clock_offset_guess(&sh->offset);
    return sh->offset.at_us != 0;
}

int64_t
shard_longest_us(const struct shard *sh)
{
    int64_t ours_us = sh->membership.epoch.longest_lease_us;
    int64_t us = members_longest_ms(&sh->membership.members) * US_PER_MS;

    return us > ours_us ? us : ours_us;
}

void
shard_node(const struct shard *sh, struct backend_node *out)
{
    *out = (struct backend_node){.rtt_us = link_rtt_us(sh->link[0]), .epoch = sh->membership.epoch.number};
    snprintf(out->role, sizeof(out->role), "%s", sh->server.role);
    snprintf(out->address, sizeof(out->address), "%s", sh->address->shown);
    snprintf(out->state, sizeof(out->state), "%s", sh->up ? "up" : "down");
}
