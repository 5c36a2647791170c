/* Handles nodes with other settings than ours (rules.h). Either the other node must end, or we do.
 * Until then, its messages about elections are ignored. */
#include "os/clock.h"
#include "peer/node_state.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 127u

void peer_rules_own(const struct bw_peer *p, struct bw_peer_rules *out)
{
    memset(out, 0, sizeof *out);
    out->elections = (uint16_t)p->elections;
    out->quorum = p->options.quorum && !p->raft;
    out->formed = p->formed;
    out->age_ms = (uint64_t)((bw_clock_boot() - p->started_at) / BW_MS);
    if (p->guarded)
        out->promise_ns = (uint64_t)bw_elector_promise(&p->options.elect);
    if (p->raft)
        snprintf(out->algorithm, sizeof out->algorithm, "%s, protocol %u",
                 p->options.algorithm->name, BW_PEER_RAFT_PROTOCOL);
    else
        snprintf(out->algorithm, sizeof out->algorithm, "%s", p->options.algorithm->name);
}

bool peer_rules_mismatched(const struct bw_peer *p, bw_node id)
{
    for (uint32_t i = 0; i < PEER_MISMATCHED; i++)
        if (p->mismatched[i] == id && id != BW_NODE_NONE)
            return true;
    return false;
}

static void forget_mismatch(struct bw_peer *p, bw_node id)
{
    for (uint32_t i = 0; i < PEER_MISMATCHED; i++)
        if (p->mismatched[i] == id)
            p->mismatched[i] = BW_NODE_NONE;
}

/* Reports each node once, until it has the same settings or another node replaces it in the
 * list. */
static void report_mismatch(struct bw_peer *p, bw_node id, const char *line)
{
    if (peer_rules_mismatched(p, id))
        return;
    p->mismatched[p->mismatched_next++ % PEER_MISMATCHED] = id;
    if (p->options.differs)
        p->options.differs(p->options.context, id, line);
}

/* Writes settings as command-line options, followed by the duration of the promises. */
static void put_text(const struct bw_peer_rules *rules, char out[TEXT_MAX + 1])
{
    char shards[32] = "", promise[48] = "";
    if (rules->elections > 1)
        snprintf(shards, sizeof shards, " --shards %u", (unsigned)rules->elections);
    if (rules->promise_ns)
        snprintf(promise, sizeof promise, ", promises of %llu ms",
                 (unsigned long long)(rules->promise_ns / (uint64_t)BW_MS));
    snprintf(out, TEXT_MAX + 1, "--algorithm %s%s%s%s", rules->algorithm,
             rules->quorum ? " --quorum" : "", shards, promise);
}

/* Names the options behind a difference that put_text cannot show: peers send only the duration of
 * a promise, not the options that it follows from (store/peer/settings.c). */
static const char *cause(const struct bw_peer_rules *own, const struct bw_peer_rules *received)
{
    if (own->promise_ns == received->promise_ns || !own->promise_ns || !received->promise_ns)
        return "";
    return " (promises follow from --ttl, --period, --detect below 500ms, and --drift above 9%)";
}

bool peer_rules_received(struct bw_peer *p, bw_node from, const struct bw_peer_rules *received)
{
    struct bw_peer_rules own;
    char here[TEXT_MAX + 1], there[TEXT_MAX + 1];
    char line[BW_PEER_WHY_MAX + 1];
    peer_rules_own(p, &own);
    enum bw_peer_rules_verdict verdict = bw_peer_rules_judge(p->options.self, &own, from, received);
    if (verdict == BW_PEER_RULES_SAME) {
        forget_mismatch(p, from);
        return true;
    }
    put_text(&own, here);
    put_text(received, there);
    snprintf(line, sizeof line,
             "peer %u runs with %s, this peer with %s: all peers must have the same settings%s. %s",
             from, there, here, cause(&own, received),
             verdict == BW_PEER_RULES_SELF_LEAVES
                 ? "Start this peer with the settings of the others; to change them, stop all peers"
                 : "Its messages are ignored; restart it with the same settings");
    if (verdict == BW_PEER_RULES_SELF_LEAVES)
        peer_end(p, BW_EINVAL, line);
    else
        report_mismatch(p, from, line);
    return false;
}
