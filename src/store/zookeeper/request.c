/* Requests in progress, their elections, and their watches; see state.h. */
#include "store/zookeeper/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

void bw_zk_ops_add(struct bw_zk_ops *list, struct bw_zk_op *op)
{
    op->list = list;
    op->next = NULL;
    op->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = op;
    list->last = op;
}

void bw_zk_ops_remove(struct bw_zk_op *op)
{
    if (!op->list)
        return;
    *(op->previous ? &op->previous->next : &op->list->first) = op->next;
    *(op->next ? &op->next->previous : &op->list->last) = op->previous;
    op->list = NULL;
    op->next = op->previous = NULL;
}

/* ---- elections ---- */

static unsigned hash(const char *name)
{
    uint32_t value = 2166136261u;
    for (; *name; name++)
        value = (value ^ (unsigned char)*name) * 16777619u;
    return value % BW_ZK_BUCKETS;
}

static void free_election(struct bw_zk_election *election)
{
    bw_zk_target_remove(election->store, &election->target);
    election->store->election_count--;
    free(election);
}

/* Frees the unused elections of one bucket. */
static void forget_idle(struct bw_store *store, unsigned bucket)
{
    struct bw_zk_election **at = &store->elections[bucket];
    while (*at) {
        struct bw_zk_election *election = *at;
        if (election->uses > 0 || election->entries || election->target.watches.first) {
            at = &election->chain;
            continue;
        }
        *at = election->chain;
        free_election(election);
    }
}

struct bw_zk_election *bw_zk_election(struct bw_store *store, const char *name)
{
    unsigned bucket = hash(name);
    struct bw_zk_election *election = store->elections[bucket];
    while (election && strcmp(election->name, name) != 0)
        election = election->chain;
    if (election)
        return election;
    if (store->election_count >= BW_ZK_ELECTIONS_MAX)
        forget_idle(store, bucket);
    election = calloc(1, sizeof *election);
    if (!election)
        return NULL;
    election->store = store;
    snprintf(election->name, sizeof election->name, "%s", name);
    bw_zk_paths_make(&election->paths, store->base, name);
    bw_zk_target_add(store, &election->target);
    election->chain = store->elections[bucket];
    store->elections[bucket] = election;
    store->election_count++;
    return election;
}

void bw_zk_elections_free(struct bw_store *store)
{
    for (unsigned i = 0; i < BW_ZK_BUCKETS; i++)
        while (store->elections[i]) {
            struct bw_zk_election *election = store->elections[i];
            store->elections[i] = election->chain;
            free_election(election);
        }
}

/* ---- targets of watches, by number: a watch may fire after its owner is freed ---- */

static struct bw_zk_target **target_bucket(struct bw_store *store, uint64_t number)
{
    return &store->targets[number % BW_ZK_BUCKETS];
}

void bw_zk_target_add(struct bw_store *store, struct bw_zk_target *target)
{
    target->number = ++store->next_target;
    struct bw_zk_target **bucket = target_bucket(store, target->number);
    target->chain = *bucket;
    *bucket = target;
}

void bw_zk_target_remove(struct bw_store *store, struct bw_zk_target *target)
{
    struct bw_zk_target **at = target_bucket(store, target->number);
    while (*at != target)
        at = &(*at)->chain;
    *at = target->chain;
}

/* ---- lifecycle of a request ---- */

struct bw_zk_op *bw_zk_op_new(struct bw_zk_session *session, struct bw_zk_election *election,
                              struct bw_job *job)
{
    struct bw_zk_op *op = calloc(1, sizeof *op);
    if (!op)
        return NULL;
    op->store = session->store;
    op->session = session;
    op->election = election;
    op->job = job;
    if (job)
        job->context = op;
    election->uses++;
    return op;
}

void bw_zk_op_use(struct bw_zk_op *op, struct bw_zk_entry *entry)
{
    if (op->entry == entry)
        return;
    if (op->entry) {
        op->entry->uses--;
        bw_zk_entry_free_if_left(op->entry);
    }
    op->entry = entry;
    if (entry)
        entry->uses++;
}

void bw_zk_op_free(struct bw_zk_op *op)
{
    bw_zk_ops_remove(op);
    bw_zk_op_use(op, NULL);
    op->election->uses--;
    if (op->job)
        op->job->context = NULL;
    free(op->view.nodes);
    free(op->candidates);
    free(op->names);
    free(op);
}

/* Detaches the job: the caller no longer waits for this op. */
static struct bw_job *take_job(struct bw_zk_op *op)
{
    struct bw_job *job = op->job;
    op->job = NULL;
    if (job)
        job->context = NULL;
    return job;
}

void bw_zk_forget(struct bw_job *job)
{
    struct bw_zk_op *op = job->context;
    if (!op)
        return;
    op->job = NULL;
    if (op->list) /* no call is pending at a server */
        bw_zk_op_free(op);
}

/* The next connection may be to a server that is behind, so the op must sync again. */
static void wait_for_connection(struct bw_zk_op *op)
{
    op->fresh = false;
    op->since = uv_now(op->store->loop);
    bw_zk_ops_add(&op->session->waiting, op);
}

void bw_zk_op_start(struct bw_zk_op *op)
{
    op->rc = ZOK;
    if (op->session->client.ready)
        op->start(op);
    else
        wait_for_connection(op);
}

void bw_zk_op_again(struct bw_zk_op *op)
{
    if (!op->job)
        bw_zk_op_free(op);
    else if (++op->tries >= BW_ZK_TRIES_MAX)
        bw_zk_op_fail(op, BW_EBUSY, "other clients changed the election during every attempt");
    else
        bw_zk_op_start(op);
}

void bw_zk_op_done(struct bw_zk_op *op)
{
    struct bw_job *job = take_job(op);
    if (job) {
        struct bw_store_record record;
        bw_zk_view_record(op, &record);
        bw_job_done(job, &record);
    }
    bw_zk_op_free(op);
}

void bw_zk_op_refuse(struct bw_zk_op *op, int error, const char *why)
{
    struct bw_job *job = take_job(op);
    if (job) {
        struct bw_store_record record;
        bw_zk_view_record(op, &record);
        bw_job_refuse(job, &record, error, "%s", why);
    }
    bw_zk_op_free(op);
}

void bw_zk_op_fail(struct bw_zk_op *op, int error, const char *why)
{
    struct bw_job *job = take_job(op);
    if (job)
        bw_job_fail(job, op->wrote ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE, error, "%s", why);
    bw_zk_op_free(op);
}

void bw_zk_op_list(struct bw_zk_op *op, uint32_t count)
{
    struct bw_job *job = take_job(op);
    if (job)
        bw_job_list(job, op->candidates, count);
    bw_zk_op_free(op);
}

void bw_zk_op_elections(struct bw_zk_op *op)
{
    struct bw_job *job = take_job(op);
    if (job)
        bw_job_elections(job, op->names, op->name_count);
    bw_zk_op_free(op);
}

static bool is_connection(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZCLOSING || rc == ZINVALIDSTATE ||
           rc == ZSESSIONEXPIRED || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONMOVED ||
           rc == ZRUNTIMEINCONSISTENCY;
}

void bw_zk_op_broken(struct bw_zk_op *op, int rc)
{
    char why[BW_WHY_MAX + 1];
    if (rc == ZNOAUTH || rc == ZAUTHFAILED) {
        bw_store_explain(why, 0, "ZooKeeper denied access below %.100s: check the user and the ACL",
                         op->election->paths.latch);
        bw_zk_op_fail(op, BW_EDENIED, why);
    } else if (is_connection(rc) && !op->wrote && op->job) {
        wait_for_connection(op);
    } else if (is_connection(rc)) {
        bw_zk_op_fail(op, BW_EIO, "the connection to ZooKeeper was lost");
    } else {
        bw_store_explain(why, 0, "ZooKeeper: %s", zerror(rc));
        bw_zk_op_fail(op, BW_EIO, why);
    }
}

void bw_zk_op_called(struct bw_zk_op *op, int rc)
{
    if (rc == ZOK)
        op->waits++;
    else
        op->rc = rc;
}

void bw_zk_op_replied(struct bw_zk_op *op)
{
    if (--op->waits == 0)
        op->then(op);
}

/* ---- waiting ---- */

void bw_zk_waiting_start(struct bw_zk_session *session)
{
    struct bw_zk_ops all = session->waiting;
    session->waiting = (struct bw_zk_ops){NULL, NULL};
    for (struct bw_zk_op *op = all.first; op; op = op->next)
        op->list = &all;
    while (all.first) {
        struct bw_zk_op *op = all.first;
        bw_zk_ops_remove(op);
        bw_zk_op_start(op);
    }
}

/* Requests wait for the first connection. If no server is reachable, they fail before an elector's
 * own timeout (TTL/6) turns the answer into UNKNOWN. */
void bw_zk_waiting_expire(struct bw_zk_session *session)
{
    uint64_t ttl = (uint64_t)(session->client.ttl_ns / BW_MS);
    uint64_t span = session->client.failed ? ttl / 10 : ttl / 2;
    uint64_t now = uv_now(session->store->loop);
    struct bw_zk_op *next;
    for (struct bw_zk_op *op = session->waiting.first; op; op = next) {
        next = op->next;
        if (now >= op->since + span)
            bw_zk_op_fail(op, BW_EIO, session->client.why);
    }
}

void bw_zk_watches_fire(struct bw_store *store, uint64_t number)
{
    struct bw_zk_target *target = *target_bucket(store, number);
    while (target && target->number != number)
        target = target->chain;
    if (!target)
        return;
    target->fired++;
    struct bw_zk_op *last = target->watches.last;
    for (struct bw_zk_op *op = target->watches.first; op;) {
        struct bw_zk_op *next = op == last ? NULL : op->next;
        bw_zk_ops_remove(op);
        op->fresh = true;
        bw_zk_op_start(op);
        op = next;
    }
}

static void renew_watches(struct bw_zk_session *session, struct bw_zk_ops *list)
{
    for (struct bw_zk_op *op = list->first; op;) {
        struct bw_zk_op *next = op->next;
        if (op->session == session) {
            bw_zk_ops_remove(op);
            wait_for_connection(op);
        }
        op = next;
    }
}

void bw_zk_watches_renew(struct bw_zk_session *session)
{
    for (unsigned i = 0; i < BW_ZK_BUCKETS; i++)
        for (struct bw_zk_target *at = session->store->targets[i]; at; at = at->chain)
            renew_watches(session, &at->watches);
}
