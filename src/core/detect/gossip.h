/* Functions of the gossip detector beyond the common interface. */
#ifndef BW_CORE_DETECT_GOSSIP_H
#define BW_CORE_DETECT_GOSSIP_H

#include "core/base/types.h"

/* The highest counter of `node` received so far, or 0. For self, its own counter. */
uint64_t bw_gossip_counter(const void *self, bw_node node);
/* T_fail for the current number of members. */
bw_time bw_gossip_fail_ns(const void *self);

#endif
