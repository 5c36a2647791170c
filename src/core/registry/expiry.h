/* Deadlines of leases. Only the leader keeps them, beside the replicated state. A new leader gives
 * every lease its full TTL. The cost of a keep-alive does not depend on the number of leases.
 *
 * The queue is ordered by the deadline at the time a lease was queued. A lease that was kept alive
 * since is queued again when its old deadline passes. */
#ifndef BW_CORE_REGISTRY_EXPIRY_H
#define BW_CORE_REGISTRY_EXPIRY_H

#include "core/registry/registry.h"

/* This node became leader: all leases restart at `now`. Or it is no longer leader. */
void bw_registry_lead(struct bw_registry *registry, bw_time now);
void bw_registry_follow(struct bw_registry *registry);
/* Starts the deadline of a lease that was granted while leading. */
void bw_registry_begin(struct bw_registry *registry, int64_t id, bw_time now);
/* Renews a lease. Returns its TTL, or 0 if it is unknown or already being revoked. */
bw_time bw_registry_keep_alive(struct bw_registry *registry, int64_t id, bw_time now);
/* Remaining time of a lease; -1: unknown. */
bw_time bw_registry_left(const struct bw_registry *registry, int64_t id, bw_time now);
/* Returns the number of expired leases. Each is returned once; the caller must revoke it through
 * the log. */
uint32_t bw_registry_expired(struct bw_registry *registry, bw_time now, int64_t *ids, uint32_t cap);
/* The next time to call bw_registry_expired; BW_TIME_NEVER if no lease is queued. */
bw_time bw_registry_next_expiry(const struct bw_registry *registry);

#endif
