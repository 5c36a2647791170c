/* The sequential-node recipe as a pure decision: which candidate leads, and which entry each one
 * watches.
 *
 * Each candidate creates an entry in a store that assigns increasing numbers and removes an entry
 * when its owner is gone (ephemeral sequential nodes; create revisions with leases). The candidate
 * with the lowest number leads. Every other candidate watches only the entry before its own, and
 * lists the entries again when that one vanishes. So the death of a leader notifies one candidate,
 * not all. The death of a candidate in the middle notifies the next one, which finds that it still
 * does not lead.
 *
 * Model: the store is linearizable and removes the entries of dead owners.
 *
 * Guarantees: at any time at most one entry in the store is the lowest.
 *
 * Not guaranteed: that an owner knows in time that its entry is gone. Use the lease and the token,
 * which is the number of the entry.
 *
 * Source: ZooKeeper's recipe for leader election. */
#ifndef BW_CORE_ELECT_SEQUENCE_H
#define BW_CORE_ELECT_SEQUENCE_H

#include "core/base/types.h"

struct bw_sequence_entry {
    uint64_t number; /* assigned by the store; unique and increasing */
    uint64_t owner;
};

enum bw_sequence_verdict {
    BW_SEQUENCE_LIST,  /* unknown or out of date: list the entries and decide again */
    BW_SEQUENCE_WATCH, /* wait until `watch` vanishes, then list again */
    BW_SEQUENCE_LEAD,
    BW_SEQUENCE_GONE /* the own entry is not in the list: leadership and position are lost */
};

struct bw_sequence {
    uint64_t own;
    enum bw_sequence_verdict verdict;
    struct bw_sequence_entry watch;  /* WATCH: the only entry to watch */
    struct bw_sequence_entry leader; /* according to the last list; number 0: none */
};

/* A candidate whose entry has the number `own`, from 1. */
void bw_sequence_init(struct bw_sequence *self, uint64_t own);

/* Takes a list of the entries in strictly increasing order. Returns 0, or BW_EINVAL if the order is
 * wrong; the verdict is then LIST. */
int bw_sequence_listed(struct bw_sequence *self, const struct bw_sequence_entry *list,
                       uint32_t count);

/* The store reported that entry `number` is gone, or was gone when the watch was set. Returns true
 * if it was the watched entry: list again. If it is the own entry, the verdict becomes GONE at
 * once. */
bool bw_sequence_vanished(struct bw_sequence *self, uint64_t number);

#endif
