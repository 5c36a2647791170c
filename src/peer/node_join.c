/* Addresses of other peers: resolves each NAME:PORT of --join to all its addresses, and repeats
 * this, because names can move. */
#include "os/clock.h"
#include "os/loop.h"
#include "peer/node_state.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

int peer_join_parse(struct bw_peer *p, char *why)
{
    const char *at = p->options.join ? p->options.join : "";
    while (*at) {
        size_t length = strcspn(at, ",");
        struct peer_join *join = &p->joins[p->joins_count];
        if (p->joins_count == PEER_JOINS ||
            bw_peer_address_split(at, length, join->host, join->port) != 0) {
            snprintf(why, BW_PEER_WHY_MAX + 1,
                     "invalid --join address '%.*s': expected HOST:PORT, at most %u of them",
                     (int)length, at, PEER_JOINS);
            return BW_EINVAL;
        }
        join->peer = p;
        p->joins_count++;
        at += length + (at[length] == ',');
    }
    return 0;
}

void peer_join_place(struct bw_peer *p, const struct sockaddr *address)
{
    socklen_t length = bw_sockaddr_length(address);
    for (uint32_t i = 0; i < p->places_count; i++)
        if (bw_peer_address_same((struct sockaddr *)&p->places[i], address))
            return;
    if (length == 0)
        return;
    /* Replaces the oldest address: a name that moves often must not fill the list permanently. */
    if (p->places_count == PEER_PLACES) {
        memmove(&p->places[0], &p->places[1], (PEER_PLACES - 1) * sizeof p->places[0]);
        p->places_count--;
    }
    memset(&p->places[p->places_count], 0, sizeof p->places[0]);
    memcpy(&p->places[p->places_count++], address, length);
    p->meet_at = bw_time_min(p->meet_at, bw_clock_boot());
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct peer_join *join = request->data;
    struct bw_peer *p = join->peer;
    join->asking = false;
    for (struct addrinfo *at = found; status == 0 && at && !p->closing; at = at->ai_next)
        peer_join_place(p, at->ai_addr);
    uv_freeaddrinfo(found);
    p->handles--;
    if (p->closing)
        peer_net_closed(p);
}

void peer_join_resolve(struct bw_peer *p)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_DGRAM};
    for (uint32_t i = 0; i < p->joins_count; i++) {
        struct peer_join *join = &p->joins[i];
        struct sockaddr_storage address;
        char text[BW_PEER_HOST_MAX + 16];
        snprintf(text, sizeof text, strchr(join->host, ':') ? "[%s]:%s" : "%s:%s", join->host,
                 join->port);
        if (bw_peer_address_read(text, &address) == 0) {
            peer_join_place(p, (struct sockaddr *)&address);
            continue;
        }
        if (join->asking)
            continue;
        join->request.data = join;
        if (bw_loop_look_up(p->options.loop, &join->request, on_resolved, join->host, join->port,
                            &hints) != 0)
            continue;
        join->asking = true;
        p->handles++;
    }
}
