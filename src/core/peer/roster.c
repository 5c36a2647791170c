/* The roster; see roster.h. */
#include "core/peer/roster.h"

#include <string.h>

#define SEND_FACTOR 3u
#define TAKEN       1000u

size_t bw_peer_roster_bytes(uint32_t cap)
{
    return cap * sizeof(struct bw_peer_item);
}

void bw_peer_roster_init(struct bw_peer_roster *roster, void *memory, uint32_t cap)
{
    *roster = (struct bw_peer_roster){.at = memory, .cap = cap};
}

static uint32_t place_of(const struct bw_peer_roster *roster, bw_node id)
{
    uint32_t low = 0, high = roster->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (roster->at[middle].row.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct bw_peer_item *item_of(const struct bw_peer_roster *roster, bw_node id)
{
    uint32_t i = place_of(roster, id);
    return i < roster->count && roster->at[i].row.id == id ? &roster->at[i] : NULL;
}

const struct bw_peer_row *bw_peer_roster_find(const struct bw_peer_roster *roster, bw_node id)
{
    const struct bw_peer_item *item = item_of(roster, id);
    return item ? &item->row : NULL;
}

bool bw_peer_roster_has(const struct bw_peer_roster *roster, bw_node id)
{
    const struct bw_peer_item *item = item_of(roster, id);
    return item && !item->row.left;
}

static void drop(struct bw_peer_roster *roster, uint32_t i)
{
    roster->left -= roster->at[i].row.left;
    roster->count--;
    memmove(&roster->at[i], &roster->at[i + 1], (roster->count - i) * sizeof roster->at[0]);
}

/* Drops one member that has left: the one whose row was sent most often. */
static bool drop_one_that_left(struct bw_peer_roster *roster)
{
    uint32_t best = roster->count;
    for (uint32_t i = 0; i < roster->count; i++)
        if (roster->at[i].row.left &&
            (best == roster->count || roster->at[i].sent > roster->at[best].sent))
            best = i;
    if (best == roster->count)
        return false;
    drop(roster, best);
    return true;
}

static enum bw_peer_roster_change add(struct bw_peer_roster *roster, const struct bw_peer_row *row)
{
    if (row->left && roster->count == roster->cap)
        return BW_PEER_ROSTER_SAME;
    if (roster->count == roster->cap && !drop_one_that_left(roster))
        return BW_PEER_ROSTER_FULL;
    uint32_t i = place_of(roster, row->id);
    memmove(&roster->at[i + 1], &roster->at[i], (roster->count - i) * sizeof roster->at[0]);
    roster->at[i] = (struct bw_peer_item){.row = *row};
    roster->count++;
    roster->left += row->left;
    return row->left ? BW_PEER_ROSTER_SAME : BW_PEER_ROSTER_CAME;
}

static bool newer(const struct bw_peer_row *row, const struct bw_peer_row *known)
{
    return row->incarnation > known->incarnation ||
           (row->incarnation == known->incarnation && row->left && !known->left);
}

/* Directory 0: the row comes from a file and not from the member itself. */
static bool forgot(const struct bw_peer_row *row, const struct bw_peer_row *known)
{
    return row->directory != known->directory && known->directory != 0 && row->directory != 0;
}

enum bw_peer_roster_change bw_peer_roster_take(struct bw_peer_roster *roster,
                                               const struct bw_peer_row *row, bool trusting)
{
    struct bw_peer_item *item = item_of(roster, row->id);
    if (!item)
        return add(roster, row);
    if (forgot(row, &item->row) && !(trusting && newer(row, &item->row)) &&
        !(item->row.left && newer(row, &item->row)))
        return BW_PEER_ROSTER_FORGOT;
    if (!newer(row, &item->row))
        return BW_PEER_ROSTER_SAME;
    bool was_left = item->row.left;
    roster->left += row->left;
    roster->left -= was_left;
    *item = (struct bw_peer_item){.row = *row};
    if (row->left)
        return was_left ? BW_PEER_ROSTER_SAME : BW_PEER_ROSTER_LEFT;
    return was_left ? BW_PEER_ROSTER_CAME : BW_PEER_ROSTER_RENEWED;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t bw_peer_roster_digest(const struct bw_peer_roster *roster)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct bw_peer_row *row = &roster->at[i].row;
        if (!row->left) /* rows of members that left may be dropped at any time */
            sum += mix(row->directory ^ mix((uint64_t)row->id << 32 | row->incarnation));
    }
    return sum;
}

static uint32_t send_limit(const struct bw_peer_roster *roster)
{
    uint32_t digits = 1;
    for (uint32_t n = bw_peer_roster_members(roster); n >= 10; n /= 10)
        digits++;
    return SEND_FACTOR * digits;
}

static bool fits(struct bw_peer_rows *rows, size_t *bytes, const struct bw_peer_row *row)
{
    size_t more = bw_peer_row_bytes(row);
    if (rows->count == BW_PEER_ROWS_MAX || *bytes + more > BW_PEER_FRAME_MAX)
        return false;
    *bytes += more;
    rows->at[rows->count++] = *row;
    return true;
}

/* The least sent rows go first: one pass over the roster per count, until the frame is full. A
 * taken row is marked with a count that no later pass looks for. */
uint32_t bw_peer_roster_changes(struct bw_peer_roster *roster, struct bw_peer_rows *rows)
{
    size_t bytes = 1;
    uint32_t limit = send_limit(roster);
    rows->count = 0;
    for (uint32_t sent = 0; sent < limit; sent++)
        for (uint32_t i = 0; i < roster->count; i++) {
            struct bw_peer_item *item = &roster->at[i];
            if (item->sent == sent && fits(rows, &bytes, &item->row))
                item->sent = TAKEN + sent + 1;
        }
    for (uint32_t i = 0; i < roster->count; i++)
        if (roster->at[i].sent > TAKEN)
            roster->at[i].sent -= TAKEN;
    return rows->count;
}

uint32_t bw_peer_roster_page(const struct bw_peer_roster *roster, uint32_t *at,
                             struct bw_peer_rows *rows)
{
    size_t bytes = 1;
    rows->count = 0;
    while (*at < roster->count && fits(rows, &bytes, &roster->at[*at].row))
        ++*at;
    return rows->count;
}
