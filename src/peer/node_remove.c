/* Removes another member permanently: its row now says that it has left, with the same consequences
 * as when a member leaves (node_raft.c changes the voters). The leader announces it to all members
 * at once, because it might die while it alone knows. The roster's changes spread it further. */
#include "core/peer/removal_check.h"
#include "peer/node_state.h"

static bool is_alive(struct bw_peer *p, bw_node id)
{
    const struct peer_contact *contact = peer_contact(p, id);
    return contact && contact->status == BW_MEMBER_ALIVE;
}

/* Counts the voters that would decide without `node`. */
static void count_voters(struct bw_peer *p, bw_node node, struct bw_peer_removal *out)
{
    for (uint32_t i = 0; p->raft && i < p->roster.count; i++) {
        bw_node id = p->roster.at[i].row.id;
        peer_show(p, id, &p->shown);
        if (id == node || !p->shown.voter)
            continue;
        out->voters++;
        out->present += id == p->options.self || is_alive(p, id);
    }
}

static void send_to_all(struct bw_peer *p, const struct bw_peer_row *row)
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
                                      .alive = is_alive(p, node),
                                      .insists = insists,
                                      .founder = p->guarded && !p->raft &&
                                                 bw_peer_found_is_founder(&p->found, node)};
    count_voters(p, node, &removal);
    int error = bw_peer_removal_judge(&removal);
    if (error || !known || known->left)
        return error;
    struct bw_peer_row row = *known;
    row.left = true;
    struct bw_peer_rows rows = {.count = 1, .at = {row}};
    peer_meet_rows(p, p->options.self, &rows, NULL, false);
    if (!peer_save(p)) {
        peer_end(p, BW_EIO, "cannot write the members of the cluster to disk");
        return BW_EIO;
    }
    send_to_all(p, &row);
    return 0;
}
