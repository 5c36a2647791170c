/* The roster of a peer cluster: one row per member, sorted by id.
 *
 * A member writes its own row. The row with the highest incarnation counts; a member's incarnation
 * rises with every start. At equal incarnations "left" wins. Rows may therefore arrive in any
 * order, any number of times and from any member, and all rosters converge.
 *
 * Changed rows spread by gossip, as in SWIM (§4.1): a node sends each row about 3 log10(n) times,
 * to members chosen at random. Nodes compare digests to find rosters that still differ, and then
 * exchange rows.
 *
 * A member that left keeps its row until the space is needed, so that an old row does not add it
 * again. The roster is pure and bounded, in one block of the caller's memory. */
#ifndef BW_CORE_PEER_ROSTER_H
#define BW_CORE_PEER_ROSTER_H

#include "core/peer/frame.h"

struct bw_peer_item {
    struct bw_peer_row row;
    uint32_t sent; /* how often the row was sent since it changed */
};

struct bw_peer_roster {
    struct bw_peer_item *at;
    uint32_t count, cap;
    uint32_t left; /* how many of `count` have left */
};

size_t bw_peer_roster_bytes(uint32_t cap);
void bw_peer_roster_init(struct bw_peer_roster *roster, void *memory, uint32_t cap);

enum bw_peer_roster_change {
    BW_PEER_ROSTER_SAME,    /* known, or older than the known row */
    BW_PEER_ROSTER_CAME,    /* a new member, or one that had left */
    BW_PEER_ROSTER_RENEWED, /* restarted or moved */
    BW_PEER_ROSTER_LEFT,
    BW_PEER_ROSTER_FORGOT, /* same id from another directory; rejected */
    BW_PEER_ROSTER_FULL    /* no space; rejected */
};

/* Merges `row` if it is newer than the known one. With `trusting`, a node that lost its directory
 * may return under a higher incarnation; otherwise only a node that has left may. */
enum bw_peer_roster_change bw_peer_roster_take(struct bw_peer_roster *roster,
                                               const struct bw_peer_row *row, bool trusting);
/* Returns the row of `id`, valid until the next take, or NULL. */
const struct bw_peer_row *bw_peer_roster_find(const struct bw_peer_roster *roster, bw_node id);
/* Whether `id` is a member that has not left. */
bool bw_peer_roster_has(const struct bw_peer_roster *roster, bw_node id);
static inline uint32_t bw_peer_roster_members(const struct bw_peer_roster *roster)
{
    return roster->count - roster->left;
}

/* The digest depends only on the rows of present members, not on their order of arrival. */
uint64_t bw_peer_roster_digest(const struct bw_peer_roster *roster);

/* Fills `rows` with changed rows to send, the least sent first, as many as fit into a frame.
 * Returns their number. */
uint32_t bw_peer_roster_changes(struct bw_peer_roster *roster, struct bw_peer_rows *rows);
/* Fills `rows` with the rows from index *at on, as many as fit into a frame, and advances *at.
 * Returns their number. */
uint32_t bw_peer_roster_page(const struct bw_peer_roster *roster, uint32_t *at,
                             struct bw_peer_rows *rows);

#endif
