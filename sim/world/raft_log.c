/* A Raft log of the host; see raft_log.h. */
#include "sim/world/raft_log.h"

#include "core/base/error.h"

#include <stdlib.h>
#include <string.h>

void bw_sim_log_clear(struct bw_sim_log *log)
{
    log->snapshot = (struct bw_sim_snapshot){0};
    log->base = 0;
    log->count = 0;
}

void bw_sim_log_deinit(struct bw_sim_log *log)
{
    free(log->at);
    memset(log, 0, sizeof *log);
}

const struct bw_sim_entry *bw_sim_log_at(const struct bw_sim_log *log, bw_index index)
{
    bool held = index > log->base && index <= bw_sim_log_last(log);
    return held ? &log->at[index - log->base - 1] : NULL;
}

static int reserve(struct bw_sim_log *log, uint64_t count)
{
    if (count <= log->cap)
        return 0;
    if (count > BW_SIM_LOG_MAX)
        return BW_ELIMIT;
    uint32_t cap = log->cap ? log->cap : 64;
    while (cap < count)
        cap *= 2;
    struct bw_sim_entry *at = realloc(log->at, cap * sizeof *at);
    if (!at)
        return BW_ENOMEM;
    log->at = at;
    log->cap = cap;
    return 0;
}

int bw_sim_log_append(struct bw_sim_log *log, bw_index first, const struct bw_sim_entry *entries,
                      uint32_t count)
{
    if (first <= log->base || first > bw_sim_log_last(log) + 1)
        return BW_EINVAL;
    if (!count)
        return 0;
    uint64_t kept = first - log->base - 1;
    int error = reserve(log, kept + count);
    if (error)
        return error;
    memcpy(&log->at[kept], entries, count * sizeof *entries);
    log->count = (uint32_t)(kept + count);
    return 0;
}

void bw_sim_log_truncate(struct bw_sim_log *log, bw_index first)
{
    if (first > log->base && first <= bw_sim_log_last(log))
        log->count = (uint32_t)(first - log->base - 1);
}

void bw_sim_log_compact(struct bw_sim_log *log, bw_index index)
{
    if (index <= log->base)
        return;
    uint64_t drop = index - log->base;
    if (drop > log->count)
        drop = log->count;
    log->count -= (uint32_t)drop;
    memmove(log->at, log->at + drop, log->count * sizeof *log->at);
    log->base = index;
}

void bw_sim_log_restore(struct bw_sim_log *log, const struct bw_sim_snapshot *snapshot)
{
    log->snapshot = *snapshot;
    log->base = snapshot->index;
    log->count = 0;
}

int bw_sim_log_copy(struct bw_sim_log *to, const struct bw_sim_log *from)
{
    int error = reserve(to, from->count);
    if (error)
        return error;
    to->snapshot = from->snapshot;
    to->base = from->base;
    to->count = from->count;
    if (from->count)
        memcpy(to->at, from->at, from->count * sizeof *to->at);
    return 0;
}

uint64_t bw_sim_log_apply(uint64_t state, bw_index index, const struct bw_sim_entry *entry)
{
    state = (state ^ index) * 0x9fb21c651e98df25u;
    state = (state ^ state >> 35 ^ entry->term) * 0xff51afd7ed558ccdu;
    state = (state ^ state >> 32 ^ entry->hash) * 0xc4ceb9fe1a85ec53u;
    return state ^ state >> 29;
}
