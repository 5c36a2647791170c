/* A new node asks the members which of them it is, before it has anything of its own: over the port
 * that nodes use among each other, with the certificates of nodes, and waiting for the answer. */
#ifndef BW_SERVE_INTRODUCE_H
#define BW_SERVE_INTRODUCE_H

#include "net/tls/tls.h"
#include "serve/replica/identity.h"

struct bw_introduce {
    const struct bw_replica_member *members; /* whom to ask: host and port */
    uint32_t count;
    const struct bw_replica_member *self; /* name, and where it is reached */
    struct bw_tls_config *tls;            /* NULL: in the clear */
    uint64_t within_ms; /* an answer that a member has yet to learn is waited for */
};

/* Returns 0, or an error with a line in why[BW_REPLICA_WHY_MAX + 1] that says what to do:
 * BW_EDENIED (not a member, or one that was there already), BW_EVERSION, BW_ETIMEDOUT (nobody
 * answered). */
int bw_introduce(const struct bw_introduce *introduce, struct bw_identity *out, char *why);

#endif
