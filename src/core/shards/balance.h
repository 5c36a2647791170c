/* Many elections over few members: who should lead which, so that all lead about as many?
 *
 * Every member knows who leads each election, and who is alive, because it takes part in all of
 * them. From that each works out the same plan: whoever leads keeps what it leads up to its share,
 * N / members rounded down or up; what is above it, and what nobody leads, goes to those who have
 * room, in the order of rendezvous hashing (spread.h). So as few move as can: of one that died only
 * its own, of one that came only its share. A leader gives away what the plan has elsewhere: one at
 * a time, no sooner than the members have stayed the same for a while, and more and more slowly to
 * somebody who does not keep what it is given.
 *
 * It is a preference, not a right: plans may differ for a while, and every election is decided by
 * its own elector. When nothing changes any more and everybody is fit to lead, the loads differ by
 * at most one.
 *
 * Pure; all state lies in the block handed to init. */
#ifndef BW_ELECT_BALANCE_H
#define BW_ELECT_BALANCE_H

#include "core/base/limits.h"
#include "core/base/types.h"

struct bw_balance_config {
    bw_node self;
    uint32_t elections, cap; /* cap: the most members there may ever be */
    const bw_node *members;  /* who may lead; borrowed for init */
    uint32_t count;
    bw_time period_ns;   /* one move per period; five without a change before the first */
    bw_time newcomer_ns; /* who came is given nothing for so long: what it may have promised before
                            a restart would keep it from acting */
};

struct bw_balance;

size_t bw_balance_bytes(uint32_t elections, uint32_t cap);
struct bw_balance *bw_balance_init(void *memory, const struct bw_balance_config *config);

/* `node` may lead from now on, or not any more: it came, left, was suspected, is trusted again. */
void bw_balance_member(struct bw_balance *b, bw_node node, bool alive, bw_time now);
/* `node` leads the election; NONE: nobody is known to. */
void bw_balance_leads(struct bw_balance *b, uint32_t election, bw_node node, bw_time now);

/* Who should lead it when `gone` does not any more; NONE: nobody in particular. */
bw_node bw_balance_heir(struct bw_balance *b, uint32_t election, bw_node gone);

/* Of those that we lead: one to give away now, and to whom. `ready` says whether it could take it
 * over yet. False: none. */
bool bw_balance_next(struct bw_balance *b, bw_time now,
                     bool (*ready)(void *context, uint32_t election, bw_node to), void *context,
                     uint32_t *election, bw_node *to);
bw_time bw_balance_deadline(struct bw_balance *b);

#endif
