/* The other members' views of an election, for display. Nothing is decided by them.
 *
 * They are asked for only when the owner wants to show them: bw_peer_ask_views sends each member
 * the query that a client sends (`bellwether peer status`), and keeps the answers. The table is
 * allocated by the first call and holds BW_PEER_VIEWS_MAX members. */
#include "os/clock.h"
#include "peer/node_state.h"

#include <stdlib.h>

struct peer_view {
    bw_node node; /* NONE: free */
    bw_time at;
    struct bw_peer_election_view standing;
};

struct peer_views {
    uint32_t election;
    struct peer_view at[BW_PEER_VIEWS_MAX];
};

void bw_peer_ask_views(struct bw_peer *p, uint32_t election)
{
    if (!p->views)
        p->views = calloc(1, sizeof *p->views);
    if (!p->views || p->dead || election >= p->elections)
        return;
    p->views->election = election;
    uint32_t asked = 0;
    for (uint32_t i = 0; i < p->roster.count && asked < BW_PEER_VIEWS_MAX; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        if (row->left || row->id == p->options.self)
            continue;
        p->out.kind = BW_PEER_QUERY;
        p->out.query = (struct bw_peer_query){.what = BW_PEER_ASK_ELECTIONS, .first = election};
        peer_send(p, row->id);
        asked++;
    }
}

static struct peer_view *slot_of(struct peer_views *views, bw_node node)
{
    struct peer_view *oldest = &views->at[0];
    for (uint32_t i = 0; i < BW_PEER_VIEWS_MAX; i++) {
        if (views->at[i].node == node)
            return &views->at[i];
        if (views->at[i].at < oldest->at)
            oldest = &views->at[i];
    }
    return oldest; /* free rows are the oldest */
}

void peer_take_view(struct bw_peer *p, bw_node from, const struct bw_peer_view *view)
{
    if (!p->views || view->what != BW_PEER_ASK_ELECTIONS || view->count == 0 ||
        view->standing[0].election != p->views->election || !bw_peer_roster_has(&p->roster, from))
        return;
    *slot_of(p->views, from) =
        (struct peer_view){.node = from, .at = bw_clock_boot(), .standing = view->standing[0]};
}

bool bw_peer_view_of(const struct bw_peer *p, bw_node node, struct bw_peer_election_view *out,
                     bw_time *age)
{
    for (uint32_t i = 0; p->views && i < BW_PEER_VIEWS_MAX; i++)
        if (node != BW_NODE_NONE && p->views->at[i].node == node) {
            *out = p->views->at[i].standing;
            *age = bw_clock_boot() - p->views->at[i].at;
            return true;
        }
    return false;
}
