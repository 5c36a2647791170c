/* Encoding of the whole registry, in pieces of any size: neither writer nor reader needs all bytes
 * at once.
 *
 * A snapshot contains the state before the oldest kept event, followed by all events. Loading
 * replays the events, so history, watches from the past and revisions survive.
 *
 *   piece    fields (bytes.h)
 *   header   1, format, revision, compacted
 *   lease    2, id, ttl_ns, binding
 *   version  3, create, mod, version, lease, key, value       before the oldest event
 *   put      4, the same                                      an event
 *   delete   5, mod, key                                      an event
 *   end      6, versions, leases, events
 *   users    7, enabled, revision, count                      after the header, from format 2 on
 *   user     8, since, the user (users.h)
 *   alarm    9, node                                          after the header, from format 3 on
 *   role     10, name                                         after the users, from format 4 on
 *   perm     11, name of the role, type, key, end
 *   granted  12, name of the user, name of the role
 *
 * The format equals the registry's level: older nodes can read snapshots until the level is raised.
 *
 * Saving marks versions and must not be interleaved with changes. A service that must not block
 * saves from a forked copy of itself. */
#ifndef BW_CORE_REGISTRY_SNAPSHOT_H
#define BW_CORE_REGISTRY_SNAPSHOT_H

#include "core/registry/registry.h"

/* A buffer of this size always holds at least one piece. */
#define BW_SNAPSHOT_PIECE_MAX (BW_REQUEST_MAX + 256u)

struct bw_saving {
    unsigned phase;
    uint64_t at; /* lease cursor, event number */
    uint32_t node, user;
    uint64_t versions, leases, events;
};

/* Start with save_begin, then call save until it returns 0. `size`: at least
 * BW_SNAPSHOT_PIECE_MAX. */
void bw_registry_save_begin(struct bw_registry *registry, struct bw_saving *saving);
size_t bw_registry_save(struct bw_registry *registry, struct bw_saving *saving, unsigned char *out,
                        size_t size);

struct bw_loading {
    bool begun, ended;
    uint32_t users; /* users still to come */
    uint64_t versions, leases, events;
};

/* Loads into a registry fresh from init. Consumes whole pieces of `bytes` and returns their length;
 * the caller passes the rest again with more bytes. Returns BW_EMALFORMED, BW_EVERSION or BW_ELIMIT
 * (quota) on error. The load is complete when `ended` is set. */
int64_t bw_registry_load(struct bw_registry *registry, struct bw_loading *loading,
                         const unsigned char *bytes, size_t length);

#endif
