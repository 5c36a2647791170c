/* Who is a member: one row per node, the newest word of each, sorted by id.
 *
 * A row is its node's own word and counts by its incarnation, which rises with every start; at the
 * same incarnation "left" beats the rest. So rows may come in any order, any number of times, from
 * anybody, and all rosters end up the same. News spread like SWIM's: each goes out some 3 log10(n)
 * times, on frames to members chosen at random; two rosters that came to differ all the same are
 * found by their digests and settled row by row.
 *
 * Who left keeps its row until the room is needed, so that old news does not bring it back. Pure,
 * bounded, in one block of the caller's memory. */
#ifndef BW_PEER_ROSTER_H
#define BW_PEER_ROSTER_H

#include "core/cluster/frame.h"

struct bw_peer_item {
    struct bw_peer_row row;
    uint32_t told; /* how often the row went out since it changed */
};

struct bw_peer_roster {
    struct bw_peer_item *at;
    uint32_t count, cap;
    uint32_t left; /* of count */
};

size_t bw_peer_roster_bytes(uint32_t cap);
void bw_peer_roster_init(struct bw_peer_roster *roster, void *memory, uint32_t cap);

enum bw_peer_roster_change {
    BW_PEER_ROSTER_SAME,    /* known, or older than what is known */
    BW_PEER_ROSTER_CAME,    /* a member that was not there, or had left */
    BW_PEER_ROSTER_RENEWED, /* started again, or moved */
    BW_PEER_ROSTER_LEFT,
    BW_PEER_ROSTER_FORGOT, /* the same id from a directory that is not the one known; not taken */
    BW_PEER_ROSTER_FULL    /* no room; not taken */
};

/* Takes a row in if it is news. `trusting`: a node that lost its directory may come back with a
 * higher incarnation; without it only one that has left may. */
enum bw_peer_roster_change bw_peer_roster_take(struct bw_peer_roster *roster,
                                               const struct bw_peer_row *row, bool trusting);
/* Valid until the next take; NULL: not known. */
const struct bw_peer_row *bw_peer_roster_find(const struct bw_peer_roster *roster, bw_node id);
/* Not left. */
bool bw_peer_roster_has(const struct bw_peer_roster *roster, bw_node id);
static inline uint32_t bw_peer_roster_members(const struct bw_peer_roster *roster)
{
    return roster->count - roster->left;
}

/* The same for rosters with the same rows, whatever order they came in. */
uint64_t bw_peer_roster_digest(const struct bw_peer_roster *roster);

/* Fills `rows` with news to tell, those told least first, as many as a frame holds; returns how
 * many. */
uint32_t bw_peer_roster_news(struct bw_peer_roster *roster, struct bw_peer_rows *rows);
/* Fills `rows` with the rows from place *at on, as many as a frame holds, and moves *at on; returns
 * how many. */
uint32_t bw_peer_roster_page(const struct bw_peer_roster *roster, uint32_t *at,
                             struct bw_peer_rows *rows);

#endif
