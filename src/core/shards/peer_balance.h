/* Distributes the leaderships of many elections evenly over few members.
 *
 * Every member takes part in all elections, so each knows the leader of each election and the live
 * members. From that each member computes the same plan:
 * - A leader keeps what it leads up to its share, which is elections / members, rounded down or up.
 * - Elections above a leader's share, and elections without a leader, go to members with free
 *   capacity, in the order of rendezvous hashing (assignment.h).
 *
 * Few leaderships move: of a dead member only its own, to a new member only its share. A leader
 * hands over what the plan assigns elsewhere, one at a time. It waits until the members have been
 * stable for a while. It offers less and less often to a member that does not keep what it is
 * given.
 *
 * Guarantee. When nothing changes any more and every member is able to lead, the loads differ by at
 * most one.
 *
 * Not guaranteed: a plan is only a preference. Plans may differ for a while, and each election is
 * decided by its own elector.
 *
 * The functions are pure; all state is in the block given to init. */
#ifndef BW_CORE_SHARDS_PEER_BALANCE_H
#define BW_CORE_SHARDS_PEER_BALANCE_H

#include "core/base/limits.h"
#include "core/base/types.h"

struct bw_balance_config {
    bw_node self;
    uint32_t elections, cap; /* cap: maximum number of members */
    const bw_node *members;  /* able to lead; borrowed for init */
    uint32_t count;
    bw_time period_ns;   /* one move per period; five stable periods before the first */
    bw_time newcomer_ns; /* a new member gets nothing for this long: promises it made before a
                          * restart would keep it from acting */
};

struct bw_balance;

size_t bw_balance_bytes(uint32_t elections, uint32_t cap);
struct bw_balance *bw_balance_init(void *memory, const struct bw_balance_config *config);

/* `node` is able to lead from now on, or no longer: it joined, left, was suspected, or is trusted
 * again. */
void bw_balance_member(struct bw_balance *b, bw_node node, bool alive, bw_time now);
/* `node` leads the election; BW_NODE_NONE: no known leader. */
void bw_balance_leads(struct bw_balance *b, uint32_t election, bw_node node, bw_time now);

/* The member that should lead the election without `gone`; BW_NODE_NONE: no preference. */
bw_node bw_balance_successor(struct bw_balance *b, uint32_t election, bw_node gone);

/* Returns whether to hand over an election that we lead, and to which member. `ready` tells whether
 * that member could take over yet. */
bool bw_balance_next(struct bw_balance *b, bw_time now,
                     bool (*ready)(void *context, uint32_t election, bw_node to), void *context,
                     uint32_t *election, bw_node *to);
bw_time bw_balance_deadline(struct bw_balance *b);

#endif
