/* A group of nodes for the explorer: memory, steps and their effects; see team.h. */
#include "sim/explore/team.h"

#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_AT (1000 * BW_TEAM_TICK)
/* Raft's live part: rows of its tables beyond these are never used in a group of this size. */
#define RUNS       16u
#define CHANGES    16u
#define RING       16u
#define READS      32u
#define SETTLE_MAX 200u /* actions */

/* ---- configuration ---- */

struct setup { /* arguments of bw_instance_init, and the lists they point to */
    struct bw_member members[BW_TEAM_NODES];
    struct bw_term_run runs[BW_TEAM_LOG];
    struct bw_raft_change changes[BW_TEAM_LOG];
    struct bw_raft_saved saved;
    struct bw_instance_election election;
    struct bw_instance_config config;
};

static void load_log(const struct bw_team_log *log, struct setup *setup)
{
    struct bw_raft_saved *saved = &setup->saved;
    for (uint32_t i = 0; i < log->count; i++) {
        struct bw_term_run *last = saved->runs_count ? &setup->runs[saved->runs_count - 1] : NULL;
        if (last && last->term == log->at[i].term)
            last->count++;
        else
            setup->runs[saved->runs_count++] =
                (struct bw_term_run){.term = log->at[i].term, .count = 1};
        if (log->at[i].op)
            setup->changes[saved->changes_count++] = (struct bw_raft_change){
                .index = i + 1, .op = log->at[i].op, .node = log->at[i].node};
    }
    saved->runs = setup->runs;
    saved->changes = setup->changes;
}

/* A guard's group has only the voters as members; Raft's other nodes are learners. */
static void configure(const struct bw_team_settings *s, bw_node id, const struct bw_team_log *log,
                      struct setup *setup)
{
    memset(setup, 0, sizeof *setup);
    struct bw_elector_config *config = &setup->election.config;
    config->count = s->raft ? s->nodes : s->voters;
    for (bw_node i = 1; i <= config->count; i++)
        setup->members[i - 1] = (struct bw_member){.id = i, .ordinary = i > s->voters};
    bw_elector_defaults(config, 0, s->period);
    config->self = id;
    config->members = setup->members;
    config->cap = BW_TEAM_NODES;
    config->answer_ns = BW_TEAM_TICK / 4;
    config->timeout_min_ns = config->timeout_max_ns = s->timeout;
    config->promise_ns = s->promise;
    config->drift_ppm = 0;
    config->pre_vote = false;
    config->untimed = s->untimed;
    config->inner = &bw_team_oracle;
    if (s->raft && log) {
        load_log(log, setup);
        config->saved = &setup->saved;
    }
    setup->election.ops = s->ops;
    setup->config = (struct bw_instance_config){.elections = &setup->election, .count = 1};
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t messages_bytes(const struct bw_team_settings *s, uint32_t links)
{
    return round_up((size_t)s->nodes * s->nodes * links *
                    (sizeof(struct bw_message) + sizeof(uint64_t)));
}

static size_t block_bytes(const struct bw_team_settings *s)
{
    struct setup setup;
    configure(s, 1, NULL, &setup);
    return round_up(bw_instance_bytes(&setup.config));
}

size_t bw_team_bytes(const struct bw_team_settings *s, uint32_t links)
{
    return round_up(sizeof(struct bw_team)) + messages_bytes(s, links) + s->nodes * block_bytes(s);
}

struct bw_raft *bw_team_raft(const struct bw_team *team, bw_node id)
{
    return bw_instance_elector(team->instance[id - 1], 0);
}

/* ---- live bytes ---- */

struct span_list {
    struct bw_explore_span *at;
    uint32_t count;
};

static void add_span(struct span_list *list, size_t from, size_t to)
{
    from = from / 8 * 8;
    to = (to + 7) / 8 * 8;
    BW_ASSERT(list->count < BW_EXPLORE_SPANS_MAX);
    list->at[list->count++] = (struct bw_explore_span){.at = from, .length = to - from};
}

static void add_raft(struct span_list *list, size_t at, uint32_t nodes)
{
    size_t log = at + offsetof(struct bw_raft, log), ring = at + offsetof(struct bw_raft, ring);
    size_t runs = log + offsetof(struct bw_raft_log, run);
    add_span(list, at, at + offsetof(struct bw_raft, peer) + nodes * sizeof(struct bw_raft_peer));
    add_span(list, log, runs + RUNS * sizeof(struct bw_raft_run));
    add_span(list, at + offsetof(struct bw_raft, base),
             at + offsetof(struct bw_raft, change) + CHANGES * sizeof(struct bw_raft_change));
    size_t reads = at + offsetof(struct bw_raft, read);
    add_span(list, reads, reads + READS * sizeof(struct bw_raft_read));
    for (uint32_t i = 0; i < nodes; i++)
        add_span(list, ring + i * sizeof(struct bw_raft_ring),
                 ring + i * sizeof(struct bw_raft_ring) + RING * sizeof(bw_index));
}

uint32_t bw_team_spans(const void *state, struct bw_explore_span *out)
{
    const struct bw_team *team = state;
    const struct bw_team_settings *s = team->settings;
    const unsigned char *origin = state;
    struct span_list list = {.at = out};
    size_t messages = (size_t)((const unsigned char *)team->message - origin);
    add_span(&list, offsetof(struct bw_team, now),
             offsetof(struct bw_team, node) + s->nodes * sizeof(struct bw_team_node));
    add_span(&list, offsetof(struct bw_team, leader_of), sizeof *team);
    add_span(&list, messages,
             messages + (size_t)s->nodes * s->nodes * team->links *
                            (sizeof(struct bw_message) + sizeof(uint64_t)));
    for (bw_node id = 1; id <= s->nodes; id++) {
        size_t block = (size_t)(team->memory - origin) + (id - 1) * team->block;
        const unsigned char *elector = bw_instance_elector(team->instance[id - 1], 0);
        if (s->raft)
            add_raft(&list, (size_t)(elector - origin), s->nodes);
        else
            add_span(&list, block, block + team->block);
    }
    return list.count;
}

/* ---- steps ---- */

static void send(struct bw_team *team, const struct bw_message *msg)
{
    uint32_t link = bw_team_link(team, msg->from, msg->to);
    struct bw_message *at = &team->message[(size_t)link * team->links];
    uint64_t *sent = &team->sent[(size_t)link * team->links];
    uint8_t *count = &team->in_flight[link];
    size_t used = bw_message_used(msg->kind);
    BW_ASSERT(!msg->data && msg->to >= 1 && msg->to <= team->settings->nodes);
    struct bw_message copy;
    memset(&copy, 0, sizeof copy);
    memcpy(&copy, msg, used);
    if (msg->kind == BW_MSG_RELEASE) /* its receiver does not read the echo */
        copy.promise.echo = 0;
    for (uint32_t i = 0; i < *count; i++)
        if (memcmp(&at[i], &copy, used) == 0)
            return;
    if (*count == (team->playing ? 1 : team->links)) {
        memmove(at, at + 1, (*count - 1u) * sizeof at[0]);
        memmove(sent, sent + 1, (*count - 1u) * sizeof sent[0]);
        --*count;
    }
    at[*count] = copy;
    sent[(*count)++] = ++team->sends;
}

static void append(struct bw_team *team, bw_node id, const struct bw_log_action *action)
{
    struct bw_team_log *log = &team->node[id - 1].log;
    const struct bw_raft *raft = bw_team_raft(team, id);
    bw_index change = action->first - action->skip + action->change.entry;
    BW_ASSERT(action->first == log->count + 1 && log->count + action->count <= BW_TEAM_LOG);
    for (bw_index i = action->first; i < action->first + action->count; i++) {
        struct bw_team_entry *entry = &log->at[log->count++];
        *entry = (struct bw_team_entry){.term = (uint8_t)bw_raft_term_at(raft, i)};
        if (action->change.op && i == change) {
            entry->op = action->change.op;
            entry->node = (uint8_t)action->change.node;
        }
    }
}

static void truncate_log(struct bw_team_log *log, bw_index from)
{
    memset(&log->at[from - 1], 0, (log->count - (from - 1)) * sizeof log->at[0]);
    log->count = (uint32_t)(from - 1);
}

static bool carry_out(struct bw_team *team, bw_node id, const struct bw_action *action, char *why)
{
    struct bw_team_node *node = &team->node[id - 1];
    switch (action->kind) {
    case BW_ACTION_PERSIST:
        if (!bw_team_recorded(team, id, &action->durable, why))
            return false;
        node->disk = action->durable;
        return true;
    case BW_ACTION_SEND:
        send(team, &action->msg);
        return bw_team_sends(team, id, &action->msg, why);
    case BW_ACTION_ANNOUNCE:
        return bw_team_announced(team, id, &action->announce, why);
    case BW_ACTION_LOG_APPEND:
        append(team, id, &action->log);
        return true;
    case BW_ACTION_LOG_TRUNCATE:
        truncate_log(&node->log, action->log.first);
        return true;
    case BW_ACTION_COMMIT:
        return bw_team_committed(team, id, action->log.first, why);
    default:
        return true;
    }
}

static bool act(struct bw_team *team, bw_node id, const struct bw_action *action, char *why)
{
    const struct bw_team_service *service = team->settings->service;
    return carry_out(team, id, action, why) &&
           (!service || service->acted(team->owner, id, action, why));
}

static bool step_once(struct bw_team *team, bw_node id, struct bw_event *event, char *why)
{
    event->now = team->now;
    team->actions.count = 0;
    bw_instance_step(team->instance[id - 1], event, &team->actions);
    for (uint32_t i = 0; i < team->actions.count; i++)
        if (!act(team, id, &team->actions.at[i], why))
            return false;
    return true;
}

bool bw_team_step(struct bw_team *team, bw_node id, struct bw_event *event, char *why)
{
    struct bw_team_node *node = &team->node[id - 1];
    if (!step_once(team, id, event, why))
        return false;
    while (team->settings->eager && memcmp(&node->log, &node->durable, sizeof node->log) != 0) {
        node->durable = node->log;
        struct bw_event persisted = {.kind = BW_EVENT_PERSISTED};
        persisted.persisted.index = node->log.count;
        persisted.persisted.term = node->log.count ? node->log.at[node->log.count - 1].term : 0;
        if (!step_once(team, id, &persisted, why))
            return false;
    }
    return true;
}

bool bw_team_start(struct bw_team *team, bw_node id, char *why)
{
    struct setup setup;
    struct bw_team_node *node = &team->node[id - 1];
    unsigned char *block = team->memory + (id - 1) * team->block;
    memset(block, 0, team->block);
    configure(team->settings, id, &node->durable, &setup);
    int error = bw_instance_init(&team->instance[id - 1], block, &setup.config);
    BW_ASSERT(error == 0);
    team->settings->ops->fix_draws(bw_instance_elector(team->instance[id - 1], 0));
    node->up = BW_TEAM_UP;
    node->log = node->durable;
    if (team->settings->service)
        team->settings->service->started(team->owner, id);
    struct bw_start start = {.durable = node->disk};
    return bw_team_step(team, id, &(struct bw_event){.kind = BW_EVENT_START, .start = &start}, why);
}

void bw_team_crash(struct bw_team *team, bw_node id)
{
    struct bw_team_node *node = &team->node[id - 1];
    node->up = BW_TEAM_DOWN;
    node->log = node->durable;
    memset(team->released[id - 1], 0, sizeof team->released[0]); /* a release is not durable */
}

/* ---- the first state ---- */

static enum bw_explore_result play_action(struct bw_team *team, struct bw_explore_action action,
                                          const char *text, char *why)
{
    enum bw_explore_result result = team->settings->target->apply(team->owner, action, why);
    if (result != BW_EXPLORE_IMPOSSIBLE)
        return result;
    snprintf(why, BW_EXPLORE_WHY, "the action '%s' of the prefix is impossible", text);
    return BW_EXPLORE_BROKEN;
}

static enum bw_explore_result settle(struct bw_team *team, char *why)
{
    for (uint32_t i = 0; i < SETTLE_MAX; i++) {
        struct bw_explore_action action = bw_team_natural(team);
        if (action.kind == BW_TEAM_TIMEOUT || action.kind == BW_TEAM_ADVANCE)
            return BW_EXPLORE_DONE;
        enum bw_explore_result result = play_action(team, action, "settle", why);
        if (result != BW_EXPLORE_DONE)
            return result;
    }
    snprintf(why, BW_EXPLORE_WHY, "the group does not settle in the prefix");
    return BW_EXPLORE_BROKEN;
}

static enum bw_explore_result play_lines(struct bw_team *team, const char *const *line,
                                         unsigned budget[2], char *why)
{
    for (; *line; line++) {
        struct bw_explore_action action;
        bool settles = strcmp(*line, "settle") == 0;
        if (sscanf(*line, "budget %u %u", &budget[0], &budget[1]) == 2)
            continue;
        int error = settles ? 0 : bw_explore_parse(team->settings->target, *line, &action);
        BW_ASSERT(error == 0);
        enum bw_explore_result result =
            settles ? settle(team, why) : play_action(team, action, *line, why);
        if (result != BW_EXPLORE_DONE)
            return result;
    }
    return BW_EXPLORE_DONE;
}

enum bw_explore_result bw_team_play(struct bw_team *team, uint32_t number, char *why)
{
    const struct bw_team_settings *s = team->settings;
    unsigned budget[] = {(unsigned)s->faults, (unsigned)s->changes};
    team->begun = 1;
    team->playing = true;
    enum bw_explore_result result = play_lines(team, s->prefixes[number - 1], budget, why);
    team->playing = false;
    team->faults = budget[0];
    team->changes = budget[1];
    team->delays = team->delays_given;
    return result;
}

const char *bw_team_begin(struct bw_team *team, const struct bw_team_settings *settings,
                          const struct bw_explore_options *options, char *why)
{
    uint32_t links = options->links ? options->links : settings->links;
    static struct bw_action *scratch;
    static uint32_t cap;
    if (!scratch) {
        cap = 4 * (BW_RAFT_READS_MAX + 4 * BW_RAFT_MEMBERS_MAX + 64);
        scratch = malloc(cap * sizeof *scratch);
        BW_ASSERT(scratch);
    }
    team->settings = settings;
    team->owner = team->owner ? team->owner : team;
    team->actions = (struct bw_actions){.at = scratch, .cap = cap};
    team->links = links;
    team->delays_given = options->delays ? options->delays : settings->delays;
    team->block = block_bytes(settings);
    team->message = (struct bw_message *)(void *)((unsigned char *)team + round_up(sizeof *team));
    size_t messages = (size_t)settings->nodes * settings->nodes * links;
    team->sent = (uint64_t *)(void *)(team->message + messages);
    team->memory = (unsigned char *)team->message + messages_bytes(settings, links);
    team->now = START_AT;
    team->faults = team->changes = team->delays = UINT64_MAX; /* for the prefix */
    for (bw_node id = 1; id <= settings->nodes; id++)
        if (!bw_team_start(team, id, why))
            return why;
    if (!settings->prefixes[1]) {
        BW_ASSERT(!settings->prefixes[0][0]); /* otherwise it would not be an action */
        bw_team_play(team, 1, why);
    }
    return NULL;
}

void bw_team_describe(void *state, char *out, size_t size)
{
    const struct bw_team *team = state;
    int length = snprintf(out, size, "t=%lld", (long long)((team->now - START_AT) / BW_TEAM_TICK));
    for (bw_node id = 1; id <= team->settings->nodes && (size_t)length < size; id++) {
        struct bw_elector_status status;
        const struct bw_team_node *node = &team->node[id - 1];
        bw_instance_status(team->instance[id - 1], 0, &status);
        length += snprintf(out + length, size - (size_t)length, "  %u:%s/%llu", id,
                           node->up == BW_TEAM_UP       ? status.state
                           : node->up == BW_TEAM_PAUSED ? "paused"
                                                        : "down",
                           (unsigned long long)status.term);
        if (node->window.until > team->now && (size_t)length < size)
            length += snprintf(out + length, size - (size_t)length, " acts %lld..%lld",
                               (long long)((node->window.from - START_AT) / BW_TEAM_TICK),
                               (long long)((node->window.until - START_AT) / BW_TEAM_TICK));
    }
}
