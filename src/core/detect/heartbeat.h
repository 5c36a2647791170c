/* Functions of the timeout-free heartbeat beyond the common interface. */
#ifndef BW_CORE_DETECT_HEARTBEAT_H
#define BW_CORE_DETECT_HEARTBEAT_H

#include "core/base/types.h"

/* An element of the paper's vector: the number of received paths that contained `node`. It stays
 * bounded if and only if the node crashed or no fair path leads from it to us. For self: the number
 * of own beats. */
uint64_t bw_heartbeat_counter(const void *self, bw_node node);

#endif
