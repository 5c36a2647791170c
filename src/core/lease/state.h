/* Internal state of the lease elector, shared by lease.c (acquiring), hold.c (renewing and
 * releasing), note.c (requests to the holder) and queue.c (waiting in the store's queue). Only
 * become_* functions change `state`. */
#ifndef BW_CORE_LEASE_STATE_H
#define BW_CORE_LEASE_STATE_H

#include "core/lease/lease.h"

enum lease_state {
    LEASE_IDLE,       /* before START: no request is outstanding */
    LEASE_READING,    /* the record is being read */
    LEASE_WAITING,    /* another candidate leads, or we may not contend: watching */
    LEASE_LISTING,    /* the lease is free: is there a candidate with a higher priority? */
    LEASE_ACQUIRING,  /* ACQUIRE is sent */
    LEASE_CONFIRMING, /* the record names our ACQUIRE; RENEW is sent to prove time left */
    LEASE_HOLDING,    /* leader; the work runs or is being started */
    LEASE_STOPPING,   /* still the holder in the store; the work got SIGTERM */
    LEASE_RELEASING,  /* the work is dead; RELEASE is sent */
    LEASE_STOPPED
};

/* One outstanding request of a kind; id 0: none. */
struct lease_pending {
    uint64_t id;
    bw_time sent;
};

#define LEASE_RENEWALS 2u

/* A record held under our own id that is not ours. Either an earlier process of this candidate died
 * and its record remains, or another candidate was given the same id by mistake. Renewals tell the
 * two apart. */
struct lease_duplicate {
    uint64_t request; /* the request that made it holder; 0: no such record */
    uint64_t version, note_serial;
    bw_time since; /* when it was first seen */
    uint32_t renewals;
};

/* Invariants between two steps:
 *   HOLDING, STOPPING, RELEASING  `token` is ours and `schedule` is valid
 *   other states                  `token` is BW_TOKEN_NONE, and no renewal is outstanding
 *   HOLDING                       now < schedule.term after every TIMEOUT
 *   STOPPING                      schedule.kill never moves to a later time
 *   RELEASING                     the work is dead, or was never started
 *   a renewal extends the schedule from the time when it was sent, and never shortens it */
struct bw_lease {
    struct bw_lease_config config;
    struct bw_rng rng;
    enum lease_state state;
    uint64_t next_id; /* upper half random per start: identifies our own requests in a record */
    bool unhealthy, stopping;
    struct lease_pending main;    /* READ, LIST, ACQUIRE, confirming RENEW or RELEASE */
    struct lease_pending watch;   /* WATCH */
    struct lease_pending acquire; /* the newest ACQUIRE, answered or not */
    struct lease_pending renew[LEASE_RENEWALS];
    struct lease_pending enter; /* the newest ENTER */
    bool registered;            /* the newest ENTER succeeded; used where candidates race */
    bool queued;                /* store with a queue: we are in the queue, or asked to be */
    bool yielded;               /* we gave up our turn, and no other candidate has led since */
    /* when to retry, contend, steal or renew; BW_TIME_NEVER: wait for an answer */
    bw_time act_at;
    bw_time prefer_at;        /* preferred: when to request leadership */
    bw_time not_before;       /* after a voluntary step-down: other candidates go first */
    uint64_t released_unused; /* the request whose unused record we released last; 0: none */
    /* We led and could not start the work, because a predecessor's work is not confirmed dead. We
     * retry later, with growing pauses, unless another candidate has settled it. */
    bw_time cleanup_at;
    uint32_t failed_cleanups; /* consecutive failures */
    /* The record as last seen, and since when it is unchanged on our clock. */
    struct bw_store_record seen;
    bw_time seen_since;
    bw_time wall_ahead; /* wall clock minus our clock, in this step */
    bool wall_known;    /* the wall clock is known and a bound is declared */
    /* Our leadership. */
    bw_token token;
    struct bw_lease_schedule schedule;
    enum bw_lease_loss reason; /* while stopping and releasing */
    bool renewed_once;         /* the second try of this renewal was sent */
    bool unreachable;          /* the last renewals were unanswered or the store was unavailable */
    char previous[BW_CANDIDATE_ID_MAX + 1], previous_containment[BW_CONTAINMENT_MAX + 1];
    bool previous_clean;
    /* Transfer, at the holder: the successor being prepared, and until when it may answer. */
    char successor[BW_CANDIDATE_ID_MAX + 1];
    bw_time successor_until;
    uint64_t note_seen; /* serial of the newest note handled */
    enum bw_lease_loss last_loss;
    struct lease_duplicate duplicate;
    uint32_t refusals; /* consecutive ENTERs refused because the id is taken */
    bool duplicate_reported;
};

/* Appends an action; all other fields are zero. */
struct bw_lease_action *lease_act(struct bw_lease_actions *actions, enum bw_lease_action_kind kind);
/* Sends a request; stores it in *pending unless that is NULL. */
struct bw_store_request *lease_ask(struct bw_lease *l, struct lease_pending *pending,
                                   enum bw_store_op op, bw_time now,
                                   struct bw_lease_actions *actions);
/* T/6: timeout for an answer. */
bw_time lease_answer_timeout(const struct bw_lease *l);
bool lease_is_own_request(const struct bw_lease *l, uint64_t request);
/* Stores `record`. Returns whether it differs from the one last seen. */
bool lease_note_record(struct bw_lease *l, const struct bw_store_record *record, bw_time now,
                       struct bw_lease_actions *actions);
void lease_watch(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

/* lease.c */
void lease_become_reading(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
void lease_become_stopped(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

/* hold.c */
void lease_become_holding(struct bw_lease *l, const struct bw_store_record *record, bw_time sent,
                          bw_time now, struct bw_lease_actions *actions);
/* Why the leadership is lost if its deadline passes now. */
enum bw_lease_loss lease_loss_at_the_deadline(const struct bw_lease *l);
void lease_become_stopping(struct bw_lease *l, enum bw_lease_loss reason, bw_time now,
                           struct bw_lease_actions *actions);
void lease_become_releasing(struct bw_lease *l, enum bw_lease_loss reason, bw_time now,
                            struct bw_lease_actions *actions);
bool lease_on_hold_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                          struct bw_lease_actions *actions);
void lease_on_hold_timeout(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
bw_time lease_hold_deadline(const struct bw_lease *l);
/* A watch suggests that the record is no longer ours: renew soon, which gives certainty. */
void lease_renew_soon(struct bw_lease *l, bw_time now);

/* queue.c */
void lease_enter(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
/* While waiting: enters the queue, moves to its end, or leaves it. */
void lease_update_queue(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
/* Returns false if the reply belongs to another request. */
bool lease_on_enter_answer(struct bw_lease *l, const struct bw_store_reply *reply,
                           struct bw_lease_actions *actions);
/* On a store that lists candidates but has no queue: sends ENTER again, once per TTL, until it
 * succeeds. */
void lease_register(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
/* Reports a running holder with our id. */
void lease_check_duplicate(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

/* note.c */
void lease_on_note(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
void lease_on_prepared(struct bw_lease *l, bool ready, bw_time now,
                       struct bw_lease_actions *actions);
void lease_begin_transfer(struct bw_lease *l, const char *to, bw_time now,
                          struct bw_lease_actions *actions);
/* Whether the record reserves the lease for the successor of a transfer. */
bool lease_yields(const struct bw_lease *l, bw_time now);
/* Preferred candidate: asks the holder to hand over to us. */
void lease_request_handover(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

#endif
