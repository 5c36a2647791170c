/* Checkers: what must hold, watched from outside the world. Each takes the observer's events and
 * keeps its own books. */
#ifndef BW_SIM_CHECK_H
#define BW_SIM_CHECK_H

enum bw_check {
    BW_CHECK_ONE_PER_TERM = 1, /* at most one leader per term (Raft, guarded algorithms) */
    BW_CHECK_EXCLUSION = 2,    /* no two that may act at one instant, where that is promised */
    BW_CHECK_TOKENS = 4, /* tokens only grow: a later leadership never has a smaller or equal one */
    BW_CHECK_AGREEMENT = 8, /* after healing all live nodes name the same live leader */
    BW_CHECK_STALE = 16,    /* no stale write was accepted */
    BW_CHECK_DETECTOR =
        32, /* completeness: a crashed one is suspected by all; accuracy in quiet times */
    BW_CHECK_LIVENESS = 64, /* a leader within a bound after the last fault healed */
    BW_CHECK_MEMORY = 128,  /* queues and in-flight messages stay bounded */
    BW_CHECK_LOG = 256      /* Raft: committed entries are the same everywhere and never change */
};

#endif
