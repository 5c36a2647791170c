/* Opens an existing log: checks every batch, hands over every record, and finds the end.
 *
 * The log ends at the first offset without a valid batch. A head of zeros there is a clean end. A
 * batch that does not match its checksum is a torn tail only if nothing follows it and one of its
 * sectors is all zeros: its write never completed, so no commit was reported. Everything else is
 * damage. */
#include "core/base/error.h"
#include "os/crash.h"
#include "serve/wal/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct scan {
    struct bw_wal *wal;
    const unsigned char *bytes; /* the whole segment */
    size_t size;
    uint64_t number;
    char *why;
};

static int report(const struct scan *scan, int error, const char *what, size_t place)
{
    char name[WAL_NAME_MAX];
    wal_segment_name(name, scan->number);
    snprintf(scan->why, BW_WAL_WHY_MAX + 1, "%s in %s/%s at byte %zu", what,
             scan->wal->options.directory, name, place);
    return error;
}

static int damaged(const struct scan *scan, const char *what, size_t place)
{
    return report(scan, BW_EDAMAGED, what, place);
}

static bool is_zero(const unsigned char *at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (at[i])
            return false;
    return true;
}

/* Returns true if a sector of the batch (or the part of a sector inside it) was never written: it
 * is all zeros. A written sector never is, because records are masked. */
static bool has_unwritten_sector(const struct scan *scan, size_t from, size_t to)
{
    for (size_t at = from; at < to;) {
        size_t next = at / WAL_SECTOR * WAL_SECTOR + WAL_SECTOR;
        next = next < to ? next : to;
        if (is_zero(scan->bytes + at, next - at))
            return true;
        at = next;
    }
    return false;
}

static int take_entry(struct bw_wal *wal, const unsigned char *at, uint8_t change, size_t length)
{
    if (length < WAL_ENTRY_HEAD || change > BW_CHANGE_REMOVE)
        return BW_EDAMAGED;
    struct bw_wal_entry entry = {.index = bw_get64(at),
                                 .term = bw_get64(at + 8),
                                 .change = change,
                                 .node = bw_get32(at + 16),
                                 .bytes = at + WAL_ENTRY_HEAD,
                                 .length = length - WAL_ENTRY_HEAD};
    wal->last_index = entry.index;
    wal->options.found_entry(wal->options.context, &entry);
    return 0;
}

static int take_state(struct bw_wal *wal, const unsigned char *at, size_t length)
{
    if (length != WAL_STATE_BYTES)
        return BW_EDAMAGED;
    struct bw_durable state = {.term = bw_get64(at),
                               .vote = (bw_node)bw_get64(at + 8),
                               .starts = (uint32_t)bw_get64(at + 16),
                               .token = bw_get64(at + 24),
                               .promise_epoch = bw_get64(at + 32),
                               .promised_to = (bw_node)bw_get64(at + 40),
                               .promised_ns = (bw_time)bw_get64(at + 48)};
    wal->state = state;
    wal->has_state = true;
    wal->kept[wal->kept_count - 1].holds_state = true;
    wal->options.found_state(wal->options.context, &state);
    return 0;
}

static int take_record(struct bw_wal *wal, const unsigned char *at, size_t length)
{
    const unsigned char *fields = at + WAL_RECORD_HEAD;
    switch (at[0]) {
    case WAL_ENTRY:
        return take_entry(wal, fields, at[1], length);
    case WAL_STATE:
        return take_state(wal, fields, length);
    case WAL_TRUNCATE:
        if (length != 8)
            return BW_EDAMAGED;
        wal->last_index = bw_get64(fields) - 1;
        wal->options.found_truncate(wal->options.context, bw_get64(fields));
        return 0;
    case WAL_SNAPSHOT:
        if (length != 16)
            return BW_EDAMAGED;
        wal->last_index = bw_wal_max(wal->last_index, bw_get64(fields));
        wal->options.found_snapshot(wal->options.context, bw_get64(fields), bw_get64(fields + 8));
        return 0;
    default:
        return BW_EVERSION;
    }
}

/* Hands over the unmasked records of a batch. */
static int take_batch(const struct scan *scan, size_t place, const unsigned char *records,
                      size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t bytes = length - at >= WAL_RECORD_HEAD ? bw_get32(records + at + 4) : SIZE_MAX;
        if (bytes > length - at - WAL_RECORD_HEAD)
            return damaged(scan, "damage: a record exceeds its batch", place + at);
        int error = take_record(scan->wal, records + at, bytes);
        if (error == BW_EVERSION)
            return report(scan, error, "a record of a newer version of bellwether", place + at);
        if (error)
            return damaged(scan, "damage: an invalid record", place + at);
        at += WAL_RECORD_HEAD + (bytes + 7) / 8 * 8;
    }
    return 0;
}

static uint64_t seed_of(const struct scan *scan, size_t place)
{
    struct wal_place where = {scan->wal->segments.cluster, scan->wal->segments.node, scan->number,
                              place};
    return wal_seed(&where);
}

/* Returns the length of the records of the batch at `place`; 0: no batch. */
static size_t batch_length(const struct scan *scan, size_t place)
{
    const unsigned char *head = scan->bytes + place;
    if (scan->size - place < WAL_BATCH_HEAD || is_zero(head, 8))
        return 0;
    uint32_t length = bw_get32(head);
    bool fits = length % 8 == 0 && length <= scan->size - place - WAL_BATCH_HEAD;
    return fits && bw_get32(head + 4) == wal_length_sum(seed_of(scan, place), length) ? length : 0;
}

static bool is_batch(const struct scan *scan, size_t place, size_t length)
{
    const unsigned char *head = scan->bytes + place;
    return bw_get64(head + 8) ==
           wal_records_sum(seed_of(scan, place), head + WAL_BATCH_HEAD, length);
}

static bool is_followed(const struct scan *scan, size_t place)
{
    for (size_t at = place + 8; at + WAL_BATCH_HEAD < scan->size; at += 8) {
        size_t length = batch_length(scan, at);
        if (length && is_batch(scan, at, length))
            return true;
    }
    return false;
}

/* Decides whether the bytes at `place`, which are not a valid batch, are the end of the log, a torn
 * tail or damage. They extend to `extent`, as far as known. */
static int judge_end(const struct scan *scan, size_t place, size_t extent, bool last)
{
    extent = extent < scan->size ? extent : scan->size;
    if (is_zero(scan->bytes + place, scan->size - place))
        return 0;
    if (!last)
        return damaged(scan, "damage: an invalid batch before the last segment", place);
    if (!has_unwritten_sector(scan, place, extent))
        return damaged(scan, "damage: a batch does not match its checksum", place);
    if (is_followed(scan, place))
        return damaged(scan, "damage: an invalid batch before valid ones", place);
    scan->wal->torn = true;
    return 0;
}

static int unmask_batch(const struct scan *scan, size_t place, size_t length)
{
    unsigned char *records = malloc(length);
    if (!records)
        return report(scan, BW_ENOMEM, "out of memory for a batch", place);
    wal_mask(seed_of(scan, place), records, scan->bytes + place + WAL_BATCH_HEAD, length);
    int error = take_batch(scan, place, records, length);
    free(records);
    return error;
}

static int scan_segment(const struct scan *scan, bool last, size_t *end)
{
    size_t place = WAL_HEAD;
    for (;;) {
        size_t length = batch_length(scan, place);
        *end = place;
        if (length == 0)
            return judge_end(scan, place, place + WAL_BATCH_HEAD, last);
        if (!is_batch(scan, place, length))
            return judge_end(scan, place, place + WAL_BATCH_HEAD + length, last);
        int error = unmask_batch(scan, place, length);
        if (error)
            return error;
        place += WAL_BATCH_HEAD + length;
    }
}

static int check_head(const struct scan *scan)
{
    bw_index before;
    if (scan->size < WAL_HEAD)
        return damaged(scan, "damage: a segment without a head", 0);
    int error = wal_head_check(&scan->wal->segments, scan->bytes, scan->number, &before);
    if (error == BW_EDENIED)
        return report(scan, error, "a log of another cluster or node", 0);
    if (error == BW_EVERSION)
        return report(scan, error, "a log of a newer version of bellwether", 0);
    if (error)
        return damaged(scan, "damage in a segment's head", 0);
    scan->wal->kept[scan->wal->kept_count++] =
        (struct wal_kept){.number = scan->number,
                          .before = before,
                          .bytes = scan->size,
                          .holds_state = !scan->wal->has_state};
    return 0;
}

static int read_mapped(struct bw_wal *wal, uint64_t number, bool last, int fd, size_t size,
                       size_t *end, char *why)
{
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    struct scan scan = {.wal = wal, .bytes = bytes, .size = size, .number = number};
    scan.why = why;
    if (bytes == MAP_FAILED)
        return report(&scan, BW_ENOMEM, strerror(errno), 0);
    int error = check_head(&scan);
    if (!error)
        error = scan_segment(&scan, last, end);
    munmap(bytes, size);
    return error;
}

int wal_read_segment(struct bw_wal *wal, uint64_t number, bool last, size_t *end, char *why)
{
    char name[WAL_NAME_MAX];
    struct stat stat;
    wal_segment_name(name, number);
    int fd = openat(wal->segments.directory, name, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &stat) != 0) {
        snprintf(why, BW_WAL_WHY_MAX + 1, "cannot open %s/%s: %s", wal->options.directory, name,
                 strerror(errno));
        if (fd >= 0)
            close(fd);
        return BW_EIO;
    }
    if (stat.st_size < (off_t)WAL_HEAD) {
        snprintf(why, BW_WAL_WHY_MAX + 1, "%s/%s is truncated", wal->options.directory, name);
        close(fd);
        return BW_EDAMAGED;
    }
    int error = read_mapped(wal, number, last, fd, (size_t)stat.st_size, end, why);
    if (error || !last) {
        close(fd);
        return error;
    }
    wal->fd = fd;
    wal->segment_size = (size_t)stat.st_size;
    return 0;
}

/* Zeroes a torn tail, so that the next batch is not mistaken for its rest. */
int wal_clear_tail(struct bw_wal *wal, char *why)
{
    static const unsigned char zeros[65536];
    BW_CRASH("wal.tail.before-clear");
    for (size_t at = wal->offset; at < wal->segment_size;) {
        size_t part = wal->segment_size - at < sizeof zeros ? wal->segment_size - at : sizeof zeros;
        BW_CRASH_TORN("wal.tail.in-the-middle", wal->fd, zeros, part, (long long)at);
        BW_CRASH_HOLE("wal.tail.all-but-its-head", wal->fd, zeros, part, (long long)at);
        if (pwrite(wal->fd, zeros, part, (off_t)at) != (ssize_t)part) {
            snprintf(why, BW_WAL_WHY_MAX + 1, "cannot write in %s: %s", wal->options.directory,
                     strerror(errno));
            return BW_EIO;
        }
        at += part;
    }
    BW_CRASH("wal.tail.before-sync");
    if (fsync(wal->fd) != 0)
        return BW_EIO;
    BW_CRASH("wal.tail.after-sync");
    return 0;
}
