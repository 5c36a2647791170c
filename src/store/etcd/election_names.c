/* ELECTIONS: the names of the elections below the store's prefix, from the keys themselves.
 *
 *   /bellwether/ELECTION/...   elections of Bellwether, also without a candidate
 *   PREFIX/NAME/LEASE          elections of all clients, only with a prefix: without one, every key
 *                              of the server could be an election
 *
 * The keys alone are read, at most BW_STORE_NAMES_MAX of each kind. */
#include "store/etcd/state.h"

#include <stdlib.h>
#include <string.h>

static int hex(uint8_t digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
}

/* Reads the name at the start of `bytes`, up to a '/', and resolves %XX if `escaped`. Returns false
 * if there is no name: it is too long, empty, contains '/' or a control character, or no '/'
 * follows. */
static bool read_name(const uint8_t *bytes, size_t length, bool escaped,
                      struct bw_election_name *out)
{
    size_t used = 0, at = 0;
    for (; at < length && bytes[at] != '/'; at++) {
        int byte = bytes[at];
        bool coded = escaped && byte == '%' && at + 2 < length;
        int high = coded ? hex(bytes[at + 1]) : -1, low = coded ? hex(bytes[at + 2]) : -1;
        if (high >= 0 && low >= 0) {
            byte = 16 * high + low;
            at += 2;
        }
        if (used == BW_ELECTION_NAME_MAX || byte == '/' || byte < 0x20 || byte == 0x7f)
            return false;
        out->text[used++] = (char)byte;
    }
    out->text[used] = '\0';
    return used > 0 && at < length;
}

/* Adds the names in the keys of a response that begin after `skip` bytes. */
static void add_names(const Api__RangeResponse *found, size_t skip, bool escaped,
                      struct bw_election_name *names, uint32_t *count)
{
    for (size_t i = 0; i < found->n_kvs && *count < BW_STORE_NAMES_MAX; i++) {
        const ProtobufCBinaryData *key = &found->kvs[i]->key;
        struct bw_election_name *name = &names[*count];
        if (key->len <= skip || !read_name(key->data + skip, key->len - skip, escaped, name))
            continue;
        if (*count == 0 || strcmp(name->text, names[*count - 1].text) != 0)
            ++*count;
    }
}

/* The keys that the names follow: "/bellwether/" with the escaped prefix, and "PREFIX/". */
static void starts(const struct bw_store *store, struct etcd_key *ours, struct etcd_key *all)
{
    struct etcd_names names;
    etcd_names_make(&names, store->prefix, "");
    etcd_key_side(ours, &names, "");
    ours->text[strlen(ours->text) - 1] = '\0'; /* the '/' behind the empty name */
    snprintf(all->text, sizeof all->text, "%s/", store->prefix);
}

static void on_names(struct etcd_task *task, const Api__TxnResponse *response)
{
    struct etcd_key ours, all;
    uint32_t count = 0;
    struct bw_election_name *names = calloc(BW_STORE_NAMES_MAX, sizeof *names);
    starts(task->store, &ours, &all);
    for (size_t i = 0; names && i < response->n_responses && i < 2; i++)
        if (response->responses[i]->response_case == API__RESPONSE_OP__RESPONSE_RESPONSE_RANGE)
            add_names(response->responses[i]->response_range, strlen(i == 0 ? ours.text : all.text),
                      i == 0, names, &count);
    struct bw_job *job = task->job;
    if (job && !names) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the elections");
        return;
    }
    if (job) {
        job->context = NULL;
        task->job = NULL;
        bw_job_elections(job, names, count);
    }
    free(names);
    etcd_task_end(task);
}

void etcd_names_begin(struct etcd_task *task)
{
    struct etcd_txn txn;
    struct etcd_key keys[2], ends[2];
    starts(task->store, &keys[0], &keys[1]);
    etcd_txn_init(&txn);
    for (int i = 0; i < (task->store->prefix[0] ? 2 : 1); i++) {
        etcd_key_after(&ends[i], keys[i].text);
        Api__RangeRequest *range = etcd_txn_range(&txn, ETCD_THEN, keys[i].text, ends[i].text);
        range->keys_only = true;
        range->limit = BW_STORE_NAMES_MAX;
    }
    etcd_task_ask(task, &txn, on_names);
}
