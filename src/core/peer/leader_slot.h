/* The leadership slot of the peer store: lets a lease elector run on top of an election among
 * peers.
 *
 * Announcements of the peer election go in; answers to ACQUIRE, RENEW and RELEASE come out. The
 * functions are pure.
 *
 * Guarantees:
 * - A lease of length T requested at t is granted only if the announcement lets us act until t + T
 *   or later. The elector therefore never relies on more than the quorum has promised.
 * - A node that led and lost leadership keeps the slot until it has reported that its work is dead.
 *
 * Not guaranteed: an algorithm without promises (act_until NEVER) grants leases while it announces
 * us as leader. Such an algorithm allows two leaders.
 *
 * A node that leads among the peers resigns in two cases, so that another node can lead: its own
 * elector is not in the queue (not able to lead), or its elector yields. */
#ifndef BW_CORE_PEER_LEADER_SLOT_H
#define BW_CORE_PEER_LEADER_SLOT_H

#include "core/base/action.h"

/* A resignation ends after this time if no other node took over: no other node wants to lead. A
 * leader whose elector has not entered the queue by then counts as unable to lead. */
#define LEADER_SLOT_RESIGN_NS BW_SEC

/* Number of earlier leaders whose work a new leader can be asked to make sure of. */
#define LEADER_SLOT_BEFORE 15u
/* A leader that led for two TTLs and this time acts, or never will: it had time to let the fence
 * command fail several times. */
#define LEADER_SLOT_SURE (240 * BW_SEC)

enum peer_queue_state {
    PEER_QUEUE_UNKNOWN, /* not reported yet */
    PEER_QUEUE_IN,
    PEER_QUEUE_OUT /* left the queue, or released the lease */
};

struct leader_slot {
    bw_node self;
    bw_time ttl_ns;                   /* TTL of the expected leases */
    struct bw_announcement announced; /* the newest announcement; its leader NONE: no leader */
    /* Other leaders since we led, oldest first; the last one led last. A leader that led for long
     * (LEADER_SLOT_SURE) has made sure that the work of those before it was dead or fenced. One
     * that lost leadership earlier may never have acted: those before it stay. If there is no
     * place, the oldest one stays: it is the one that is most likely to have acted. */
    bw_node before[LEADER_SLOT_BEFORE];
    uint32_t before_count;
    uint32_t unsettled; /* holds: leaders in `before` until our elector has made sure of them */
    enum peer_queue_state line; /* whether our elector is ready to lead */
    bw_time led_since;          /* since when the announced leader leads */
    bool holds;                 /* our elector holds the lease */
    bool lost;                  /* ... but must not renew it: we no longer lead, or a recovery
                                  * stops all work */
    bw_token token;             /* holds: token of that leadership */
    bw_time resigned_until;     /* we lead, but have resigned until this time; 0: not resigned */
    bw_time no_resign_before;   /* unable to lead: do not resign again before this time */
    bool held;                  /* a recovery stops all work */
    bool was_free;              /* the slot was free at the last check */
};

enum peer_verdict {
    PEER_YES,
    PEER_WAIT, /* the next announcement decides */
    PEER_NO
};

void leader_slot_init(struct leader_slot *slot, bw_node self, bw_time ttl_ns);

/* These functions return true if readers see a change. */
bool leader_slot_announce(struct leader_slot *slot, const struct bw_announcement *announcement,
                          bw_time now);
/* A recovery stops all work, or ends. Meanwhile the leader loses its lease, and none is granted. */
bool leader_slot_hold(struct leader_slot *slot, bool held, bw_time now);
bool leader_slot_update(struct leader_slot *slot, bw_time now); /* time has passed */
/* When to call leader_slot_update again; BW_TIME_NEVER: after the next announcement. */
bw_time leader_slot_deadline(const struct leader_slot *slot, bw_time now);

/* The slot is free: an ACQUIRE now succeeds. */
bool leader_slot_is_free(const struct leader_slot *slot, bw_time now);
bool leader_slot_leads(const struct leader_slot *slot);
/* This node leads and must resign. */
bool leader_slot_must_resign(const struct leader_slot *slot, bw_time now);

enum peer_verdict leader_slot_acquire(struct leader_slot *slot, bw_time sent, bw_time ttl_ns,
                                      bw_time now);
enum peer_verdict leader_slot_renew(const struct leader_slot *slot, bw_token token, bw_time sent,
                                    bw_time ttl_ns);
/* Our elector has made sure that the work of the leaders in `before` is dead or fenced. */
void leader_slot_settled(struct leader_slot *slot);
/* Returns true if the slot was held under this token: the work is dead from now on. */
bool leader_slot_release(struct leader_slot *slot, bw_token token);
/* The peers were notified that this node resigns. */
void leader_slot_resigned(struct leader_slot *slot, bw_time now);

#endif
