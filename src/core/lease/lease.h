/* The lease elector: who holds the mutex, until when, with which token? A pure machine over the
 * four outcomes of a store.
 *
 * It asks (STORE actions as struct bw_lease_ask), the caller carries that to a store (store.h) and
 * brings each answer back as a struct bw_lease_answer, or UNKNOWN when the time it allowed is over.
 * The holder's window counts from when the request was SENT. It never releases while the work may
 * run: a step-down is announced first (TERM, KILL instants in the schedule), and the release
 * follows the event WORK_DEAD.
 *
 * Opt-in: with terms.uncertainty_ns the lease's end is also written as a wall-clock instant, and a
 * record that carries one is taken over once that instant has surely passed (validity.h), without
 * watching it stand still first. Safe as long as both clocks keep to what was declared of them. */
#ifndef BW_LEASE_LEASE_H
#define BW_LEASE_LEASE_H

#include "core/base/rng.h"
#include "core/base/types.h"
#include "core/lease/deadline.h"
#include "store/store.h"

enum bw_lease_loss { /* why a leadership ended; the names users see */
                     BW_LEASE_KEPT,
                     BW_LEASE_EXPIRED,     /* no renewal succeeded in time */
                     BW_LEASE_TAKEN,       /* the store says somebody else holds it */
                     BW_LEASE_RESIGNED,    /* asked to */
                     BW_LEASE_TRANSFERRED, /* handed over */
                     BW_LEASE_UNHEALTHY,   /* a health check failed */
                     BW_LEASE_UNREACHABLE, /* the store could not be reached in time */
                     BW_LEASE_SHUT_DOWN,   /* the supervisor ends */
                     BW_LEASE_FINISHED,    /* the work ended by itself */
                     BW_LEASE_NOT_CLEARED  /* earlier work could be neither ended nor fenced */
};

#define BW_LEASE_LOSSES ((unsigned)BW_LEASE_NOT_CLEARED + 1)

enum bw_lease_event_kind {
    BW_LEASE_START,
    BW_LEASE_ANSWER,    /* answer: a store's reply, or UNKNOWN by the caller's time-out */
    BW_LEASE_TIMEOUT,   /* deadline() has come */
    BW_LEASE_WORK_DEAD, /* the work is confirmed dead (or was never started) */
    BW_LEASE_HEALTH,    /* healthy: may contend and hold; not healthy: may not */
    BW_LEASE_PREPARED,  /* healthy field: answer of --on-prepare: ready or refused */
    BW_LEASE_RESIGN,    /* local request; `to` names a successor or is empty */
    BW_LEASE_STOP,      /* shut down in good order */
    BW_LEASE_UNCLEARED  /* the work cannot be started: what earlier holders left is not dead */
};

struct bw_lease_event {
    enum bw_lease_event_kind kind;
    bw_time now;
    bool yes; /* HEALTH, PREPARED */
    const char *to;
    const struct bw_store_reply *answer; /* borrowed for the step */
    bw_time wall; /* the wall clock at `now`, ns since 1970; read only if terms.uncertainty_ns is
                     declared; 0: unknown, which is as if it were not */
};

enum bw_lease_action_kind {
    BW_LEASE_ASK,       /* ask: carry this to the store; it counts as sent now; answer within
                           ask.within_ns */
    BW_LEASE_ELECTED,   /* start the work: schedule, token */
    BW_LEASE_EXTENDED,  /* the schedule moved on: re-arm the guardian BEFORE anything else */
    BW_LEASE_STEP_DOWN, /* tell the work to end now (TERM), KILL at schedule.kill; reason */
    BW_LEASE_LEADER,    /* who leads changed: leader (may be empty), token, value */
    BW_LEASE_PREPARE,   /* run --on-prepare: we are asked to take over */
    BW_LEASE_RELEASED,  /* the release was answered (or given up): reason */
    BW_LEASE_DUPLICATE, /* another candidate with our id is alive: tell people, once */
    BW_LEASE_STOPPED    /* nothing more will come: after STOP */
};

struct bw_lease_ask {
    struct bw_store_request request;
    bw_time within_ns;
};

struct bw_lease_action {
    enum bw_lease_action_kind kind;
    enum bw_lease_loss reason;
    bw_token token;
    struct bw_lease_schedule schedule;
    struct bw_lease_ask ask;
    const char *leader; /* borrowed from the elector until the next step, as the strings below */
    const char *value;
    /* ELECTED: whom we follow. Not clean: its work may still be there; fence it, or empty its
     * containment, before the work starts. Empty: nobody before. */
    const char *previous, *previous_containment;
    bool previous_clean;
    const char *owed; /* ELECTED: what stands in the record that made us holder (store.h) */
};

#define BW_LEASE_ACTIONS_MAX 8u

struct bw_lease_actions {
    struct bw_lease_action at[BW_LEASE_ACTIONS_MAX];
    uint32_t count;
};

struct bw_lease_config {
    const char *election, *candidate, *value; /* borrowed for the elector's life */
    struct bw_lease_terms terms;              /* TTL, drift, kill time, margin */
    bw_time retry_ns;                         /* pause after UNAVAILABLE, jittered */
    bw_time grace_ns; /* waited on top of a whole observed TTL before stealing */
    bw_time renew_ns; /* 0: TTL/3 */
    unsigned traits;  /* enum bw_store_trait of the store */
    int32_t
        priority; /* higher wins; a lower candidate yields to a higher one for one retry interval */
    bool preferred; /* takes the lead back, by transfer, when healthy */
    bool observer;  /* never contends */
    uint64_t seed;
};

struct bw_lease; /* opaque; its memory is the caller's */

size_t bw_lease_bytes(void);
int bw_lease_init(struct bw_lease *lease, const struct bw_lease_config *config);
void bw_lease_step(struct bw_lease *lease, const struct bw_lease_event *event,
                   struct bw_lease_actions *actions);
bw_time bw_lease_deadline(const struct bw_lease *lease);

struct bw_lease_status {
    const char *state;
    const char *leader, *value; /* as last seen; "" = none */
    bw_token token;             /* of that leadership */
    bool leading;
    bw_time valid_until; /* when leading: end of the window, own clock */
    enum bw_lease_loss last_loss;
};

void bw_lease_status(const struct bw_lease *lease, struct bw_lease_status *out);
const char *bw_lease_loss_name(enum bw_lease_loss loss);

#endif
