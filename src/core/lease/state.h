/* The lease elector's insides, shared by its files: lease.c (getting it), hold.c (having it
 * and letting go), note.c (being asked) and queue.c (standing in line). Only become_*
 * functions change `state`. */
#ifndef BW_LEASE_LEASE_STATE_H
#define BW_LEASE_LEASE_STATE_H

#include "core/lease/lease.h"

enum lease_state {
    LEASE_IDLE,      /* before START, and after everything: nothing outstanding */
    LEASE_READING,   /* the record is being read */
    LEASE_WAITING,   /* somebody leads, or we may not contend: watching */
    LEASE_LISTING,   /* it is free: is a better candidate there? (priority in use) */
    LEASE_ACQUIRING, /* asked for it */
    LEASE_HOLDING,   /* leads; the work runs or is being started */
    LEASE_STOPPING,  /* leads by the store's record; the work has been told to end */
    LEASE_RELEASING, /* the work is dead; giving the record back */
    LEASE_STOPPED
};

/* One outstanding request of a kind; id 0 = none. */
struct lease_pending {
    uint64_t id;
    bw_time sent;
};

#define LEASE_RENEWALS 2u

/* A leadership of somebody else under our own id: an earlier process of ours that died, whose
 * record is still there, or another candidate that was given the same id by mistake. Signs of life
 * tell. */
struct lease_namesake {
    uint64_t request; /* that made it holder; 0: there is none */
    uint64_t version, note_serial;
    bw_time since; /* when it was first seen */
    uint32_t renewals;
};

struct bw_lease {
    struct bw_lease_config config;
    struct bw_rng rng;
    enum lease_state state;
    uint64_t next_id; /* high half random per start: recognises our own requests in a record */
    bool unhealthy, stopping;
    struct lease_pending main;    /* READ, LIST, ACQUIRE or RELEASE */
    struct lease_pending watch;   /* WATCH */
    struct lease_pending acquire; /* the newest ACQUIRE, answered or not */
    struct lease_pending renew[LEASE_RENEWALS];
    struct lease_pending enter; /* the newest ENTER */
    bool registered;            /* the newest ENTER was done; matters where candidates race */
    bool in_line;       /* on a store that serves in order: we have a place, or asked for one */
    bool stood_back;    /* we gave our turn away, and nobody else has led since */
    bw_time act_at;     /* when to go on: retry, contend, steal, renew; NEVER = on an answer */
    bw_time prefer_at;  /* preferred: when to ask for the lead */
    bw_time not_before; /* we stepped down of our own will: others first */
    uint64_t gave_back; /* the request whose record we released last, unused; 0: none */
    /* We led and could not start the work for what earlier holders owe: we come back later, and
     * later each time, unless somebody else has settled it. */
    bw_time cleared_at;
    uint32_t uncleared; /* times in a row */
    /* The record as last seen, and since when it stands still on our clock. */
    struct bw_store_record seen;
    bw_time seen_since;
    bw_time wall_ahead; /* the wall clock less our own, as of this step */
    bool wall_known;    /* and a bound is declared: it may be compared */
    /* The leadership we have. */
    bw_token token;
    struct bw_lease_schedule schedule;
    enum bw_lease_loss reason; /* while stopping and releasing */
    bool renewed_once;         /* the second try of this round is out */
    bool unreachable;          /* the last renewals were not answered or unavailable */
    char previous[BW_CANDIDATE_ID_MAX + 1], previous_containment[BW_CONTAINMENT_MAX + 1];
    bool previous_clean;
    /* A transfer: as holder, whom we prepare and until when; as candidate, that we were asked. */
    char successor[BW_CANDIDATE_ID_MAX + 1];
    bw_time successor_until;
    uint64_t note_seen; /* serial of the newest note dealt with */
    enum bw_lease_loss last_loss;
    struct lease_namesake namesake;
    uint32_t refusals; /* of ENTER, in a row, because the id is taken */
    bool duplicate_told;
};

/* An action with its kind set and the rest zero. */
struct bw_lease_action *lease_act(struct bw_lease_actions *actions, enum bw_lease_action_kind kind);
/* A request on its way: remembered in *pending unless that is NULL. */
struct bw_store_request *lease_ask(struct bw_lease *l, struct lease_pending *pending,
                                   enum bw_store_op op, bw_time now,
                                   struct bw_lease_actions *actions);
/* T/6: how long an answer is awaited. */
bw_time lease_patience(const struct bw_lease *l);
bool lease_is_own_request(const struct bw_lease *l, uint64_t request);
/* Keeps `record`; true if it is not the one last seen. */
bool lease_note_record(struct bw_lease *l, const struct bw_store_record *record, bw_time now,
                       struct bw_lease_actions *actions);
void lease_watch(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

/* lease.c */
void lease_become_reading(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
void lease_become_stopped(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

/* hold.c */
void lease_become_holding(struct bw_lease *l, const struct bw_store_record *record, bw_time sent,
                          bw_time now, struct bw_lease_actions *actions);
void lease_become_stopping(struct bw_lease *l, enum bw_lease_loss reason, bw_time now,
                           struct bw_lease_actions *actions);
void lease_become_releasing(struct bw_lease *l, enum bw_lease_loss reason, bw_time now,
                            struct bw_lease_actions *actions);
bool lease_on_hold_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                          struct bw_lease_actions *actions);
void lease_on_hold_timeout(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
bw_time lease_hold_deadline(const struct bw_lease *l);
/* A watch says that the record may not be ours any more: ask by a renewal, which is sure. */
void lease_renew_soon(struct bw_lease *l, bw_time now);

/* queue.c */
void lease_enter(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
/* We wait: is our place in line, at its end, or not there at all? */
void lease_line_up(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
/* False: it is the answer to something else. */
bool lease_on_enter_answer(struct bw_lease *l, const struct bw_store_reply *reply,
                           struct bw_lease_actions *actions);
/* Where candidates race: enters again, once per TTL, as long as we are not registered. */
void lease_register(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
/* The record is known: is a living candidate with our id its holder? */
void lease_look_for_namesake(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

/* note.c */
void lease_on_note(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);
void lease_on_prepared(struct bw_lease *l, bool ready, bw_time now,
                       struct bw_lease_actions *actions);
void lease_begin_transfer(struct bw_lease *l, const char *to, bw_time now,
                          struct bw_lease_actions *actions);
/* True while the record says that somebody else is being handed the lead. */
bool lease_yields(const struct bw_lease *l, bw_time now);
/* Preferred: asks the holder to hand over to us. */
void lease_ask_for_lead(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions);

#endif
