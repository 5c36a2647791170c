/* Another member is taken out for good: its row says from now on that it has left, and what follows
 * from that is what follows when somebody leaves (node_raft.c changes the voters). Everybody is
 * told at once, because a leader that knew it alone might die; the roster's news do the rest. */
#include "core/cluster/removal.h"
#include "peer/node_state.h"

static bool lives(struct bw_peer *p, bw_node id)
{
    const struct peer_mind *mind = peer_mind(p, id);
    return mind && mind->status == BW_MEMBER_ALIVE;
}

/* Those who would decide without `node`. */
static void count_voters(struct bw_peer *p, bw_node node, struct bw_peer_removal *out)
{
    for (uint32_t i = 0; p->raft && i < p->roster.count; i++) {
        bw_node id = p->roster.at[i].row.id;
        peer_show(p, id, &p->shown);
        if (id == node || !p->shown.voter)
            continue;
        out->voters++;
        out->present += id == p->options.self || lives(p, id);
    }
}

static void tell_all(struct bw_peer *p, const struct bw_peer_row *row)
{
    p->out.kind = BW_PEER_ROSTER;
    p->out.rows.count = 1;
    p->out.rows.at[0] = *row;
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *to = &p->roster.at[i].row;
        if (to->id == p->options.self || (to->left && to->id != row->id))
            continue;
        p->counters.roster_frames++;
        peer_send(p, to->id);
    }
}

int peer_remove(struct bw_peer *p, bw_node node, bool insists)
{
    const struct bw_peer_row *known = bw_peer_roster_find(&p->roster, node);
    struct bw_peer_removal removal = {.self = p->options.self,
                                      .node = node,
                                      .known = known != NULL,
                                      .left = known && known->left,
                                      .alive = lives(p, node),
                                      .insists = insists,
                                      .founder = p->guarded && !p->raft &&
                                                 bw_peer_found_founder(&p->found, node)};
    count_voters(p, node, &removal);
    int error = bw_peer_removal_judge(&removal);
    if (error || !known || known->left)
        return error;
    struct bw_peer_row row = *known;
    row.left = true;
    struct bw_peer_rows rows = {.count = 1, .at = {row}};
    peer_meet_rows(p, p->options.self, &rows, NULL, false);
    if (!peer_save(p)) {
        peer_end(p, BW_EIO, "cannot write down who belongs to the cluster");
        return BW_EIO;
    }
    tell_all(p, &row);
    return 0;
}
