/* A Lease of coordination.k8s.io/v1 as a record, and back.
 *
 * The spec is what client-go's leaderelection writes and reads: holderIdentity,
 * leaseDurationSeconds, acquireTime, renewTime, leaseTransitions. What client-go does not know
 * stands in annotations, which it carries along untouched; they count only while the spec is the
 * one they were written for.
 *
 *   bellwether/record     the record as JSON (record_json.h), without what the spec says
 *   bellwether/spec       "IDENTITY ACQUIRETIME TRANSITIONS" of the spec that the record belongs to
 *   bellwether/note       the note as JSON
 *   bellwether/election   the election's name, where the Lease's is not the same
 *
 * The version is the resourceVersion; the token is the resourceVersion of the update that made the
 * holder: 0 in the annotation until the next write, which can know it. */
#ifndef BW_STORE_KUBERNETES_LEASE_H
#define BW_STORE_KUBERNETES_LEASE_H

#include "store/store.h"

#include <jansson.h>

#define BW_KUBE_NAME_MAX     253u /* of an object: a DNS subdomain */
#define BW_KUBE_IDENTITY_MAX 127u /* ID_SUFFIX, as we write it */
#define BW_KUBE_SUFFIX       16u  /* digits behind '_' that tell one process from another */

/* A DNS subdomain, as names of objects must be. */
bool bw_kube_is_name(const char *name);
/* The Lease of an election: its own name where that is a DNS subdomain, else "bw32-" and base 32.
 */
void bw_kube_name(char name[BW_KUBE_NAME_MAX + 1], const char *election);

/* The resourceVersion in an object's or a list's metadata; 0: there is none, or it is no number. */
uint64_t bw_kube_version(const json_t *object);
/* metadata.name, metadata.uid and spec.holderIdentity; "" if absent. */
const char *bw_kube_lease_name(const json_t *lease);
const char *bw_kube_lease_uid(const json_t *lease);
const char *bw_kube_lease_identity(const json_t *lease);

/* What stands in a Lease, as it is kept (record.h). Returns 0, BW_EMALFORMED if it is no Lease, or
 * BW_EUNSUPPORTED if its resourceVersion is no number. */
int bw_kube_lease_read(const json_t *lease, struct bw_store_record *record);
/* Is the leadership in `lease` the one that is in `before`, whoever renewed it? */
bool bw_kube_lease_same(const json_t *lease, const json_t *before);

enum bw_kube_change { BW_KUBE_TAKE, BW_KUBE_RENEW, BW_KUBE_RELEASE, BW_KUBE_NOTE };

struct bw_kube_draft {
    enum bw_kube_change change;
    const json_t *before; /* NULL: there is no such Lease */
    const char *space, *name, *election;
    const char *identity;                 /* of the holder; not for NOTE */
    const struct bw_store_record *record; /* as it shall stand */
    int64_t now_us;        /* wall clock: for people and renewTime, decides nothing */
    bool renewed_long_ago; /* RENEW: over a second since the last one: renewTime must show it */
};

/* The Lease to be written, a new reference; NULL: no memory, or a text that is not UTF-8. */
json_t *bw_kube_lease_make(const struct bw_kube_draft *draft);

/* RFC 3339 with six digits of a second, in UTC, as client-go writes it. */
void bw_kube_time(char text[32], int64_t us);

#endif
