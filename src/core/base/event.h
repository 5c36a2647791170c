/* The events that a decision module receives. A step takes one event; every event carries `now`,
 * the time on the own clock. */
#ifndef BW_CORE_BASE_EVENT_H
#define BW_CORE_BASE_EVENT_H

#include "core/base/message.h"
#include "core/base/types.h"

enum bw_event_kind {
    /* first event; `start` holds the durable record (all zero on the first start) */
    BW_EVENT_START,
    BW_EVENT_MESSAGE, /* `msg` arrived, decoded and validated */
    BW_EVENT_TIMEOUT, /* the time that deadline() returned has come */
    BW_EVENT_SUSPECT, /* the detector suspects `node` */
    BW_EVENT_TRUST,   /* the detector trusts `node` again */
    /* the connection to `node` closed; check it soon, this is not proof of failure */
    BW_EVENT_HINT,
    /* the work of `node` is proved dead (guardian, STONITH): promises to the node are void */
    BW_EVENT_CONFIRMED_DEAD,
    BW_EVENT_SEND_FAILED, /* the transport knows that `msg` did not reach msg->to */
    BW_EVENT_PERSISTED,   /* the log is durable up to persisted.index of persisted.term */
    BW_EVENT_JOIN,        /* `node` is a member from now on; role and priority are in `member` */
    BW_EVENT_LEAVE,       /* `node` left after a clean shutdown */
    BW_EVENT_COMMAND,     /* a local caller sent `command` */
    BW_EVENT_STOP         /* shut down cleanly: hand over leadership first */
};

enum bw_command_kind {
    BW_COMMAND_CAMPAIGN, /* start an election now; node: the leader known to have failed, or none */
    BW_COMMAND_RESIGN,   /* step down and let another member lead */
    BW_COMMAND_TRANSFER, /* hand over leadership to `node` */
    /* Raft: append `count` entries; the caller keeps their bytes under `request` */
    BW_COMMAND_PROPOSE,
    BW_COMMAND_CHANGE, /* Raft: apply membership change `op` to `node` */
    /* Raft: reply to `request` with an index at which a linearizable read is safe */
    BW_COMMAND_READ,
    BW_COMMAND_COMPACT /* Raft: the caller holds a durable snapshot up to `index` */
};

enum bw_change_op { BW_CHANGE_NONE, BW_CHANGE_ADD_LEARNER, BW_CHANGE_PROMOTE, BW_CHANGE_REMOVE };

struct bw_command {
    enum bw_command_kind kind;
    enum bw_change_op op;
    uint16_t election; /* the instance's elector that gets the command */
    bw_node node;
    uint32_t count;
    uint64_t request;
    bw_index index;
};

/* The record that an instance must never lose; the same for all algorithms.
 *
 * The record is durable before the instance sends anything that depends on it: a PERSIST action
 * comes before the SEND actions it covers. Fields that an algorithm does not use stay 0. */
struct bw_durable {
    bw_term term; /* highest term, epoch, round or group counter it took part in */
    bw_node vote; /* candidate that got our vote in `term` */
    /* number of starts of this instance: its incarnation, and the base of its flapping penalty */
    uint32_t starts;
    bw_token token;        /* highest token issued or seen */
    bw_term promise_epoch; /* quorum guard: epoch of the newest promise */
    bw_node promised_to;   /* quorum guard: holder of the newest promise */
    /* length T of a promise that may still bind; after a restart the node waits T */
    bw_time promised_ns;
};

struct bw_start {
    struct bw_durable durable;
    bw_node leader; /* the leader at our start, if known */
    bool passive;   /* do not start an election at start; wait for an event */
};

struct bw_member {
    bw_node id;
    uint32_t priority; /* higher is preferred; compared before the id */
    uint8_t ordinary;  /* true: not a candidate */
};

struct bw_event {
    enum bw_event_kind kind;
    /* PERSISTED: the elector of that log; CONFIRMED_DEAD with `alone`: the elector of that work */
    uint16_t election;
    /* CONFIRMED_DEAD: only the node's work in `election` is dead; false: all its work is */
    bool alone;
    /* CONFIRMED_DEAD with `alone`: the node itself reports the death. It keeps running, and hands
     * over if it leads, so electors without promises must not start an election */
    bool runs;
    /* CONFIRMED_DEAD with `runs`: it transfers leadership to a successor that a user named, so no
     * member starts an election */
    bool handed;
    /* CONFIRMED_DEAD: covers the work of terms up to this one; 0: of all terms */
    bw_term dead_term;
    /* the member that should lead next, so that the members share many elections evenly. instance.c
     * sets it when a member has gone or goes. NONE: the algorithm decides */
    bw_node next_leader;
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
