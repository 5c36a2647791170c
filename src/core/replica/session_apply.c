/* Committed entries into the registry; who leads; leases that are over. */
#include "core/base/bug.h"
#include "core/base/little.h"
#include "core/registry/expiry.h"
#include "core/replica/session.h"

#define EXPIRED_AT_ONCE 256u

/* Whoever waits for this entry hears of it; at the leader for others there is nothing to say. A
 * revocation of ours from before users were asked for is tried again, as ours. */
static void tell(struct bw_session *s, uint64_t id, const struct bw_entry *entry,
                 enum bw_refusal refusal)
{
    struct bw_request *request = bw_session_find(s, id);
    if (!request)
        return;
    bool ours = request->origin == s->self;
    s->nudge |= !ours && request->origin != BW_NODE_NONE;
    if (s->leading && request->revokes && refusal == BW_REFUSED_NOBODY)
        bw_registry_begin(s->registry, request->lease, s->hooks.now(s->hooks.context));
    bw_session_end(s, request);
    if (ours)
        s->hooks.applied(s->hooks.context, id, entry, refusal, &s->results);
}

void bw_session_done(struct bw_session *s, uint64_t id, bw_time value)
{
    struct bw_request *request = bw_session_find(s, id);
    if (!request)
        return;
    bool ours = request->origin == s->self;
    s->nudge |= !ours && request->origin != BW_NODE_NONE;
    bw_session_end(s, request);
    if (ours)
        s->hooks.answered(s->hooks.context, id, value);
}

bool bw_session_apply(struct bw_session *s, const unsigned char *bytes, size_t length)
{
    struct bw_entry entry;
    s->applied++;
    if (length < BW_SESSION_HEAD ||
        bw_entry_decode(&entry, s->room, bytes + BW_SESSION_HEAD, length - BW_SESSION_HEAD) != 0)
        return false; /* Raft's own, or one that every node skips alike */
    enum bw_refusal refusal = bw_registry_apply(s->registry, &entry, &s->results);
    if (s->leading && entry.kind == BW_ENTRY_GRANT && refusal == BW_REFUSED_NOT &&
        !BW_BUG(session_grants_for_ever))
        bw_registry_begin(s->registry, entry.lease.id, s->hooks.now(s->hooks.context));
    tell(s, bw_get64(bytes), &entry, refusal);
    return true;
}

/* Nobody waits for it, and one that is lost is the next leader's to repeat. */
static void raise_level(struct bw_session *s)
{
    struct bw_entry entry = {.kind = BW_ENTRY_LEVEL, .level = BW_REGISTRY_LEVEL};
    struct bw_registry_status status;
    unsigned char scratch[BW_SESSION_HEAD + 8];
    bw_registry_status(s->registry, &status);
    if (!s->leading || !s->agreed || status.level >= BW_REGISTRY_LEVEL)
        return;
    uint64_t id = bw_session_propose(s, &entry, scratch, sizeof scratch);
    struct bw_request *request = id ? bw_session_find(s, id) : NULL;
    if (request)
        request->origin = BW_NODE_NONE;
}

void bw_session_led(struct bw_session *s, bw_node leader)
{
    bool leading = leader == s->self;
    s->leader = leader;
    if (leading && !s->leading)
        bw_registry_lead(s->registry, s->hooks.now(s->hooks.context));
    else if (!leading && s->leading)
        bw_registry_follow(s->registry);
    s->leading = leading;
    bw_session_place(s);
    raise_level(s);
}

void bw_session_agree(struct bw_session *s, bool agreed)
{
    bool before = s->agreed;
    s->agreed = agreed;
    if (!before)
        raise_level(s);
}

bw_time bw_session_deadline(const struct bw_session *s)
{
    return s->leading ? bw_registry_next_expiry(s->registry) : BW_TIME_NEVER;
}

/* Our own: nobody waits for it, and another leader would see for itself. */
static void revoke(struct bw_session *s, int64_t lease, unsigned char *scratch, size_t size)
{
    struct bw_entry entry = {
        .kind = BW_ENTRY_REVOKE, .by = bw_registry_own(s->registry), .lease = {.id = lease}};
    uint64_t id = bw_session_propose(s, &entry, scratch, size);
    struct bw_request *request = id ? bw_session_find(s, id) : NULL;
    if (!request) { /* too much under way: later */
        bw_registry_begin(s->registry, lease, s->hooks.now(s->hooks.context));
        return;
    }
    request->origin = BW_NODE_NONE;
    request->revokes = true;
    request->lease = lease;
}

/* A loop that stood still so long heard no keep-alives: what looks over may not be. */
bool bw_session_stalled(struct bw_session *s)
{
    bw_time now = s->hooks.now(s->hooks.context);
    bool stalled = s->leading && now - s->last_turn > s->stall_ns;
    s->last_turn = now;
    if (stalled)
        bw_registry_lead(s->registry, now);
    return stalled;
}

void bw_session_expire(struct bw_session *s, unsigned char *scratch, size_t size)
{
    int64_t ids[EXPIRED_AT_ONCE];
    bw_time now = s->hooks.now(s->hooks.context);
    if (!s->leading)
        return;
    if (bw_session_stalled(s))
        return;
    uint32_t count = bw_registry_expired(s->registry, now, ids, EXPIRED_AT_ONCE);
    for (uint32_t i = 0; i < count; i++)
        revoke(s, ids[i], scratch, size);
}
