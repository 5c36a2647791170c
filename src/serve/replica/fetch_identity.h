/* Obtains the identity of a new node: the node asks the members which member it is, before it
 * has any data. It uses the peer port and the nodes' certificates, and blocks until it gets an
 * answer. */
#ifndef BW_SERVE_REPLICA_FETCH_IDENTITY_H
#define BW_SERVE_REPLICA_FETCH_IDENTITY_H

#include "net/tls/tls.h"
#include "serve/replica/identity.h"

struct bw_introduce {
    const struct bw_replica_member *members; /* members to ask: host and port */
    uint32_t count;
    const struct bw_replica_member *self; /* own name and peer address */
    struct bw_tls_config *tls;            /* NULL: no TLS */
    uint64_t within_ms;                   /* time limit; a member may not know the new node yet */
};

/* Returns 0, or an error whose reason in why[BW_REPLICA_WHY_MAX + 1] says what to do: BW_EDENIED
 * (not a member, or a member that has already started), BW_EVERSION, BW_ETIMEDOUT (no member
 * answered). */
int bw_introduce(const struct bw_introduce *introduce, struct bw_identity *out, char *why);

#endif
