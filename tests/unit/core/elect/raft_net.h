/* A small Raft cluster in one process for the unit tests: virtual time, a clock per node, links
 * that can be cut or held, and disks with writes in flight.
 *
 * It checks these properties at every event:
 * - one leader per term
 * - windows never overlap in real time
 * - committed entries never change
 * - the module's view of its log equals the log */
#ifndef BW_TESTS_UNIT_CORE_ELECT_RAFT_NET_H
#define BW_TESTS_UNIT_CORE_ELECT_RAFT_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/elect/raft/raft.h"

#define NET_NODES   9u
#define NET_LOG     4096u
#define NET_ITEMS   4096u
#define NET_TERMS   4096u
#define NET_ANSWERS 512u
#define NET_READ    1000000u

struct net_entry {
    bw_term term;
    uint64_t value;
    struct bw_change change;
};

struct net_log { /* entries from snapshot + 1 to last, by index */
    bw_index snapshot, last;
    bw_term snapshot_term;
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters, learners;
    struct net_entry at[NET_LOG];
};

enum net_item_kind { NET_DELIVER, NET_DEPART, NET_PERSIST, NET_WRITE };

struct net_item {
    enum net_item_kind kind;
    bw_time at;
    uint64_t seq;
    bw_node node; /* the node whose disk it is, or the receiver */
    uint32_t starts;
    bool held;
    struct bw_message msg;
    bw_node list[BW_RAFT_MEMBERS_MAX];
    struct bw_durable durable;
    struct bw_log_action log;
    enum bw_action_kind write;
    struct net_entry *entries; /* entries of the message or write */
    uint32_t count;
};

struct net_node {
    bool up, stopped;
    bool paused; /* its timers do not fire, as in a stopped process; see net_pause */
    uint32_t starts;
    bw_time offset;
    double rate; /* local = offset + rate * time */
    void *memory;
    struct bw_durable durable;
    struct net_log log, disk;
    bw_time disk_free, barrier;
    bw_index applied;
    struct bw_announcement view;
    bw_time act_from, act_until; /* in real time */
    uint32_t announcements;
    enum bw_loss loss; /* why its last leadership ended */
};

struct net {
    uint32_t nodes;
    bw_time now, latency_min, latency_max, disk_ns;
    double loss, duplicate;
    uint64_t seq, values;
    struct bw_rng rng;
    struct bw_elector_config config;
    struct bw_member members[NET_NODES + 1];
    uint32_t configured;
    struct net_node node[NET_NODES + 1];
    bool cut[NET_NODES + 1][NET_NODES + 1];
    unsigned hold_kind; /* messages of this kind wait for net_release */
    unsigned sent[BW_MSG_COUNT];
    struct bw_message last[BW_MSG_COUNT]; /* the newest message sent of each kind */
    enum bw_trace_code traced;            /* the newest trace record */
    unsigned traces[BW_TRACE_COUNT];      /* how many of each code */
    bw_node term_leader[NET_TERMS];
    struct net_entry committed[NET_LOG];
    bw_index committed_last;
    struct net_item *items;
    uint32_t count;
    struct bw_action *actions;
    struct bw_answer answers[NET_ANSWERS];
    uint32_t answers_count;
    bool let_overlap; /* negative controls: count overlaps instead of failing */
    uint32_t overlaps;
};

static inline struct bw_raft *net_raft(struct net *net, bw_node id)
{
    return net->node[id].memory;
}

static inline bw_time net_local(const struct net *net, bw_node id, bw_time at)
{
    return net->node[id].offset + (bw_time)((double)at * net->node[id].rate);
}

/* The first instant at which the node's clock shows `local` or more. */
static inline bw_time net_real(const struct net *net, bw_node id, bw_time local)
{
    if (local == BW_TIME_NEVER)
        return BW_TIME_NEVER;
    bw_time at = (bw_time)((double)(local - net->node[id].offset) / net->node[id].rate);
    at = at > 4 ? at - 4 : 0;
    while (net_local(net, id, at) < local)
        at++;
    return at;
}

static inline struct bw_elector_status net_status(struct net *net, bw_node id)
{
    struct bw_elector_status status;
    bw_elect_raft.status(net->node[id].memory, &status);
    return status;
}

/* The live node that leads in the highest term, or none. */
static inline bw_node net_leader(struct net *net)
{
    bw_node leader = BW_NODE_NONE;
    bw_term term = 0;
    for (bw_node id = 1; id <= net->nodes; id++) {
        if (!net->node[id].up || !net_status(net, id).leading)
            continue;
        if (net_status(net, id).term > term) {
            term = net_status(net, id).term;
            leader = id;
        }
    }
    return leader;
}

static inline struct net_item *net_push(struct net *net, enum net_item_kind kind, bw_time at,
                                        bw_node node)
{
    assert_true(net->count < NET_ITEMS);
    struct net_item *item = &net->items[net->count++];
    memset(item, 0, offsetof(struct net_item, msg));
    item->entries = NULL;
    item->count = 0;
    item->kind = kind;
    item->at = at;
    item->seq = net->seq++;
    item->node = node;
    item->starts = net->node[node].starts;
    return item;
}

static inline void net_check_windows(struct net *net, bw_time from, bw_time until)
{
    for (bw_node a = 1; a <= net->nodes; a++) {
        for (bw_node b = 1; b < a; b++) {
            const struct net_node *x = &net->node[a], *y = &net->node[b];
            if (!x->up || !y->up)
                continue;
            bw_time start = bw_time_max(from, bw_time_max(x->act_from, y->act_from));
            bw_time end = bw_time_min(until, bw_time_min(x->act_until, y->act_until));
            if (start >= end)
                continue;
            if (!net->let_overlap)
                fail_msg("nodes %u and %u may both act at %lld", a, b, (long long)start);
            net->overlaps++;
        }
    }
}

/* Attaches entries from the sender's log, as the host does. */
static inline void net_attach(struct net *net, struct net_item *item)
{
    const struct net_log *log = &net->node[item->msg.from].log;
    if (item->msg.kind == BW_MSG_RAFT_SNAPSHOT) {
        memcpy(item->list, item->msg.data, item->msg.items * sizeof(bw_node));
        return;
    }
    if (item->msg.kind != BW_MSG_RAFT_APPEND)
        return;
    const struct bw_append_part *part = &item->msg.append;
    for (uint32_t i = 0; i < part->runs; i++)
        item->count += part->run[i].count;
    if (item->count == 0)
        return;
    item->entries = malloc(item->count * sizeof item->entries[0]);
    memcpy(item->entries, &log->at[part->prev_index + 1], item->count * sizeof item->entries[0]);
    uint32_t at = 0;
    for (uint32_t i = 0; i < part->runs; i++)
        for (uint32_t k = 0; k < part->run[i].count; k++)
            assert_int_equal(item->entries[at++].term, part->run[i].term);
    for (uint32_t i = 0; i < item->count; i++) {
        bool here = part->change.op != BW_CHANGE_NONE && part->change.entry == i;
        assert_int_equal(item->entries[i].change.op, here ? part->change.op : 0);
    }
}

static inline void net_transmit(struct net *net, struct net_item *item)
{
    bw_node from = item->msg.from, to = item->msg.to;
    net->sent[item->msg.kind]++;
    net->last[item->msg.kind] = item->msg;
    item->kind = NET_DELIVER;
    item->node = to;
    item->at = net->now + bw_rng_between(&net->rng, net->latency_min, net->latency_max);
    item->held = net->hold_kind != 0 && item->msg.kind == net->hold_kind;
    if (to == 0 || to > net->nodes || net->cut[from][to] || bw_rng_chance(&net->rng, net->loss)) {
        free(item->entries);
        item->entries = NULL;
        item->at = -1; /* the caller removes it */
        return;
    }
    if (!item->held && bw_rng_chance(&net->rng, net->duplicate)) {
        struct net_item *again = net_push(net, NET_DELIVER, item->at + 2 * net->latency_max, to);
        uint64_t seq = again->seq;
        bw_time at = again->at;
        *again = *item;
        again->seq = seq;
        again->at = at;
        if (item->entries) {
            again->entries = malloc(item->count * sizeof item->entries[0]);
            memcpy(again->entries, item->entries, item->count * sizeof item->entries[0]);
        }
    }
}

static inline void net_remove(struct net *net, uint32_t i)
{
    net->items[i] = net->items[--net->count];
}

static inline void net_send(struct net *net, bw_node id, const struct bw_message *msg)
{
    struct net_node *node = &net->node[id];
    struct net_item *item = net_push(net, NET_DEPART, bw_time_max(net->now, node->barrier), id);
    memcpy(&item->msg, msg, bw_message_used(msg->kind));
    net_attach(net, item);
    if (item->at == net->now) {
        uint32_t i = net->count - 1;
        net_transmit(net, item);
        if (net->items[i].at < 0)
            net_remove(net, i);
    }
}

static inline void net_log_apply(struct net_log *log, enum bw_action_kind kind,
                                 const struct bw_log_action *action,
                                 const struct net_entry *entries, const struct net_item *snapshot)
{
    if (kind == BW_ACTION_LOG_APPEND) {
        assert_int_equal(action->first, log->last + 1);
        memcpy(&log->at[action->first], entries, action->count * sizeof entries[0]);
        log->last = action->first + action->count - 1;
    } else if (kind == BW_ACTION_LOG_TRUNCATE) {
        log->last = action->first - 1;
    } else if (kind == BW_ACTION_LOG_RESTORE) {
        log->snapshot = log->last = action->first;
        log->snapshot_term = action->term;
        log->voters = snapshot->msg.snapshot.voters;
        log->learners = snapshot->msg.items - log->voters;
        memcpy(log->members, snapshot->list, sizeof log->members);
    }
}

static inline void net_commit(struct net *net, bw_node id, bw_index index)
{
    struct net_node *node = &net->node[id];
    assert_true(index <= node->log.last);
    for (bw_index i = node->applied + 1; i <= index; i++) {
        const struct net_entry *entry = &node->log.at[i];
        if (i > net->committed_last) {
            assert_int_equal(i, net->committed_last + 1);
            net->committed[i] = *entry;
            net->committed_last = i;
        }
        if (entry->term != net->committed[i].term || entry->value != net->committed[i].value)
            fail_msg("node %u commits another entry %llu", id, (unsigned long long)i);
    }
    if (index > node->applied)
        node->applied = index;
}

/* A log action: done in memory at once, on disk when its write completes. */
static inline void net_write(struct net *net, bw_node id, const struct bw_action *action,
                             const struct bw_event *event, const struct net_item *from)
{
    struct net_node *node = &net->node[id];
    const struct bw_log_action *log = &action->log;
    struct net_entry *entries = NULL;
    if (action->kind == BW_ACTION_LOG_APPEND) {
        entries = calloc(log->count, sizeof entries[0]);
        for (uint32_t i = 0; i < log->count; i++) {
            if (event->kind == BW_EVENT_MESSAGE && event->msg->kind == BW_MSG_RAFT_APPEND) {
                entries[i] = from->entries[log->skip + i];
                continue;
            }
            entries[i] = (struct net_entry){.term = log->term, .value = ++net->values};
            if (log->change.op != BW_CHANGE_NONE && log->change.entry == i)
                entries[i].change = log->change;
        }
        assert_int_equal(entries[log->count - 1].term, log->term);
    }
    net_log_apply(&node->log, action->kind, log, entries, from);
    if (action->kind == BW_ACTION_LOG_RESTORE)
        node->applied = log->first;
    node->disk_free =
        bw_time_max(bw_time_max(node->disk_free, node->barrier), net->now) + net->disk_ns;
    struct net_item *item = net_push(net, NET_WRITE, node->disk_free, id);
    item->write = action->kind;
    item->log = *log;
    item->entries = entries;
    item->count = log->count;
    if (action->kind == BW_ACTION_LOG_RESTORE) {
        item->msg = from->msg;
        memcpy(item->list, from->list, sizeof item->list);
    }
}

static inline void net_announced(struct net *net, bw_node id, const struct bw_announcement *a)
{
    struct net_node *node = &net->node[id];
    node->view = *a;
    node->announcements++;
    if (a->reason != BW_LOSS_NONE)
        node->loss = a->reason;
    node->act_from = node->act_until = 0;
    if (a->leader != id)
        return;
    assert_int_equal(a->token, a->term);
    assert_true(a->term < NET_TERMS);
    if (net->term_leader[a->term] != 0 && net->term_leader[a->term] != id)
        fail_msg("two leaders of term %llu", (unsigned long long)a->term);
    net->term_leader[a->term] = id;
    if (a->act_until <= a->act_from)
        return;
    node->act_from = net_real(net, id, a->act_from);
    node->act_until = net_real(net, id, a->act_until);
}

/* Fails if a read is stale. The id of a request of net_read contains the highest index that was
 * committed on any node when the read was requested; the answer must not be lower. */
static inline void net_check_read(const struct net *net, const struct bw_answer *answer)
{
    (void)net;
    if (answer->request >= NET_READ && answer->error == 0 &&
        answer->index < answer->request - NET_READ)
        fail_msg("stale read at %llu", (unsigned long long)answer->index);
}

static inline void net_carry_out(struct net *net, bw_node id, const struct bw_action *action,
                                 const struct bw_event *event, const struct net_item *from)
{
    struct net_node *node = &net->node[id];
    switch (action->kind) {
    case BW_ACTION_PERSIST:
        if (net->disk_ns == 0) {
            node->durable = action->durable;
        } else {
            node->barrier = bw_time_max(node->barrier, net->now) + net->disk_ns;
            net_push(net, NET_PERSIST, node->barrier, id)->durable = action->durable;
        }
        break;
    case BW_ACTION_SEND:
        net_send(net, id, &action->msg);
        break;
    case BW_ACTION_ANNOUNCE:
        net_announced(net, id, &action->announce);
        break;
    case BW_ACTION_LOG_APPEND:
    case BW_ACTION_LOG_TRUNCATE:
    case BW_ACTION_LOG_RESTORE:
        net_write(net, id, action, event, from);
        break;
    case BW_ACTION_LOG_COMPACT: {
        uint32_t voters, total;
        total =
            bw_raft_members_at(net_raft(net, id), action->log.first, node->disk.members, &voters);
        node->disk.voters = voters;
        node->disk.learners = total - voters;
        node->disk.snapshot = action->log.first;
        node->disk.snapshot_term = action->log.term;
        node->log.snapshot = action->log.first;
        break;
    }
    case BW_ACTION_COMMIT:
        net_commit(net, id, action->log.first);
        break;
    case BW_ACTION_ANSWER:
        net_check_read(net, &action->answer);
        net->answers[net->answers_count++ % NET_ANSWERS] = action->answer;
        break;
    case BW_ACTION_TRACE:
        net->traced = action->trace.code;
        net->traces[action->trace.code]++;
        break;
    default:
        break;
    }
}

static inline void net_step(struct net *net, bw_node id, struct bw_event *event,
                            const struct net_item *from)
{
    struct net_node *node = &net->node[id];
    struct bw_actions actions = {.at = net->actions,
                                 .cap = bw_elect_raft.actions_max(&net->config)};
    if (!node->up)
        return;
    event->now = net_local(net, id, net->now);
    bw_elect_raft.step(node->memory, event, &actions);
    struct bw_action *mine = malloc((actions.count + 1) * sizeof mine[0]);
    memcpy(mine, actions.at, actions.count * sizeof mine[0]);
    for (uint32_t i = 0; i < actions.count; i++)
        net_carry_out(net, id, &mine[i], event, from);
    free(mine);
    assert_int_equal(bw_raft_last_index(net_raft(net, id)), node->log.last);
    bw_index snapshot = bw_raft_snapshot_index(net_raft(net, id));
    for (bw_index i = node->log.last; i > snapshot && i + 4 > node->log.last; i--)
        assert_int_equal(bw_raft_term_at(net_raft(net, id), i), node->log.at[i].term);
}

/* Handles a write that has reached the disk. */
static inline void net_written(struct net *net, const struct net_item *item)
{
    struct net_node *node = &net->node[item->node];
    net_log_apply(&node->disk, item->write, &item->log, item->entries, item);
    if (item->write == BW_ACTION_LOG_TRUNCATE)
        return;
    struct bw_event event = {.kind = BW_EVENT_PERSISTED};
    event.persisted.index = item->log.first + (item->count > 0 ? item->count - 1 : 0);
    event.persisted.term = item->log.term;
    net_step(net, item->node, &event, NULL);
}

static inline void net_handle(struct net *net, uint32_t i)
{
    struct net_item item = net->items[i];
    net_remove(net, i);
    if (item.kind == NET_DELIVER) {
        item.msg.data = item.list;
        struct bw_event event = {.kind = BW_EVENT_MESSAGE, .msg = &item.msg};
        if (!net->cut[item.msg.from][item.msg.to])
            net_step(net, item.node, &event, &item);
    } else if (item.starts == net->node[item.node].starts) {
        if (item.kind == NET_DEPART) {
            struct net_item *again = net_push(net, NET_DELIVER, net->now, item.node);
            uint32_t place = net->count - 1;
            item.seq = again->seq;
            *again = item;
            net_transmit(net, again);
            if (net->items[place].at < 0)
                net_remove(net, place);
            return;
        }
        if (item.kind == NET_PERSIST)
            net->node[item.node].durable = item.durable;
        else
            net_written(net, &item);
    }
    free(item.entries);
}

static inline bool net_earlier(const struct net_item *a, const struct net_item *b)
{
    return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

/* Processes one event; returns false if nothing happens until `limit`. */
static inline bool net_one(struct net *net, bw_time limit)
{
    uint32_t best = UINT32_MAX;
    bw_node timer = BW_NODE_NONE;
    bw_time at = limit;
    for (uint32_t i = 0; i < net->count; i++)
        if (!net->items[i].held && net->items[i].at <= limit &&
            (best == UINT32_MAX || net_earlier(&net->items[i], &net->items[best])))
            best = i;
    if (best != UINT32_MAX)
        at = net->items[best].at;
    for (bw_node id = 1; id <= net->nodes; id++) {
        if (!net->node[id].up || net->node[id].paused)
            continue;
        bw_time due = net_real(net, id, bw_elect_raft.deadline(net->node[id].memory));
        if (due < at || (due == at && best == UINT32_MAX && timer == BW_NODE_NONE)) {
            at = bw_time_max(due, net->now);
            timer = id;
        }
    }
    if (best == UINT32_MAX && timer == BW_NODE_NONE)
        return false;
    net_check_windows(net, net->now, at);
    net->now = at;
    if (timer == BW_NODE_NONE) {
        net_handle(net, best);
    } else {
        struct bw_event event = {.kind = BW_EVENT_TIMEOUT};
        net_step(net, timer, &event, NULL);
    }
    return true;
}

static inline void net_run(struct net *net, bw_time span)
{
    bw_time end = net->now + span;
    while (net_one(net, end))
        ;
    net_check_windows(net, net->now, end);
    net->now = end;
}

/* Runs until a leader has committed an entry in its term; fails after `limit`. */
static inline bw_node net_elect(struct net *net, bw_time limit)
{
    bw_time end = net->now + limit;
    while (net->now < end) {
        bw_node leader = net_leader(net);
        if (leader) {
            struct bw_raft *raft = net_raft(net, leader);
            bw_index commit = bw_raft_commit_index(raft);
            if (commit > 0 && bw_raft_term_at(raft, commit) == net_status(net, leader).term)
                return leader;
        }
        if (!net_one(net, end))
            break;
    }
    fail_msg("no leader");
    return BW_NODE_NONE;
}

static inline void net_event(struct net *net, bw_node id, enum bw_event_kind kind, bw_node node)
{
    struct bw_event event = {.kind = kind, .node = node};
    net_step(net, id, &event, NULL);
}

static inline void net_command(struct net *net, bw_node id, struct bw_command command)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = command};
    net_step(net, id, &event, NULL);
}

static inline void net_propose(struct net *net, bw_node id, uint32_t count, uint64_t request)
{
    net_command(
        net, id,
        (struct bw_command){.kind = BW_COMMAND_PROPOSE, .count = count, .request = request});
}

static inline void net_change(struct net *net, bw_node id, enum bw_change_op op, bw_node node,
                              uint64_t request)
{
    net_command(
        net, id,
        (struct bw_command){.kind = BW_COMMAND_CHANGE, .op = op, .node = node, .request = request});
}

/* Sends a read and returns its request id. The answer is checked for staleness. */
static inline uint64_t net_read(struct net *net, bw_node id)
{
    uint64_t request = NET_READ + net->committed_last;
    net_command(net, id, (struct bw_command){.kind = BW_COMMAND_READ, .request = request});
    return request;
}

/* The newest answer to `request`, or NULL. */
static inline const struct bw_answer *net_answer(struct net *net, uint64_t request)
{
    for (uint32_t i = net->answers_count; i-- > 0 && net->answers_count - i <= NET_ANSWERS;)
        if (net->answers[i % NET_ANSWERS].request == request)
            return &net->answers[i % NET_ANSWERS];
    return NULL;
}

/* Starts or restarts a node from its disk. */
static inline void net_start_as(struct net *net, bw_node id, bool passive)
{
    struct net_node *node = &net->node[id];
    struct bw_elector_config config = net->config;
    static struct bw_term_run runs[NET_LOG];
    static struct bw_raft_change changes[BW_RAFT_CHANGES_MAX];
    struct bw_raft_saved saved = {.snapshot_index = node->disk.snapshot,
                                  .snapshot_term = node->disk.snapshot_term,
                                  .members = node->disk.members,
                                  .voters = node->disk.voters,
                                  .learners = node->disk.learners,
                                  .runs = runs,
                                  .changes = changes};
    for (bw_index i = node->disk.snapshot + 1; i <= node->disk.last; i++) {
        const struct net_entry *entry = &node->disk.at[i];
        if (saved.runs_count == 0 || runs[saved.runs_count - 1].term != entry->term)
            runs[saved.runs_count++] = (struct bw_term_run){.term = entry->term};
        runs[saved.runs_count - 1].count++;
        if (entry->change.op)
            changes[saved.changes_count++] = (struct bw_raft_change){
                .index = i, .op = entry->change.op, .node = entry->change.node};
    }
    config.self = id;
    config.members = net->members;
    config.count = net->configured;
    config.seed = net->config.seed + id * 1000003u + node->starts;
    config.saved = &saved;
    free(node->memory);
    node->memory = malloc(bw_elect_raft.bytes(&config));
    memset(node->memory, 0xa5, bw_elect_raft.bytes(&config));
    assert_int_equal(bw_elect_raft.init(node->memory, &config), 0);
    node->log = node->disk;
    node->applied = node->disk.snapshot;
    node->up = true;
    node->view = (struct bw_announcement){0};
    struct bw_start start = {.durable = node->durable, .passive = passive};
    struct bw_event event = {.kind = BW_EVENT_START, .start = &start};
    net_step(net, id, &event, NULL);
}

static inline void net_start(struct net *net, bw_node id)
{
    net_start_as(net, id, false);
}

static inline void net_crash(struct net *net, bw_node id)
{
    struct net_node *node = &net->node[id];
    node->up = false;
    node->starts++;
    node->act_from = node->act_until = 0;
    node->disk_free = node->barrier = 0;
}

static inline void net_isolate(struct net *net, bw_node id, bool apart)
{
    for (bw_node other = 1; other <= net->nodes; other++)
        net->cut[id][other] = net->cut[other][id] = apart;
}

/* Pauses a node and cuts it off: it decides nothing, but its work continues until its window
 * ends. */
static inline void net_pause(struct net *net, bw_node id)
{
    net->node[id].paused = true;
    net_isolate(net, id, true);
}

static inline void net_heal(struct net *net)
{
    memset(net->cut, 0, sizeof net->cut);
}

/* Delivers all held messages now. */
static inline void net_release(struct net *net)
{
    net->hold_kind = 0;
    for (uint32_t i = 0; i < net->count; i++) {
        if (net->items[i].held)
            net->items[i].at = net->now;
        net->items[i].held = false;
    }
}

/* Delivers a message made by the test to `to`. Its entries get the values that net_disk uses. */
static inline void net_inject(struct net *net, bw_node to, struct bw_message msg)
{
    struct net_item item = {.kind = NET_DELIVER, .node = to};
    struct net_entry entries[64] = {0};
    uint32_t count = 0;
    msg.to = to;
    item.msg = msg;
    if (msg.kind == BW_MSG_RAFT_APPEND)
        for (uint32_t i = 0; i < msg.append.runs && i < BW_RAFT_APPEND_RUNS_MAX; i++)
            for (uint32_t k = 0; k < msg.append.run[i].count; k++, count++)
                entries[count] = (struct net_entry){.term = msg.append.run[i].term};
    if (msg.kind == BW_MSG_RAFT_APPEND && msg.append.change.op && msg.append.change.entry < count)
        entries[msg.append.change.entry].change = msg.append.change;
    item.entries = entries;
    struct bw_event event = {.kind = BW_EVENT_MESSAGE, .msg = &msg};
    if (msg.kind == BW_MSG_RAFT_SNAPSHOT && msg.data)
        memcpy(item.list, msg.data, msg.items * sizeof(bw_node));
    net_step(net, to, &event, &item);
}

/* The log with which a node starts: one digit per entry, its term. Its durable term is `term`. */
static inline void net_disk(struct net *net, bw_node id, const char *terms, bw_term term)
{
    struct net_log *disk = &net->node[id].disk;
    memset(disk, 0, sizeof *disk);
    for (const char *c = terms; *c; c++)
        disk->at[++disk->last] = (struct net_entry){.term = (bw_term)(*c - '0')};
    net->node[id].durable = (struct bw_durable){.term = term, .starts = 1};
}

/* A node's log as such digits, in a static buffer. */
static inline const char *net_terms(struct net *net, bw_node id)
{
    static char text[2][64];
    static unsigned turn;
    char *out = text[turn++ % 2];
    struct bw_raft *raft = net_raft(net, id);
    bw_index last = bw_raft_last_index(raft);
    for (bw_index i = 1; i <= last && i < 63; i++)
        out[i - 1] = (char)('0' + bw_raft_term_at(raft, i));
    out[last < 63 ? last : 63] = 0;
    return out;
}

/* `nodes` exist, and the first `configured` of them form the group. Latency 1..2 ms, heartbeats
 * every 20 ms, timeouts 150..300 ms, drift bound 1 %. */
static inline struct net *net_new(uint32_t nodes, uint32_t configured, uint64_t seed)
{
    struct net *net = calloc(1, sizeof *net);
    net->items = calloc(NET_ITEMS, sizeof net->items[0]);
    net->nodes = nodes;
    net->configured = configured;
    net->latency_min = BW_MS;
    net->latency_max = 2 * BW_MS;
    bw_rng_init(&net->rng, seed);
    net->config = (struct bw_elector_config){.seed = seed,
                                             .latency_ns = 2 * BW_MS,
                                             .timeout_min_ns = 150 * BW_MS,
                                             .timeout_max_ns = 300 * BW_MS,
                                             .period_ns = 20 * BW_MS,
                                             .pre_vote = true,
                                             .check_quorum = true,
                                             .hints = true,
                                             .drift_ppm = 10000,
                                             .batch_max = 16,
                                             .cap = NET_NODES};
    net->actions = calloc(bw_elect_raft.actions_max(&net->config), sizeof net->actions[0]);
    for (bw_node id = 1; id <= nodes; id++) {
        net->members[id - 1] = (struct bw_member){.id = id};
        net->node[id].rate = 1;
        net->node[id].offset = (bw_time)bw_rng_below(&net->rng, (uint64_t)(1000 * BW_SEC));
    }
    return net;
}

static inline struct net *net_running(uint32_t nodes, uint64_t seed)
{
    struct net *net = net_new(nodes, nodes, seed);
    for (bw_node id = 1; id <= nodes; id++)
        net_start(net, id);
    return net;
}

static inline void net_free(struct net *net)
{
    for (uint32_t i = 0; i < net->count; i++)
        free(net->items[i].entries);
    for (bw_node id = 1; id <= net->nodes; id++)
        free(net->node[id].memory);
    free(net->actions);
    free(net->items);
    free(net);
}

#endif
