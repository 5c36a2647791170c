/* Views of an election; see view.h. */
#include "store/etcd/view.h"

#include "net/death_proof.h"
#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The reads that make up a view. A transaction always contains all of them, in this order, after
 * its own operations. */
enum {
    READ_HEAD,
    READ_CANDIDATE,
    READ_RECORD,
    READ_NOTE,
    READ_OWN,
    READ_BEFORE,
    READ_PROOF,
    READS
};

static void search(struct etcd_txn *txn, const struct etcd_names *names, const char *end,
                   Api__RangeRequest__SortOrder order, int64_t below)
{
    Api__RangeRequest *range = etcd_txn_range(txn, ETCD_BOTH, names->election, end);
    range->limit = 1;
    range->sort_order = order;
    range->sort_target = API__RANGE_REQUEST__SORT_TARGET__CREATE;
    range->max_create_revision = below;
}

void etcd_view_ask(struct etcd_txn *txn, struct etcd_view_keys *keys,
                   const struct etcd_names *names, int64_t lease, int64_t create,
                   const struct etcd_known *known)
{
    const char *end = keys->election_end.text, *none = keys->none.text;
    etcd_key_after(&keys->election_end, names->election);
    etcd_key_side(&keys->record, names, "record");
    etcd_key_side(&keys->note, names, "note");
    etcd_key_side(&keys->proof, names, BW_DEATH_PROOF_KEY);
    etcd_key_side(&keys->none, names, "none");
    etcd_key_campaign(&keys->campaign, names, lease);
    if (known) {
        etcd_key_candidate_of(&keys->candidate, names, known->head.key);
        etcd_txn_range(txn, ETCD_BOTH, known->head.key, NULL);
        etcd_txn_range(txn, ETCD_BOTH, keys->candidate.text, NULL);
    } else {
        search(txn, names, end, API__RANGE_REQUEST__SORT_ORDER__ASCEND, 0);
        etcd_txn_range(txn, ETCD_BOTH, none, NULL);
    }
    etcd_txn_range(txn, ETCD_BOTH, keys->record.text, NULL);
    etcd_txn_range(txn, ETCD_BOTH, keys->note.text, NULL);
    etcd_txn_range(txn, ETCD_BOTH, lease ? keys->campaign.text : none, NULL);
    if (create && !known)
        search(txn, names, end, API__RANGE_REQUEST__SORT_ORDER__DESCEND, create - 1);
    else
        etcd_txn_range(txn, ETCD_BOTH, known && known->before.there ? known->before.key : none,
                       NULL);
    etcd_txn_range(txn, ETCD_BOTH, keys->proof.text, NULL);
}

bool etcd_view_is_stale(const struct etcd_view *view, const struct etcd_known *known)
{
    return view->head.create != known->head.create || view->before.create != known->before.create ||
           view->own.create != known->own;
}

static bool is_utf8(const char *text, size_t length)
{
    json_t *string = json_stringn(text, length);
    json_decref(string);
    return string != NULL;
}

void etcd_text(char *out, size_t max, const ProtobufCBinaryData *bytes)
{
    size_t length = bytes->len < max ? bytes->len : max;
    while (length > 0 && length < bytes->len && (bytes->data[length] & 0xc0) == 0x80)
        length--; /* do not cut a UTF-8 character */
    bool good = length == 0 || is_utf8((const char *)bytes->data, length);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = bytes->data[i];
        out[i] = c < ' ' || c == 0x7f ? ' ' : c >= 0x80 && !good ? '?' : (char)c;
    }
    out[length] = '\0';
}

static const Api__KeyValue *first_of(const Api__RangeResponse *range)
{
    return range && range->n_kvs > 0 ? range->kvs[0] : NULL;
}

static void read_entry(struct etcd_entry *entry, const Api__RangeResponse *range)
{
    const Api__KeyValue *kv = first_of(range);
    if (!kv)
        return;
    entry->there = true;
    entry->create = kv->create_revision;
    entry->mod = kv->mod_revision;
    size_t length = kv->key.len < sizeof entry->key - 1 ? kv->key.len : sizeof entry->key - 1;
    memcpy(entry->key, kv->key.data, length);
    entry->key[length] = '\0';
    etcd_text(entry->text, BW_VALUE_MAX, &kv->value);
}

/* True if the reader must wait for the candidate at the head of the queue, although it wrote no
 * record. */
static bool shows_head(const struct etcd_view *view)
{
    return view->head.there && !etcd_view_is_taken(view) && !etcd_view_is_first(view) &&
           (!view->head_ours || view->own.there);
}

static void read_candidate(struct etcd_view *view, const struct etcd_names *names,
                           const Api__KeyValue *kv)
{
    struct bw_candidate candidate = {.id = ""};
    view->head_ours = view->head.there && etcd_key_is_ours(names, view->head.key);
    view->before_ours = view->before.there && etcd_key_is_ours(names, view->before.key);
    if (kv && bw_candidate_unpack((const char *)kv->value.data, kv->value.len, &candidate) == 0)
        memcpy(view->head_id, candidate.id, sizeof view->head_id);
    view->unnamed = view->head_ours && !kv && shows_head(view);
}

static int read_side(struct etcd_view *view, const Api__RangeResponse *record,
                     const Api__RangeResponse *note, char *why)
{
    const Api__KeyValue *kv = first_of(record);
    if (kv) {
        view->record_mod = kv->mod_revision;
        int error = bw_record_unpack((const char *)kv->value.data, kv->value.len, &view->kept);
        if (error == BW_ENOMEM)
            return bw_store_explain(why, BW_ENOMEM, "no memory for the record");
        if (error)
            return bw_store_explain(
                why, BW_EDAMAGED,
                "key %.*s does not contain a record; use another prefix, or delete the key",
                kv->key.len < 120 ? (int)kv->key.len : 120, (const char *)kv->key.data);
    }
    if (!(kv = first_of(note)))
        return 0;
    view->note_mod = kv->mod_revision;
    if (bw_note_unpack((const char *)kv->value.data, kv->value.len, &view->note) != 0)
        return bw_store_explain(
            why, BW_EDAMAGED,
            "key %.*s does not contain a note; use another prefix, or delete the key",
            kv->key.len < 120 ? (int)kv->key.len : 120, (const char *)kv->key.data);
    return 0;
}

static void read_proof(struct etcd_view *view, const Api__KeyValue *kv)
{
    if (!kv)
        return;
    view->proof_mod = kv->mod_revision;
    view->proved_dead = bw_death_is_proved(kv->value.data, kv->value.len, view->kept.death_hash);
}

/* The view's reads are the last responses of the transaction. */
static int find_reads(const Api__TxnResponse *response, const Api__RangeResponse **reads)
{
    if (response->n_responses < READS)
        return BW_EMALFORMED;
    for (size_t i = 0; i < READS; i++) {
        const Api__ResponseOp *op = response->responses[response->n_responses - READS + i];
        if (op->response_case != API__RESPONSE_OP__RESPONSE_RESPONSE_RANGE)
            return BW_EMALFORMED;
        reads[i] = op->response_range;
    }
    return 0;
}

int etcd_view_read(struct etcd_view *view, const struct etcd_names *names,
                   const Api__TxnResponse *response, char *why)
{
    const Api__RangeResponse *reads[READS] = {NULL};
    memset(view, 0, sizeof *view);
    if (!response->header || find_reads(response, reads) != 0)
        return bw_store_explain(why, BW_EMALFORMED, "unexpected response from the server");
    view->revision = response->header->revision;
    view->cluster = response->header->cluster_id;
    view->term = response->header->raft_term;
    view->succeeded = response->succeeded;
    read_entry(&view->head, reads[READ_HEAD]);
    read_entry(&view->own, reads[READ_OWN]);
    read_entry(&view->before, reads[READ_BEFORE]);
    int error = read_side(view, reads[READ_RECORD], reads[READ_NOTE], why);
    read_proof(view, first_of(reads[READ_PROOF]));
    read_candidate(view, names, first_of(reads[READ_CANDIDATE]));
    return error;
}

bool etcd_view_is_first(const struct etcd_view *view)
{
    return view->own.there && view->head.create == view->own.create;
}

bool etcd_view_is_taken(const struct etcd_view *view)
{
    return view->head.there && view->record_mod && view->kept.held &&
           view->kept.token == (bw_token)view->head.create;
}

/* The version changes with every change of the view. 0 is reserved for "never existed". */
static uint64_t version_of(const struct etcd_view *view)
{
    const int64_t parts[] = {view->head.create, view->head.mod, view->record_mod, view->note_mod,
                             view->proof_mod};
    uint64_t hash = 0xcbf29ce484222325u, any = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        any |= (uint64_t)parts[i];
        hash = (hash ^ (uint64_t)parts[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return any == 0 ? 0 : hash ? hash : 1;
}

void etcd_view_last(const struct etcd_view *view, const struct etcd_foreign *foreign,
                    struct bw_store_record *record)
{
    *record = view->kept;
    record->note = view->note;
    record->version = view->record_mod ? 1 : 0;
    /* a leader in office is never dead, whatever the key contains */
    if (record->held && view->proved_dead && !etcd_view_is_taken(view))
        bw_record_vacate(record, true);
    if (!foreign || foreign->create <= (int64_t)record->token)
        return;
    record->version = 1;
    /* the recorded leader did not release: list its work as unconfirmed */
    if (record->held && record->holder[0]) {
        struct bw_store_request in_between = {.candidate = foreign->name};
        bw_record_acquire(record, &in_between);
    }
    snprintf(record->holder, sizeof record->holder, "%s", foreign->name);
    record->token = (bw_token)foreign->create;
    record->held = true;
    record->clean = false;
    record->containment[0] = '\0';
}

/* Shows a head that wrote no record: a foreign candidate, or one of ours before it writes the
 * record. */
static void show_head(const struct etcd_view *view, struct bw_store_record *record)
{
    const char *name = view->head_id[0]     ? view->head_id
                       : view->head.text[0] ? view->head.text
                                            : "unknown";
    ProtobufCBinaryData bytes = {.len = strlen(name), .data = (uint8_t *)name};
    etcd_text(record->holder, BW_CANDIDATE_ID_MAX, &bytes);
    memcpy(record->value, view->head.text, sizeof record->value);
    record->token = (bw_token)view->head.create;
    record->held = true;
    record->request = 0;
    record->ttl_ns = 0;
    record->containment[0] = '\0';
}

void etcd_view_record(const struct etcd_view *view, const struct etcd_foreign *foreign,
                      struct bw_store_record *record)
{
    bool taken = etcd_view_is_taken(view);
    etcd_view_last(view, taken ? NULL : foreign, record);
    if (shows_head(view)) {
        show_head(view, record);
    } else if (!taken && record->held) { /* its lease expired */
        record->held = record->clean = false;
        record->value[0] = '\0';
    }
    record->version = version_of(view);
    record->left_ns = record->held ? BW_TIME_NEVER : 0;
    bw_record_present(record);
}
