/* The registry in the explorer (core/explore/digest.h): a digest of its state, and the bytes that a
 * small registry uses. Production code does not call these functions. */
#ifndef BW_CORE_REGISTRY_DIGEST_H
#define BW_CORE_REGISTRY_DIGEST_H

#include "core/explore/digest.h"
#include "core/registry/registry.h"

#define BW_REGISTRY_EXTENTS 6u

struct bw_registry_extent {
    void *at;
    size_t length;
};

/* Past events are left out: they influence watches and reads of old revisions only. */
void bw_registry_digest(const struct bw_registry *registry, struct bw_digest *out);
/* The parts of the memory that a registry with a few keys and leases can change; the digest asserts
 * that it uses no others. */
void bw_registry_extents(struct bw_registry *registry, struct bw_registry_extent *out);
/* Whether every key that has a lease names an existing one. */
bool bw_registry_keys_have_leases(const struct bw_registry *registry);
/* Whether the leader has a deadline for the lease. */
bool bw_registry_is_timed(const struct bw_registry *registry, int64_t id);

#endif
