/* Checkers: what must hold, watched from outside the world. They see only what observers see, keep
 * their own books, and know neither the electors nor the world's insides. */
#ifndef BW_SIM_CHECK_H
#define BW_SIM_CHECK_H

#include "sim/sim.h"

enum bw_check {
    BW_CHECK_ONE_PER_TERM = 1, /* at most one leader per term */
    BW_CHECK_EXCLUSION = 2,    /* no two that may act at one instant */
    BW_CHECK_TOKENS = 4,       /* a later leadership that acts never has a smaller or equal token */
    BW_CHECK_AGREEMENT =
        8,               /* at the end all live nodes name the same live leader, and so does it */
    BW_CHECK_STALE = 16, /* no stale write was accepted */
    BW_CHECK_DETECTOR = 32, /* at the end: crashed ones are suspected by all, live ones by nobody */
    BW_CHECK_LIVENESS = 64, /* at the end that leader may act */
    BW_CHECK_MEMORY = 128,  /* what is in flight stays bounded */
    BW_CHECK_LOG = 256,     /* committed entries are the same everywhere and never change */
    BW_CHECK_MOVES = 512,   /* elections are handed over one by one, to no newcomer, and not
                               again at once to one who did not keep what it was given */
    BW_CHECK_SPREAD = 1024  /* at the end the loads of all who may lead differ by one at most; after
                               a single death or start in the calm few elections have moved */
};

struct bw_checker;

size_t bw_checker_bytes(const struct bw_sim_config *config);
/* Lays a checker out in `memory`, for config->checks. */
struct bw_checker *bw_checker_init(void *memory, const struct bw_sim_config *config);
const struct bw_sim_observer *bw_checker_observer(const struct bw_checker *checker);
/* The end of the run: what must hold then is looked at now. */
void bw_checker_finish(struct bw_checker *checker, bw_time at);
/* The world reports how many events are pending, now and then. */
void bw_checker_pending(struct bw_checker *checker, bw_time at, uint64_t pending);
/* `node` begins to hand the election to `to`. `promise`: what a newcomer may have promised before.
 */
void bw_checker_moved(struct bw_checker *checker, bw_time at, bw_node node, uint32_t election,
                      bw_node to, bw_time promise);
/* `node` has decided whom it names; told at once, though others may hear of it only when its disk
 * is done. */
void bw_checker_decided(struct bw_checker *checker, bw_time at, bw_node node, uint32_t election,
                        bw_node leader);
/* NULL, or the first thing found, with its time; text of at most 199 characters, the checker's own.
 */
const char *bw_checker_violation(const struct bw_checker *checker, bw_time *at);

#endif
