/* The pending appends of one follower; see append_window.h. */
#include "core/replica/append_window.h"

#include "core/base/assert.h"
#include "core/base/bug.h"

static uint32_t total_of(const struct bw_append_part *part)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < part->runs; i++)
        total += part->run[i].count;
    return total;
}

static struct bw_message *pending_at(struct bw_append_window *window, uint32_t i)
{
    return &window->pending[(window->first + i) % BW_RAFT_INFLIGHT_MAX];
}

void bw_append_window_reset(struct bw_append_window *window)
{
    window->term = 0;
    window->start = window->sent = window->tail = 0;
    window->contacted = 0;
    window->first = window->count = 0;
}

static void restart(struct bw_append_window *window, const struct bw_message *append)
{
    window->term = append->term;
    window->start = window->sent = window->tail = append->append.prev_index;
    window->first = window->count = 0;
}

bool bw_append_window_push(struct bw_append_window *window, const struct bw_message *append)
{
    const struct bw_append_part *part = &append->append;
    bool same_term = window->term == append->term;
    bool repeats = same_term && part->prev_index == window->start && window->sent > window->start &&
                   !BW_BUG(append_window_repeats_probes);
    if (repeats) {
        restart(window, append);
        return false;
    }
    if (!same_term || part->prev_index != window->tail || window->count == BW_RAFT_INFLIGHT_MAX)
        restart(window, append);
    *pending_at(window, window->count++) = *append;
    window->tail += total_of(part);
    return true;
}

uint32_t bw_append_window_entries(const struct bw_append_window *window)
{
    return window->count ? total_of(&window->pending[window->first].append) : 0;
}

bool bw_append_window_allows(uint64_t unacknowledged, uint64_t bytes)
{
    return unacknowledged == 0 || unacknowledged + bytes <= BW_APPEND_WINDOW ||
           BW_BUG(append_window_unbounded);
}

/* Removes the first `entries` of `part`. */
static void drop_front(struct bw_append_part *part, uint32_t entries)
{
    uint32_t runs = 0, left = entries;
    bool changes = part->change.op && part->change.entry >= entries;
    part->prev_index += entries;
    for (uint32_t i = 0; i < part->runs; i++) {
        uint32_t gone = left < part->run[i].count ? left : part->run[i].count;
        left -= gone;
        if (gone)
            part->prev_term = part->run[i].term;
        if (gone < part->run[i].count)
            part->run[runs++] =
                (struct bw_term_run){.term = part->run[i].term, .count = part->run[i].count - gone};
    }
    part->runs = runs;
    if (changes)
        part->change.entry -= entries;
    else
        part->change = (struct bw_change){0};
}

/* Keeps only the first `entries` of `part`, which has more. */
static void keep_front(struct bw_append_part *part, uint32_t entries)
{
    uint32_t runs = 0, left = entries;
    for (; left; runs++) {
        if (part->run[runs].count > left)
            part->run[runs].count = left;
        left -= part->run[runs].count;
    }
    part->runs = runs;
    if (part->change.entry >= entries)
        part->change = (struct bw_change){0};
}

void bw_append_window_take(struct bw_append_window *window, uint32_t entries,
                           struct bw_message *out)
{
    struct bw_message *append = pending_at(window, 0);
    BW_ASSERT(window->count && entries > 0 && entries <= total_of(&append->append));
    *out = *append;
    window->sent += entries;
    if (entries == total_of(&append->append)) {
        window->first = (window->first + 1) % BW_RAFT_INFLIGHT_MAX;
        window->count--;
        return;
    }
    keep_front(&out->append, entries);
    drop_front(&append->append, entries);
}

void bw_append_without_entries(struct bw_message *append, bw_index prev, bw_term prev_term)
{
    append->append.prev_index = prev;
    append->append.prev_term = prev_term;
    append->append.runs = 0;
    append->append.change = (struct bw_change){0};
}
