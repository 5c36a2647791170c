/* What must hold in every state of a group:
 *
 * - Exclusion: the windows of two nodes never overlap. A window in the future counts, because the
 *   node may act in it without any further step. It no longer counts once the node announces that
 *   it does not lead.
 * - A window that begins later has the larger token.
 * - A node that acts has the durable promise of a majority.
 * - Under the guard: a node releases promises only when its work has ended and the released epoch
 *   is durable; after a release no node promises that epoch, or is bound to its own; a leader steps
 *   down at the end of its window.
 * - A removed node becomes a member again only after its window, because another process may have
 *   taken its id.
 * - One leader per term; one vote per term (Raft, figure 3: election safety).
 * - Committed entries never change (log matching, state machine safety), and every later leader has
 *   them (leader completeness). */
#include "core/elect/raft/raft_state.h"
#include "sim/explore/team.h"

#include <stdio.h>
#include <string.h>

static double seconds(bw_time t)
{
    return (double)t / (double)BW_SEC;
}

static bool check_exclusion(const struct bw_team *team, bw_node id, char *why)
{
    const struct bw_team_window *mine = &team->node[id - 1].window;
    for (bw_node other = 1; other <= team->settings->nodes; other++) {
        const struct bw_team_window *theirs = &team->node[other - 1].window;
        bw_time from = bw_time_max(mine->from, theirs->from);
        bw_time until = bw_time_min(mine->until, theirs->until);
        if (other == id || from >= until)
            continue;
        snprintf(why, BW_EXPLORE_WHY,
                 "nodes %u and %u could both act at %.1f s (terms %llu and %llu)", id, other,
                 seconds(from), (unsigned long long)mine->term, (unsigned long long)theirs->term);
        return false;
    }
    return true;
}

static bool check_token(struct bw_team *team, bw_node id, bw_token token, bw_time from, char *why)
{
    bool again = token == team->token && team->token_holder == id;
    if (token <= team->token && !again && from >= team->token_from) {
        snprintf(why, BW_EXPLORE_WHY,
                 "node %u may act with token %llu although node %llu had the token %llu before", id,
                 (unsigned long long)token, (unsigned long long)team->token_holder,
                 (unsigned long long)team->token);
        return false;
    }
    if (token > team->token) {
        team->token = token;
        team->token_holder = id;
        team->token_from = from;
    }
    return true;
}

static bool check_term(struct bw_team *team, bw_node id, bw_term term, char *why)
{
    uint8_t *leader = &team->leader_of[term % BW_TEAM_TERMS];
    if (*leader != 0 && *leader != id) {
        snprintf(why, BW_EXPLORE_WHY, "nodes %u and %u both lead term %llu", *leader, id,
                 (unsigned long long)term);
        return false;
    }
    *leader = (uint8_t)id;
    return true;
}

/* Every committed entry is in the log of a new leader. */
static bool check_completeness(const struct bw_team *team, bw_node id, char *why)
{
    const struct bw_team_log *log = &team->node[id - 1].log;
    for (uint32_t i = 0; i < team->committed.count; i++) {
        if (i < log->count && memcmp(&log->at[i], &team->committed.at[i], sizeof log->at[0]) == 0)
            continue;
        snprintf(why, BW_EXPLORE_WHY, "node %u leads without the committed entry %u", id, i + 1);
        return false;
    }
    return true;
}

/* A leader acts only after it has committed an entry of its own term (§8). */
static bool check_commit(const struct bw_team *team, bw_node id, bw_term term, char *why)
{
    const struct bw_raft *raft = bw_team_raft(team, id);
    if (bw_raft_term_at(raft, bw_raft_commit_index(raft)) == term)
        return true;
    snprintf(why, BW_EXPLORE_WHY, "node %u acts before it has committed an entry of its term %llu",
             id, (unsigned long long)term);
    return false;
}

bool bw_team_announced(struct bw_team *team, bw_node id, const struct bw_announcement *a, char *why)
{
    struct bw_team_node *node = &team->node[id - 1];
    struct bw_team_window *window = &node->window;
    bw_time from = bw_time_max(team->now, a->act_from);
    bool opens = a->leader == id && from < a->act_until;
    if (!opens && window->from > team->now) /* the work has not begun, and will not */
        *window = (struct bw_team_window){0};
    if (a->leader != id)
        return true;
    if (!check_term(team, id, a->term, why))
        return false;
    if (team->settings->raft && node->led < a->term && !check_completeness(team, id, why))
        return false;
    node->led = a->term > node->led ? a->term : node->led;
    if (team->settings->untimed)
        return true;
    bool running = window->until > team->now;
    /* Given up, or not begun. The work has stopped only if the node was asked to step down. An
     * earlier term's window stays open. */
    if (!opens) {
        if (running && window->term == a->term && node->asked == a->term)
            window->until = bw_time_max(a->act_until, team->now);
        return true;
    }
    if (team->settings->raft && !check_commit(team, id, a->term, why))
        return false;
    if (!running || window->until < from) {
        if (!check_token(team, id, a->token, from, why))
            return false;
        window->from = running ? window->from : from;
    }
    bool older = running && window->term != a->term;
    window->until = older ? bw_time_max(window->until, a->act_until) : a->act_until;
    window->term = a->term;
    return check_exclusion(team, id, why);
}

/* Another process may run under the id of a new member. */
static bool check_addition(const struct bw_team *team, const struct bw_team_entry *entry, char *why)
{
    bool adds = entry->op == BW_CHANGE_ADD_LEARNER;
    if (!adds || team->node[entry->node - 1].window.until <= team->now)
        return true;
    snprintf(why, BW_EXPLORE_WHY,
             "node %u becomes a member again while its earlier work may run until %.1f s",
             entry->node, seconds(team->node[entry->node - 1].window.until));
    return false;
}

bool bw_team_committed(struct bw_team *team, bw_node id, bw_index index, char *why)
{
    const struct bw_team_log *log = &team->node[id - 1].log;
    for (bw_index i = 0; i < index; i++) {
        if (i >= log->count) {
            snprintf(why, BW_EXPLORE_WHY, "node %u commits entry %llu, which its log lacks", id,
                     (unsigned long long)(i + 1));
            return false;
        }
        if (i >= team->committed.count) {
            team->committed.at[i] = log->at[i];
            team->committed.count = (uint32_t)(i + 1);
            if (!check_addition(team, &log->at[i], why))
                return false;
        } else if (memcmp(&log->at[i], &team->committed.at[i], sizeof log->at[0]) != 0) {
            snprintf(why, BW_EXPLORE_WHY, "node %u commits another entry %llu than before", id,
                     (unsigned long long)(i + 1));
            return false;
        }
    }
    return true;
}

bool bw_team_recorded(struct bw_team *team, bw_node id, const struct bw_durable *record, char *why)
{
    const struct bw_durable *before = &team->node[id - 1].disk;
    bool backwards = record->term < before->term || record->token < before->token ||
                     record->promise_epoch < before->promise_epoch;
    bool revoted = team->settings->raft && record->term == before->term && before->vote &&
                   record->vote != before->vote;
    bool repromised = record->promise_epoch == before->promise_epoch && before->promised_to &&
                      record->promised_to != before->promised_to;
    if (backwards)
        snprintf(why, BW_EXPLORE_WHY, "node %u records an older term, token or epoch", id);
    else if (revoted)
        snprintf(why, BW_EXPLORE_WHY, "node %u votes for %u after %u in term %llu", id,
                 record->vote, before->vote, (unsigned long long)record->term);
    else if (repromised)
        snprintf(why, BW_EXPLORE_WHY, "node %u promises epoch %llu to %u after %u", id,
                 (unsigned long long)record->promise_epoch, record->promised_to,
                 before->promised_to);
    return !backwards && !revoted && !repromised;
}

/* ---- the quorum guard ---- */

static bool check_release(struct bw_team *team, bw_node id, const struct bw_message *msg, char *why)
{
    const struct bw_team_node *node = &team->node[id - 1];
    bool acts = node->window.from <= team->now && node->window.until > team->now;
    bool volatile_epoch = msg->term > node->disk.promise_epoch;
    if (acts)
        snprintf(why, BW_EXPLORE_WHY, "node %u releases its promises while its work may run", id);
    else if (volatile_epoch)
        snprintf(why, BW_EXPLORE_WHY, "node %u releases epoch %llu, which is not durable", id,
                 (unsigned long long)msg->term);
    team->released[id - 1][id - 1] = (uint8_t)msg->term;
    return !acts && !volatile_epoch;
}

static bool check_promise(const struct bw_team *team, bw_node id, const struct bw_message *msg,
                          char *why)
{
    const struct bw_durable *disk = &team->node[id - 1].disk;
    const uint8_t *released = team->released[id - 1];
    bool yes = msg->flags & BW_FLAG_YES;
    bool again = yes && msg->term <= released[msg->to - 1];
    bool own = !yes && msg->promise.leader == id && msg->promise.left_ns > 0 &&
               disk->promised_to == id && disk->promise_epoch <= released[id - 1];
    if (again)
        snprintf(why, BW_EXPLORE_WHY, "node %u promises epoch %llu, which node %u has released", id,
                 (unsigned long long)msg->term, msg->to);
    else if (own)
        snprintf(why, BW_EXPLORE_WHY, "node %u refuses a claim for its own released promise", id);
    return !again && !own;
}

bool bw_team_sends(struct bw_team *team, bw_node id, const struct bw_message *msg, char *why)
{
    if (msg->kind == BW_MSG_RELEASE)
        return check_release(team, id, msg, why);
    return msg->kind != BW_MSG_PROMISE || check_promise(team, id, msg, why);
}

void bw_team_receives(struct bw_team *team, const struct bw_message *msg)
{
    if (msg->kind == BW_MSG_RELEASE)
        team->released[msg->to - 1][msg->from - 1] = (uint8_t)msg->term;
}

bool bw_team_timed_out(const struct bw_team *team, bw_node id, char *why)
{
    struct bw_elector_status status;
    bw_instance_status(team->instance[id - 1], 0, &status);
    if (team->settings->raft || !status.leading || team->node[id - 1].window.until > team->now)
        return true;
    snprintf(why, BW_EXPLORE_WHY, "node %u still leads after the end of its window", id);
    return false;
}

/* Whether Raft node `i` will not let another leader act before the window of `id` ends: it waits
 * for that window, it is that leader, or it will wait a whole promise after its restart. */
static bool waits_for(const struct bw_team *team, bw_node i, bw_node id)
{
    const struct bw_team_node *node = &team->node[i - 1];
    bw_time until = team->node[id - 1].window.until;
    if (node->up == BW_TEAM_DOWN)
        return node->disk.promised_ns >= team->settings->promise;
    const struct bw_raft_bound *bound = bw_team_raft(team, i)->bound;
    for (unsigned k = 0; k < BW_RAFT_BOUNDS; k++)
        if ((k == 0 || bound[k].to == id) && bound[k].until >= until)
            return true;
    return i == id;
}

/* The number of nodes that support the window of `id`: under the guard those with a durable promise
 * to it, with Raft those that entered its term and wait for its end. */
static uint32_t supporters(const struct bw_team *team, bw_node id)
{
    const struct bw_team_window *window = &team->node[id - 1].window;
    uint32_t count = 0;
    for (bw_node i = 1; i <= team->settings->nodes; i++) {
        const struct bw_durable *disk = &team->node[i - 1].disk;
        if (team->settings->raft)
            count += disk->term >= window->term && waits_for(team, i, id);
        else
            count += disk->promised_to == id;
    }
    return count;
}

bool bw_team_judge(struct bw_team *team, char *why)
{
    uint32_t need = team->settings->voters / 2 + 1;
    for (bw_node id = 1; id <= team->settings->nodes; id++) {
        struct bw_team_window *window = &team->node[id - 1].window;
        if (window->until <= team->now) {
            *window = (struct bw_team_window){0};
            continue;
        }
        uint32_t count = window->from <= team->now ? supporters(team, id) : need;
        if (count >= need)
            continue;
        snprintf(why, BW_EXPLORE_WHY, "node %u acts in term %llu with %u of %u durable promises",
                 id, (unsigned long long)window->term, count, need);
        return false;
    }
    return true;
}
