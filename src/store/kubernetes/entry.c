/* The known state of each election; see state.h.
 *
 * A deleted Lease does not prove that its holder has stopped. Candidates that have seen it treat it
 * as held, under a new version, and wait until it is unchanged for a whole TTL. Its holder sees a
 * token above its own and steps down. */
#include "store/kubernetes/state.h"

#include "store/kit/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t bw_kube_now_ms(void)
{
    return uv_hrtime() / 1000000;
}

static struct bw_kube_entry **bucket_of(struct bw_kube_store *store, const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        hash = (hash ^ *at) * 16777619u;
    return &store->buckets[hash % BW_KUBE_BUCKETS];
}

struct bw_kube_entry *bw_kube_entry_find(struct bw_kube_store *store, const char *name)
{
    struct bw_kube_entry *entry = *bucket_of(store, name);
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->chain;
    return entry;
}

struct bw_kube_entry *bw_kube_entry_get(struct bw_kube_store *store, const char *election)
{
    char name[BW_KUBE_NAME_MAX + 1];
    if (store->lease[0])
        snprintf(name, sizeof name, "%s", store->lease);
    else
        bw_kube_name(name, election);
    struct bw_kube_entry *entry = bw_kube_entry_find(store, name);
    if (entry || store->entries == BW_KUBE_ENTRIES_MAX)
        return entry;
    entry = calloc(1, sizeof *entry + strlen(election) + 1);
    if (!entry)
        return NULL;
    memcpy(entry->name, name, sizeof name);
    memcpy(entry->election, election, strlen(election) + 1);
    struct bw_kube_entry **bucket = bucket_of(store, name);
    entry->chain = *bucket;
    *bucket = entry;
    store->entries++;
    return entry;
}

void bw_kube_entries_free(struct bw_kube_store *store)
{
    for (size_t i = 0; i < BW_KUBE_BUCKETS; i++)
        while (store->buckets[i]) {
            struct bw_kube_entry *entry = store->buckets[i];
            store->buckets[i] = entry->chain;
            json_decref(entry->lease);
            free(entry);
        }
}

void bw_kube_identity(const struct bw_kube_store *store, char identity[BW_KUBE_IDENTITY_MAX + 1],
                      const char *candidate)
{
    snprintf(identity, BW_KUBE_IDENTITY_MAX + 1, "%s_%s", candidate, store->suffix);
}

static bool is_ours(const struct bw_kube_store *store, const json_t *lease)
{
    const char *identity = bw_kube_lease_identity(lease);
    size_t length = strlen(identity);
    return length > BW_KUBE_SUFFIX + 1 &&
           strcmp(identity + length - BW_KUBE_SUFFIX, store->suffix) == 0;
}

bool bw_kube_leads(const struct bw_kube_store *store, const struct bw_kube_entry *entry,
                   const struct bw_store_request *request)
{
    char identity[BW_KUBE_IDENTITY_MAX + 1];
    bw_kube_identity(store, identity, request->candidate);
    return entry->lease && strcmp(bw_kube_lease_identity(entry->lease), identity) == 0 &&
           entry->lead_token != 0 && entry->lead_token == request->token;
}

struct bw_store_record bw_kube_show(const struct bw_kube_entry *entry)
{
    struct bw_store_record record = entry->record;
    bw_record_present(&record);
    return record;
}

/* Restores our record if a foreign client has removed the annotations. */
static void keep_own(const struct bw_kube_entry *entry, struct bw_store_record *record)
{
    if (record->request == 0 && entry->record.request == entry->lead_request) {
        uint64_t version = record->version;
        *record = entry->record;
        record->version = version;
    }
    record->token = entry->lead_token;
    record->request = entry->lead_request;
}

/* Our own leadership keeps its token, whatever other clients do to the annotations. A foreign
 * leadership keeps the version under which it was first seen. */
static void choose_token(struct bw_kube_store *store, struct bw_kube_entry *entry,
                         const json_t *lease, struct bw_store_record *record)
{
    bool ours = is_ours(store, lease);
    bool foreign = !ours && record->request == 0 && record->held;
    if (ours && entry->lead_token != 0 &&
        (record->request == entry->lead_request || record->request == 0)) {
        keep_own(entry, record);
    } else if (ours) { /* acquired by a request whose answer was lost */
        entry->lead_token = record->token;
        entry->lead_request = record->request;
    } else {
        entry->lead_token = 0;
    }
    if (foreign && entry->lease && bw_kube_lease_same(lease, entry->lease))
        record->token = entry->record.token;
}

/* A Lease that was deleted while held and was recreated free: its holder did not release. It counts
 * as held, and candidates wait for a whole TTL, until a candidate takes it. */
static void keep_orphaned(struct bw_kube_entry *entry, const json_t *lease,
                          struct bw_store_record *record)
{
    const char *uid = bw_kube_lease_uid(lease);
    bool other = entry->uid[0] && strcmp(entry->uid, uid) != 0;
    snprintf(entry->uid, sizeof entry->uid, "%s", uid);
    entry->orphaned = !record->held && entry->record.held && (other || entry->orphaned);
    if (!entry->orphaned)
        return;
    struct bw_store_record orphan = entry->record;
    orphan.version = orphan.token = record->version;
    orphan.note = record->note;
    orphan.request = 0;
    *record = orphan;
}

static void answer_watches(struct bw_kube_entry *entry)
{
    struct bw_store_record record = bw_kube_show(entry);
    struct bw_kube_call *next;
    for (struct bw_kube_call *call = entry->waiting; call; call = next) {
        struct bw_job *job = call->job;
        next = call->next;
        if (job->request.version == record.version)
            continue;
        bw_kube_call_free(call);
        bw_job_done(job, &record);
    }
}

/* set in versions of deleted Leases; no resourceVersion has it */
#define GONE_BIT (UINT64_C(1) << 63)

static void learn_gone(struct bw_kube_entry *entry, uint64_t version)
{
    if (!entry->lease || version < entry->known)
        return;
    json_decref(entry->lease);
    entry->lease = NULL;
    entry->gone = true;
    entry->lead_token = 0;
    entry->record.request = 0; /* must not match a later release */
    entry->known++;            /* the deletion took at least one revision */
    entry->record.version = entry->known | GONE_BIT;
    entry->record.token = entry->record.held ? entry->known : entry->record.token;
    answer_watches(entry);
}

void bw_kube_rewind(struct bw_kube_store *store, struct bw_kube_entry *entry, uint64_t version)
{
    entry->known = 0;
    entry->lead_token = 0;
    bw_kube_stream_rewind(store, version);
}

int bw_kube_learn(struct bw_kube_store *store, struct bw_kube_entry *entry, json_t *lease,
                  uint64_t version, enum bw_kube_source source)
{
    struct bw_store_record record;
    if (!lease) {
        learn_gone(entry, version);
        return 0;
    }
    int error = bw_kube_lease_read(lease, &record);
    if (error != 0 || record.version <= entry->known)
        return error;
    entry->known = record.version;
    choose_token(store, entry, lease, &record);
    keep_orphaned(entry, lease, &record);
    json_decref(entry->lease);
    entry->lease = json_incref(lease);
    entry->gone = false;
    entry->record = record;
    if (source == BW_KUBE_ASKED)
        bw_kube_expect(store, entry);
    answer_watches(entry);
    return 0;
}
