/* A leader that loses contact with a majority steps down (thesis §6.2).
 *
 * Otherwise its clients would wait for it, and nodes that still receive its heartbeats would not
 * help to elect another leader. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

/* When a leader without a majority steps down (thesis §6.2): one election timeout after the send
 * time that a majority last acknowledged. If its window ends later than that, it steps down at the
 * end of the window, but at most timeout_max after that send time. */
bw_time bw_raft_lost_at(const struct bw_raft *raft)
{
    return bw_time_max(raft->quorum_echo, raft->won_at) +
           bw_time_max(raft->timeout_min, bw_time_min(raft->lease, raft->timeout_max));
}

/* Computes the send time that a majority has acknowledged. This node counts as having acknowledged
 * everything it sent. */
void bw_raft_quorum_update(struct bw_raft *raft)
{
    bw_time newest[BW_RAFT_MEMBERS_MAX];
    uint32_t count = 0, need = bw_raft_voters(raft) / 2 + 1;
    bool self_counts = false;
    for (uint32_t i = 0; i < raft->peers; i++) {
        const struct bw_raft_peer *peer = &raft->peer[i];
        if (!peer->voter)
            continue;
        if (peer->id == raft->self) {
            self_counts = true;
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && newest[at - 1] < peer->acked; at--)
            newest[at] = newest[at - 1];
        newest[at] = peer->acked;
    }
    need -= self_counts;
    raft->quorum_echo = need == 0 ? raft->now : BW_ALWAYS(need <= count) ? newest[need - 1] : -1;
}

/* Steps down if the contact with a majority is lost. Returns false if it did. */
bool bw_raft_check_quorum(struct bw_raft *raft)
{
    bw_raft_quorum_update(raft);
    if (!raft->check_quorum || raft->now < bw_raft_lost_at(raft))
        return true;
    bw_raft_become_follower(raft, raft->term, BW_NODE_NONE, BW_LOSS_UNREACHABLE);
    return false;
}
