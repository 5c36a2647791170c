/* Limits the bytes of entries that are on their way to one follower.
 *
 * Model. Raft decides without sizes: it sends up to 64 appends of 1,024 entries each before it
 * waits for a reply. Entries of 1 MB would fill a connection for seconds. So the leader keeps the
 * appends of each follower here, without the bytes of their entries. It sends them in their order,
 * in pieces of about BW_APPEND_PIECE bytes, while less than BW_APPEND_WINDOW bytes are
 * unacknowledged.
 *
 * A heartbeat must not wait behind entries. While many bytes are on their way, the leader sends two
 * messages instead of one, both of which Raft could have sent itself:
 *   contact   no entries, and prev_index is what the follower has acknowledged. It may overtake the
 *             entries: the follower cannot reject it. The follower answers at once with what is
 *             durable, so the answer promises nothing new.
 *   check     no entries, and prev_index is the last entry that was sent. It follows the entries. A
 *             follower that lost one of them rejects it, and Raft sends the entries again.
 *
 * Guarantees: appends with entries are sent in the order of the log, without gaps unless Raft
 * itself leaves one. At least one piece is sent when no byte is unacknowledged, whatever its
 * size. */
#ifndef BW_CORE_REPLICA_APPEND_WINDOW_H
#define BW_CORE_REPLICA_APPEND_WINDOW_H

#include "core/base/limits.h"
#include "core/base/message.h"

/* Large enough for a connection with 100 MB/s and 40 ms; a follower writes it to its disk well
 * within a heartbeat. */
#define BW_APPEND_WINDOW ((uint64_t)4 << 20)
#define BW_APPEND_PIECE  ((uint64_t)512 << 10)
/* Fewer unacknowledged bytes than this do not delay a heartbeat. */
#define BW_APPEND_LITTLE ((uint64_t)128 << 10)

/* Invariants:
 *   start <= sent <= tail
 *   the pending appends hold the entries from sent + 1 to tail */
struct bw_append_window {
    bw_term term;   /* of the appends; 0: unused */
    bw_index start; /* entries up to here were sent before, or are known to match */
    bw_index sent;  /* last entry that was sent */
    bw_index tail;  /* last entry of the pending appends */
    bw_time contacted;
    uint32_t first, count;
    struct bw_message pending[BW_RAFT_INFLIGHT_MAX];
};

/* Forgets the pending appends: they were lost, or the leadership ended. */
void bw_append_window_reset(struct bw_append_window *window);
/* Adds an append that has entries. One that does not continue the previous ones replaces them: Raft
 * has learned what the follower has. Returns false if Raft repeats the append that was sent first:
 * a probe that is not answered yet. Then only the message without its entries is to be sent. If
 * Raft repeats the append again, its entries are sent again. */
bool bw_append_window_push(struct bw_append_window *window, const struct bw_message *append);
/* The number of pending entries of the oldest append. */
uint32_t bw_append_window_entries(const struct bw_append_window *window);
/* Whether a piece of `bytes` may be sent while `unacknowledged` bytes are on their way. */
bool bw_append_window_allows(uint64_t unacknowledged, uint64_t bytes);
/* Takes the first `entries` of the oldest append as an append of its own. */
void bw_append_window_take(struct bw_append_window *window, uint32_t entries,
                           struct bw_message *out);
/* Turns an append into one without entries that follows the entry `prev`. */
void bw_append_without_entries(struct bw_message *append, bw_index prev, bw_term prev_term);

#endif
