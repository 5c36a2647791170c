/* Carries out each request. Each change is one transaction that compares the state it was decided
 * on. If a comparison fails, the request reads the state again and retries, a few times.
 *
 * The server counts a lease's TTL from the last keepalive it received. ACQUIRE and RENEW therefore
 * send a keepalive beside their transaction, and are DONE when both have been answered. The holder
 * counts its lease from when it made the request, which is never later than that. */
#include "store/etcd/state.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <stdio.h>
#include <string.h>

#define TRIES_MAX 5u

/* ---- the lease beside the transaction ---- */

static void send_keep_alive(struct etcd_task *task)
{
    task->keep = etcd_campaign_keep_alive(task->campaign) ? ETCD_KEEP_ASKED : ETCD_KEEP_TIMEOUT;
    task->keep_number = task->campaign->keeps_sent;
    task->keep_until_ms = etcd_now_ms() + task->store->timeout_ms;
}

/* Explains why the lease is not known to be kept; NULL: it is kept.
 *
 * An etcd leader that was deposed without knowing it may still confirm a keepalive. It can no
 * longer carry out a transaction, nor can any member in its term. If both responses have the same
 * Raft term, the confirmation came from the real leader. */
static const char *keep_failure(const struct etcd_task *task)
{
    if (task->keep == ETCD_KEEP_GONE)
        return "the lease has expired on the server";
    if (task->keep != ETCD_KEPT)
        return "no response to the lease keepalive";
    return task->keep_term == task->view.term ? NULL
                                              : "the etcd cluster changed its leader meanwhile";
}

static void finish(struct etcd_task *task)
{
    if (!task->seen || task->keep == ETCD_KEEP_ASKED)
        return;
    const char *why = keep_failure(task);
    if (why)
        etcd_task_fail(task, BW_OUTCOME_UNKNOWN, BW_EIO, why);
    else
        etcd_task_done(task);
}

void etcd_keep_answered(struct etcd_task *task, enum etcd_keep keep, uint64_t term)
{
    task->keep = keep;
    task->keep_term = term;
    finish(task);
}

static void view_read(struct etcd_task *task)
{
    task->seen = true;
    finish(task);
}

/* ---- READ ---- */

static void on_read(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (etcd_task_view(task, response))
        etcd_task_done(task);
}

/* ---- ACQUIRE ---- */

static void take(struct etcd_task *task);
static void judge(struct etcd_task *task);

static void on_taken(struct etcd_task *task, const Api__TxnResponse *response)
{
    struct etcd_campaign *campaign = task->campaign;
    if (!etcd_task_view(task, response))
        return;
    if (task->view.succeeded)
        view_read(task);
    else if (!task->job || task->tries++ >= TRIES_MAX)
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
                       "the record kept changing; gave up after several attempts");
    else if (campaign->fresh)
        take(task);
    else
        etcd_campaign_join(task, judge);
}

/* We are first in the queue: writes the record. While our key exists, no candidate can get before
 * us. */
static void take(struct etcd_task *task)
{
    const struct bw_store_request *request = &task->job->request;
    struct etcd_campaign *campaign = task->campaign;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key key, record_key, proof_key;
    struct bw_store_record record;
    char text[BW_RECORD_JSON_MAX];
    if (request->value)
        snprintf(campaign->value, sizeof campaign->value, "%s", request->value);
    const char *value = campaign->value[0] ? campaign->value : campaign->candidate;
    etcd_view_last(&campaign->view, &campaign->foreign, &record);
    bw_record_acquire(&record, request);
    record.token = (bw_token)campaign->create;
    if (request->guarded && campaign->bound &&
        campaign->bound == etcd_client_connection(task->store->client))
        etcd_client_death_hash(task->store->client, record.token, record.death_hash);
    if (bw_record_pack(&record, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the record");
        return;
    }
    etcd_key_campaign(&key, &campaign->names, campaign->lease);
    etcd_key_side(&record_key, &campaign->names, "record");
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, key.text, campaign->create);
    etcd_txn_if_mod(&txn, record_key.text, campaign->view.record_mod);
    etcd_txn_put(&txn, ETCD_THEN, record_key.text, text, 0);
    etcd_key_side(&proof_key, &campaign->names, BW_DEATH_PROOF_KEY);
    if (campaign->view.proof_mod)
        etcd_txn_delete(&txn, ETCD_THEN, proof_key.text);
    if (strcmp(campaign->view.own.text, value) != 0)
        etcd_txn_put(&txn, ETCD_THEN, key.text, value, campaign->lease);
    etcd_task_add_view(task, &txn, &keys);
    campaign->fresh = false;
    if (task->keep == ETCD_KEEP_NONE)
        send_keep_alive(task);
    etcd_task_ask(task, &txn, on_taken);
}

static void judge(struct etcd_task *task)
{
    const struct etcd_view *view = &task->view;
    struct bw_store_record record;
    etcd_view_record(view, NULL, &record);
    if (etcd_view_is_first(view) && !etcd_view_is_taken(view)) {
        take(task);
    } else if (etcd_view_is_first(view) && bw_record_is_result_of(&record, &task->job->request)) {
        send_keep_alive(task); /* repeated request: it already made us the holder */
        view_read(task);
    } else {
        char why[BW_WHY_MAX + 1];
        snprintf(why, sizeof why, "%s leads", record.holder);
        etcd_task_refuse(task, BW_EBUSY, why);
    }
}

static void acquire(struct etcd_task *task)
{
    if (etcd_now_ms() < task->store->quiet_until_ms)
        etcd_task_fail(
            task, BW_OUTCOME_UNAVAILABLE, BW_EDAMAGED,
            "the server has lost data; waiting until the leases seen before have expired");
    else if (task->campaign && task->campaign->fresh && task->campaign->create)
        take(task); /* a watch has just shown that we are first */
    else
        etcd_campaign_join(task, judge);
}

/* ---- RENEW and RELEASE ---- */

/* Is the current leadership the one that the request names? */
static bool is_ours(const struct etcd_task *task)
{
    const struct bw_store_request *request = &task->job->request;
    const struct etcd_view *view = &task->view;
    return etcd_view_is_first(view) && etcd_view_is_taken(view) &&
           view->kept.token == request->token && strcmp(view->kept.holder, request->candidate) == 0;
}

static void refuse_stale(struct etcd_task *task)
{
    etcd_task_refuse(task, BW_ESTALE, "this leadership is over");
}

/* Writes a changed record, if nothing has changed since the view it was made from. */
static bool ask_change(struct etcd_task *task, const struct bw_store_record *record,
                       const char *value, bool leave,
                       void (*step)(struct etcd_task *task, const Api__TxnResponse *response))
{
    const struct etcd_campaign *campaign = task->campaign;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key key, candidate_key, record_key;
    char text[BW_RECORD_JSON_MAX];
    if (bw_record_pack(record, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the record");
        return false;
    }
    etcd_key_campaign(&key, &campaign->names, campaign->lease);
    etcd_key_candidate(&candidate_key, &campaign->names, campaign->lease);
    etcd_key_side(&record_key, &campaign->names, "record");
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, key.text, (int64_t)task->job->request.token);
    etcd_txn_if_mod(&txn, record_key.text, task->view.record_mod);
    etcd_txn_put(&txn, ETCD_THEN, record_key.text, text, 0);
    if (leave) {
        etcd_txn_delete(&txn, ETCD_THEN, key.text);
        etcd_txn_delete(&txn, ETCD_THEN, candidate_key.text);
    } else if (value) {
        etcd_txn_put(&txn, ETCD_THEN, key.text, value, campaign->lease);
    }
    etcd_task_add_view(task, &txn, &keys);
    return etcd_task_ask(task, &txn, step);
}

static void on_renew_seen(struct etcd_task *task, const Api__TxnResponse *response)
{
    struct bw_store_record record;
    if (!etcd_task_view(task, response))
        return;
    if (!task->job) {
        etcd_task_end(task);
        return;
    }
    if (!is_ours(task)) {
        refuse_stale(task);
        return;
    }
    etcd_view_last(&task->view, NULL, &record);
    const struct bw_store_request *request = &task->job->request;
    const char *value = request->value && request->value[0] ? request->value : request->candidate;
    if (!bw_record_renew(&record, request))
        view_read(task);
    else if (task->tries++ >= TRIES_MAX)
        etcd_task_fail(task, BW_OUTCOME_UNKNOWN, BW_EBUSY,
                       "the record kept changing; gave up after several attempts");
    else
        ask_change(task, &record, request->value ? value : NULL, false, on_renew_seen);
}

static void renew(struct etcd_task *task)
{
    if (task->campaign->lease)
        send_keep_alive(task);
    etcd_task_read(task, on_renew_seen);
}

static void on_released(struct etcd_task *task, const Api__TxnResponse *response);

static void release(struct etcd_task *task)
{
    struct bw_store_record record;
    etcd_view_last(&task->view, NULL, &record);
    bw_record_release(&record, &task->job->request);
    ask_change(task, &record, NULL, true, on_released);
}

static void on_release_seen(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (!etcd_task_view(task, response))
        return;
    if (!task->job)
        etcd_task_end(task);
    else if (is_ours(task))
        release(task);
    else
        refuse_stale(task);
}

static void on_released(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (!etcd_task_view(task, response))
        return;
    if (task->view.succeeded) {
        task->campaign->wanted = false;
        etcd_task_done(task);
    } else if (!task->job || task->tries++ >= TRIES_MAX) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
                       "the record kept changing; gave up after several attempts");
    } else if (is_ours(task)) {
        release(task);
    } else {
        refuse_stale(task);
    }
}

/* A request about a candidate without a lease in this process changes nothing: it only reads the
 * record. */
static void on_refused_seen(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (!etcd_task_view(task, response))
        return;
    if (task->job && task->job->request.op == BW_STORE_LEAVE)
        etcd_task_done(task);
    else
        refuse_stale(task);
}

/* If the view says that we lead, sends the release without reading first, because other candidates
 * wait for it. */
static void begin_release(struct etcd_task *task, bool has_lease)
{
    const struct etcd_campaign *campaign = task->campaign;
    if (has_lease && campaign->taken && campaign->view.kept.token == task->job->request.token &&
        strcmp(campaign->view.kept.holder, campaign->candidate) == 0) {
        task->view = campaign->view;
        release(task);
    } else {
        etcd_task_read(task, has_lease ? on_release_seen : on_refused_seen);
    }
}

/* ---- ENTER and LEAVE ---- */

static void on_left(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (etcd_task_view(task, response))
        etcd_task_done(task);
}

/* LEAVE: removes a waiting candidate from the queue. A leader stays in the queue until it
 * releases. */
static void leave(struct etcd_task *task)
{
    struct etcd_campaign *campaign = task->campaign;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key key, candidate_key;
    campaign->wanted = false;
    if (!campaign->lease || campaign->taken) {
        etcd_task_read(task, on_left);
        return;
    }
    etcd_key_campaign(&key, &campaign->names, campaign->lease);
    etcd_key_candidate(&candidate_key, &campaign->names, campaign->lease);
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, key.text, campaign->create);
    etcd_txn_delete(&txn, ETCD_THEN, key.text);
    etcd_txn_delete(&txn, ETCD_THEN, candidate_key.text);
    etcd_task_add_view(task, &txn, &keys);
    campaign->fresh = false;
    etcd_task_ask(task, &txn, on_left);
}

/* ---- NOTE ---- */

static void on_note_seen(struct etcd_task *task, const Api__TxnResponse *response);

static void put_note(struct etcd_task *task)
{
    const struct bw_note *wanted = &task->job->request.note;
    struct etcd_campaign *campaign = task->campaign;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key note_key, mail_key;
    struct bw_store_record record;
    char text[BW_RECORD_JSON_MAX];
    etcd_view_record(&task->view, campaign ? &campaign->foreign : NULL, &record);
    bw_record_put_separate_note(&record, wanted);
    if (bw_note_pack(&record.note, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for a note");
        return;
    }
    etcd_key_side(&note_key, &task->names, "note");
    etcd_key_mail(&mail_key, &task->names, wanted->to);
    etcd_txn_init(&txn);
    etcd_txn_if_mod(&txn, note_key.text, task->view.note_mod);
    etcd_txn_put(&txn, ETCD_THEN, note_key.text, text, 0);
    /* wakes only that candidate */
    if (wanted->kind == BW_NOTE_PREPARE && campaign && campaign->lease)
        etcd_txn_put(&txn, ETCD_THEN, mail_key.text, "", campaign->lease);
    etcd_task_add_view(task, &txn, &keys);
    etcd_task_ask(task, &txn, on_note_seen);
}

static void on_note_seen(struct etcd_task *task, const Api__TxnResponse *response)
{
    bool put = task->seen; /* this response answers the transaction that wrote the note */
    task->seen = true;
    if (!etcd_task_view(task, response))
        return;
    if (put && task->view.succeeded)
        etcd_task_done(task);
    else if (!task->job || task->tries++ >= TRIES_MAX)
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
                       "the note kept changing; gave up after several attempts");
    else
        put_note(task);
}

/* ---- all of them ---- */

void etcd_begin(struct etcd_task *task)
{
    if (!task->job) {
        etcd_task_end(task);
        return;
    }
    bool has_lease = task->campaign && task->campaign->lease;
    switch (task->job->request.op) {
    case BW_STORE_ACQUIRE:
        acquire(task);
        break;
    case BW_STORE_ENTER:
        etcd_campaign_join(task, etcd_task_done);
        break;
    case BW_STORE_RENEW:
        if (has_lease)
            renew(task);
        else
            etcd_task_read(task, on_refused_seen);
        break;
    case BW_STORE_RELEASE:
        begin_release(task, has_lease);
        break;
    case BW_STORE_LEAVE:
        if (has_lease)
            leave(task);
        else
            etcd_task_read(task, on_refused_seen);
        break;
    case BW_STORE_NOTE:
        etcd_task_read(task, on_note_seen);
        break;
    case BW_STORE_LIST:
        etcd_list_begin(task);
        break;
    case BW_STORE_ELECTIONS:
        etcd_names_begin(task);
        break;
    case BW_STORE_WATCH:
        etcd_watch_begin(task);
        break;
    case BW_STORE_READ:
        etcd_task_read(task, on_read);
        break;
    }
}
