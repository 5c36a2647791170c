/* LIST: the candidates in the queue, foreign ones included, in the order of service, page by page.
 *
 * The candidates/ key of a Bellwether candidate is created together with its election key. A page
 * of candidates/ keys in the order of creation therefore covers the page of election keys that
 * starts at the same revision. */
#include "store/etcd/state.h"

#include "store/kit/record_json.h"

#include <stdlib.h>
#include <string.h>

#define PAGE     256
#define LIST_MAX 8192u

static void ask_page(struct etcd_task *task);

/* Returns the candidates/ entry that belongs to an election key. NULL: a foreign candidate has
 * none. */
static const Api__KeyValue *candidate_of(const struct etcd_names *names, const Api__KeyValue *place,
                                         const Api__RangeResponse *ours)
{
    size_t election = strlen(names->election), side = strlen(names->side) + strlen("candidates/");
    if (place->key.len < election)
        return NULL;
    size_t length = place->key.len - election;
    for (size_t i = 0; i < ours->n_kvs; i++) {
        const Api__KeyValue *kv = ours->kvs[i];
        if (kv->key.len == side + length &&
            memcmp(kv->key.data + side, place->key.data + election, length) == 0)
            return kv;
    }
    return NULL;
}

static void read_one(struct etcd_task *task, const Api__KeyValue *place, const Api__KeyValue *ours)
{
    struct bw_candidate *one = &task->list[task->list_count++];
    memset(one, 0, sizeof *one);
    if (!ours || bw_candidate_unpack((const char *)ours->value.data, ours->value.len, one) != 0) {
        etcd_text(one->id, BW_CANDIDATE_ID_MAX, &place->value);
        etcd_text(one->value, BW_VALUE_MAX, &place->value);
    }
    bool first = task->list_count == 1;
    bool taken = task->view.kept.held && (int64_t)task->view.kept.token == place->create_revision;
    one->holder = first && (taken || !ours);
}

static bool read_page(struct etcd_task *task, const Api__RangeResponse *places,
                      const Api__RangeResponse *ours)
{
    size_t wanted = task->list_count + places->n_kvs;
    if (wanted > LIST_MAX)
        wanted = LIST_MAX;
    struct bw_candidate *list = realloc(task->list, (wanted + 1) * sizeof *list);
    if (!list)
        return false;
    task->list = list;
    for (size_t i = 0; i < places->n_kvs && task->list_count < wanted; i++) {
        read_one(task, places->kvs[i], candidate_of(&task->names, places->kvs[i], ours));
        task->list_from = places->kvs[i]->create_revision + 1;
    }
    return true;
}

static void on_page(struct etcd_task *task, const Api__TxnResponse *response)
{
    struct etcd_view *view = &task->view;
    const Api__RangeResponse *pages[3];
    bool good = response->n_responses == 3;
    for (size_t i = 0; good && i < 3; i++) {
        good = response->responses[i]->response_case == API__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        pages[i] = response->responses[i]->response_range;
    }
    if (good && pages[2]->n_kvs > 0) {
        const Api__KeyValue *kv = pages[2]->kvs[0];
        good = bw_record_unpack((const char *)kv->value.data, kv->value.len, &view->kept) == 0;
    }
    if (!task->job)
        etcd_task_end(task);
    else if (!good || !read_page(task, pages[0], pages[1]))
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EMALFORMED,
                       "unexpected response from the server");
    else if (pages[0]->more && pages[0]->n_kvs > 0 && task->list_count < LIST_MAX)
        ask_page(task);
    else {
        struct bw_job *job = task->job;
        job->context = NULL;
        task->job = NULL;
        bw_job_list(job, task->list, task->list_count);
        etcd_task_end(task);
    }
}

static void ask_page(struct etcd_task *task)
{
    struct etcd_txn txn;
    struct etcd_key end, candidates, candidates_end, record;
    etcd_key_after(&end, task->names.election);
    etcd_key_side(&candidates, &task->names, "candidates/");
    etcd_key_after(&candidates_end, candidates.text);
    etcd_key_side(&record, &task->names, "record");
    etcd_txn_init(&txn);
    Api__RangeRequest *pages[2] = {
        etcd_txn_range(&txn, ETCD_THEN, task->names.election, end.text),
        etcd_txn_range(&txn, ETCD_THEN, candidates.text, candidates_end.text)};
    for (int i = 0; i < 2; i++) {
        pages[i]->limit = PAGE;
        pages[i]->sort_order = API__RANGE_REQUEST__SORT_ORDER__ASCEND;
        pages[i]->sort_target = API__RANGE_REQUEST__SORT_TARGET__CREATE;
        pages[i]->min_create_revision = task->list_from;
    }
    etcd_txn_range(&txn, ETCD_THEN, record.text, NULL);
    etcd_task_ask(task, &txn, on_page);
}

void etcd_list_begin(struct etcd_task *task)
{
    task->list_from = 0;
    ask_page(task);
}
