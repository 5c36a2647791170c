/* Reads the tree in one step and derives the record for the requester.
 *
 * The leader is the first node in the queue, and the record in the side path confirms it: the
 * record's token is the id of the transaction that created that node. If the record does not name
 * the first node, that node is one of:
 *   - a foreign client's: it leads, because its recipe does not use our record;
 *   - a Bellwether candidate's that has not acquired yet. Candidates behind it see it as holder,
 *     observers see no leader, and the candidate itself sees a free election.
 * If the queue is empty and the record says "held", the holder's session has ended. */
#include "store/kit/record_json.h"
#include "store/zookeeper/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static void note_error(struct bw_zk_op *op, int rc)
{
    if (rc != ZOK && rc != ZNONODE && op->rc == ZOK)
        op->rc = rc;
}

static void on_synced(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    note_error(op, reply->rc);
    bw_zk_op_replied(op);
}

static void on_record(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    struct bw_zk_view *view = &op->view;
    note_error(op, reply->rc);
    memset(&view->record, 0, sizeof view->record);
    view->has_record = reply->rc == ZOK;
    view->record_version = view->has_record ? reply->stat->version : 0;
    view->record_mzxid = view->has_record ? reply->stat->mzxid : 0;
    if (view->has_record &&
        bw_record_unpack(reply->text, (size_t)reply->length, &view->record) != 0)
        view->damaged = true;
    view->record.version = view->has_record;
    bw_zk_op_replied(op);
}

static void on_note(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    struct bw_zk_view *view = &op->view;
    note_error(op, reply->rc);
    memset(&view->note, 0, sizeof view->note);
    view->has_note = reply->rc == ZOK;
    view->note_version = view->has_note ? reply->stat->version : 0;
    view->note_mzxid = view->has_note ? reply->stat->mzxid : 0;
    if (view->has_note && bw_note_unpack(reply->text, (size_t)reply->length, &view->note) != 0)
        view->damaged = true;
    bw_zk_op_replied(op);
}

static const struct bw_zk_node *find_own(const struct bw_zk_view *view,
                                         const struct bw_zk_entry *entry)
{
    if (!entry || !entry->node[0] || !view->nodes)
        return NULL;
    for (unsigned i = 0; i < view->count; i++)
        if (strcmp(view->nodes[i].name, entry->node) == 0)
            return &view->nodes[i];
    return NULL;
}

/* Finds the first node and the node in front of ours. */
static void read_place(struct bw_zk_op *op)
{
    struct bw_zk_view *view = &op->view;
    for (unsigned i = 0; view->nodes && i < view->count; i++)
        if (!view->has_first || bw_zk_node_compare(&view->nodes[i], &view->first) < 0) {
            view->first = view->nodes[i];
            view->has_first = true;
        }
    const struct bw_zk_node *own = find_own(view, op->entry);
    view->own_found = own != NULL;
    view->own_first = own && strcmp(own->name, view->first.name) == 0;
    for (unsigned i = 0; own && i < view->count; i++) {
        const struct bw_zk_node *node = &view->nodes[i];
        bool nearer = !view->has_before || bw_zk_node_compare(node, &view->before) > 0;
        if (bw_zk_node_compare(node, own) < 0 && nearer) {
            view->before = *node;
            view->has_before = true;
        }
    }
}

static void on_children(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    struct bw_zk_view *view = &op->view;
    enum bw_zk_recipe other = op->store->recipe == BW_ZK_KAZOO ? BW_ZK_CURATOR : BW_ZK_KAZOO;
    int32_t count = reply->rc == ZOK && reply->names->count > 0 ? reply->names->count : 0;
    note_error(op, reply->rc);
    view->nodes = count ? calloc((size_t)count, sizeof *view->nodes) : NULL;
    if (count && !view->nodes)
        note_error(op, ZSYSTEMERROR);
    for (int32_t i = 0; view->nodes && i < count; i++) {
        struct bw_zk_node foreign_leader, *node = &view->nodes[view->count];
        if (bw_zk_node_parse(node, op->store->recipe, reply->names->data[i]))
            view->count++;
        else if (bw_zk_node_parse(&foreign_leader, other, reply->names->data[i]))
            view->other_recipe = true;
    }
    read_place(op);
    bw_zk_op_replied(op);
}

/* ---- the first node ---- */

static void keep_first(struct bw_zk_op *op)
{
    struct bw_zk_election *election = op->election;
    op->view.first_czxid = election->first_czxid;
    memcpy(op->view.first_id, election->first_id, sizeof election->first_id);
    bool known = op->view.has_record && op->view.record.token == (bw_token)election->first_czxid;
    if (!op->view.first.ours && !known && election->first_czxid > election->foreign_czxid) {
        election->foreign_czxid = election->first_czxid;
        memcpy(election->foreign_leader, election->first_id, sizeof election->foreign_leader);
    }
}

static void know_first(struct bw_zk_election *election, const char *name, const char *id,
                       int64_t czxid)
{
    memcpy(election->first, name, strlen(name) + 1);
    /* A foreign client may have an empty id. */
    snprintf(election->first_id, sizeof election->first_id, "%s", *id ? id : "?");
    election->first_czxid = czxid;
}

static void on_first(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    char id[BW_CANDIDATE_ID_MAX + 1] = "";
    note_error(op, reply->rc);
    if (reply->rc == ZOK) {
        snprintf(id, sizeof id, "%.*s", reply->length, reply->text ? reply->text : "");
        know_first(op->election, op->view.first.name, id, reply->stat->czxid);
        keep_first(op);
    } else if (reply->rc == ZNONODE) {
        op->rc = ZNONODE; /* the node disappeared meanwhile */
    }
    bw_zk_op_replied(op);
}

static void on_before(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    note_error(op, reply->rc);
    if (reply->rc == ZNONODE)
        op->rc = ZNONODE;
    bw_zk_op_replied(op);
}

static void child_path(const struct bw_zk_op *op, const char *name, char path[BW_ZK_PATH_MAX + 1])
{
    snprintf(path, BW_ZK_PATH_MAX + 1, "%.*s/%s", (int)(BW_ZK_PATH_MAX - BW_ZK_NODE_MAX - 1),
             op->election->paths.latch, name);
}

static void fail_other_recipe(struct bw_zk_op *op)
{
    char why[BW_WHY_MAX + 1];
    bool kazoo = op->store->recipe == BW_ZK_KAZOO;
    bw_store_explain(why, 0, "%.120s contains nodes of %s: %s, or use another path",
                     op->election->paths.latch,
                     kazoo ? "Curator's LeaderLatch" : "kazoo's Election or Lock",
                     kazoo ? "leave out ?recipe=kazoo" : "add ?recipe=kazoo");
    bw_zk_op_fail(op, BW_EUNSUPPORTED, why);
}

/* Detects an own acquisition whose reply was lost: the record names our node and request. */
static void find_own_leadership(struct bw_zk_op *op)
{
    const struct bw_zk_view *view = &op->view;
    struct bw_zk_entry *entry = op->entry;
    if (!entry || entry->leads || !entry->record || !view->own_first || !view->has_record ||
        !view->record.held || view->record.token != (bw_token)entry->czxid ||
        view->record.request != entry->record->request)
        return;
    entry->leads = true;
    entry->record_version = view->record_version;
}

static void finish(struct bw_zk_op *op)
{
    bw_token token = op->view.has_record ? op->view.record.token : 0;
    if (op->rc == ZNONODE) {
        bw_zk_op_again(op);
    } else if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
    } else if (op->view.damaged) {
        bw_zk_op_fail(op, BW_EDAMAGED,
                      "the election's record or note in ZooKeeper is not valid: use another path, "
                      "or delete it");
    } else if (op->view.other_recipe) {
        fail_other_recipe(op);
    } else {
        if (token > op->election->highest)
            op->election->highest = token;
        find_own_leadership(op);
        op->viewed(op);
    }
}

/* Second step: reads the first node's id, and watches the node in front of ours. */
static void read_first(struct bw_zk_op *op)
{
    char path[BW_ZK_PATH_MAX + 1];
    struct bw_zk_view *view = &op->view;
    op->then = finish;
    op->waits = 1;
    if (op->rc == ZOK && op->target && view->has_before) {
        child_path(op, view->before.name, path);
        bw_zk_op_called(
            op, bw_zk_exists(&op->session->client, path, op->target->number, on_before, op));
    }
    if (view->own_first)
        know_first(op->election, op->entry->node, op->entry->id, op->entry->czxid);
    if (op->rc == ZOK && view->has_first && strcmp(view->first.name, op->election->first) == 0) {
        keep_first(op);
    } else if (op->rc == ZOK && view->has_first) {
        child_path(op, view->first.name, path);
        bw_zk_op_called(op, bw_zk_get(&op->session->client, path, on_first, op));
    }
    bw_zk_op_replied(op);
}

static bool watches_queue(const struct bw_zk_op *op)
{
    return op->target && op->watch_all && !(op->entry && op->entry->leads);
}

static void on_seen(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    note_error(op, reply->rc);
    bw_zk_op_replied(op);
}

/* Sets each watch before the read it belongs to, so that no change is missed. A waiting candidate
 * watches only its predecessor and its wake-up node; a leader does not watch the queue. So each
 * change wakes few candidates. */
static void set_watches(struct bw_zk_op *op)
{
    struct bw_zk_client *client = &op->session->client;
    const struct bw_zk_paths *paths = &op->election->paths;
    uint64_t number = op->target->number;
    char path[BW_ZK_PATH_MAX + 1];
    if (!op->watch_all) {
        bw_zk_side_path(path, paths, "mail-", op->entry->id);
        bw_zk_op_called(op, bw_zk_exists(client, path, number, on_seen, op));
        return;
    }
    if (watches_queue(op))
        snprintf(path, sizeof path, "%s", paths->latch);
    else
        bw_zk_entry_path(op->entry, path);
    bw_zk_op_called(op, bw_zk_exists(client, path, number, on_seen, op));
    bw_zk_op_called(op, bw_zk_exists(client, paths->record, number, on_seen, op));
    bw_zk_op_called(op, bw_zk_exists(client, paths->note, number, on_seen, op));
}

void bw_zk_read_record(struct bw_zk_op *op)
{
    struct bw_zk_client *client = &op->session->client;
    bw_zk_op_called(op, bw_zk_get(client, op->election->paths.record, on_record, op));
    bw_zk_op_called(op, bw_zk_get(client, op->election->paths.note, on_note, op));
}

void bw_zk_read_tree(struct bw_zk_op *op, void (*viewed)(struct bw_zk_op *op))
{
    struct bw_zk_client *client = &op->session->client;
    const struct bw_zk_paths *paths = &op->election->paths;
    uint64_t queue = watches_queue(op) ? op->target->number : 0;
    free(op->view.nodes);
    memset(&op->view, 0, sizeof op->view);
    op->rc = ZOK;
    op->viewed = viewed;
    op->then = read_first;
    op->waits = 1;
    if (!op->fresh)
        bw_zk_op_called(op, bw_zk_sync(client, paths->latch, on_synced, op));
    if (op->target)
        set_watches(op);
    bw_zk_op_called(op, bw_zk_children(client, paths->latch, queue, on_children, op));
    bw_zk_read_record(op);
    bw_zk_op_replied(op);
}

/* ---- the record ---- */

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* Computes the version for readers, which changes with the leader, the record and the note. 0: the
 * election never existed. */
static uint64_t version_of(int64_t leader, int64_t record, int64_t note)
{
    if (leader == 0 && record == 0 && note == 0)
        return 0;
    uint64_t value = mix(mix(mix((uint64_t)leader + 1) ^ (uint64_t)record) ^ (uint64_t)note);
    return value ? value : 1;
}

/* The first node is one that the record does not name. */
static void show_foreign_leader(const struct bw_zk_op *op, struct bw_store_record *record)
{
    char unconfirmed[BW_UNCONFIRMED_MAX + 1];
    memcpy(unconfirmed, record->unconfirmed, sizeof unconfirmed);
    memset(record, 0, sizeof *record);
    memcpy(record->unconfirmed, unconfirmed, sizeof unconfirmed);
    memcpy(record->holder, op->view.first_id, sizeof record->holder);
    record->token = (bw_token)op->view.first_czxid;
    record->held = true;
}

/* A foreign leader came and went after our last leader. The end of its work is not confirmed. */
static void show_former_foreign_leader(const struct bw_zk_op *op, struct bw_store_record *record)
{
    const struct bw_zk_election *election = op->election;
    char unconfirmed[BW_UNCONFIRMED_MAX + 1];
    if (election->foreign_czxid <= (int64_t)record->token)
        return;
    memcpy(unconfirmed, record->unconfirmed, sizeof unconfirmed);
    memset(record, 0, sizeof *record);
    memcpy(record->unconfirmed, unconfirmed, sizeof unconfirmed);
    memcpy(record->holder, election->foreign_leader, sizeof record->holder);
    record->token = (bw_token)election->foreign_czxid;
    record->version = 1;
}

void bw_zk_view_base(const struct bw_zk_op *op, struct bw_store_record *record)
{
    *record = op->view.record;
    record->held = false;
    record->note = op->view.note;
    show_former_foreign_leader(op, record);
}

void bw_zk_view_record(const struct bw_zk_op *op, struct bw_store_record *record)
{
    const struct bw_zk_view *view = &op->view;
    bool named = view->has_first && view->has_record && view->record.held &&
                 view->record.token == (bw_token)view->first_czxid;
    bool foreign_leader =
        view->has_first && !named && !view->own_first && (!view->first.ours || op->entry);
    bw_zk_view_base(op, record);
    if (named)
        *record = view->record;
    else if (foreign_leader)
        show_foreign_leader(op, record);
    int64_t leader = named || foreign_leader ? view->first_czxid : 0;
    record->note = view->note;
    record->version = version_of(leader, view->record_mzxid, view->note_mzxid);
    record->left_ns = record->held ? BW_TIME_NEVER : 0;
    bw_record_present(record);
}
