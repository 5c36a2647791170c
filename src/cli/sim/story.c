/* Describes the moments of a timeline in sentences. */
#include "cli/sim/timeline.h"

#include <string.h>

static const char *loss_text(const struct bw_timeline *t, enum bw_loss reason)
{
    if (reason == BW_LOSS_EXPIRED)
        return t->lease ? "its lease expired" : "its promises expired";
    if (reason == BW_LOSS_UNREACHABLE)
        return t->lease ? "it cannot reach the store" : "it cannot reach a majority";
    static const char *const texts[] = {
        [BW_LOSS_NONE] = "another node leads",
        [BW_LOSS_TAKEN] = "another node was elected",
        [BW_LOSS_RESIGNED] = "it resigned",
        [BW_LOSS_TRANSFERRED] = "it transferred leadership",
        [BW_LOSS_UNHEALTHY] = "it was unhealthy",
        [BW_LOSS_SHUT_DOWN] = "it is shutting down",
    };
    bool has_text = reason <= BW_LOSS_SHUT_DOWN && texts[reason];
    return has_text ? texts[reason] : "for an unknown reason";
}

static void groups_text(const uint8_t *groups, uint32_t nodes, char *out, size_t size)
{
    size_t used = 0;
    bool first = true;
    out[0] = '\0';
    for (unsigned group = 0; group < 256; group++)
        for (bw_node id = 1, any = 0; id <= nodes && used < size; id++) {
            if (groups[id] != group)
                continue;
            const char *gap = any && group ? "," : first ? "" : " / ";
            used += (size_t)snprintf(out + used, size - used, "%s%u", gap, id);
            any = 1;
            first = false;
        }
}

/* Describes a fault that needs only the node's number. */
static const char *plain_fault(enum bw_sim_fault_kind kind)
{
    switch (kind) {
    case BW_FAULT_CRASH:
        return "crashes";
    case BW_FAULT_RESTART:
        return "restarts";
    case BW_FAULT_PAUSE:
        return "is paused";
    case BW_FAULT_RESUME:
        return "resumes";
    case BW_FAULT_CONFIRM:
        return "is confirmed dead";
    case BW_FAULT_JOIN:
        return "joins";
    case BW_FAULT_LEAVE:
        return "leaves cleanly";
    case BW_FAULT_CAMPAIGN:
        return "is asked to campaign";
    case BW_FAULT_RESIGN:
        return "is asked to resign";
    case BW_FAULT_DISK_FAIL:
        return "has a failing disk";
    case BW_FAULT_WIPE:
        return "loses its disk";
    case BW_FAULT_KILL:
        return "is killed; its work runs on";
    case BW_FAULT_REMOVE:
        return "is removed by the operator";
    case BW_FAULT_SECOND:
        return "gets a second process with its id";
    case BW_FAULT_UNABLE:
        return "becomes unable to lead";
    case BW_FAULT_ABLE:
        return "is able to lead again";
    default:
        return NULL;
    }
}

static void network_fault(const struct bw_sim_fault *fault, uint32_t nodes, char *out, size_t size)
{
    char text[BW_TEXT_SPAN], list[160];
    switch (fault->kind) {
    case BW_FAULT_PARTITION:
        groups_text(fault->groups, nodes, list, sizeof list);
        snprintf(out, size, "the network splits: %s", list);
        return;
    case BW_FAULT_HEAL:
        snprintf(out, size, "the network heals");
        return;
    case BW_FAULT_CUT:
        snprintf(out, size, "messages from %u to %u are cut off", fault->node, fault->peer);
        return;
    case BW_FAULT_MEND:
        snprintf(out, size, "messages from %u to %u arrive again", fault->node, fault->peer);
        return;
    case BW_FAULT_LOSS:
        snprintf(out, size, "%.3g %% of messages are lost", fault->rate * 100);
        return;
    case BW_FAULT_LATENCY:
        snprintf(out, size, "latency changes to at most %s",
                 bw_term_span(text, fault->latency.max));
        return;
    case BW_FAULT_STORE_DOWN:
        snprintf(out, size, "the store becomes unavailable");
        break;
    case BW_FAULT_STORE_UP:
        snprintf(out, size, "the store is available again");
        break;
    default:
        snprintf(out, size, "the leader is asked to transfer leadership to %u", fault->peer);
    }
}

void bw_story_fault(const struct bw_sim_fault *fault, bw_node node, uint32_t nodes, char *out,
                    size_t size)
{
    char text[BW_TEXT_SPAN];
    bw_time span = fault->span < 0 ? -fault->span : fault->span;
    const char *plain = plain_fault(fault->kind);
    if (plain) {
        snprintf(out, size, "node %u %s", node, plain);
        return;
    }
    switch (fault->kind) {
    case BW_FAULT_DRIFT:
        snprintf(out, size, "the clock of node %u runs %+.3g %%", node, fault->rate * 100);
        return;
    case BW_FAULT_JUMP:
        snprintf(out, size, "the wall clock of node %u jumps by %s%s", node,
                 fault->span < 0 ? "-" : "+", bw_term_span(text, span));
        return;
    case BW_FAULT_DISK_SLOW:
        snprintf(out, size, "each write to the disk of node %u takes %s", node,
                 bw_term_span(text, span));
        return;
    case BW_FAULT_HINT:
        snprintf(out, size, "node %u sees its connection to %u close", node, fault->peer);
        return;
    default:
        network_fault(fault, nodes, out, size);
    }
}

static void fault_sentence(const struct bw_timeline *t, const struct bw_moment *m, char *out,
                           size_t size)
{
    enum bw_sim_fault_kind kind = m->fault.kind;
    bool strikes = kind == BW_FAULT_CRASH || kind == BW_FAULT_PAUSE || kind == BW_FAULT_LEAVE;
    bw_story_fault(&m->fault, m->node, t->nodes, out, size);
    size_t used = strlen(out);
    if (!m->led || used >= size)
        return;
    if (kind == BW_FAULT_RESUME)
        snprintf(out + used, size - used, " and still claims to lead");
    else if (strikes && m->term)
        snprintf(out + used, size - used, "; it led term %llu", (unsigned long long)m->term);
    else if (strikes)
        snprintf(out + used, size - used, "; it was the leader");
}

static void lead_sentence(const struct bw_moment *m, char *out, size_t size)
{
    char how[80], act[48] = "", token[40] = "", text[BW_TEXT_SPAN];
    unsigned long long term = m->term;
    if (m->votes)
        snprintf(how, sizeof how, "wins term %llu with %u of %u votes", term, m->votes, m->voters);
    else
        snprintf(how, sizeof how, "becomes the leader (term %llu)", term);
    if (m->act_from > m->at)
        snprintf(act, sizeof act, ", may act from %s", bw_term_span(text, m->act_from));
    if (m->token)
        snprintf(token, sizeof token, ", token %llu", (unsigned long long)m->token);
    snprintf(out, size, "node %u %s%s%s", m->node, how, act, token);
}

/* Returns whether the same sentence was printed since the last fault or change of leader. */
static bool is_repeated(const struct bw_timeline *t, uint32_t i)
{
    const struct bw_moment *m = &t->moments[i];
    while (i-- > 0) {
        const struct bw_moment *before = &t->moments[i];
        if (before->kind == BW_MOMENT_FAULT)
            return false;
        if (m->kind == BW_MOMENT_STANDS && before->kind == BW_MOMENT_LEADS)
            return false;
        bool same_node = m->kind == BW_MOMENT_STANDS || before->node == m->node;
        if (before->kind == m->kind && same_node)
            return true;
    }
    return false;
}

/* Returns whether the candidate at moment i is the next leader, and this its first candidacy since
 * the last fault or change of leader. */
static bool wins(const struct bw_timeline *t, uint32_t i)
{
    bw_node node = t->moments[i].node;
    for (uint32_t k = i; k-- > 0;) {
        const struct bw_moment *m = &t->moments[k];
        if (m->kind == BW_MOMENT_LEADS || m->kind == BW_MOMENT_FAULT)
            break;
        if (m->kind == BW_MOMENT_STANDS && m->node == node)
            return false;
    }
    for (uint32_t k = i + 1; k < t->moments_count; k++)
        if (t->moments[k].kind == BW_MOMENT_LEADS)
            return t->moments[k].node == node;
    return false;
}

bool bw_story_sentence(const struct bw_timeline *timeline, uint32_t i, char *out, size_t size)
{
    const struct bw_moment *m = &timeline->moments[i];
    char lasts[BW_TEXT_SPAN];
    switch (m->kind) {
    case BW_MOMENT_FAULT:
        fault_sentence(timeline, m, out, size);
        return true;
    case BW_MOMENT_SUSPECTS:
        snprintf(out, size, "node %u is the first to suspect %u", m->node, m->other);
        return true;
    case BW_MOMENT_STANDS:
        snprintf(out, size, "node %u becomes a candidate", m->node);
        return !is_repeated(timeline, i) || wins(timeline, i);
    case BW_MOMENT_LEADS:
        lead_sentence(m, out, size);
        return true;
    case BW_MOMENT_LOSES:
        snprintf(out, size, "node %u stops leading: %s", m->node, loss_text(timeline, m->reason));
        return true;
    case BW_MOMENT_AGREED:
        snprintf(out, size, "all %u running nodes follow %u", m->alive, m->node);
        return true;
    case BW_MOMENT_TWO:
        snprintf(out, size, "SPLIT BRAIN: %u and %u both act for %s", m->node, m->other,
                 bw_term_span(lasts, m->lasts));
        return true;
    case BW_MOMENT_STALE:
        snprintf(out, size, "a stale write of node %u is %s", m->node,
                 m->accepted ? "ACCEPTED" : "rejected");
        return !is_repeated(timeline, i);
    }
    return false;
}
