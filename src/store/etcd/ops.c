/* What each request does. Whatever changes something is one transaction that compares what it was
 * decided on; lost comparisons look again, a few times.
 *
 * A lease is granted for its whole TTL only from when the server last heard of it. ACQUIRE and
 * RENEW therefore ask for a sign of life of the lease beside their transaction, and are done when
 * both have answered: the holder counts from when it asked, which is never later. */
#include "store/etcd/state.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <stdio.h>
#include <string.h>

#define TRIES_MAX 5u

/* ---- the lease beside the transaction ---- */

static void ask_to_keep(struct etcd_task *task)
{
    task->keep = etcd_seat_keep(task->seat) ? ETCD_KEEP_ASKED : ETCD_KEEP_SILENT;
    task->keep_number = task->seat->keeps_sent;
    task->keep_until_ms = etcd_now_ms() + task->store->patience_ms;
}

/* A leader of the cluster that has been replaced without knowing it may still say that a lease goes
 * on. It cannot carry out a transaction any more, nor can anybody in its term: one term for both
 * answers means that the lease was in the right hands. */
static const char *why_not_kept(const struct etcd_task *task)
{
    if (task->keep == ETCD_KEEP_GONE)
        return "the server has ended the lease";
    if (task->keep != ETCD_KEPT)
        return "no answer to the renewal of the lease";
    return task->keep_term == task->view.term ? NULL : "the cluster was changing its leader";
}

static void finish(struct etcd_task *task)
{
    if (!task->seen || task->keep == ETCD_KEEP_ASKED)
        return;
    const char *why = why_not_kept(task);
    if (why)
        etcd_task_fail(task, BW_OUTCOME_UNKNOWN, BW_EIO, why);
    else
        etcd_task_done(task);
}

void etcd_kept(struct etcd_task *task, enum etcd_keep keep, uint64_t term)
{
    task->keep = keep;
    task->keep_term = term;
    finish(task);
}

static void now_seen(struct etcd_task *task)
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
    struct etcd_seat *seat = task->seat;
    if (!etcd_task_view(task, response))
        return;
    if (task->view.succeeded)
        now_seen(task);
    else if (!task->job || task->tries++ >= TRIES_MAX)
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EBUSY, "others change the record too");
    else if (seat->fresh)
        take(task);
    else
        etcd_seat_take_place(task, judge);
}

/* First in line: write the record. While our key stands, nobody can come before us. */
static void take(struct etcd_task *task)
{
    const struct bw_store_request *request = &task->job->request;
    struct etcd_seat *seat = task->seat;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key key, record_key;
    struct bw_store_record record;
    char text[BW_RECORD_JSON_MAX];
    if (request->value)
        snprintf(seat->value, sizeof seat->value, "%s", request->value);
    const char *value = seat->value[0] ? seat->value : seat->candidate;
    etcd_view_last(&seat->view, &seat->stranger, &record);
    bw_record_take(&record, request);
    record.token = (bw_token)seat->create;
    if (bw_record_pack(&record, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the record");
        return;
    }
    etcd_key_seat(&key, &seat->names, seat->lease);
    etcd_key_side(&record_key, &seat->names, "record");
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, key.text, seat->create);
    etcd_txn_if_mod(&txn, record_key.text, seat->view.record_mod);
    etcd_txn_put(&txn, ETCD_THEN, record_key.text, text, 0);
    if (strcmp(seat->view.own.text, value) != 0)
        etcd_txn_put(&txn, ETCD_THEN, key.text, value, seat->lease);
    etcd_task_add_view(task, &txn, &keys);
    seat->fresh = false;
    if (task->keep == ETCD_KEEP_NONE)
        ask_to_keep(task);
    etcd_task_ask(task, &txn, on_taken);
}

static void judge(struct etcd_task *task)
{
    const struct etcd_view *view = &task->view;
    struct bw_store_record record;
    etcd_view_record(view, NULL, &record);
    if (etcd_view_is_first(view) && !etcd_view_is_taken(view)) {
        take(task);
    } else if (etcd_view_is_first(view) && bw_record_is_answer(&record, &task->job->request)) {
        ask_to_keep(task); /* asked twice: this very request made us holder */
        now_seen(task);
    } else {
        char why[BW_WHY_MAX + 1];
        snprintf(why, sizeof why, "%s leads", record.holder);
        etcd_task_refuse(task, BW_EBUSY, why);
    }
}

static void acquire(struct etcd_task *task)
{
    if (etcd_now_ms() < task->store->quiet_until_ms)
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EDAMAGED,
                       "the server has lost data: waiting out the leases that were seen");
    else if (task->seat && task->seat->fresh && task->seat->create)
        take(task); /* a watch has just shown that we are first */
    else
        etcd_seat_take_place(task, judge);
}

/* ---- RENEW and RELEASE ---- */

/* Is the leadership that the request speaks of the one that stands there? */
static bool is_ours(const struct etcd_task *task)
{
    const struct bw_store_request *request = &task->job->request;
    const struct etcd_view *view = &task->view;
    return etcd_view_is_first(view) && etcd_view_is_taken(view) &&
           view->kept.token == request->token && strcmp(view->kept.holder, request->candidate) == 0;
}

static void refuse_other(struct etcd_task *task)
{
    etcd_task_refuse(task, BW_ESTALE, "this leadership is over");
}

/* The record with a change; compared with the view it was made from. */
static bool ask_change(struct etcd_task *task, const struct bw_store_record *record,
                       const char *value, bool leave,
                       void (*step)(struct etcd_task *task, const Api__TxnResponse *response))
{
    const struct etcd_seat *seat = task->seat;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key key, candidate_key, record_key;
    char text[BW_RECORD_JSON_MAX];
    if (bw_record_pack(record, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the record");
        return false;
    }
    etcd_key_seat(&key, &seat->names, seat->lease);
    etcd_key_candidate(&candidate_key, &seat->names, seat->lease);
    etcd_key_side(&record_key, &seat->names, "record");
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, key.text, (int64_t)task->job->request.token);
    etcd_txn_if_mod(&txn, record_key.text, task->view.record_mod);
    etcd_txn_put(&txn, ETCD_THEN, record_key.text, text, 0);
    if (leave) {
        etcd_txn_delete(&txn, ETCD_THEN, key.text);
        etcd_txn_delete(&txn, ETCD_THEN, candidate_key.text);
    } else if (value) {
        etcd_txn_put(&txn, ETCD_THEN, key.text, value, seat->lease);
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
        refuse_other(task);
        return;
    }
    etcd_view_last(&task->view, NULL, &record);
    const struct bw_store_request *request = &task->job->request;
    const char *value = request->value && request->value[0] ? request->value : request->candidate;
    if (!bw_record_renew(&record, request))
        now_seen(task);
    else if (task->tries++ >= TRIES_MAX)
        etcd_task_fail(task, BW_OUTCOME_UNKNOWN, BW_EBUSY, "others change the record too");
    else
        ask_change(task, &record, request->value ? value : NULL, false, on_renew_seen);
}

static void renew(struct etcd_task *task)
{
    if (task->seat->lease)
        ask_to_keep(task);
    etcd_task_look(task, on_renew_seen);
}

static void on_released(struct etcd_task *task, const Api__TxnResponse *response);

static void release(struct etcd_task *task)
{
    struct bw_store_record record;
    etcd_view_last(&task->view, NULL, &record);
    bw_record_release(&record, task->job->request.clean);
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
        refuse_other(task);
}

static void on_released(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (!etcd_task_view(task, response))
        return;
    if (task->view.succeeded) {
        task->seat->wanted = false;
        etcd_task_done(task);
    } else if (!task->job || task->tries++ >= TRIES_MAX) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EBUSY, "others change the record too");
    } else if (is_ours(task)) {
        release(task);
    } else {
        refuse_other(task);
    }
}

/* A request about a seat that this process does not have, or whose lease is gone, changes nothing:
 * it is shown what stands there. */
static void on_refused_seen(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (!etcd_task_view(task, response))
        return;
    if (task->job && task->job->request.op == BW_STORE_LEAVE)
        etcd_task_done(task);
    else
        refuse_other(task);
}

/* What is known of one's own leadership is tried at once: who waits is waiting for it. */
static void begin_release(struct etcd_task *task, bool seated)
{
    const struct etcd_seat *seat = task->seat;
    if (seated && seat->taken && seat->view.kept.token == task->job->request.token &&
        strcmp(seat->view.kept.holder, seat->candidate) == 0) {
        task->view = seat->view;
        release(task);
    } else {
        etcd_task_look(task, seated ? on_release_seen : on_refused_seen);
    }
}

/* ---- ENTER and LEAVE ---- */

static void on_left(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (etcd_task_view(task, response))
        etcd_task_done(task);
}

/* A leader does not leave: its place goes with its release. */
static void leave(struct etcd_task *task)
{
    struct etcd_seat *seat = task->seat;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key key, candidate_key;
    seat->wanted = false;
    if (!seat->lease || seat->taken) {
        etcd_task_look(task, on_left);
        return;
    }
    etcd_key_seat(&key, &seat->names, seat->lease);
    etcd_key_candidate(&candidate_key, &seat->names, seat->lease);
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, key.text, seat->create);
    etcd_txn_delete(&txn, ETCD_THEN, key.text);
    etcd_txn_delete(&txn, ETCD_THEN, candidate_key.text);
    etcd_task_add_view(task, &txn, &keys);
    seat->fresh = false;
    etcd_task_ask(task, &txn, on_left);
}

/* ---- NOTE ---- */

static void on_note_seen(struct etcd_task *task, const Api__TxnResponse *response);

static void put_note(struct etcd_task *task)
{
    const struct bw_note *wanted = &task->job->request.note;
    struct etcd_seat *seat = task->seat;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key note_key, mail_key;
    struct bw_store_record record;
    char text[BW_RECORD_JSON_MAX];
    etcd_view_record(&task->view, seat ? &seat->stranger : NULL, &record);
    bw_record_note_apart(&record, wanted);
    if (bw_note_pack(&record.note, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for a note");
        return;
    }
    etcd_key_side(&note_key, &task->names, "note");
    etcd_key_mail(&mail_key, &task->names, wanted->to);
    etcd_txn_init(&txn);
    etcd_txn_if_mod(&txn, note_key.text, task->view.note_mod);
    etcd_txn_put(&txn, ETCD_THEN, note_key.text, text, 0);
    if (wanted->kind == BW_NOTE_PREPARE && seat && seat->lease) /* wakes that one alone */
        etcd_txn_put(&txn, ETCD_THEN, mail_key.text, "", seat->lease);
    etcd_task_add_view(task, &txn, &keys);
    etcd_task_ask(task, &txn, on_note_seen);
}

static void on_note_seen(struct etcd_task *task, const Api__TxnResponse *response)
{
    bool put = task->seen; /* this answers a transaction that put it */
    task->seen = true;
    if (!etcd_task_view(task, response))
        return;
    if (put && task->view.succeeded)
        etcd_task_done(task);
    else if (!task->job || task->tries++ >= TRIES_MAX)
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EBUSY, "others write notes too");
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
    bool seated = task->seat && task->seat->lease;
    switch (task->job->request.op) {
    case BW_STORE_ACQUIRE:
        acquire(task);
        break;
    case BW_STORE_ENTER:
        etcd_seat_take_place(task, etcd_task_done);
        break;
    case BW_STORE_RENEW:
        if (seated)
            renew(task);
        else
            etcd_task_look(task, on_refused_seen);
        break;
    case BW_STORE_RELEASE:
        begin_release(task, seated);
        break;
    case BW_STORE_LEAVE:
        if (seated)
            leave(task);
        else
            etcd_task_look(task, on_refused_seen);
        break;
    case BW_STORE_NOTE:
        etcd_task_look(task, on_note_seen);
        break;
    case BW_STORE_LIST:
        etcd_list_begin(task);
        break;
    case BW_STORE_WATCH:
        etcd_watch_begin(task);
        break;
    case BW_STORE_READ:
        etcd_task_look(task, on_read);
        break;
    }
}
