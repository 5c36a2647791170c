/* ReadIndex (§8, thesis §6.4): at which index is a read linearizable?
 *
 * At the commit index when the read was requested, or at the leader's first entry of its term if
 * that is later. Two conditions must hold before the answer: that index is committed, and a
 * majority has acknowledged an append that was sent no earlier than the request. Reads that arrive
 * during a round share the next one. No clock decides: leases limit work, not reads, because a hint
 * may end the assumption behind a lease early. */
#include "core/elect/raft/raft_state.h"

static struct bw_raft_read *read_at(struct bw_raft *raft, uint32_t i)
{
    return &raft->read[(raft->first_read + i) % BW_RAFT_READS_MAX];
}

/* Starts a round if the newest read needs one and no round is in progress. */
static void start_round(struct bw_raft *raft)
{
    if (raft->reads > 0 && read_at(raft, raft->reads - 1)->asked > raft->round_at &&
        raft->quorum_echo >= raft->round_at)
        bw_raft_broadcast(raft);
}

static int refusal(const struct bw_raft *raft)
{
    if (raft->role != BW_RAFT_LEADER)
        return BW_ENOTLEADER;
    if (raft->transfer_to != BW_NODE_NONE)
        return BW_ETRANSFERRING;
    return raft->reads >= BW_RAFT_READS_MAX ? BW_EBUSY : 0;
}

void bw_raft_read_ask(struct bw_raft *raft, const struct bw_command *command)
{
    int error = refusal(raft);
    if (error) {
        bw_raft_answer(raft, command->request, error, 0);
        return;
    }
    bw_index index = raft->commit > raft->term_start ? raft->commit : raft->term_start;
    *read_at(raft, raft->reads++) =
        (struct bw_raft_read){.request = command->request, .asked = raft->now, .index = index};
    bw_raft_quorum_update(raft);
    bw_raft_read_serve(raft);
}

void bw_raft_read_serve(struct bw_raft *raft)
{
    while (raft->reads > 0) {
        const struct bw_raft_read *read = read_at(raft, 0);
        bool confirmed = read->asked <= raft->quorum_echo || BW_BUG(raft_read_without_round);
        if (!confirmed || read->index > raft->commit)
            break;
        bw_raft_answer(raft, read->request, 0, read->index);
        raft->first_read = (raft->first_read + 1) % BW_RAFT_READS_MAX;
        raft->reads--;
    }
    start_round(raft);
}

/* Leadership ended, so the reads cannot be answered here. */
void bw_raft_read_fail(struct bw_raft *raft)
{
    for (uint32_t i = 0; i < raft->reads; i++)
        bw_raft_answer(raft, read_at(raft, i)->request, BW_ENOTLEADER, 0);
    raft->reads = 0;
}
