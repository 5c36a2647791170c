/* The registry as bytes, and back: in pieces of any size, so that neither side needs all of it at
 * once. What is saved is the state before the oldest kept event and then every event, so that
 * loading replays them: history, watches from the past and revisions survive.
 *
 *   piece    fields (bytes.h)
 *   header   1, format, revision, compacted
 *   lease    2, id, ttl_ns, binding
 *   version  3, create, mod, version, lease, key, value       before the oldest event
 *   put      4, the same                                      an event
 *   delete   5, mod, key                                      an event
 *   end      6, versions, leases, events
 *   users    7, enabled, revision, count                      behind the header, from format 2 on
 *   user     8, since, the user (users.h)
 *
 * The format is the registry's level: nodes of before read what is written until it is raised.
 *
 * Saving marks versions in passing and must not be interleaved with changes; a service that must
 * not wait saves from a forked copy of itself. */
#ifndef BW_REGISTRY_SNAPSHOT_H
#define BW_REGISTRY_SNAPSHOT_H

#include "core/registry/registry.h"

/* Room that always holds at least one piece. */
#define BW_SNAPSHOT_PIECE_MAX (BW_REQUEST_MAX + 256u)

struct bw_saving {
    unsigned phase;
    uint64_t at; /* lease cursor, event number */
    uint32_t node, user;
    uint64_t versions, leases, events;
};

/* Begins; then bw_registry_save until it returns 0. `size` is at least BW_SNAPSHOT_PIECE_MAX. */
void bw_registry_save_begin(struct bw_registry *registry, struct bw_saving *saving);
size_t bw_registry_save(struct bw_registry *registry, struct bw_saving *saving, unsigned char *out,
                        size_t size);

struct bw_loading {
    bool begun, ended;
    uint32_t users; /* still to come */
    uint64_t versions, leases, events;
};

/* Into a registry fresh from init. Takes whole pieces from `bytes` and returns how many bytes that
 * was (what is left comes again with more behind it), or BW_EMALFORMED / BW_EVERSION / BW_ELIMIT
 * (quota). Done when `ended`. */
int64_t bw_registry_load(struct bw_registry *registry, struct bw_loading *loading,
                         const unsigned char *bytes, size_t length);

#endif
