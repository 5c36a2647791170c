/* What must hold for the clients of a session:
 *
 * - A request is answered at most once, with the result of its own entry.
 * - A request is executed at most once, and never after BW_ENOTLEADER.
 * - A read sees everything that any client had seen before the read was sent.
 * - A lease does not end before its client's time is over, unless the client asked for that. The
 *   client counts its TTL from the time when it sent the request.
 * - No lease is granted to two clients, and no two clients hold the election at the same time.
 * - At the leader every lease has a deadline, or is being revoked; every key under a lease has
 *   one that exists. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "core/registry/digest.h"
#include "core/registry/expiry.h"
#include "sim/explore/target_session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const enum bw_entry_kind kinds[SESSION_VERBS] = {[SESSION_GRANT] = BW_ENTRY_GRANT,
                                                        [SESSION_REVOKE] = BW_ENTRY_REVOKE,
                                                        [SESSION_CAMPAIGN] = BW_ENTRY_TXN};

void session_violate(struct session *s, const char *format, ...)
{
    va_list arguments;
    if (s->wrong[0])
        return;
    va_start(arguments, format);
    vsnprintf(s->wrong, sizeof s->wrong, format, arguments);
    va_end(arguments);
}

/* The newest request with this id. */
static struct session_want *find(struct session *s, uint64_t id)
{
    for (uint64_t i = s->wants; i > 0; i--)
        if (s->want[i - 1].id == id)
            return &s->want[i - 1];
    return NULL;
}

/* Takes the answer to a request that waits for one. Returns NULL if no client asked for it. */
static struct session_want *take(const struct session_node *node, uint64_t id,
                                 enum session_outcome outcome)
{
    struct session *s = node->session;
    struct session_want *want = find(s, id);
    if (!want)
        return NULL;
    if (want->outcome != SESSION_WAITS)
        session_violate(s, "node %u answers a request twice", session_id(node));
    want->outcome = (uint8_t)outcome;
    return want;
}

static void hold(struct session *s, const struct session_want *want)
{
    struct session_lease *lease = &s->lease[want->lease - 1];
    if (!lease->given_up)
        lease->until = bw_time_max(lease->until, want->sent + SESSION_TTL);
}

static void won(struct session *s, const struct session_want *want)
{
    bw_time now = s->team->now;
    if (s->leads && s->leads != want->lease && s->lease[s->leads - 1].until > now &&
        s->lease[want->lease - 1].until > now)
        session_violate(s, "the clients with the leases %llu and %u both hold the election",
                        (unsigned long long)s->leads, want->lease);
    s->leads = want->lease;
}

void session_on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                        enum bw_refusal refusal, const struct bw_results *results)
{
    struct session_node *node = context;
    struct session *s = node->session;
    struct session_want *want = take(node, request, SESSION_DONE);
    if (!want)
        return;
    s->seen = s->seen > node->router.applied ? s->seen : node->router.applied;
    bool about_lease = want->verb == SESSION_GRANT || want->verb == SESSION_REVOKE;
    if (entry->kind != kinds[want->verb] || (about_lease && entry->lease.id != want->lease)) {
        session_violate(s, "node %u answers a request with the result of another one",
                        session_id(node));
        return;
    }
    if (refusal != BW_REFUSED_NONE)
        return;
    if (want->verb == SESSION_GRANT) {
        struct session_lease *lease = &s->lease[want->lease - 1];
        if (bw_time_min(lease->until, want->sent + SESSION_TTL) > s->team->now)
            session_violate(s, "lease %u is granted twice", want->lease);
        lease->granted = 1;
        hold(s, want);
    } else if (want->verb == SESSION_CAMPAIGN && results->succeeded) {
        won(s, want);
    }
}

void session_on_answered(void *context, uint64_t request, bw_time ttl_ns)
{
    struct session_node *node = context;
    struct session *s = node->session;
    struct session_want *want = take(node, request, SESSION_DONE);
    if (!want)
        return;
    if (want->verb == SESSION_RENEW) {
        if (ttl_ns > 0)
            hold(s, want);
        return;
    }
    if (node->router.applied < want->floor)
        session_violate(s, "node %u answers a read at entry %llu; a client has seen entry %llu",
                        session_id(node), (unsigned long long)node->router.applied,
                        (unsigned long long)want->floor);
    s->seen = s->seen > node->router.applied ? s->seen : node->router.applied;
}

void session_on_failed(void *context, uint64_t request, int error)
{
    struct session_node *node = context;
    struct session_want *want =
        take(node, request, error == BW_ENOTLEADER ? SESSION_REFUSED : SESSION_UNKNOWN);
    if (want && error == BW_ENOTLEADER && want->applied > 0)
        session_violate(node->session, "node %u denies a request that was executed",
                        session_id(node));
}

void session_forgets(struct session_node *node)
{
    struct session *s = node->session;
    for (uint64_t i = 0; i < s->wants; i++)
        if (s->want[i].node == session_id(node) && s->want[i].outcome == SESSION_WAITS)
            s->want[i].outcome = SESSION_UNKNOWN;
}

/* An entry ends a lease: is that allowed? */
static void check_revoke(const struct session_node *node, const struct session_payload *payload)
{
    struct session *s = node->session;
    struct bw_entry entry;
    struct bw_lease_view view;
    if (bw_entry_decode(&entry, node->router.scratch, payload->bytes + BW_ROUTER_HEAD,
                        payload->length - BW_ROUTER_HEAD) != 0 ||
        entry.kind != BW_ENTRY_REVOKE ||
        !bw_registry_lease(node->router.registry, entry.lease.id, &view))
        return;
    struct session_lease *lease = &s->lease[entry.lease.id - 1];
    if (lease->until > s->team->now)
        session_violate(s, "lease %lld ends before the time of its client is over",
                        (long long)entry.lease.id);
    lease->until = 0;
}

/* The first node that applies an entry stands for all: they apply the same ones. */
void session_applies(struct session_node *node, const struct session_payload *payload)
{
    struct session *s = node->session;
    if (!payload || node->router.applied < s->judged)
        return;
    s->judged = node->router.applied + 1;
    struct session_want *want = find(s, bw_get64(payload->bytes));
    if (want && ++want->applied > 1)
        session_violate(s, "a request of node %u is executed twice", want->node);
    if (want && want->outcome == SESSION_REFUSED)
        session_violate(s, "a request is executed after node %u has denied it", want->node);
    check_revoke(node, payload);
}

static bool is_being_revoked(const struct bw_router *router, int64_t lease)
{
    for (const struct bw_request *at = router->first; at; at = at->next)
        if (at->revokes && at->lease == lease)
            return true;
    return false;
}

static void judge_node(struct session_node *node)
{
    struct session *s = node->session;
    const struct bw_router *router = &node->router;
    struct bw_lease_view view;
    uint64_t cursor = 0;
    if (!bw_registry_keys_have_leases(router->registry))
        session_violate(s, "node %u has a key under a lease that does not exist", session_id(node));
    while (router->leading && bw_registry_next_lease(router->registry, &cursor, &view))
        if (!bw_registry_is_timed(router->registry, view.id) && !is_being_revoked(router, view.id))
            session_violate(s, "node %u leads, but lease %lld never expires", session_id(node),
                            (long long)view.id);
}

void session_judge(struct session *s)
{
    for (bw_node id = 1; id <= SESSION_NODES; id++)
        if (s->team->node[id - 1].up)
            judge_node(&s->node[id - 1]);
    for (uint32_t i = 0; i < SESSION_LEASES; i++)
        if (s->lease[i].until <= s->team->now)
            s->lease[i].until = 0;
}
