/* Converts a Lease of coordination.k8s.io/v1 to a record, and back.
 *
 * The spec has the fields of client-go's leaderelection: holderIdentity, leaseDurationSeconds,
 * acquireTime, renewTime, leaseTransitions. Fields that client-go does not have are in annotations,
 * which it keeps unchanged. Annotations count only while the spec is the one they were written for.
 *
 *   bellwether/record     the record as JSON (record_json.h), without the fields of the spec
 *   bellwether/spec       "IDENTITY ACQUIRETIME TRANSITIONS" of the spec that the record belongs to
 *   bellwether/note       the note as JSON
 *   bellwether/election   the election's name, if the Lease's name differs
 *
 * The version is the resourceVersion. The token is the resourceVersion of the update that made the
 * holder. That update cannot know its own resourceVersion, so the annotation has token 0 until the
 * next write. */
#ifndef BW_STORE_KUBERNETES_LEASE_H
#define BW_STORE_KUBERNETES_LEASE_H

#include "store/store.h"

#include <jansson.h>

#define BW_KUBE_NAME_MAX     253u /* length of the name of an object, which is a DNS subdomain */
#define BW_KUBE_IDENTITY_MAX 127u /* ID_SUFFIX, as we write it */
#define BW_KUBE_SUFFIX       16u  /* digits after '_' that identify the process */

/* True if the name is a DNS subdomain, as names of objects must be. */
bool bw_kube_is_name(const char *name);
/* The Lease's name for an election: the election's name if it is a DNS subdomain, otherwise "bw32-"
 * and the name in base 32. */
void bw_kube_name(char name[BW_KUBE_NAME_MAX + 1], const char *election);

/* The resourceVersion in an object's or a list's metadata; 0 if it is missing or not a number. */
uint64_t bw_kube_version(const json_t *object);
/* metadata.name, metadata.uid and spec.holderIdentity; "" if absent. */
const char *bw_kube_lease_name(const json_t *lease);
const char *bw_kube_lease_uid(const json_t *lease);
const char *bw_kube_lease_identity(const json_t *lease);

/* Reads the name of the election that the Lease serves in a store whose URL names no Lease. Returns
 * false if it serves none. */
bool bw_kube_lease_election(const json_t *lease, char out[BW_ELECTION_NAME_MAX + 1]);
/* The same in a store whose URL names this Lease: it serves any one election. */
bool bw_kube_lease_only_election(const json_t *lease, char out[BW_ELECTION_NAME_MAX + 1]);

/* Reads a Lease into the form that is stored (record.h). Returns 0, BW_EMALFORMED if the object is
 * not a Lease, or BW_EUNSUPPORTED if its resourceVersion is not a number. */
int bw_kube_lease_read(const json_t *lease, struct bw_store_record *record);
/* True if `lease` and `before` show the same leadership, ignoring renewals. */
bool bw_kube_lease_same(const json_t *lease, const json_t *before);

enum bw_kube_change { BW_KUBE_TAKE, BW_KUBE_RENEW, BW_KUBE_RELEASE, BW_KUBE_NOTE };

struct bw_kube_draft {
    enum bw_kube_change change;
    const json_t *before; /* NULL: the Lease does not exist */
    const char *namespace, *name, *election;
    const char *identity;                 /* identity of the holder; not used for NOTE */
    const struct bw_store_record *record; /* the record to write */
    int64_t now_us;        /* wall clock, for renewTime and for people; decides nothing */
    bool renewed_long_ago; /* RENEW: more than 1 s since the last renewal: renewTime must change */
};

/* Returns the Lease to write, a new reference; NULL if memory is exhausted or a text is not UTF-8.
 */
json_t *bw_kube_lease_make(const struct bw_kube_draft *draft);

/* Writes RFC 3339 with microseconds, in UTC, as client-go does. */
void bw_kube_time(char text[32], int64_t us);

#endif
