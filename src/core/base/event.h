/* What happens to a decision module. A step takes one event; every event carries the own clock's
 * `now`. */
#ifndef BW_BASE_EVENT_H
#define BW_BASE_EVENT_H

#include "core/base/message.h"
#include "core/base/types.h"

enum bw_event_kind {
    BW_EVENT_START,   /* first event; start: what was durable before (all zero on a first start) */
    BW_EVENT_MESSAGE, /* msg, decoded and validated */
    BW_EVENT_TIMEOUT, /* deadline() has come */
    BW_EVENT_SUSPECT, /* the detector suspects node */
    BW_EVENT_TRUST,   /* the detector trusts node again */
    BW_EVENT_HINT,    /* the connection to node closed: look soon, nothing is proved */
    BW_EVENT_CONFIRMED_DEAD, /* node's work is known to be dead (guardian, STONITH): promises to it
                                are void */
    BW_EVENT_SEND_FAILED,    /* the transport knows that msg did not reach msg->to */
    BW_EVENT_PERSISTED,      /* the log is durable up to `index` of term `term` */
    BW_EVENT_JOIN,           /* node is a member from now on, with role and priority in member */
    BW_EVENT_LEAVE,          /* node left in good order */
    BW_EVENT_COMMAND,        /* command: somebody here wants something */
    BW_EVENT_STOP            /* leave in good order: hand over if leading */
};

enum bw_command_kind {
    BW_COMMAND_CAMPAIGN, /* start an election now; node = the leader known to have failed, or none
                          */
    BW_COMMAND_RESIGN,   /* step down, let others lead */
    BW_COMMAND_TRANSFER, /* hand over to node */
    BW_COMMAND_PROPOSE,  /* Raft: append `count` entries; the caller holds their bytes under
                            `request` */
    BW_COMMAND_CHANGE,   /* Raft: membership change op on node */
    BW_COMMAND_READ,     /* Raft: at which index is a linearizable read safe? answered by request */
    BW_COMMAND_COMPACT   /* Raft: the caller holds a durable snapshot up to `index` */
};

enum bw_change_op { BW_CHANGE_NONE, BW_CHANGE_ADD_LEARNER, BW_CHANGE_PROMOTE, BW_CHANGE_REMOVE };

struct bw_command {
    enum bw_command_kind kind;
    enum bw_change_op op;
    uint16_t election; /* which elector of the instance it is for */
    bw_node node;
    uint32_t count;
    uint64_t request;
    bw_index index;
};

/* What an instance must never forget, for every algorithm alike. It is durable before anything that
 * follows from it is spoken of (PERSIST actions come before the SENDs they cover). Fields an
 * algorithm has no use for stay 0. */
struct bw_durable {
    bw_term term; /* highest term, epoch, round or group counter taken part in */
    bw_node vote; /* whom the vote of that term went to */
    uint32_t
        starts; /* how often this instance has started: incarnation, demerits of a flapping one */
    bw_token token;        /* highest token ever given or seen */
    bw_term promise_epoch; /* guard: epoch of the newest promise given */
    bw_node promised_to;   /* guard: to whom */
    bw_time
        promised_ns; /* length T of a promise that may still bind; a restarted node waits it out */
};

struct bw_start {
    struct bw_durable durable;
    bw_node leader; /* who led when we started, if known */
    bool passive;   /* do not start an election by yourself; wait for an event */
};

struct bw_member {
    bw_node id;
    uint32_t priority; /* higher is better, before the id */
    uint8_t ordinary;  /* not a candidate */
};

struct bw_event {
    enum bw_event_kind kind;
    uint16_t election; /* PERSISTED: which elector's log; CONFIRMED_DEAD, alone: whose work */
    bool alone;        /* CONFIRMED_DEAD: what the node ran in `election`, not all of it */
    bool handed; /* CONFIRMED_DEAD, alone: the node itself says so, lives on, and hands its lead
                    to a successor that it names: nobody else stands for election */
    bw_term
        dead_term; /* CONFIRMED_DEAD: what it ran as leader of terms up to this one; 0: of all */
    bw_node heir;  /* who should lead next, so that many elections are spread over the members;
                      set by instance.c where somebody is gone or goes; NONE: whoever wins */
    bw_node node;
    bw_time now;
    union {
        const struct bw_message *msg; /* MESSAGE, SEND_FAILED */
        const struct bw_start *start; /* START */
        struct bw_member member;      /* JOIN */
        struct bw_command command;    /* COMMAND */
        struct {
            bw_index index;
            bw_term term;
        } persisted; /* PERSISTED */
    };
};

#endif
