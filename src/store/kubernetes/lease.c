/* Leases as records; see lease.h.
 *
 * client-go compares renewTime in whole seconds and takes over when the spec is unchanged for
 * leaseDurationSeconds. So the written duration is rounded up, plus one second: client-go does not
 * see a renewal within the same second as the one before. Our own candidates read the exact TTL
 * from the annotation. */
#include "store/kubernetes/lease.h"

#include "core/base/bug.h"
#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORD   "bellwether/record"
#define SPEC     "bellwether/spec"
#define NOTE     "bellwether/note"
#define ELECTION "bellwether/election"
#define ENCODED  "bw32-"

#define SPEC_MAX 512u
#define UNKNOWN  "*" /* a holder without a name: it cannot be fenced */

/* ---- names ---- */

bool bw_kube_is_name(const char *name)
{
    static const char inner[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    size_t length = strlen(name);
    if (length == 0 || length > BW_KUBE_NAME_MAX || strspn(name, inner) != length ||
        strchr("-.", name[0]) || strchr("-.", name[length - 1]))
        return false;
    return !strstr(name, "..") && !strstr(name, ".-") && !strstr(name, "-.");
}

void bw_kube_name(char name[BW_KUBE_NAME_MAX + 1], const char *election)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    if (bw_kube_is_name(election) && strncmp(election, ENCODED, strlen(ENCODED)) != 0) {
        snprintf(name, BW_KUBE_NAME_MAX + 1, "%s", election);
        return;
    }
    unsigned bits = 0, count = 0;
    char *at = name + sprintf(name, "%s", ENCODED);
    for (const unsigned char *byte = (const unsigned char *)election; *byte; byte++) {
        bits = (bits << 8 | *byte) & 0xfffu;
        for (count += 8; count >= 5; count -= 5)
            *at++ = digits[bits >> (count - 5) & 31];
    }
    if (count)
        *at++ = digits[bits << (5 - count) & 31];
    *at = '\0';
}

/* ---- reading ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const json_t *metadata(const json_t *object)
{
    return json_object_get(object, "metadata");
}

uint64_t bw_kube_version(const json_t *object)
{
    const char *text = text_of(metadata(object), "resourceVersion");
    char *end;
    if (text[0] < '1' || text[0] > '9')
        return 0;
    unsigned long long version = strtoull(text, &end, 10);
    return *end || version >= UINT64_MAX - 1 ? 0 : version;
}

const char *bw_kube_lease_name(const json_t *lease)
{
    return text_of(metadata(lease), "name");
}

const char *bw_kube_lease_uid(const json_t *lease)
{
    return text_of(metadata(lease), "uid");
}

const char *bw_kube_lease_identity(const json_t *lease)
{
    return text_of(json_object_get(lease, "spec"), "holderIdentity");
}

static const char *annotation(const json_t *lease, const char *key)
{
    return text_of(json_object_get(metadata(lease), "annotations"), key);
}

static long long number_of(const json_t *spec, const char *key)
{
    return json_integer_value(json_object_get(spec, key));
}

/* The part of the spec that identifies a leadership; renewals do not change it. */
static void fingerprint(char text[SPEC_MAX], const json_t *lease)
{
    const json_t *spec = json_object_get(lease, "spec");
    snprintf(text, SPEC_MAX, "%s %s %lld", text_of(spec, "holderIdentity"),
             text_of(spec, "acquireTime"), number_of(spec, "leaseTransitions"));
}

bool bw_kube_lease_same(const json_t *lease, const json_t *before)
{
    char one[SPEC_MAX], two[SPEC_MAX];
    fingerprint(one, lease);
    fingerprint(two, before);
    return strcmp(one, two) == 0;
}

bool bw_kube_lease_only_election(const json_t *lease, char out[BW_ELECTION_NAME_MAX + 1])
{
    const char *noted = annotation(lease, ELECTION);
    const char *election = noted[0] ? noted : bw_kube_lease_name(lease);
    if (!bw_store_is_election(election))
        return false;
    memcpy(out, election, strlen(election) + 1);
    return true;
}

bool bw_kube_lease_election(const json_t *lease, char out[BW_ELECTION_NAME_MAX + 1])
{
    char name[BW_KUBE_NAME_MAX + 1];
    if (!bw_kube_lease_only_election(lease, out))
        return false;
    bw_kube_name(name, out);
    return strcmp(name, bw_kube_lease_name(lease)) == 0;
}

/* The identity as shown to people: without the process suffix, if it has the form of ours;
 * printable; truncated if necessary. */
static void show_identity(char id[BW_CANDIDATE_ID_MAX + 1], const char *identity)
{
    size_t length = strlen(identity);
    const char *end = identity + length;
    if (length > BW_KUBE_SUFFIX + 1 && end[-(int)BW_KUBE_SUFFIX - 1] == '_' &&
        strspn(end - BW_KUBE_SUFFIX, "0123456789abcdef") == BW_KUBE_SUFFIX)
        length -= BW_KUBE_SUFFIX + 1;
    if (length > BW_CANDIDATE_ID_MAX)
        length = BW_CANDIDATE_ID_MAX;
    while (length && (identity[length] & 0xc0) == 0x80) /* not inside a UTF-8 sequence */
        length--;
    for (size_t i = 0; i < length; i++)
        id[i] = (unsigned char)identity[i] < 0x20 || identity[i] == 0x7f ? '?' : identity[i];
    id[length] = '\0';
}

/* True if this holder wrote the record in the annotations, whatever else in the spec has changed.
 */
static bool wrote_annotations(const json_t *lease, const char *identity)
{
    const char *of = annotation(lease, SPEC);
    size_t length = strlen(identity);
    return length && strncmp(of, identity, length) == 0 && of[length] == ' ';
}

/* A foreign client, which does not write annotations, holds or has released the Lease. The holder
 * in the annotations led before it. */
static void read_foreign(const json_t *lease, struct bw_store_record *record)
{
    const json_t *spec = json_object_get(lease, "spec");
    const char *identity = text_of(spec, "holderIdentity");
    char holder[BW_CANDIDATE_ID_MAX + 1] = UNKNOWN;
    if (!identity[0] && !text_of(spec, "acquireTime")[0] && !record->holder[0])
        return; /* created, but never held */
    if (identity[0])
        show_identity(holder, identity);
    long long seconds = number_of(spec, "leaseDurationSeconds");
    struct bw_store_request taking = {.candidate = holder};
    if (seconds > 0 && seconds < INT32_MAX)
        taking.ttl_ns = seconds * BW_SEC;
    if (record->held && wrote_annotations(lease, identity))
        record->ttl_ns = taking.ttl_ns;
    else
        bw_record_acquire(record, &taking);
    if (!identity[0])
        bw_record_vacate(record, false);
    record->token = record->version;
}

static void read_note(const json_t *lease, struct bw_note *note)
{
    const char *text = annotation(lease, NOTE);
    if (text[0])
        bw_note_unpack(text, strlen(text), note); /* an invalid note counts as no note */
}

int bw_kube_lease_read(const json_t *lease, struct bw_store_record *record)
{
    char now[SPEC_MAX];
    memset(record, 0, sizeof *record);
    if (!json_is_object(json_object_get(lease, "spec")) || !json_is_object(metadata(lease)) ||
        !bw_kube_lease_name(lease)[0])
        return BW_EMALFORMED;
    record->version = bw_kube_version(lease);
    if (record->version == 0)
        return BW_EUNSUPPORTED;
    record->left_ns = BW_TIME_NEVER;
    const char *text = annotation(lease, RECORD);
    bool known = text[0] && bw_record_unpack(text, strlen(text), record) == 0;
    fingerprint(now, lease);
    bool current = strcmp(annotation(lease, SPEC), now) == 0;
    if (BW_BUG(kubernetes_trusts_old_annotations))
        current = true;
    known = known && current && record->held == (bw_kube_lease_identity(lease)[0] != '\0');
    if (!known)
        read_foreign(lease, record);
    else if (record->token == 0 || BW_BUG(kubernetes_token_moves_with_renewals))
        record->token = record->version; /* this version is the acquisition: no write followed it */
    read_note(lease, &record->note);
    return 0;
}

/* ---- writing ---- */

void bw_kube_time(char text[32], int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t length = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, 32 - length, ".%06dZ", (int)(us % 1000000));
}

static bool set_text(json_t *object, const char *key, const char *text)
{
    return json_object_set_new(object, key, json_string(text)) == 0;
}

static bool set_number(json_t *object, const char *key, json_int_t number)
{
    return json_object_set_new(object, key, json_integer(number)) == 0;
}

static json_int_t seconds_for_client_go(bw_time ttl_ns)
{
    json_int_t unseen = BW_BUG(kubernetes_forgets_the_unseen_second) ? 0 : 1;
    return (json_int_t)((ttl_ns + BW_SEC - 1) / BW_SEC) + unseen;
}

static json_int_t transitions(const struct bw_kube_draft *draft, const json_t *spec)
{
    json_int_t before = number_of(spec, "leaseTransitions");
    if (draft->change != BW_KUBE_TAKE || before < 0)
        return before < 0 ? 0 : before;
    return draft->before && before < INT32_MAX ? before + 1 : before;
}

static bool is_same_second(const char *time, const char *other)
{
    size_t whole = strcspn(time, ".");
    return strcspn(other, ".") == whole && memcmp(time, other, whole) == 0;
}

static bool write_spec(const struct bw_kube_draft *draft, json_t *spec)
{
    char now[32];
    bool release = draft->change == BW_KUBE_RELEASE;
    bw_kube_time(now, draft->now_us);
    if (draft->change == BW_KUBE_RENEW && draft->renewed_long_ago &&
        is_same_second(now, text_of(spec, "renewTime"))) /* the clock was set back */
        bw_kube_time(now, draft->now_us + 1000000);
    bool good = set_text(spec, "holderIdentity", release ? "" : draft->identity) &&
                set_text(spec, "renewTime", now) &&
                set_number(spec, "leaseTransitions", transitions(draft, spec)) &&
                set_number(spec, "leaseDurationSeconds",
                           release ? 1 : seconds_for_client_go(draft->record->ttl_ns));
    return good && (draft->change == BW_KUBE_RENEW || set_text(spec, "acquireTime", now));
}

static bool write_record(const struct bw_kube_draft *draft, json_t *lease, json_t *annotations)
{
    char text[BW_RECORD_JSON_MAX], of[SPEC_MAX];
    fingerprint(of, lease);
    if (draft->change == BW_KUBE_NOTE && strcmp(annotation(lease, SPEC), of) != 0)
        return true; /* a foreign holder has no record, only its spec */
    return bw_record_pack(draft->record, text, sizeof text) > 0 &&
           set_text(annotations, RECORD, text) && set_text(annotations, SPEC, of);
}

static bool write_annotations(const struct bw_kube_draft *draft, json_t *lease, json_t *annotations)
{
    char text[BW_RECORD_JSON_MAX];
    if (!write_record(draft, lease, annotations))
        return false;
    if (strcmp(draft->name, draft->election) != 0 &&
        !set_text(annotations, ELECTION, draft->election))
        return false;
    return draft->record->note.serial == 0 ||
           (bw_note_pack(&draft->record->note, text, sizeof text) > 0 &&
            set_text(annotations, NOTE, text));
}

static json_t *new_lease(const struct bw_kube_draft *draft)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:{}}", "apiVersion", "coordination.k8s.io/v1",
                     "kind", "Lease", "metadata", "name", draft->name, "namespace",
                     draft->namespace, "spec");
}

/* Returns the object under `key`, created if missing; borrowed. */
static json_t *child(json_t *object, const char *key)
{
    json_t *found = json_object_get(object, key);
    if (json_is_object(found))
        return found;
    json_object_set_new(object, key, json_object());
    return json_object_get(object, key);
}

json_t *bw_kube_lease_make(const struct bw_kube_draft *draft)
{
    json_t *lease = draft->before ? json_deep_copy(draft->before) : new_lease(draft);
    json_t *annotations = child(child(lease, "metadata"), "annotations");
    bool good = lease && annotations && set_text(lease, "apiVersion", "coordination.k8s.io/v1") &&
                set_text(lease, "kind", "Lease") && /* items of a list lack both */
                (draft->change == BW_KUBE_NOTE || write_spec(draft, child(lease, "spec"))) &&
                write_annotations(draft, lease, annotations);
    if (good)
        return lease;
    json_decref(lease);
    return NULL;
}
