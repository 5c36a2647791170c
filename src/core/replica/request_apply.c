/* Applies committed entries to the registry; leader changes; expired leases. */
#include "core/base/bug.h"
#include "core/base/little.h"
#include "core/registry/expiry.h"
#include "core/replica/request_router.h"

#define EXPIRED_AT_ONCE 256u

/* Answers the request of this entry. If another node waits for it, `nudge` is set instead: that
 * node answers when it applies the entry. A revocation of ours that was proposed before users were
 * enabled is retried with our own authority. */
static void answer_request(struct bw_router *router, uint64_t id, const struct bw_entry *entry,
                           enum bw_refusal refusal)
{
    struct bw_request *request = bw_router_find(router, id);
    if (!request)
        return;
    bool ours = request->origin == router->self;
    router->nudge |= !ours && request->origin != BW_NODE_NONE;
    if (router->leading && request->revokes && refusal == BW_REFUSED_NOT_AUTHENTICATED)
        bw_registry_begin(router->registry, request->lease,
                          router->hooks.now(router->hooks.context));
    bw_router_end(router, request);
    if (ours)
        router->hooks.applied(router->hooks.context, id, entry, refusal, &router->results);
}

void bw_router_complete(struct bw_router *router, uint64_t id, bw_time value)
{
    struct bw_request *request = bw_router_find(router, id);
    if (!request)
        return;
    bool ours = request->origin == router->self;
    router->nudge |= !ours && request->origin != BW_NODE_NONE;
    bw_router_end(router, request);
    if (ours)
        router->hooks.answered(router->hooks.context, id, value);
}

bool bw_router_apply(struct bw_router *router, const unsigned char *bytes, size_t length)
{
    struct bw_entry entry;
    router->applied++;
    if (length < BW_ROUTER_HEAD || bw_entry_decode(&entry, router->scratch, bytes + BW_ROUTER_HEAD,
                                                   length - BW_ROUTER_HEAD) != 0)
        return false; /* Raft's own entry, or one that every node skips */
    enum bw_refusal refusal = bw_registry_apply(router->registry, &entry, &router->results);
    if (router->leading && entry.kind == BW_ENTRY_GRANT && refusal == BW_REFUSED_NONE &&
        !BW_BUG(session_grants_for_ever))
        bw_registry_begin(router->registry, entry.lease.id,
                          router->hooks.now(router->hooks.context));
    answer_request(router, bw_get64(bytes), &entry, refusal);
    return true;
}

/* No request waits for it. If the entry is lost, the next leader repeats it. */
static void raise_level(struct bw_router *router)
{
    struct bw_entry entry = {.kind = BW_ENTRY_LEVEL, .level = BW_REGISTRY_LEVEL};
    struct bw_registry_status status;
    unsigned char scratch[BW_ROUTER_HEAD + 8];
    bw_registry_status(router->registry, &status);
    if (!router->leading || !router->agreed || status.level >= BW_REGISTRY_LEVEL)
        return;
    uint64_t id = bw_router_propose(router, &entry, scratch, sizeof scratch);
    struct bw_request *request = id ? bw_router_find(router, id) : NULL;
    if (request)
        request->origin = BW_NODE_NONE;
}

void bw_router_set_leader(struct bw_router *router, bw_node leader)
{
    bool leading = leader == router->self;
    router->leader = leader;
    if (leading && !router->leading)
        bw_registry_lead(router->registry, router->hooks.now(router->hooks.context));
    else if (!leading && router->leading)
        bw_registry_follow(router->registry);
    router->leading = leading;
    bw_router_reroute(router);
    raise_level(router);
}

void bw_router_set_agreed(struct bw_router *router, bool agreed)
{
    bool before = router->agreed;
    router->agreed = agreed;
    if (!before)
        raise_level(router);
}

bw_time bw_router_deadline(const struct bw_router *router)
{
    return router->leading ? bw_registry_next_expiry(router->registry) : BW_TIME_NEVER;
}

/* Our own proposal: no client waits for it, and a new leader would revoke the lease itself. */
static void revoke(struct bw_router *router, int64_t lease, unsigned char *scratch, size_t size)
{
    struct bw_entry entry = {.kind = BW_ENTRY_REVOKE,
                             .by = bw_registry_node_requester(router->registry),
                             .lease = {.id = lease}};
    uint64_t id = bw_router_propose(router, &entry, scratch, size);
    struct bw_request *request = id ? bw_router_find(router, id) : NULL;
    if (!request) { /* too many requests: retry later */
        bw_registry_begin(router->registry, lease, router->hooks.now(router->hooks.context));
        return;
    }
    request->origin = BW_NODE_NONE;
    request->revokes = true;
    request->lease = lease;
}

/* A loop that paused this long missed keep-alives: leases that look expired may have been
 * renewed. */
bool bw_router_stalled(struct bw_router *router)
{
    bw_time now = router->hooks.now(router->hooks.context);
    bool stalled = router->leading && now - router->last_turn > router->stall_ns;
    router->last_turn = now;
    if (stalled)
        bw_registry_lead(router->registry, now);
    return stalled;
}

void bw_router_expire(struct bw_router *router, unsigned char *scratch, size_t size)
{
    int64_t ids[EXPIRED_AT_ONCE];
    bw_time now = router->hooks.now(router->hooks.context);
    if (!router->leading)
        return;
    if (bw_router_stalled(router))
        return;
    uint32_t count = bw_registry_expired(router->registry, now, ids, EXPIRED_AT_ONCE);
    for (uint32_t i = 0; i < count; i++)
        revoke(router, ids[i], scratch, size);
}
