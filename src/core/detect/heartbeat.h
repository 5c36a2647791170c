/* What the timeout-free heartbeat shows besides the common interface. */
#ifndef BW_DETECT_HEARTBEAT_H
#define BW_DETECT_HEARTBEAT_H

#include "core/base/types.h"

/* The vector of the paper: how often `node` stood in a path that came here. It stays bounded if and
 * only if the node crashed or no fair path leads from it. For self: its own beats. */
uint64_t bw_heartbeat_counter(const void *self, bw_node node);

#endif
