/* ACQUIRE, RENEW and RELEASE.
 *
 * Every write is a multi of two parts that succeed or fail together: our node exists (or is
 * deleted), and the record has the version that was read.
 *
 * A renewal without changes is a multi with the first part only. A majority of the servers has
 * agreed to this transaction. So the session was alive, under the ensemble's actual leader, after
 * the renewal was sent. A read or the library's pings would not prove this: a server cut off from
 * the majority still answers them. */
#include "store/kit/record_json.h"
#include "store/zookeeper/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bw_store_request *request_of(const struct bw_zk_op *op)
{
    return &op->job->request;
}

/* The caller no longer waits: the op sends nothing more. */
static bool forgotten(struct bw_zk_op *op)
{
    if (op->job)
        return false;
    bw_zk_op_free(op);
    return true;
}

static void refuse_by_view(struct bw_zk_op *op)
{
    char why[BW_WHY_MAX + 1];
    struct bw_store_record record;
    bw_zk_view_record(op, &record);
    if (record.held)
        bw_store_explain(why, 0, "held by %.100s", record.holder);
    else
        bw_store_explain(why, 0, "not held");
    bw_zk_op_refuse(op, BW_EBUSY, why);
}

/* ---- ACQUIRE ---- */

static void acquire_read(struct bw_zk_op *op)
{
    bool ours = op->view.has_record && op->entry->leads &&
                op->view.record.token == (bw_token)op->entry->czxid;
    if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
    } else if (!ours) {
        bw_zk_op_fail(op, BW_EIO, "another program changed the record of this leadership");
    } else {
        op->entry->record_version = op->view.record_version;
        op->view.own_found = op->view.own_first = op->view.has_first = true;
        op->view.first_czxid = op->entry->czxid;
        bw_zk_op_done(op);
    }
}

static void on_acquired(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    op->wrote = reply->rc == ZOK || reply->rc == ZCONNECTIONLOSS || reply->rc == ZCLOSING;
    if (reply->rc == ZOK) {
        op->entry->leads = true;
        op->election->highest = (bw_token)op->entry->czxid;
        bw_zk_watches_fire(op->store, op->entry->target.number); /* a leader watches more */
    } else if (op->rc == ZOK) {
        op->rc = reply->rc;
    }
    bw_zk_op_replied(op);
}

/* A compare failed: the record changed, the side path does not exist yet, or our node is gone. */
static void acquire_written(struct bw_zk_op *op)
{
    if (op->wrote || op->entry->leads) {
        acquire_read(op);
        return;
    }
    free(op->entry->record);
    op->entry->record = NULL;
    bw_zk_op_compare_failed(op);
}

static void record_op(struct bw_zk_op *op, zoo_op_t *part, const char *text, int length)
{
    const char *path = op->election->paths.record;
    if (op->view.has_record)
        zoo_set_op_init(part, path, text, length, op->view.record_version, NULL);
    else
        zoo_create_op_init(part, path, text, length, op->session->client.acl, 0, NULL, 0);
}

/* The record of the leadership that begins, in the entry and as text. Returns the text's length, or
 * an error if memory is exhausted. */
static int new_record(struct bw_zk_op *op, char *text, size_t size)
{
    struct bw_zk_entry *entry = op->entry;
    free(entry->record);
    entry->record = malloc(sizeof *entry->record);
    if (!entry->record)
        return BW_ENOMEM;
    bw_zk_view_base(op, entry->record);
    bw_record_acquire(entry->record, request_of(op));
    entry->record->token = (bw_token)entry->czxid;
    entry->record->version = 1;
    entry->dirty = false;
    return bw_record_pack(entry->record, text, size);
}

static void write_leadership(struct bw_zk_op *op)
{
    char path[BW_ZK_PATH_MAX + 1], text[BW_RECORD_JSON_MAX];
    struct bw_zk_entry *entry = op->entry;
    zoo_op_t parts[2];
    int length = new_record(op, text, sizeof text);
    if (length < 0) {
        bw_zk_op_fail(op, length, "no memory left");
        return;
    }
    bw_zk_entry_path(entry, path);
    zoo_check_op_init(&parts[0], path, -1);
    record_op(op, &parts[1], text, length);
    op->rc = ZOK;
    op->then = acquire_written;
    op->waits = 1;
    bw_zk_op_called(op, bw_zk_multi(&op->session->client, parts, 2, on_acquired, op));
    bw_zk_read_record(op);
    bw_zk_op_replied(op);
}

static bool is_answer(const struct bw_zk_op *op)
{
    return op->entry->leads && op->entry->record &&
           op->entry->record->request == request_of(op)->id;
}

static void acquire_viewed(struct bw_zk_op *op)
{
    char why[BW_WHY_MAX + 1];
    bw_token token = (bw_token)op->entry->czxid;
    if (forgotten(op))
        return;
    if (!op->view.own_found) {
        bw_zk_entry_lost(op->entry);
        bw_zk_op_again(op);
    } else if (op->view.own_first && is_answer(op)) {
        bw_zk_op_done(op);
    } else if (!op->view.own_first || op->entry->leads) {
        refuse_by_view(op);
    } else if (token <= op->election->highest) {
        bw_store_explain(
            why, 0, "ZooKeeper's transaction ids restarted: token %llu is not higher than %llu",
            (unsigned long long)token, (unsigned long long)op->election->highest);
        bw_zk_op_fail(op, BW_ESTALE, why);
    } else {
        write_leadership(op);
    }
}

static void acquire_placed(struct bw_zk_op *op)
{
    struct bw_zk_view *turn = op->entry->turn;
    op->entry->turn = NULL;
    if (turn) {
        op->view = *turn;
        free(turn);
        acquire_viewed(op);
    } else if (!forgotten(op)) {
        bw_zk_read_tree(op, acquire_viewed);
    }
}

bool bw_zk_session_serves(struct bw_zk_op *op)
{
    char why[BW_WHY_MAX + 1];
    int needed = bw_zk_session_ms(request_of(op)->ttl_ns), granted = op->session->client.granted_ms;
    if (granted >= needed)
        return true;
    bw_store_explain(why, 0,
                     "the servers grant sessions of %d ms, but this TTL needs %d ms: use a shorter "
                     "TTL, or raise their maxSessionTimeout",
                     granted, needed);
    bw_zk_op_fail(op, BW_EUNSUPPORTED, why);
    return false;
}

void bw_zk_acquire(struct bw_zk_op *op)
{
    struct bw_zk_entry *entry = bw_zk_entry_find(op->election, request_of(op)->candidate);
    if (!bw_zk_session_serves(op))
        return;
    if (!entry)
        entry = bw_zk_entry_make(op->session, op->election, request_of(op)->candidate);
    if (!entry) {
        bw_zk_op_fail(op, BW_ENOMEM, "no memory left");
        return;
    }
    op->session = entry->session;
    bw_zk_op_use(op, entry);
    entry->requested_at = uv_now(op->store->loop);
    entry->ttl_ms = (uint64_t)(request_of(op)->ttl_ns / BW_MS);
    bw_zk_entry_place(op, acquire_placed);
}

/* ---- RENEW and RELEASE ---- */

static bool holds(const struct bw_zk_op *op)
{
    const struct bw_zk_entry *entry = op->entry;
    return entry && entry->leads && entry->record &&
           bw_record_is_leadership(entry->record, request_of(op));
}

static void lost_viewed(struct bw_zk_op *op)
{
    refuse_by_view(op);
}

/* Our node is gone, or another program changed the record. */
static void on_compare_failed(struct bw_zk_op *op)
{
    if (op->rc == ZBADVERSION && op->view.record.token == op->entry->record->token) {
        op->entry->record_version = op->view.record_version;
        bw_zk_op_again(op);
        return;
    }
    bw_zk_entry_leave(op->entry, true);
    if (!forgotten(op))
        bw_zk_read_tree(op, lost_viewed);
}

static void on_written(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    bool lost = reply->rc == ZCONNECTIONLOSS || reply->rc == ZCLOSING;
    op->wrote = reply->rc == ZOK || lost;
    if (reply->rc != ZOK && op->rc == ZOK)
        op->rc = reply->rc;
    bw_zk_op_replied(op);
}

/* Sends both parts in one multi, then reads the result. */
static void write_held(struct bw_zk_op *op, bool release, bool record)
{
    char path[BW_ZK_PATH_MAX + 1], text[BW_RECORD_JSON_MAX];
    struct bw_zk_entry *entry = op->entry;
    zoo_op_t parts[2];
    bw_zk_entry_path(entry, path);
    if (release)
        zoo_delete_op_init(&parts[0], path, -1);
    else
        zoo_check_op_init(&parts[0], path, -1);
    if (record) {
        int length = bw_record_pack(entry->record, text, sizeof text);
        if (length < 0) {
            bw_zk_op_fail(op, length, "no memory left");
            return;
        }
        zoo_set_op_init(&parts[1], op->election->paths.record, text, length, entry->record_version,
                        NULL);
    }
    op->rc = ZOK;
    op->wrote_record = record;
    op->waits = 1;
    bw_zk_op_called(op, bw_zk_multi(&op->session->client, parts, record ? 2 : 1, on_written, op));
    bw_zk_read_record(op);
    bw_zk_op_replied(op);
}

static void renewed(struct bw_zk_op *op)
{
    struct bw_zk_entry *entry = op->entry;
    if (op->rc == ZNONODE || op->rc == ZBADVERSION) {
        on_compare_failed(op);
    } else if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
    } else {
        entry->record_version = op->view.record_version;
        entry->dirty = entry->dirty && !op->wrote_record;
        op->view.own_found = op->view.own_first = op->view.has_first = true;
        op->view.first_czxid = entry->czxid;
        bw_zk_op_done(op);
    }
}

void bw_zk_renew(struct bw_zk_op *op)
{
    struct bw_zk_entry *entry = bw_zk_entry_find(op->election, request_of(op)->candidate);
    bw_zk_op_use(op, entry);
    if (!holds(op)) {
        bw_zk_read_tree(op, lost_viewed);
        return;
    }
    op->session = entry->session;
    entry->requested_at = uv_now(op->store->loop);
    op->then = renewed;
    if (bw_record_renew(entry->record, request_of(op)))
        entry->dirty = true; /* until a write is confirmed */
    write_held(op, false, entry->dirty);
}

static void released(struct bw_zk_op *op)
{
    struct bw_zk_entry *entry = op->entry;
    if (op->rc == ZNONODE || op->rc == ZBADVERSION) {
        on_compare_failed(op);
    } else if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
    } else {
        bw_zk_entry_leave(entry, false);
        bw_zk_op_done(op);
    }
}

void bw_zk_release(struct bw_zk_op *op)
{
    struct bw_zk_entry *entry = bw_zk_entry_find(op->election, request_of(op)->candidate);
    bw_zk_op_use(op, entry);
    if (!holds(op)) {
        bw_zk_read_tree(op, lost_viewed);
        return;
    }
    op->session = entry->session;
    bw_record_release(entry->record, request_of(op));
    op->then = released;
    write_held(op, true, true);
}
