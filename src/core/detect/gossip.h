/* What the gossip detector shows besides the common interface. */
#ifndef BW_DETECT_GOSSIP_H
#define BW_DETECT_GOSSIP_H

#include "core/base/types.h"

/* The highest counter of `node` that has come here; 0: none yet. For self its own. */
uint64_t bw_gossip_counter(const void *self, bw_node node);
/* T_fail as it stands for the present number of members. */
bw_time bw_gossip_fail_ns(const void *self);

#endif
