/* The lease elector in the simulator: candidates, stores, and the messages between them.
 *
 * A request and its reply are messages (STORE_ASK, STORE_ANSWER) that carry one of the two structs
 * below. Latency, loss, duplication, reordering, partitions, pauses and crashes affect them like
 * any other message. They never leave the process, so their bytes are those of the structs. */
#ifndef BW_SIM_STORES_LEASE_H
#define BW_SIM_STORES_LEASE_H

#include "core/lease/lease.h"
#include "sim/sim.h"

#define BW_SIM_REDLOCK_STORES 5u
#define BW_SIM_STORES_MAX     BW_SIM_REDLOCK_STORES

struct bw_sim_store_ask {
    uint64_t id;
    uint64_t steal, version; /* ACQUIRE, WATCH */
    uint64_t steal_request;  /* ACQUIRE */
    uint64_t lock; /* redlock: the value that identifies the lock; the id of the ACQUIRE */
    bw_token token;
    bw_time ttl_ns, until_wall_ns;
    bw_node note_to;
    uint8_t op, note, clean;
};

struct bw_sim_store_record { /* what a store keeps, and sends */
    uint64_t version, request;
    bw_token token;
    bw_time ttl_ns, until_wall_ns;
    uint64_t note_serial;
    bw_node holder, note_from, note_to;
    uint8_t held, clean, note;
};

struct bw_sim_store_answer {
    uint64_t id;
    struct bw_sim_store_record record;
    uint8_t op, outcome;
};

/* The recent writes of a store, newest last, kept outside its process: the durable ones, and those
 * that it may lose. */
#define BW_SIM_BOOK_WRITES 128u

struct bw_sim_book_write {
    struct bw_sim_store_record record;
    bw_time at, expires; /* on the store's clock */
};

struct bw_sim_book {
    struct bw_sim_book_write writes[BW_SIM_BOOK_WRITES];
    uint64_t serial; /* serial of the newest write; writes[i] has serial i modulo the size */
    uint64_t seed;
    bw_time alive; /* when the process last ran */
    bool wipe;     /* delete the record as soon as no candidate holds it */
};

/* bw_elector_config.host of candidates and stores. */
struct bw_sim_lease_host {
    const struct bw_sim_lease *lease;
    bw_node first;  /* id of the first store */
    uint32_t count; /* number of stores */
    bw_time stop_ns;
    struct bw_sim_book *book; /* of a store */
    const struct bw_sim *world;
    bw_time (*wall)(const struct bw_sim *world, bw_node node); /* time of the node's wall clock */
};

extern const struct bw_elector_ops bw_sim_store_ops; /* the elector of a store's process */

/* Returns "lease" over a store of this model. Its traits and promise are those that the model
 * allows. */
const struct bw_elector_ops *bw_sim_lease_ops(enum bw_sim_store store);
/* Returns whether the algorithm is one of those. */
bool bw_sim_is_lease(const struct bw_elector_ops *ops);
/* Returns the number of stores in a world with this configuration; 0 if the algorithm uses none. */
uint32_t bw_sim_stores(const struct bw_sim_config *config);
/* Returns "quorum", ...; NULL after the last. */
const char *bw_sim_store_name(unsigned store);
/* Returns true if candidates judge expiry by observing the record, false if the store's clock
 * does. */
bool bw_sim_store_observed(const struct bw_sim_lease *lease);

/* Returns the longest time without a leader after a holder's crash that the settings allow: TTL,
 * grace, and the time of an election in this network. */
bw_time bw_sim_lease_gap(const struct bw_sim_config *config);

/* Every algorithm of the simulator: the electors, then "lease" and "registry". NULL after the last,
 * or for an unknown name. */
const struct bw_elector_ops *bw_sim_algorithm_at(unsigned i);
const struct bw_elector_ops *bw_sim_algorithm_find(const char *name);

#endif
