/* The log as Raft needs it: the term at each index, and how far the log is durable. Terms are
 * stored as runs, so a look-up near the end takes one comparison and any other a binary search.
 *
 * Writes are acknowledged by index and term. An acknowledgement with another term than ours at that
 * index belongs to a write that was truncated, and is ignored. Index and term alone could be
 * ambiguous: an entry may be truncated and appended again while its first write is in flight. So
 * after a truncation the next one waits until the rewritten part is acknowledged (rewritten_from).
 * Acknowledgements arrive in the order of the writes, so no old one is outstanding then. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

#include <string.h>

uint32_t bw_raft_log_run_of(const struct bw_raft_log *log, bw_index index)
{
    uint32_t low = 0, high = log->runs;
    if (BW_ALWAYS(high > 0) && log->run[high - 1].first <= index)
        return high - 1;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (log->run[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bw_term bw_raft_log_term(const struct bw_raft_log *log, bw_index index)
{
    if (index == log->last)
        return log->last_term;
    if (index == log->snapshot_index)
        return log->snapshot_term;
    if (index < log->snapshot_index || index > log->last)
        return 0;
    return log->run[bw_raft_log_run_of(log, index)].term;
}

bw_index bw_raft_log_run_end(const struct bw_raft_log *log, uint32_t run)
{
    return run + 1 < log->runs ? log->run[run + 1].first - 1 : log->last;
}

/* The largest index up to `index` whose term is at most `term`: up to there two logs may agree. At
 * or below the snapshot, terms are unknown and the function returns the index itself. */
bw_index bw_raft_log_find(const struct bw_raft_log *log, bw_index index, bw_term term)
{
    if (BW_NEVER(index > log->last))
        index = log->last;
    while (index > log->snapshot_index) {
        const struct bw_raft_run *run = &log->run[bw_raft_log_run_of(log, index)];
        if (run->term <= term)
            return index;
        index = run->first - 1;
    }
    return index;
}

/* Returns false if the entries begin a new term and the table of runs is full. */
bool bw_raft_log_append(struct bw_raft_log *log, bw_term term, uint32_t count)
{
    if (log->runs == 0 || log->run[log->runs - 1].term != term) {
        if (bw_raft_log_full(log))
            return false;
        log->run[log->runs++] = (struct bw_raft_run){.first = log->last + 1, .term = term};
    }
    log->last += count;
    log->last_term = term;
    return true;
}

void bw_raft_log_truncate(struct bw_raft_log *log, bw_index from)
{
    BW_ASSERT(from > log->snapshot_index);
    if (log->last > log->durable && BW_ALWAYS(log->rewritten_from == 0))
        log->rewritten_from = from;
    while (log->runs > 0 && log->run[log->runs - 1].first >= from)
        log->runs--;
    log->last = from - 1;
    log->last_term = log->runs > 0 ? log->run[log->runs - 1].term : log->snapshot_term;
    if (log->durable > log->last)
        log->durable = log->last;
}

void bw_raft_log_compact(struct bw_raft_log *log, bw_index index)
{
    uint32_t run = bw_raft_log_run_of(log, index);
    log->snapshot_term = bw_raft_log_term(log, index);
    log->snapshot_index = index;
    uint32_t drop = run;
    if (bw_raft_log_run_end(log, run) > index)
        log->run[run].first = index + 1;
    else
        drop++;
    log->runs -= drop;
    memmove(log->run, log->run + drop, log->runs * sizeof log->run[0]);
}

/* A snapshot replaces the whole log. Nothing is durable until its write is acknowledged. */
void bw_raft_log_restore(struct bw_raft_log *log, bw_index index, bw_term term)
{
    log->snapshot_index = log->last = index;
    log->snapshot_term = log->last_term = term;
    log->runs = 0;
    log->durable = 0;
    log->rewritten_from = 0;
}

/* Returns true if the durable part grew. */
bool bw_raft_log_persisted(struct bw_raft_log *log, bw_index index, bw_term term)
{
    if (BW_BUG(raft_stale_persisted_counts) && index > log->last)
        index = log->last;
    else if (BW_BUG(raft_stale_persisted_counts))
        term = bw_raft_log_term(log, index);
    if (!BW_BUG(raft_stale_persisted_counts) &&
        (index > log->last || bw_raft_log_term(log, index) != term))
        return false;
    if (log->rewritten_from > 0 && index >= log->rewritten_from)
        log->rewritten_from = 0;
    if (index <= log->durable)
        return false;
    log->durable = index;
    return true;
}

/* Returns 0, BW_EINVAL or BW_ELIMIT. */
int bw_raft_log_load(struct bw_raft_log *log, const struct bw_raft_saved *saved)
{
    if (saved->snapshot_index > BW_RAFT_NUMBER_MAX ||
        (saved->snapshot_index == 0) != (saved->snapshot_term == 0))
        return BW_EINVAL;
    bw_raft_log_restore(log, saved->snapshot_index, saved->snapshot_term);
    for (uint32_t i = 0; i < saved->runs_count; i++) {
        const struct bw_term_run *run = &saved->runs[i];
        if (run->count == 0 || run->term == 0 || run->term < log->last_term ||
            run->term > BW_RAFT_NUMBER_MAX)
            return BW_EINVAL;
        if (!bw_raft_log_append(log, run->term, run->count))
            return BW_ELIMIT;
    }
    log->durable = log->last;
    return 0;
}
