/* Checkers of the properties that must hold, from outside the world. They see only what observers
 * see, keep their own state, and know neither the electors nor the world's internals. */
#ifndef BW_SIM_CHECKS_INVARIANTS_H
#define BW_SIM_CHECKS_INVARIANTS_H

#include "sim/sim.h"

enum bw_check {
    BW_CHECK_ONE_PER_TERM = 1, /* at most one leader per term */
    BW_CHECK_EXCLUSION = 2,    /* at most one node may act at any instant */
    BW_CHECK_TOKENS = 4,       /* a later leadership that acts has a larger token */
    BW_CHECK_AGREEMENT =
        /* at the end all live nodes, the leader included, follow the same live leader */
    8,
    BW_CHECK_STALE = 16, /* the resource accepts no stale write */
    /* at the end all live nodes suspect crashed nodes, and no node suspects a live one */
    BW_CHECK_DETECTOR = 32,
    BW_CHECK_LIVENESS = 64, /* at the end the leader may act */
    BW_CHECK_MEMORY = 128,  /* the number of events in flight stays bounded */
    BW_CHECK_LOG = 256,     /* committed entries are equal on all nodes and never change */
    /* elections move one at a time, not to a node that just joined, and not soon again to a node
     * that returned one */
    BW_CHECK_MOVES = 512,
    /* at the end the loads of all possible leaders differ by at most one; after a single death or
     * start in an idle time few elections have moved */
    BW_CHECK_SPREAD = 1024,
    /* quorum guard: a majority of the voters has promised for the whole of a leader's window */
    BW_CHECK_PROMISES = 2048,
    /* if the last fault is a transfer to a live member, that member leads at the end */
    BW_CHECK_TRANSFER = 4096,
    /* at the end a member that is able to lead leads, if there is one; without faults, leadership
     * does not pass on without end */
    BW_CHECK_ABLE = 8192
};

struct bw_checker;

size_t bw_checker_bytes(const struct bw_sim_config *config);
/* Creates a checker for config->checks in `memory`. */
struct bw_checker *bw_checker_init(void *memory, const struct bw_sim_config *config);
const struct bw_sim_observer *bw_checker_observer(const struct bw_checker *checker);
/* Checks at the end of the run what must hold then. */
void bw_checker_finish(struct bw_checker *checker, bw_time at);
/* Reports the number of pending events, from time to time. */
void bw_checker_pending(struct bw_checker *checker, bw_time at, uint64_t pending);
/* `node` begins to move the election to `to`. `promise`: duration of promises that a joining node
 * may have made before. */
void bw_checker_moved(struct bw_checker *checker, bw_time at, bw_node node, uint32_t election,
                      bw_node to, bw_time promise);
/* `node` has decided which leader it follows. Called at once, although other nodes learn of it only
 * after the node's disk write. */
void bw_checker_decided(struct bw_checker *checker, bw_time at, bw_node node, uint32_t election,
                        bw_node leader);
/* `node` may no longer act as leader. Its work acts until `until`; 0: all its work is dead. */
void bw_checker_lingers(struct bw_checker *checker, bw_node node, uint32_t election, bw_time at,
                        bw_time until);
/* Returns NULL, or the text of the first violation with its time; at most 199 characters, owned by
 * the checker. */
const char *bw_checker_violation(const struct bw_checker *checker, bw_time *at);

#endif
