/* The lease elector: a pure state machine that acquires, renews and releases a lease in a store.
 *
 * Requests. The elector asks (ASK actions with a struct bw_lease_ask). The caller sends the request
 * to a store (store.h) and returns each reply as an ANSWER event. If no reply arrives in time, the
 * caller reports the outcome UNKNOWN.
 *
 * Guarantees:
 * - The holder's window counts from the moment the request was SENT.
 * - The elector never releases while the work may run. It announces a step-down first (SIGTERM now,
 *   SIGKILL at schedule.kill) and releases after the event WORK_DEAD.
 *
 * Opt-in: with terms.uncertainty_ns, the lease's end is also written as a wall-clock time. A record
 * with such an end is taken over once that time has certainly passed (wall_clock.h), without
 * observing the record first. This is safe while both clocks stay within their declared bounds. */
#ifndef BW_CORE_LEASE_LEASE_H
#define BW_CORE_LEASE_LEASE_H

#include "core/base/rng.h"
#include "core/base/types.h"
#include "core/lease/lease_deadline.h"
#include "core/lease/record.h"

/* Why a leadership ended. Users see the names. */
enum bw_lease_loss {
    BW_LEASE_KEPT,
    BW_LEASE_EXPIRED,             /* no renewal succeeded in time */
    BW_LEASE_TAKEN,               /* the store reports another holder */
    BW_LEASE_RESIGNED,            /* on request */
    BW_LEASE_TRANSFERRED,         /* handed over */
    BW_LEASE_UNHEALTHY,           /* a health check failed */
    BW_LEASE_UNREACHABLE,         /* the store could not be reached in time */
    BW_LEASE_SHUT_DOWN,           /* the supervisor stops */
    BW_LEASE_FINISHED,            /* the work ended by itself */
    BW_LEASE_PREDECESSOR_NOT_DEAD /* the predecessor's work could be neither killed nor
                           * fenced */
};

#define BW_LEASE_LOSSES ((unsigned)BW_LEASE_PREDECESSOR_NOT_DEAD + 1)

/* What became of the lease at the end of a leadership. */
enum bw_lease_end {
    BW_LEASE_END_RELEASED,  /* the store has confirmed the release */
    BW_LEASE_END_LOST,      /* the store refused it: the lease was no longer ours */
    BW_LEASE_END_UNANSWERED /* the store did not answer while the lease lasted: it expires */
};

enum bw_lease_event_kind {
    BW_LEASE_START,
    BW_LEASE_ANSWER,        /* answer: a store's reply, or UNKNOWN after the caller's timeout */
    BW_LEASE_TIMEOUT,       /* deadline() has passed */
    BW_LEASE_WORK_DEAD,     /* the work is confirmed dead, or was never started */
    BW_LEASE_HEALTH,        /* yes: may contend and hold; no: must not */
    BW_LEASE_PREPARED,      /* yes: --on-prepare is ready; no: it refused */
    BW_LEASE_RESIGN,        /* local request; `to` is a successor or empty */
    BW_LEASE_STOP,          /* clean shutdown */
    BW_LEASE_CLEANUP_FAILED /* the work cannot start: a predecessor's work is not dead */
};

struct bw_lease_event {
    enum bw_lease_event_kind kind;
    bw_time now;
    bool yes; /* HEALTH, PREPARED */
    const char *to;
    const struct bw_store_reply *answer; /* borrowed for the step */
    bw_time wall; /* wall clock at `now`, ns since 1970; read only if terms.uncertainty_ns is
                   * declared; 0: unknown, treated as not declared */
};

enum bw_lease_action_kind {
    BW_LEASE_ASK,       /* send `ask` to the store now; answer within ask.within_ns */
    BW_LEASE_ELECTED,   /* start the work: schedule, token */
    BW_LEASE_EXTENDED,  /* the schedule moved on: re-arm the guardian BEFORE anything else */
    BW_LEASE_STEP_DOWN, /* SIGTERM the work now, SIGKILL it at schedule.kill; reason */
    BW_LEASE_LEADER,    /* the leader changed: leader (may be empty), token, value */
    BW_LEASE_PREPARE,   /* run --on-prepare: this candidate is asked to take over */
    BW_LEASE_RELEASED,  /* the release was answered, or given up: reason, end */
    BW_LEASE_DUPLICATE, /* another running candidate has our id: report it once */
    BW_LEASE_STOPPED    /* the last action, after STOP */
};

struct bw_lease_ask {
    struct bw_store_request request;
    bw_time within_ns;
};

struct bw_lease_action {
    enum bw_lease_action_kind kind;
    enum bw_lease_loss reason;
    enum bw_lease_end end; /* RELEASED */
    bw_token token;
    struct bw_lease_schedule schedule;
    struct bw_lease_ask ask;
    const char *leader; /* borrowed from the elector until the next step, like the strings below */
    const char *value;
    /* ELECTED: the predecessor; empty: none. If it is not clean, its work may still run: fence it,
     * or kill everything in its containment, before the work starts. */
    const char *previous, *previous_containment;
    bool previous_clean;
    const char *unconfirmed; /* ELECTED: unconfirmed work listed in the record (store.h) */
};

#define BW_LEASE_ACTIONS_MAX 8u

struct bw_lease_actions {
    struct bw_lease_action at[BW_LEASE_ACTIONS_MAX];
    uint32_t count;
};

struct bw_lease_config {
    const char *election, *candidate, *value; /* borrowed while the elector exists */
    struct bw_lease_terms terms;              /* TTL, drift, kill time, margin */
    bw_time retry_ns;                         /* pause after UNAVAILABLE, with jitter */
    bw_time grace_ns; /* waited after a whole observed TTL before stealing */
    bw_time renew_ns; /* 0: TTL/3 */
    unsigned traits;  /* enum bw_store_trait of the store */
    int32_t priority; /* higher wins; a lower candidate yields for one retry interval */
    bool preferred;   /* regains leadership by transfer when healthy */
    bool observer;    /* never contends */
    uint64_t seed;
};

struct bw_lease; /* opaque; in the caller's memory */

size_t bw_lease_bytes(void);
int bw_lease_init(struct bw_lease *lease, const struct bw_lease_config *config);
void bw_lease_step(struct bw_lease *lease, const struct bw_lease_event *event,
                   struct bw_lease_actions *actions);
bw_time bw_lease_deadline(const struct bw_lease *lease);

struct bw_lease_status {
    const char *state;
    const char *leader, *value; /* as last seen; "": none */
    bw_token token;             /* of that leadership */
    bool leading;
    bw_time valid_until; /* while leading: end of the window, on our clock */
    enum bw_lease_loss last_loss;
    enum bw_lease_loss deadline_loss; /* reason of the loss if the deadline passes now */
};

void bw_lease_status(const struct bw_lease *lease, struct bw_lease_status *out);
const char *bw_lease_loss_name(enum bw_lease_loss loss);

/* For the explorer only (digest.c): how request ids are named, and the store's version. */
struct bw_digest;
struct bw_lease_naming {
    uint64_t (*name)(const void *context, uint64_t request);
    const void *context;
    uint64_t version;
};

void bw_lease_digest(const struct bw_lease *lease, const struct bw_lease_naming *naming,
                     struct bw_digest *out);
uint64_t bw_lease_next_id(const struct bw_lease *lease);
/* Every later random draw yields its lower bound. */
void bw_lease_fix_draws(struct bw_lease *lease);

#endif
