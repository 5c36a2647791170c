/* Who takes part with other settings than ours (rules.h): it is told so, or we are; until it has
 * gone it is not heard in elections. */
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
    out->age_ms = (uint64_t)((peer_now() - p->started_at) / BW_MS);
    if (p->guarded)
        out->promise_ns = (uint64_t)bw_elector_promise(&p->options.elect);
    if (p->raft)
        snprintf(out->algorithm, sizeof out->algorithm, "%s, protocol %u",
                 p->options.algorithm->name, BW_PEER_RAFT_PROTOCOL);
    else
        snprintf(out->algorithm, sizeof out->algorithm, "%s", p->options.algorithm->name);
}

bool peer_rules_odd(const struct bw_peer *p, bw_node id)
{
    for (uint32_t i = 0; i < PEER_ODD; i++)
        if (p->odd[i] == id && id != BW_NODE_NONE)
            return true;
    return false;
}

static void forget_odd(struct bw_peer *p, bw_node id)
{
    for (uint32_t i = 0; i < PEER_ODD; i++)
        if (p->odd[i] == id)
            p->odd[i] = BW_NODE_NONE;
}

/* Once for each, until it has the same settings or another took its place in the list. */
static void tell(struct bw_peer *p, bw_node id, const char *line)
{
    if (peer_rules_odd(p, id))
        return;
    p->odd[p->odd_next++ % PEER_ODD] = id;
    if (p->options.differs)
        p->options.differs(p->options.context, id, line);
}

/* As the flags that were given, and what follows from them. */
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

bool peer_rules_heard(struct bw_peer *p, bw_node from, const struct bw_peer_rules *said)
{
    struct bw_peer_rules own;
    char here[TEXT_MAX + 1], there[TEXT_MAX + 1];
    char line[BW_PEER_WHY_MAX + 1];
    peer_rules_own(p, &own);
    enum bw_peer_rules_verdict verdict = bw_peer_rules_judge(p->options.self, &own, from, said);
    if (verdict == BW_PEER_RULES_SAME) {
        forget_odd(p, from);
        return true;
    }
    put_text(&own, here);
    put_text(said, there);
    snprintf(line, sizeof line,
             "peer %u takes part with %s, this one with %s: all peers must have the same. %s", from,
             there, here,
             verdict == BW_PEER_RULES_WE_GO
                 ? "Start this one with what the others have; to change it, end all of them first"
                 : "It is not heard, and has to end");
    if (verdict == BW_PEER_RULES_WE_GO)
        peer_end(p, BW_EINVAL, line);
    else
        tell(p, from, line);
    return false;
}
