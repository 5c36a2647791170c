/* The lease elector in the simulator: candidates, the stores they ask, and what goes between them.
 *
 * An ask and its answer are messages (STORE_ASK, STORE_ANSWER) whose bytes are one of the two
 * structs below: latency, loss, duplication, reordering, partitions, pauses and crashes befall them
 * like any others. They travel within one process only, so their bytes are the structs' own. */
#ifndef BW_SIM_LEASE_H
#define BW_SIM_LEASE_H

#include "core/lease/lease.h"
#include "sim/sim.h"

#define BW_SIM_REDLOCK_STORES 5u
#define BW_SIM_STORES_MAX     BW_SIM_REDLOCK_STORES

struct bw_sim_store_ask {
    uint64_t id;
    uint64_t steal, version; /* ACQUIRE, WATCH */
    uint64_t steal_request;  /* ACQUIRE */
    uint64_t lock; /* redlock: the value that says whose lock it is; an ACQUIRE's own id */
    bw_token token;
    bw_time ttl_ns, until_wall_ns;
    bw_node note_to;
    uint8_t op, note, clean;
};

struct bw_sim_store_record { /* what a store keeps, and tells */
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

/* What a store never loses, or may: every write of late, newest last, kept outside its process. */
#define BW_SIM_BOOK_WRITES 128u

struct bw_sim_book_write {
    struct bw_sim_store_record record;
    bw_time at, expires; /* on the store's clock */
};

struct bw_sim_book {
    struct bw_sim_book_write writes[BW_SIM_BOOK_WRITES];
    uint64_t serial; /* of the newest; that of writes[i] is i modulo the size */
    uint64_t seed;
    bw_time alive; /* when the process last ran */
    bool wipe;     /* delete the record as soon as nobody holds it */
};

/* bw_elector_config.host of candidates and stores. */
struct bw_sim_lease_host {
    const struct bw_sim_lease *lease;
    bw_node first;  /* id of the first store */
    uint32_t count; /* of stores */
    bw_time stop_ns;
    struct bw_sim_book *book; /* a store's */
    const struct bw_sim *world;
    bw_time (*wall)(const struct bw_sim *world, bw_node node); /* what its wall clock shows */
};

extern const struct bw_elector_ops bw_sim_store_ops; /* what a store's process runs */

/* "lease" over a store of this model; its traits and promise say what that model can promise. */
const struct bw_elector_ops *bw_sim_lease_ops(enum bw_sim_store store);
/* Is it one of those? */
bool bw_sim_is_lease(const struct bw_elector_ops *ops);
/* Stores of a world with this configuration; 0 when the algorithm asks none. */
uint32_t bw_sim_stores(const struct bw_sim_config *config);
/* "quorum", ...; NULL past the last. */
const char *bw_sim_store_name(unsigned store);
/* Is expiry judged by candidates that watch the record (true) or by the store's clock? */
bool bw_sim_store_observed(const struct bw_sim_lease *lease);

/* The longest time without a leader after a holder's crash that follows from the settings: TTL,
 * grace, and the time an election takes in this network. */
bw_time bw_sim_lease_gap(const struct bw_sim_config *config);

/* Every algorithm the simulator knows: the electors, and "lease" and "registry" last. NULL past the
 * end, or for an unknown name. */
const struct bw_elector_ops *bw_sim_algorithm_at(unsigned i);
const struct bw_elector_ops *bw_sim_algorithm_find(const char *name);

#endif
