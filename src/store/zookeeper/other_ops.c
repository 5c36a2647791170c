/* READ, WATCH, LIST, NOTE, ENTER and LEAVE. */
#include "store/kit/record_json.h"
#include "store/zookeeper/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bw_store_request *request_of(const struct bw_zk_op *op)
{
    return &op->job->request;
}

static void use_own(struct bw_zk_op *op)
{
    bw_zk_op_use(op, bw_zk_entry_find(op->election, request_of(op)->candidate));
}

/* ---- READ ---- */

void bw_zk_read(struct bw_zk_op *op)
{
    use_own(op);
    bw_zk_read_tree(op, bw_zk_op_done);
}

/* ---- WATCH ---- */

/* Keeps the view, so that the next acquire need not read again. If memory is exhausted, the acquire
 * reads. */
static void keep_turn(struct bw_zk_entry *entry, const struct bw_zk_view *view)
{
    if (!entry->turn)
        entry->turn = malloc(sizeof *entry->turn);
    if (!entry->turn)
        return;
    *entry->turn = *view;
    entry->turn->nodes = NULL;
    entry->turn->count = 0;
}

static void watch_viewed(struct bw_zk_op *op)
{
    struct bw_store_record record;
    if (!op->job) {
        bw_zk_op_free(op);
        return;
    }
    bw_zk_view_record(op, &record);
    /* the candidate may acquire */
    bool turn = op->entry && !op->entry->leads && op->view.own_first;
    if (turn)
        keep_turn(op->entry, &op->view);
    if (record.version != request_of(op)->version) {
        bw_zk_op_done(op);
    } else if (op->target->fired != op->fired || (turn && !op->first_watched)) {
        op->first_watched = turn;
        bw_zk_op_start(op);
    } else {
        bw_zk_ops_add(&op->target->watches, op);
    }
}

static void watch_placed(struct bw_zk_op *op)
{
    struct bw_zk_entry *entry = op->entry;
    if (!op->job) {
        bw_zk_op_free(op);
        return;
    }
    op->target = entry ? &entry->target : &op->election->target;
    op->watch_all = !entry || entry->leads || op->first_watched;
    op->fired = op->target->fired;
    bw_zk_read_tree(op, watch_viewed);
}

void bw_zk_watch(struct bw_zk_op *op)
{
    use_own(op);
    if (op->entry)
        bw_zk_entry_place(op, watch_placed); /* its node may be in creation */
    else
        watch_placed(op);
}

/* ---- LIST ---- */

struct listed {
    struct bw_zk_op *op;
    unsigned place;
};

static int compare(const void *a, const void *b)
{
    return bw_zk_node_compare(a, b);
}

static void on_id(void *context, const struct bw_zk_reply *reply)
{
    struct listed *listed = context;
    struct bw_zk_op *op = listed->op;
    struct bw_candidate *candidate = &op->candidates[listed->place];
    size_t length = (size_t)reply->length;
    if (reply->rc == ZOK && !candidate->id[0])
        memcpy(candidate->id, reply->text,
               length < BW_CANDIDATE_ID_MAX ? length : BW_CANDIDATE_ID_MAX);
    if (reply->rc == ZOK && !candidate->id[0])
        memcpy(candidate->id, "?", 2);
    if (reply->rc != ZOK && reply->rc != ZNONODE)
        op->rc = reply->rc;
    if (reply->rc == ZOK)
        candidate->holder = op->view.has_record && op->view.record.held &&
                            op->view.record.token == (bw_token)reply->stat->czxid;
    free(listed);
    bw_zk_op_replied(op);
}

static void on_description(void *context, const struct bw_zk_reply *reply)
{
    struct listed *listed = context;
    struct bw_zk_op *op = listed->op;
    struct bw_candidate found = {.id = ""}, *candidate = &op->candidates[listed->place];
    if (reply->rc == ZOK && bw_candidate_unpack(reply->text, (size_t)reply->length, &found) == 0) {
        candidate->priority = found.priority;
        memcpy(candidate->value, found.value, sizeof found.value);
    }
    free(listed);
    bw_zk_op_replied(op);
}

static void ask_for(struct bw_zk_op *op, const char *path, unsigned place, bw_zk_done done)
{
    struct listed *listed = malloc(sizeof *listed);
    if (!listed) {
        op->rc = ZSYSTEMERROR;
        return;
    }
    *listed = (struct listed){.op = op, .place = place};
    int rc = bw_zk_get(&op->session->client, path, done, listed);
    if (rc != ZOK)
        free(listed);
    bw_zk_op_called(op, rc);
}

/* A node that disappeared meanwhile has no id and is skipped. */
static void list_read(struct bw_zk_op *op)
{
    uint32_t count = 0;
    if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
        return;
    }
    for (unsigned i = 0; i < op->view.count; i++)
        if (op->candidates[i].id[0])
            op->candidates[count++] = op->candidates[i];
    if (count > 0 && op->view.nodes && !op->view.nodes[0].ours)
        op->candidates[0].holder = true;
    bw_zk_op_list(op, count);
}

static void list_viewed(struct bw_zk_op *op)
{
    char path[BW_ZK_PATH_MAX + 1];
    struct bw_zk_view *view = &op->view;
    if (view->nodes)
        qsort(view->nodes, view->count, sizeof *view->nodes, compare);
    if (view->count > BW_ZK_LIST_MAX)
        view->count = BW_ZK_LIST_MAX;
    free(op->candidates);
    op->candidates = calloc(view->count + 1, sizeof *op->candidates);
    if (!op->candidates) {
        bw_zk_op_fail(op, BW_ENOMEM, "no memory left");
        return;
    }
    op->then = list_read;
    op->waits = 1;
    for (unsigned i = 0; view->nodes && i < view->count; i++) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(BW_ZK_PATH_MAX - BW_ZK_NODE_MAX - 1),
                 op->election->paths.latch, view->nodes[i].name);
        ask_for(op, path, i, on_id);
        if (!view->nodes[i].ours)
            continue;
        bw_zk_side_path(path, &op->election->paths, "at-", view->nodes[i].guid);
        ask_for(op, path, i, on_description);
    }
    bw_zk_op_replied(op);
}

void bw_zk_list(struct bw_zk_op *op)
{
    use_own(op);
    bw_zk_read_tree(op, list_viewed);
}

/* ---- NOTE ---- */

static void on_noted(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    bool lost = reply->rc == ZCONNECTIONLOSS || reply->rc == ZCLOSING;
    op->wrote = reply->rc == ZOK || lost;
    if (reply->rc != ZOK && op->rc == ZOK)
        op->rc = reply->rc;
    bw_zk_op_replied(op);
}

static void note_written(struct bw_zk_op *op)
{
    if (op->rc == ZOK)
        bw_zk_op_done(op);
    else
        bw_zk_op_compare_failed(op);
}

static void write_part(struct bw_zk_op *op, zoo_op_t *part, const char *path, bool there,
                       const char *text, int version)
{
    int length = (int)strlen(text);
    if (there)
        zoo_set_op_init(part, path, text, length, version, NULL);
    else
        zoo_create_op_init(part, path, text, length, op->session->client.acl, 0, NULL, 0);
}

/* A note for a waiting candidate also changes its wake-up node, because the candidate does not
 * watch the note itself. */
static void wakeup_viewed(struct bw_zk_op *op)
{
    char text[BW_RECORD_JSON_MAX], wakeup[BW_ZK_PATH_MAX + 1];
    struct bw_store_record noted;
    zoo_op_t parts[2];
    if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
        return;
    }
    if (!op->job) {
        bw_zk_op_free(op);
        return;
    }
    bw_zk_view_record(op, &noted);
    bw_record_put_separate_note(&noted, &request_of(op)->note);
    if (bw_note_pack(&noted.note, text, sizeof text) < 0) {
        bw_zk_op_fail(op, BW_ENOMEM, "no memory left");
        return;
    }
    bool wakes = request_of(op)->note.kind == BW_NOTE_PREPARE;
    write_part(op, &parts[0], op->election->paths.note, op->view.has_note, text,
               op->view.note_version);
    bw_zk_side_path(wakeup, &op->election->paths, "mail-", request_of(op)->note.to);
    write_part(op, &parts[1], wakeup, op->view.has_wakeup, "", -1);
    op->then = note_written;
    op->waits = 1;
    bw_zk_op_called(op, bw_zk_multi(&op->session->client, parts, wakes ? 2 : 1, on_noted, op));
    bw_zk_read_record(op);
    bw_zk_op_replied(op);
}

static void on_wakeup(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    op->view.has_wakeup = reply->rc == ZOK;
    if (reply->rc != ZOK && reply->rc != ZNONODE)
        op->rc = reply->rc;
    bw_zk_op_replied(op);
}

static void note_viewed(struct bw_zk_op *op)
{
    char wakeup[BW_ZK_PATH_MAX + 1];
    if (!op->job) {
        bw_zk_op_free(op);
        return;
    }
    op->then = wakeup_viewed;
    op->waits = 1;
    if (request_of(op)->note.kind == BW_NOTE_PREPARE) {
        bw_zk_side_path(wakeup, &op->election->paths, "mail-", request_of(op)->note.to);
        bw_zk_op_called(op, bw_zk_exists(&op->session->client, wakeup, 0, on_wakeup, op));
    }
    bw_zk_op_replied(op);
}

void bw_zk_note(struct bw_zk_op *op)
{
    use_own(op);
    bw_zk_read_tree(op, note_viewed);
}

/* ---- ENTER and LEAVE ---- */

static void enter_viewed(struct bw_zk_op *op)
{
    if (op->entry->node[0] && op->view.own_found) {
        bw_zk_op_done(op);
        return;
    }
    bw_zk_entry_lost(op->entry);
    bw_zk_op_again(op);
}

static void enter_placed(struct bw_zk_op *op)
{
    if (op->job)
        bw_zk_read_tree(op, enter_viewed);
    else
        bw_zk_op_free(op);
}

void bw_zk_enter(struct bw_zk_op *op)
{
    const struct bw_store_request *request = request_of(op);
    struct bw_zk_entry *entry = bw_zk_entry_find(op->election, request->candidate);
    const char *value = request->value ? request->value : "";
    if (request->ttl_ns > 0 && !bw_zk_session_serves(op))
        return;
    if (!entry)
        entry = bw_zk_entry_make(op->session, op->election, request->candidate);
    if (!entry) {
        bw_zk_op_fail(op, BW_ENOMEM, "no memory left");
        return;
    }
    bw_time ttl = request->ttl_ns > 0 ? request->ttl_ns : op->session->client.ttl_ns;
    bool same = entry->priority == request->priority && strcmp(entry->value, value) == 0;
    entry->requested_at = uv_now(op->store->loop);
    entry->ttl_ms = (uint64_t)(ttl / BW_MS);
    entry->priority = request->priority;
    snprintf(entry->value, sizeof entry->value, "%s", value);
    bw_zk_op_use(op, entry);
    if (!same && entry->node[0] && !entry->creating)
        bw_zk_entry_describe(entry);
    bw_zk_entry_place(op, enter_placed);
}

/* A leader releases instead. If it does neither, its entry is removed when its TTL is over. */
void bw_zk_leave(struct bw_zk_op *op)
{
    struct bw_zk_entry *entry = bw_zk_entry_find(op->election, request_of(op)->candidate);
    if (entry && !entry->leads)
        bw_zk_entry_leave(entry, true);
    bw_zk_read_tree(op, bw_zk_op_done);
}
