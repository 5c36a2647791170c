/* The actions of a group: which are possible, what each does, and the digest of a state. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"
#include "sim/explore/team.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

const struct bw_explore_verb bw_team_verbs[BW_TEAM_VERBS] = {BW_TEAM_VERB_TABLE};

/* ---- digest ---- */

static bw_time age(const struct bw_team *team, bw_time time)
{
    return time > 0 ? team->now - time + 1 : 0;
}

/* Echoes are times of another node's clock; here all clocks show the same. */
static uint64_t message_hash(const struct bw_team *team, const struct bw_message *msg)
{
    struct bw_message copy;
    size_t used = bw_message_used(msg->kind);
    memset(&copy, 0, sizeof copy);
    memcpy(&copy, msg, used);
    switch (msg->kind) {
    case BW_MSG_CLAIM:
    case BW_MSG_PROMISE:
    case BW_MSG_RAFT_TIMEOUT_NOW:
        copy.promise.echo = age(team, msg->promise.echo);
        break;
    case BW_MSG_RAFT_APPEND:
        copy.append.echo = age(team, msg->append.echo);
        break;
    case BW_MSG_RAFT_APPEND_REPLY:
        copy.append_reply.echo = age(team, msg->append_reply.echo);
        break;
    case BW_MSG_RAFT_VOTE:
        copy.vote.ended = age(team, msg->vote.ended);
        break;
    default:
        break;
    }
    return XXH3_64bits(&copy, used);
}

/* The number of messages in flight that were sent before. */
static uint64_t rank(const struct bw_team *team, uint64_t sent)
{
    uint64_t before = 0;
    uint32_t links = team->settings->nodes * team->settings->nodes;
    for (uint32_t i = 0; i < links; i++)
        for (uint32_t k = 0; k < team->in_flight[i]; k++)
            before += team->sent[i * team->links + k] < sent;
    return before;
}

static void add_links(const struct bw_team *team, struct bw_digest *out)
{
    uint32_t links = team->settings->nodes * team->settings->nodes;
    for (uint32_t i = 0; i < links; i++) {
        uint64_t sum = 0, mixed = 0;
        for (uint32_t k = 0; k < team->in_flight[i]; k++) {
            uint64_t hash = message_hash(team, &team->message[i * team->links + k]);
            sum += hash;
            mixed ^= hash * 0x9e3779b97f4a7c15u;
        }
        bw_digest_add(out, sum);
        for (uint32_t k = 0; k < team->in_flight[i] && bw_team_bounded(team); k++)
            bw_digest_add(out, rank(team, team->sent[i * team->links + k]));
        if (team->links > 1)
            bw_digest_add(out, mixed);
    }
}

static void add_log(const struct bw_team_log *log, struct bw_digest *out)
{
    bw_digest_add(out, log->count);
    for (uint32_t i = 0; i < log->count; i++)
        bw_digest_add(out, (uint64_t)log->at[i].term << 16 | (uint64_t)log->at[i].op << 8 |
                               log->at[i].node);
}

static void add_node(const struct bw_team *team, bw_node id, struct bw_digest *out)
{
    const struct bw_team_node *node = &team->node[id - 1];
    const struct bw_durable *disk = &node->disk;
    bool open = node->window.until > team->now;
    bw_digest_add(out, (uint64_t)node->up << 32 | disk->vote);
    bw_digest_add(out, node->led << 32 | node->dead << 16 | node->asked);
    bw_digest_add(out, disk->term << 32 | disk->token);
    bw_digest_add(out, disk->promise_epoch << 32 | disk->promised_to);
    bw_digest_add(out, (uint64_t)disk->promised_ns);
    bw_digest_time(out, open ? node->window.from : 0);
    bw_digest_time(out, node->window.until);
    bw_digest_add(out, open ? node->window.term : 0);
    if (team->settings->raft) {
        add_log(&node->log, out);
        if (memcmp(&node->log, &node->durable, sizeof node->log) != 0)
            add_log(&node->durable, out);
    }
    if (node->up)
        team->settings->ops->digest(bw_instance_elector(team->instance[id - 1], 0), out);
}

void bw_team_digest(void *state, struct bw_digest *out)
{
    const struct bw_team *team = state;
    uint64_t leaders[BW_TEAM_TERMS / 8];
    out->now = team->now;
    memcpy(leaders, team->leader_of, sizeof team->leader_of);
    bw_digest_add(out, team->begun << 32 | team->delays << 16 | team->faults << 8 | team->changes);
    for (size_t i = 0; i < sizeof leaders / sizeof leaders[0]; i++)
        bw_digest_add(out, leaders[i]);
    bw_digest_add(out, team->token << 8 | team->token_holder);
    bw_digest_time(out, team->token_from);
    for (bw_node id = 1; id <= team->settings->nodes && !team->settings->raft; id++)
        for (bw_node other = 1; other <= team->settings->nodes; other++)
            bw_digest_add(out, team->released[id - 1][other - 1]);
    add_log(&team->committed, out);
    add_links(team, out);
    for (bw_node id = 1; id <= team->settings->nodes; id++)
        add_node(team, id, out);
    if (team->settings->service)
        team->settings->service->digest(team->owner, out);
}

/* ---- the natural order ---- */

static bool oldest_message(const struct bw_team *team, struct bw_explore_action *out)
{
    uint64_t oldest = UINT64_MAX;
    uint32_t nodes = team->settings->nodes;
    for (bw_node from = 1; from <= nodes; from++)
        for (bw_node to = 1; to <= nodes; to++)
            for (uint32_t k = 0; k < team->in_flight[bw_team_link(team, from, to)]; k++) {
                uint64_t sent = team->sent[bw_team_link(team, from, to) * team->links + k];
                if (sent >= oldest || team->node[to - 1].up != BW_TEAM_UP)
                    continue;
                oldest = sent;
                *out = (struct bw_explore_action){BW_TEAM_DELIVER, (uint8_t)from, (uint8_t)to,
                                                  (uint8_t)k};
            }
    return oldest < UINT64_MAX;
}

static bool unwritten(const struct bw_team_node *node)
{
    return node->up == BW_TEAM_UP && memcmp(&node->log, &node->durable, sizeof node->log) != 0;
}

/* Deadlines that have passed count alike, as in the digest. */
struct bw_explore_action bw_team_natural(const struct bw_team *team)
{
    struct bw_explore_action action = {BW_TEAM_ADVANCE, 0, 0, 0};
    bw_time earliest = BW_TIME_NEVER;
    const struct bw_team_service *service = team->settings->service;
    if (service && service->natural(team->owner, &action))
        return action;
    if (oldest_message(team, &action))
        return action;
    for (bw_node id = 1; id <= team->settings->nodes; id++) {
        bw_time at = bw_time_max(bw_instance_deadline(team->instance[id - 1]), team->now);
        if (unwritten(&team->node[id - 1]))
            return (struct bw_explore_action){BW_TEAM_PERSIST, (uint8_t)id, 0, 0};
        if (team->node[id - 1].up != BW_TEAM_UP || at >= earliest)
            continue;
        earliest = at;
        action = (struct bw_explore_action){BW_TEAM_TIMEOUT, (uint8_t)id, 0, 0};
    }
    return action;
}

/* Whether the verb costs a delay unless it is natural. With a joint budget the crash before the
 * restart has cost one. */
static bool has_order(const struct bw_team *team, unsigned verb)
{
    return verb <= BW_TEAM_LOSE && !(team->settings->joint && verb == BW_TEAM_RESTART);
}

/* Whether the action costs a delay. */
static bool is_delay(const struct bw_team *team, struct bw_explore_action action)
{
    struct bw_explore_action natural;
    if (!bw_team_bounded(team) || !has_order(team, action.kind))
        return false;
    natural = bw_team_natural(team);
    return memcmp(&natural, &action, sizeof action) != 0;
}

/* ---- possible actions ---- */

struct list {
    struct bw_team *team;
    struct bw_explore_action *at;
    uint32_t count;
    struct bw_explore_action natural;
};

static void add(struct list *list, enum bw_team_verb verb, bw_node a, bw_node b, uint32_t c)
{
    const uint64_t *left = bw_team_left(list->team, verb);
    struct bw_explore_action action = {
        .kind = (uint8_t)verb, .a = (uint8_t)a, .b = (uint8_t)b, .c = (uint8_t)c};
    if (!(list->team->settings->verbs >> verb & 1) || (left && *left == 0))
        return;
    bool other = has_order(list->team, verb) && memcmp(&action, &list->natural, sizeof action) != 0;
    if (other && list->team->delays == 0)
        return;
    BW_ASSERT(list->count < BW_EXPLORE_CHOICES_MAX);
    list->at[list->count++] = action;
}

static void add_deliveries(struct list *list)
{
    const struct bw_team *team = list->team;
    uint32_t nodes = team->settings->nodes;
    for (bw_node from = 1; from <= nodes; from++)
        for (bw_node to = 1; to <= nodes; to++)
            for (uint32_t k = 0; k < team->in_flight[bw_team_link(team, from, to)]; k++) {
                if (team->node[to - 1].up != BW_TEAM_UP)
                    continue;
                add(list, BW_TEAM_DELIVER, from, to, k);
                add(list, BW_TEAM_DUPLICATE, from, to, k);
                if (bw_team_bounded(team))
                    add(list, BW_TEAM_LOSE, from, to, k);
            }
}

/* Commands to a node that leads. */
static void add_commands(struct list *list, bw_node id)
{
    const struct bw_team_settings *s = list->team->settings;
    add(list, BW_TEAM_RESIGN, id, 0, 0);
    add(list, BW_TEAM_PROPOSE, id, 0, 0);
    for (bw_node other = 1; other <= s->nodes; other++) {
        if (other != id)
            add(list, BW_TEAM_TRANSFER, id, other, 0);
        if (!s->raft)
            continue;
        const struct bw_raft *raft = bw_team_raft(list->team, id);
        bool voter = bw_raft_is_voter(raft, other), member = voter;
        for (uint32_t i = 0; i < raft->peers; i++)
            member |= raft->peer[i].id == other;
        if (!member)
            add(list, BW_TEAM_ADD, id, other, 0);
        if (member && !voter)
            add(list, BW_TEAM_PROMOTE, id, other, 0);
        if (member)
            add(list, BW_TEAM_REMOVE, id, other, 0);
    }
}

static void add_news(struct list *list, bw_node id, const struct bw_elector_status *status)
{
    const struct bw_team_settings *s = list->team->settings;
    for (bw_node other = 1; other <= s->nodes; other++) {
        if (other != id && list->team->node[other - 1].dead)
            add(list, BW_TEAM_DEAD, id, other, 0);
        if (!s->raft && other > s->voters)
            add(list, BW_TEAM_JOIN, id, other, 0);
        if (!s->raft && other != id && other == s->voters)
            add(list, BW_TEAM_LEAVE, id, other, 0);
    }
    if (s->raft && status->leader && status->leader != id)
        add(list, BW_TEAM_SUSPECT, id, 0, 0);
    if (!s->raft && bw_team_named(list->team, id) == id)
        add(list, BW_TEAM_NAME, id, 0, 0);
    else if (!s->raft)
        add(list, BW_TEAM_NAME, id, id, 0);
}

uint32_t bw_team_choices(void *state, struct bw_explore_action *out)
{
    struct bw_team *team = state;
    struct list list = {.team = team, .at = out, .natural = bw_team_natural(team)};
    for (bw_node i = 1; !team->begun && team->settings->prefixes[i - 1]; i++)
        out[list.count++] = (struct bw_explore_action){BW_TEAM_BEGIN, (uint8_t)i, 0, 0};
    if (!team->begun)
        return list.count;
    add(&list, BW_TEAM_ADVANCE, 0, 0, 0);
    for (bw_node id = 1; id <= team->settings->nodes; id++) {
        const struct bw_team_node *node = &team->node[id - 1];
        struct bw_elector_status status;
        bw_instance_status(team->instance[id - 1], 0, &status);
        if (node->up == BW_TEAM_PAUSED)
            continue;
        if (node->window.until > team->now && (node->up == BW_TEAM_DOWN || !status.leading))
            add(&list, BW_TEAM_KILL, id, 0, 0);
        if (!node->up) {
            add(&list, BW_TEAM_RESTART, id, 0, 0);
            continue;
        }
        if (bw_instance_deadline(team->instance[id - 1]) < BW_TIME_NEVER)
            add(&list, BW_TEAM_TIMEOUT, id, 0, 0);
        if (unwritten(node))
            add(&list, BW_TEAM_PERSIST, id, 0, 0);
        add(&list, BW_TEAM_CRASH, id, 0, 0);
        if (status.leading) {
            add(&list, BW_TEAM_PAUSE, id, 0, 0);
            add_commands(&list, id);
        }
        add_news(&list, id, &status);
    }
    add_deliveries(&list);
    return list.count;
}

/* ---- effects ---- */

static bw_time next_tick(bw_time time)
{
    return (time + BW_TEAM_TICK - 1) / BW_TEAM_TICK * BW_TEAM_TICK;
}

/* Goes to the next time that a node, a promise or a window waits for. */
static bool advance(struct bw_team *team)
{
    static uint64_t words[BW_EXPLORE_DIGEST_MAX];
    struct bw_digest digest = {.at = words, .cap = BW_EXPLORE_DIGEST_MAX, .next = BW_TIME_NEVER};
    bw_team_digest(team, &digest);
    if (digest.next == BW_TIME_NEVER)
        return false;
    team->now = next_tick(digest.next);
    return true;
}

static enum bw_explore_result step(struct bw_team *team, bw_node id, struct bw_event *event,
                                   char *why)
{
    if (team->node[id - 1].up != BW_TEAM_UP)
        return BW_EXPLORE_IMPOSSIBLE;
    return bw_team_step(team, id, event, why) ? BW_EXPLORE_DONE : BW_EXPLORE_VIOLATION;
}

static enum bw_explore_result time_out(struct bw_team *team, bw_node id, char *why)
{
    bw_time at = bw_instance_deadline(team->instance[id - 1]);
    if (team->node[id - 1].up != BW_TEAM_UP || at == BW_TIME_NEVER)
        return BW_EXPLORE_IMPOSSIBLE;
    if (at > team->now)
        team->now = next_tick(at);
    enum bw_explore_result result =
        step(team, id, &(struct bw_event){.kind = BW_EVENT_TIMEOUT}, why);
    if (result == BW_EXPLORE_DONE && !bw_team_timed_out(team, id, why))
        return BW_EXPLORE_VIOLATION;
    return result;
}

static enum bw_explore_result deliver(struct bw_team *team, struct bw_explore_action action,
                                      char *why)
{
    uint32_t link = bw_team_link(team, action.a, action.b);
    struct bw_message *at = &team->message[(size_t)link * team->links], msg;
    if (action.c >= team->in_flight[link] || team->node[action.b - 1].up != BW_TEAM_UP)
        return BW_EXPLORE_IMPOSSIBLE;
    msg = at[action.c];
    if (action.kind != BW_TEAM_DUPLICATE) {
        uint8_t left = --team->in_flight[link];
        uint64_t *sent = &team->sent[(size_t)link * team->links];
        memmove(&at[action.c], &at[action.c + 1], (left - action.c) * sizeof at[0]);
        memmove(&sent[action.c], &sent[action.c + 1], (left - action.c) * sizeof sent[0]);
        memset(&at[left], 0, sizeof at[0]);
        sent[left] = 0;
    }
    if (action.kind == BW_TEAM_LOSE)
        return BW_EXPLORE_DONE;
    bw_team_receives(team, &msg);
    return step(team, action.b, &(struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg}, why);
}

static enum bw_explore_result persist(struct bw_team *team, bw_node id, char *why)
{
    struct bw_team_node *node = &team->node[id - 1];
    struct bw_event event = {.kind = BW_EVENT_PERSISTED};
    if (memcmp(&node->log, &node->durable, sizeof node->log) == 0)
        return BW_EXPLORE_IMPOSSIBLE;
    node->durable = node->log;
    event.persisted.index = node->log.count;
    event.persisted.term = node->log.count ? node->log.at[node->log.count - 1].term : 0;
    return step(team, id, &event, why);
}

static enum bw_explore_result command(struct bw_team *team, struct bw_explore_action action,
                                      char *why)
{
    static const enum bw_change_op ops[BW_TEAM_VERBS] = {[BW_TEAM_ADD] = BW_CHANGE_ADD_LEARNER,
                                                         [BW_TEAM_PROMOTE] = BW_CHANGE_PROMOTE,
                                                         [BW_TEAM_REMOVE] = BW_CHANGE_REMOVE};
    struct bw_event event = {.kind = BW_EVENT_COMMAND};
    event.command.node = action.b;
    event.command.op = ops[action.kind];
    if (event.command.op)
        event.command.kind = BW_COMMAND_CHANGE;
    else if (action.kind == BW_TEAM_PROPOSE)
        event.command.kind = BW_COMMAND_PROPOSE;
    else if (action.kind == BW_TEAM_TRANSFER)
        event.command.kind = BW_COMMAND_TRANSFER;
    else if (action.kind == BW_TEAM_RESIGN)
        event.command.kind = BW_COMMAND_RESIGN;
    else
        event.command.kind = BW_COMMAND_CAMPAIGN;
    event.command.count = 1;
    bool stops = action.kind == BW_TEAM_TRANSFER || action.kind == BW_TEAM_RESIGN;
    struct bw_elector_status status;
    bw_instance_status(team->instance[action.a - 1], 0, &status);
    if (stops && status.leading)
        team->node[action.a - 1].asked = status.term;
    if (stops && !team->settings->raft) /* the caller stopped the work before the command */
        team->node[action.a - 1].window.until = team->now;
    return step(team, action.a, &event, why);
}

/* The guardian, or the supervisor of a deposed leader, reports that the work is dead. */
static enum bw_explore_result kill_work(struct bw_team *team, bw_node id, char *why)
{
    struct bw_team_node *node = &team->node[id - 1];
    node->window.until = team->now;
    node->dead = node->led;
    struct bw_event event = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = id, .dead_term = node->led};
    return node->up ? step(team, id, &event, why) : BW_EXPLORE_DONE;
}

static enum bw_explore_result news(struct bw_team *team, struct bw_explore_action action, char *why)
{
    struct bw_event event = {.node = action.b};
    struct bw_elector_status status;
    switch ((enum bw_team_verb)action.kind) {
    case BW_TEAM_DEAD:
        event.kind = BW_EVENT_CONFIRMED_DEAD;
        event.dead_term = team->node[action.b - 1].dead;
        break;
    case BW_TEAM_JOIN:
        event.kind = BW_EVENT_JOIN;
        event.member = (struct bw_member){.id = action.b};
        break;
    case BW_TEAM_LEAVE:
        event.kind = BW_EVENT_LEAVE;
        break;
    default:
        bw_instance_status(team->instance[action.a - 1], 0, &status);
        event.kind = BW_EVENT_SUSPECT;
        event.node = status.leader;
    }
    return step(team, action.a, &event, why);
}

static enum bw_explore_result carry_out(struct bw_team *team, struct bw_explore_action action,
                                        char *why)
{
    switch ((enum bw_team_verb)action.kind) {
    case BW_TEAM_ADVANCE:
        return advance(team) ? BW_EXPLORE_DONE : BW_EXPLORE_IMPOSSIBLE;
    case BW_TEAM_TIMEOUT:
        return time_out(team, action.a, why);
    case BW_TEAM_DELIVER:
    case BW_TEAM_DUPLICATE:
    case BW_TEAM_LOSE:
        return deliver(team, action, why);
    case BW_TEAM_PERSIST:
        return persist(team, action.a, why);
    case BW_TEAM_CRASH:
        bw_team_crash(team, action.a);
        return BW_EXPLORE_DONE;
    case BW_TEAM_RESTART:
        return bw_team_start(team, action.a, why) ? BW_EXPLORE_DONE : BW_EXPLORE_VIOLATION;
    case BW_TEAM_BEGIN:
        return bw_team_play(team, action.a, why);
    case BW_TEAM_PAUSE:
        team->node[action.a - 1].up = BW_TEAM_PAUSED;
        return BW_EXPLORE_DONE;
    case BW_TEAM_KILL:
        return kill_work(team, action.a, why);
    case BW_TEAM_SUSPECT:
    case BW_TEAM_DEAD:
    case BW_TEAM_JOIN:
    case BW_TEAM_LEAVE:
        return news(team, action, why);
    default:
        return command(team, action, why);
    }
}

static bool in_range(const struct bw_team *team, struct bw_explore_action action)
{
    const char *form = bw_team_verbs[action.kind].form;
    uint32_t nodes = team->settings->nodes;
    bool a = !strchr(form, 'A') || (action.a >= 1 && action.a <= nodes);
    bool none = action.kind == BW_TEAM_NAME && action.b == 0;
    if (action.kind == BW_TEAM_BEGIN) /* the table of prefixes ends with NULL */
        a = action.a >= 1;
    for (uint32_t i = 0; action.kind == BW_TEAM_BEGIN && a && i < action.a; i++)
        a = team->settings->prefixes[i] != NULL;
    bool b = !strchr(form, 'B') || none || (action.b >= 1 && action.b <= nodes);
    return a && b;
}

enum bw_explore_result bw_team_apply(void *state, struct bw_explore_action action, char *why)
{
    struct bw_team *team = state;
    uint64_t *left = bw_team_left(team, action.kind);
    if ((action.kind == BW_TEAM_BEGIN) == team->begun)
        return BW_EXPLORE_IMPOSSIBLE;
    if (!in_range(team, action) || (left && *left == 0))
        return BW_EXPLORE_IMPOSSIBLE;
    if (is_delay(team, action)) {
        if (team->delays == 0)
            return BW_EXPLORE_IMPOSSIBLE;
        team->delays--;
    }
    if (left)
        --*left;
    enum bw_explore_result result = carry_out(team, action, why);
    if (result != BW_EXPLORE_DONE)
        return result;
    return bw_team_judge(team, why) ? BW_EXPLORE_DONE : BW_EXPLORE_VIOLATION;
}
