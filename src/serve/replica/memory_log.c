/* The log of a node in memory; see memory_log.h. */
#include "serve/replica/memory_log.h"

#include "core/base/error.h"

#include <stdlib.h>
#include <string.h>

#define CAP_FIRST 1024u

static struct bw_log_entry *slot(const struct bw_log_store *log, uint32_t i)
{
    return &log->at[(log->first + i) & (log->cap - 1)];
}

static void drop(struct bw_log_store *log, uint32_t i)
{
    log->bytes -= slot(log, i)->length;
    free(slot(log, i)->bytes);
}

void bw_log_free(struct bw_log_store *log)
{
    bw_log_restart(log, 0);
    free(log->at);
    *log = (struct bw_log_store){0};
}

static int grow(struct bw_log_store *log)
{
    uint32_t cap = log->cap ? 2 * log->cap : CAP_FIRST;
    struct bw_log_entry *at = malloc(cap * sizeof *at);
    if (!at)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < log->count; i++)
        at[i] = *slot(log, i);
    free(log->at);
    log->at = at;
    log->cap = cap;
    log->first = 0;
    return 0;
}

/* `end` of the entry before slot `i`. */
static uint64_t end_of(const struct bw_log_store *log, uint32_t i)
{
    return i ? slot(log, i - 1)->end : log->base_end;
}

int bw_log_append(struct bw_log_store *log, const struct bw_log_entry *entry)
{
    if (log->count == log->cap && grow(log) != 0)
        return BW_ENOMEM;
    struct bw_log_entry *copy = slot(log, log->count);
    *copy = *entry;
    copy->bytes = entry->length ? malloc(entry->length) : NULL;
    if (entry->length && !copy->bytes)
        return BW_ENOMEM;
    if (entry->length)
        memcpy(copy->bytes, entry->bytes, entry->length);
    copy->end = end_of(log, log->count) + BW_LOG_ENTRY_HEAD + entry->length;
    log->count++;
    log->bytes += entry->length;
    return 0;
}

const struct bw_log_entry *bw_log_at(const struct bw_log_store *log, bw_index index)
{
    return index > log->base && index <= bw_log_last(log)
               ? slot(log, (uint32_t)(index - log->base - 1))
               : NULL;
}

static uint64_t end_at(const struct bw_log_store *log, bw_index index)
{
    if (index <= log->base)
        return log->base_end;
    return end_of(log, index < bw_log_last(log) ? (uint32_t)(index - log->base) : log->count);
}

uint64_t bw_log_bytes_between(const struct bw_log_store *log, bw_index from, bw_index to)
{
    return to > from ? end_at(log, to) - end_at(log, from) : 0;
}

uint64_t bw_log_end(const struct bw_log_store *log)
{
    return end_of(log, log->count);
}

void bw_log_truncate(struct bw_log_store *log, bw_index from)
{
    while (log->count && bw_log_last(log) >= from)
        drop(log, --log->count);
}

void bw_log_compact(struct bw_log_store *log, bw_index index)
{
    while (log->count && log->base < index) {
        log->base_end = slot(log, 0)->end;
        drop(log, 0);
        log->first = (log->first + 1) & (log->cap - 1);
        log->count--;
        log->base++;
    }
}

void bw_log_restart(struct bw_log_store *log, bw_index index)
{
    bw_log_truncate(log, 0);
    log->base = index;
}
