/* Deadlines of leases, at the leader only: kept beside the state and never part of it. A new leader
 * gives every lease its whole TTL; a keep-alive is a few instructions, whatever the number of
 * leases.
 *
 * The queue is by the deadline that was known when a lease was put into it; one that was kept alive
 * since is put back when its old turn comes. */
#ifndef BW_REGISTRY_EXPIRY_H
#define BW_REGISTRY_EXPIRY_H

#include "core/registry/registry.h"

/* This node leads now: all leases count from `now`. Or it does not any more. */
void bw_registry_lead(struct bw_registry *registry, bw_time now);
void bw_registry_follow(struct bw_registry *registry);
/* A lease granted while leading begins; no other call is needed for it until it is kept alive. */
void bw_registry_begin(struct bw_registry *registry, int64_t id, bw_time now);
/* The TTL it was given anew, or 0: unknown, or already being revoked. */
bw_time bw_registry_keep_alive(struct bw_registry *registry, int64_t id, bw_time now);
/* What is left of a lease; -1: unknown. */
bw_time bw_registry_left(const struct bw_registry *registry, int64_t id, bw_time now);
/* Leases that are over, each told once: they must be revoked through the log. Returns how many. */
uint32_t bw_registry_expired(struct bw_registry *registry, bw_time now, int64_t *ids, uint32_t cap);
/* When bw_registry_expired is worth asking again; NEVER if nothing runs. */
bw_time bw_registry_next_expiry(const struct bw_registry *registry);

#endif
