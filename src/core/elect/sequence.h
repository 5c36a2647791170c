/* The sequential-node recipe as a pure decision: who leads, and whom to watch.
 *
 * Every contender makes an entry in a store that hands out growing numbers and removes an entry
 * when its owner is gone (ephemeral sequential nodes, create revisions under leases). The lowest
 * number leads; everybody else watches exactly the entry before its own and lists again when that
 * vanishes. So a leader's death wakes one waiter and not all of them, and the death of a waiter in
 * the middle wakes the one behind it, which finds that it still does not lead.
 *
 * Source: the leader-election recipe of ZooKeeper. Model: the store is linearizable and ends the
 * entries of the dead. Guarantees: at most one entry is the lowest at any time in the store; it
 * does not guarantee that an owner knows in time that its entry has ended: that is what the lease
 * and the token (the entry's number) are for. */
#ifndef BW_ELECT_SEQUENCE_H
#define BW_ELECT_SEQUENCE_H

#include "core/base/types.h"

struct bw_sequence_entry {
    uint64_t number; /* given by the store, unique, growing */
    uint64_t owner;
};

enum bw_sequence_verdict {
    BW_SEQUENCE_LIST,  /* not known yet, or out of date: list and decide again */
    BW_SEQUENCE_WATCH, /* wait until `watch` vanishes, then list again */
    BW_SEQUENCE_LEAD,
    BW_SEQUENCE_GONE /* the own entry is not in the list: leadership and place are lost */
};

struct bw_sequence {
    uint64_t own;
    enum bw_sequence_verdict verdict;
    struct bw_sequence_entry watch;  /* WATCH: the one and only entry to watch */
    struct bw_sequence_entry leader; /* of the last list; number 0 = none */
};

/* A contender whose own entry got `own`, 1 and up. */
void bw_sequence_init(struct bw_sequence *self, uint64_t own);

/* A listing, sorted by number, strictly growing. Returns 0, or BW_EINVAL if it is not sorted: the
 * verdict is then LIST. */
int bw_sequence_listed(struct bw_sequence *self, const struct bw_sequence_entry *list,
                       uint32_t count);

/* The store says that entry `number` is gone, or was gone already when the watch was set. True if
 * that was the watched one: list again. The vanishing of the own entry is GONE at once. */
bool bw_sequence_vanished(struct bw_sequence *self, uint64_t number);

#endif
