/* ELECTIONS: the names of the elections below the store's path.
 *
 *   BASE/.bellwether/NAME   elections of Bellwether, also without a candidate
 *   BASE/NAME               elections of foreign clients, if a candidate of our recipe waits there;
 *                           only with a path: without one, these are all nodes of the server
 *
 * The first step reads the names, the second the candidates of foreign elections. At most
 * BW_STORE_NAMES_MAX names are returned, at most BW_ZK_LIST_MAX of them foreign. */
#include "store/zookeeper/state.h"

#include <stdlib.h>
#include <string.h>

/* A possible election of a foreign client. */
struct foreign {
    struct bw_zk_op *op;
    uint32_t place; /* in op->names */
};

static void take_error(struct bw_zk_op *op, int rc)
{
    if (rc != ZOK && rc != ZNONODE && op->rc == ZOK)
        op->rc = rc;
}

/* ---- the second step ---- */

/* Without an election, the name becomes "". */
static void on_candidates(void *context, const struct bw_zk_reply *reply)
{
    struct foreign *foreign = context;
    struct bw_zk_op *op = foreign->op;
    enum bw_zk_recipe other = op->store->recipe == BW_ZK_KAZOO ? BW_ZK_CURATOR : BW_ZK_KAZOO;
    int32_t count = reply->rc == ZOK ? reply->names->count : 0;
    bool has_candidate = false, has_other = false;
    struct bw_zk_node node;
    for (int32_t i = 0; i < count; i++) {
        has_candidate |= bw_zk_node_parse(&node, op->store->recipe, reply->names->data[i]);
        has_other |= bw_zk_node_parse(&node, other, reply->names->data[i]);
    }
    take_error(op, reply->rc);
    if (!has_candidate || has_other)
        op->names[foreign->place].text[0] = '\0';
    free(foreign);
    bw_zk_op_replied(op);
}

static void ask_for_candidates(struct bw_zk_op *op, uint32_t place)
{
    struct bw_zk_paths paths;
    struct foreign *foreign = malloc(sizeof *foreign);
    if (!foreign) {
        op->rc = ZSYSTEMERROR;
        return;
    }
    *foreign = (struct foreign){.op = op, .place = place};
    bw_zk_paths_make(&paths, op->store->base, op->names[place].text);
    int rc = bw_zk_children(&op->session->client, paths.latch, 0, on_candidates, foreign);
    if (rc != ZOK)
        free(foreign);
    bw_zk_op_called(op, rc);
}

static void candidates_read(struct bw_zk_op *op)
{
    uint32_t count = op->own_names;
    if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
        return;
    }
    for (uint32_t i = op->own_names; i < op->name_count; i++)
        if (op->names[i].text[0])
            op->names[count++] = op->names[i];
    op->name_count = count;
    bw_zk_op_elections(op);
}

static void names_read(struct bw_zk_op *op)
{
    if (op->rc != ZOK) {
        bw_zk_op_broken(op, op->rc);
        return;
    }
    op->then = candidates_read;
    op->waits = 1;
    for (uint32_t i = op->own_names; i < op->name_count; i++)
        ask_for_candidates(op, i);
    bw_zk_op_replied(op);
}

/* ---- the first step ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct bw_election_name *)a)->text,
                  ((const struct bw_election_name *)b)->text);
}

static void on_synced(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    take_error(op, reply->rc);
    bw_zk_op_replied(op);
}

static void on_own_names(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    int32_t count = reply->rc == ZOK ? reply->names->count : 0;
    take_error(op, reply->rc);
    for (int32_t i = 0; i < count && op->name_count < BW_STORE_NAMES_MAX; i++)
        if (bw_zk_election_of(op->names[op->name_count].text, op->store->base,
                              reply->names->data[i]))
            op->name_count++;
    op->own_names = op->name_count;
    qsort(op->names, op->own_names, sizeof *op->names, compare);
    bw_zk_op_replied(op);
}

/* Replies come in the order of the calls, so our own names are known. */
static void on_all_names(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    int32_t count = reply->rc == ZOK ? reply->names->count : 0;
    uint32_t most = op->own_names + BW_ZK_LIST_MAX;
    take_error(op, reply->rc);
    if (most > BW_STORE_NAMES_MAX)
        most = BW_STORE_NAMES_MAX;
    for (int32_t i = 0; i < count && op->name_count < most; i++) {
        struct bw_election_name *name = &op->names[op->name_count];
        if (bw_zk_election_of(name->text, op->store->base, reply->names->data[i]) &&
            !bsearch(name, op->names, op->own_names, sizeof *name, compare))
            op->name_count++;
    }
    bw_zk_op_replied(op);
}

void bw_zk_elections(struct bw_zk_op *op)
{
    struct bw_zk_client *client = &op->session->client;
    const char *base = op->store->base;
    char side[BW_ZK_PATH_MAX + 1];
    if (!op->names)
        op->names = calloc(BW_STORE_NAMES_MAX, sizeof *op->names);
    if (!op->names) {
        bw_zk_op_fail(op, BW_ENOMEM, "no memory left");
        return;
    }
    bw_zk_side_root(side, base);
    op->rc = ZOK;
    op->name_count = op->own_names = 0;
    op->then = names_read;
    op->waits = 1;
    bw_zk_op_called(op, bw_zk_sync(client, side, on_synced, op));
    bw_zk_op_called(op, bw_zk_children(client, side, 0, on_own_names, op));
    if (base[0])
        bw_zk_op_called(op, bw_zk_children(client, base, 0, on_all_names, op));
    bw_zk_op_replied(op);
}
