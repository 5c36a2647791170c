/* The write-ahead log on a real disk: durable records are recovered, a torn tail is truncated, and
 * damage is reported, whichever byte is hit. */
#include "serve/wal/wal.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "serve/wal/state.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define CLUSTER 0x1122334455667788u
#define NODE    3u
#define FOUND   4096u
#define SEGMENT ((size_t)4 << 20)

struct world {
    uv_loop_t loop;
    struct bw_wal *wal;
    size_t segment; /* 0: SEGMENT */
    bw_index covered;
    char dir[SCRATCH_MAX], why[BW_WAL_WHY_MAX + 1];
    uint64_t durable;
    /* What opening found: */
    uint64_t sums[FOUND]; /* by index */
    bw_index last, truncated, snapshot;
    struct bw_durable state;
    unsigned entries;
};

static uint64_t sum_of(const struct bw_wal_entry *entry)
{
    return XXH3_64bits(entry->bytes, entry->length) ^ entry->term ^ (uint64_t)entry->change << 32;
}

static void found_entry(void *context, const struct bw_wal_entry *entry)
{
    struct world *w = context;
    assert_true(entry->index < FOUND);
    w->sums[entry->index] = sum_of(entry);
    w->last = entry->index;
    w->entries++;
}

static void found_state(void *context, const struct bw_durable *state)
{
    ((struct world *)context)->state = *state;
}

static void found_truncate(void *context, bw_index from)
{
    struct world *w = context;
    w->truncated = from;
    w->last = from - 1;
}

static void found_snapshot(void *context, bw_index index, bw_term term)
{
    (void)term;
    ((struct world *)context)->snapshot = index;
}

static void on_durable(void *context, uint64_t commit)
{
    ((struct world *)context)->durable = commit;
}

static int open_as(struct world *w, uint64_t cluster, bw_node node)
{
    struct bw_wal_options options = {.directory = w->dir,
                                     .cluster = cluster,
                                     .node = node,
                                     .segment_bytes = w->segment ? w->segment : SEGMENT,
                                     .covered = w->covered,
                                     .loop = &w->loop,
                                     .context = w,
                                     .found_entry = found_entry,
                                     .found_state = found_state,
                                     .found_truncate = found_truncate,
                                     .found_snapshot = found_snapshot,
                                     .durable = on_durable};
    w->last = w->truncated = w->snapshot = 0;
    w->entries = 0;
    w->durable = 0;
    w->wal = NULL;
    memset(&w->state, 0, sizeof w->state);
    memset(w->sums, 0, sizeof w->sums);
    w->why[0] = '\0';
    return bw_wal_open(&w->wal, &options, w->why);
}

static void open_log(struct world *w)
{
    if (open_as(w, CLUSTER, NODE) != 0)
        fail_msg("%s", w->why);
}

static void close_log(struct world *w)
{
    bw_wal_close(w->wal);
    uv_run(&w->loop, UV_RUN_DEFAULT);
}

static void world_open(struct world *w)
{
    w->segment = 0;
    w->covered = 0;
    scratch_make(w->dir);
    uv_loop_init(&w->loop);
    open_log(w);
}

static void world_close(struct world *w)
{
    assert_int_equal(uv_loop_close(&w->loop), 0);
    scratch_remove(w->dir);
}

/* Appends an entry whose bytes follow from its index. */
static void append(struct world *w, bw_index index, size_t length)
{
    unsigned char *bytes = calloc(1, length + 1);
    for (size_t i = 0; i < length; i++) /* half of the bytes are zeros */
        bytes[i] = i % 4096 < 2048 ? 0 : (unsigned char)(index + i);
    bw_wal_entry(w->wal, &(struct bw_wal_entry){
                             .index = index, .term = 7, .bytes = bytes, .length = length});
    free(bytes);
}

static void sync_log(struct world *w)
{
    uint64_t commit = bw_wal_commit(w->wal);
    while (w->durable < commit)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void durable_records_are_recovered(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct bw_durable durable = {.term = 9, .vote = 2, .starts = 3, .token = 4, .promised_ns = 5};
    bw_wal_state(w.wal, &durable);
    append(&w, 1, 0);
    append(&w, 2, 100);
    sync_log(&w);
    bw_wal_entry(w.wal, &(struct bw_wal_entry){.index = 3, .term = 8, .change = 1, .node = 6});
    append(&w, 4, 5000);
    bw_wal_truncate(w.wal, 4);
    append(&w, 4, 77);
    bw_wal_snapshot(w.wal, 2, 7);
    sync_log(&w);
    append(&w, 5, 10); /* never committed */
    close_log(&w);
    open_log(&w);
    assert_int_equal(w.last, 4);
    assert_int_equal(w.entries, 5);
    assert_int_equal(w.truncated, 4);
    assert_int_equal(w.snapshot, 2);
    assert_memory_equal(&w.state, &durable, sizeof durable);
    append(&w, 5, 11);
    sync_log(&w);
    close_log(&w);
    open_log(&w);
    assert_int_equal(w.last, 5);
    close_log(&w);
    world_close(&w);
}

static void concurrent_commits_share_a_write(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint64_t commit = 0;
    for (bw_index i = 1; i <= 1000; i++) {
        append(&w, i, 50);
        commit = bw_wal_commit(w.wal);
    }
    unsigned turns = 0;
    for (; w.durable < commit; turns++)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_in_range(turns, 1, 500);
    close_log(&w);
    open_log(&w);
    assert_int_equal(w.last, 1000);
    close_log(&w);
    world_close(&w);
}

static void old_segments_are_removed_and_the_state_stays(void **state)
{
    (void)state;
    struct world w;
    char name[SCRATCH_MAX + WAL_NAME_MAX];
    world_open(&w);
    struct bw_durable durable = {.term = 9, .vote = 2};
    bw_wal_state(w.wal, &durable);
    for (bw_index i = 1; i <= 20; i++) {
        append(&w, i, 1 << 20);
        sync_log(&w);
    }
    assert_in_range(bw_wal_bytes(w.wal), (uint64_t)20 << 20, (uint64_t)40 << 20);
    bw_wal_drop(w.wal, 15);
    append(&w, 21, 9 << 20); /* larger than a segment */
    sync_log(&w);            /* old segments are removed before it is written */
    assert_in_range(bw_wal_bytes(w.wal), (uint64_t)9 << 20, (uint64_t)18 << 20);
    close_log(&w);
    w.covered = 15;
    open_log(&w);
    assert_int_equal(w.last, 21);
    assert_true(w.sums[16] != 0 && w.sums[21] != 0);
    assert_true(w.sums[10] == 0);
    assert_memory_equal(&w.state, &durable, sizeof durable);
    close_log(&w);
    /* A gap is damage. */
    snprintf(name, sizeof name, "%s/wal-%016x.log", w.dir, 7);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(open_as(&w, CLUSTER, NODE), BW_EDAMAGED);
    world_close(&w);
}

static void a_gap_is_closed_only_if_a_snapshot_covers_everything_before_it(void **state)
{
    (void)state;
    struct world w;
    char name[SCRATCH_MAX + WAL_NAME_MAX];
    struct bw_durable durable = {.term = 9, .vote = 2};
    world_open(&w);
    bw_wal_state(w.wal, &durable);
    for (bw_index i = 1; i <= 12; i++) { /* three in each segment */
        append(&w, i, 1 << 20);
        sync_log(&w);
    }
    close_log(&w);
    snprintf(name, sizeof name, "%s/wal-%016x.log", w.dir, 2);
    assert_int_equal(unlink(name), 0);
    for (w.covered = 0; w.covered < 6; w.covered++) {
        assert_int_equal(open_as(&w, CLUSTER, NODE), BW_EDAMAGED);
        assert_non_null(strstr(w.why, "a segment of the log is missing"));
    }
    for (unsigned round = 0; round < 2; round++) {
        open_log(&w);
        assert_int_equal(w.last, 12);
        assert_true(w.sums[7] != 0 && w.sums[3] == 0);
        assert_memory_equal(&w.state, &durable, sizeof durable);
        close_log(&w);
    }
    snprintf(name, sizeof name, "%s/wal-%016x.log", w.dir, 1);
    assert_int_equal(access(name, F_OK), -1);
    world_close(&w);
}

/* The segments that are left hold states only, so no entry shows that earlier ones are lost. */
static void lost_oldest_segment_is_damage_although_only_states_follow(void **state)
{
    (void)state;
    struct world w;
    char name[SCRATCH_MAX + WAL_NAME_MAX];
    struct bw_durable durable = {.term = 9, .vote = 2};
    world_open(&w);
    append(&w, 1, 10);
    for (unsigned i = 0; bw_wal_bytes(w.wal) <= SEGMENT; i++) { /* until the segment changes */
        assert_true(i < 200);
        for (unsigned state_in_batch = 0; state_in_batch < 500; state_in_batch++) {
            durable.term++;
            bw_wal_state(w.wal, &durable);
        }
        sync_log(&w);
    }
    close_log(&w);
    snprintf(name, sizeof name, "%s/wal-%016x.log", w.dir, 1);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(open_as(&w, CLUSTER, NODE), BW_EDAMAGED);
    assert_non_null(strstr(w.why, "the oldest segment of the log is missing"));
    w.covered = 1;
    open_log(&w);
    assert_memory_equal(&w.state, &durable, sizeof durable);
    close_log(&w);
    world_close(&w);
}

static void log_of_another_node_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    append(&w, 1, 10);
    sync_log(&w);
    close_log(&w);
    assert_int_equal(open_as(&w, CLUSTER + 1, NODE), BW_EDENIED);
    assert_int_equal(open_as(&w, CLUSTER, NODE + 1), BW_EDENIED);
    assert_non_null(strstr(w.why, "another cluster or node"));
    char name[SCRATCH_MAX + WAL_NAME_MAX];
    snprintf(name, sizeof name, "%s/wal-%016x.log", w.dir, 1);
    int fd = open(name, O_RDWR);
    assert_int_equal(pwrite(fd, "\2", 1, 7), 1);
    close(fd);
    assert_int_equal(open_as(&w, CLUSTER, NODE), BW_EVERSION);
    world_close(&w);
}

/* The only segment, as bytes. */
struct image {
    char name[SCRATCH_MAX + WAL_NAME_MAX];
    unsigned char *bytes;
    size_t size;
};

static void image_read(struct image *image, const struct world *w)
{
    struct stat stat;
    snprintf(image->name, sizeof image->name, "%s/wal-%016x.log", w->dir, 1);
    int fd = open(image->name, O_RDONLY);
    assert_int_equal(fstat(fd, &stat), 0);
    image->size = (size_t)stat.st_size;
    image->bytes = malloc(image->size);
    assert_int_equal(read(fd, image->bytes, image->size), stat.st_size);
    close(fd);
}

static void image_write(const struct image *image, size_t from, const unsigned char *bytes,
                        size_t length)
{
    int fd = open(image->name, O_WRONLY);
    assert_int_equal(pwrite(fd, bytes, length, (off_t)from), (ssize_t)length);
    close(fd);
}

static size_t used_of(const struct image *image)
{
    size_t used = image->size;
    while (used > WAL_HEAD && image->bytes[used - 1] == 0)
        used--;
    return used;
}

/* Three durable batches, then a fourth whose write was cut: any set of its sectors may be
 * missing. */
static void torn_tail_is_truncated_whichever_sectors_are_missing(void **state)
{
    (void)state;
    struct world w;
    struct image before, after;
    struct bw_rng rng;
    bw_rng_init(&rng, 11);
    world_open(&w);
    for (bw_index i = 1; i <= 3; i++) {
        append(&w, i, 700);
        sync_log(&w);
    }
    image_read(&before, &w);
    append(&w, 4, 9000);
    append(&w, 5, 3);
    sync_log(&w);
    close_log(&w);
    image_read(&after, &w);
    size_t from = used_of(&before) / WAL_SECTOR * WAL_SECTOR, to = used_of(&after);
    unsigned sectors = (unsigned)((to - from + WAL_SECTOR - 1) / WAL_SECTOR);
    for (unsigned round = 0; round < 200; round++) {
        unsigned written = 0;
        for (unsigned i = 0; i < sectors; i++) {
            size_t at = from + i * WAL_SECTOR;
            bool there = round < sectors ? i != round : bw_rng_below(&rng, 2);
            image_write(&after, at, (there ? after.bytes : before.bytes) + at, WAL_SECTOR);
            written += there;
        }
        open_log(&w);
        assert_int_equal(w.last, written == sectors ? 5 : 3);
        append(&w, w.last + 1, 40); /* appending continues from there */
        sync_log(&w);
        bw_index last = w.last + 1;
        close_log(&w);
        open_log(&w);
        assert_int_equal(w.last, last);
        close_log(&w);
        image_write(&after, from, before.bytes + from, after.size - from);
    }
    free(before.bytes);
    free(after.bytes);
    world_close(&w);
}

/* The last write of a small log ends at any byte. Disks write whole sectors, and the tail is
 * truncated wherever a sector is missing. Finer tears cannot be distinguished from damage and are
 * refused. So no acknowledged record is lost, and no partial write is taken for a complete one. */
static void a_write_torn_at_any_byte_loses_nothing(void **state)
{
    (void)state;
    struct world w;
    struct image before, after;
    unsigned cut = 0, refused = 0;
    world_open(&w);
    append(&w, 1, 300);
    sync_log(&w);
    image_read(&before, &w);
    append(&w, 2, 1400);
    sync_log(&w);
    close_log(&w);
    image_read(&after, &w);
    size_t from = used_of(&before), to = used_of(&after);
    for (size_t end = from; end <= to; end++) {
        image_write(&after, from, before.bytes + from, to - from);
        if (end > from)
            image_write(&after, from, after.bytes + from, end - from);
        int error = open_as(&w, CLUSTER, NODE);
        assert_true(error == 0 || error == BW_EDAMAGED);
        assert_int_equal(w.last, end == to && !error ? 2 : 1);
        bool finer = end - from < WAL_BATCH_HEAD || to / WAL_SECTOR == end / WAL_SECTOR;
        assert_true(error == 0 || (end < to && finer));
        cut += error == 0;
        refused += error != 0;
        if (!error)
            close_log(&w);
    }
    assert_true(cut > WAL_SECTOR && refused < WAL_SECTOR + WAL_BATCH_HEAD);
    free(before.bytes);
    free(after.bytes);
    world_close(&w);
}

/* A flipped bit anywhere in acknowledged data never yields a shorter log, always a refusal. */
static void a_flipped_bit_is_never_mistaken_for_a_torn_tail(void **state)
{
    (void)state;
    struct world w;
    struct image image;
    struct bw_rng rng;
    bw_rng_init(&rng, 5);
    world_open(&w);
    for (bw_index i = 1; i <= 3; i++) {
        append(&w, i, 3000 * i);
        sync_log(&w);
    }
    close_log(&w);
    image_read(&image, &w);
    size_t used = used_of(&image);
    for (unsigned round = 0; round < 600; round++) {
        bool dense = round < 200; /* heads of batches, and the segment's head */
        size_t at = dense ? round % 48 : WAL_HEAD + bw_rng_below(&rng, used - WAL_HEAD);
        if (dense && round >= 48)
            at = WAL_HEAD + round % 16;
        unsigned char byte = (unsigned char)(image.bytes[at] ^ 1u << bw_rng_below(&rng, 8));
        image_write(&image, at, &byte, 1);
        int error = open_as(&w, CLUSTER, NODE);
        if (error == 0) { /* bytes 20..23 of the head are unused, but covered by its checksum */
            fail_msg("the change of byte %zu was not detected", at);
        }
        assert_true(error == BW_EDAMAGED || error == BW_EVERSION || error == BW_EDENIED);
        assert_true(w.why[0] != '\0');
        image_write(&image, at, image.bytes + at, 1);
    }
    open_log(&w);
    assert_int_equal(w.last, 3);
    close_log(&w);
    free(image.bytes);
    world_close(&w);
}

static void next_segment_is_filled_in_pieces_and_complete_when_this_one_is_half_full(void **state)
{
    (void)state;
    const size_t small = 2 * WAL_PIECE, large = 16 * WAL_PIECE;
    assert_int_equal(wal_ahead_due(WAL_HEAD, large, large), 0); /* an idle node writes nothing */
    assert_int_equal(wal_ahead_due(WAL_PIECE / 2 - 1, large, large), 0);
    assert_int_equal(wal_ahead_due(WAL_PIECE / 2, large, large), WAL_PIECE);
    assert_int_equal(wal_ahead_due(large / 2 - 1, large, large), large - WAL_PIECE);
    assert_int_equal(wal_ahead_due(large / 2, large, large), large);
    assert_int_equal(wal_ahead_due(large, large, large), large);
    assert_int_equal(wal_ahead_due(small / 4, small, large), large / 2); /* small first segment */
    assert_int_equal(wal_ahead_due(large / 2, large, large + 7), large + 7);
    assert_int_equal(wal_ahead_due(99, 100, 50), 50); /* smaller than a piece */
}

/* Waits until the file of the next segment has this many allocated blocks. */
static void wait_filled(struct world *w, const char *name, long blocks)
{
    struct stat stat = {0};
    for (unsigned turn = 0; turn < 10000; turn++) {
        struct stat now;
        stat = lstat(name, &now) == 0 ? now : stat;
        if (stat.st_size == (off_t)SEGMENT && stat.st_blocks >= blocks && !w->wal->filler_queued)
            return;
        uv_run(&w->loop, UV_RUN_NOWAIT);
        uv_sleep(1);
    }
    fail_msg("the next segment was not made ahead");
}

static void next_segment_is_created_ahead_used_and_removed_with_the_log(void **state)
{
    (void)state;
    struct world w;
    char next[SCRATCH_MAX + WAL_NAME_MAX];
    world_open(&w);
    snprintf(next, sizeof next, "%s/wal-next.tmp", w.dir);
    append(&w, 1, 100);
    sync_log(&w);
    assert_int_equal(access(next, F_OK), -1);
    bw_index last = 1;
    while (w.wal->reached < SEGMENT / 2) {
        append(&w, ++last, WAL_ZEROS_BATCH / 2);
        sync_log(&w);
    }
    wait_filled(&w, next, (long)(SEGMENT / 512));
    assert_int_equal(w.wal->ahead_filled, SEGMENT);
    append(&w, ++last, SEGMENT / 2);
    sync_log(&w); /* the segment changed */
    assert_int_equal(w.wal->number, 2);
    append(&w, ++last, 2 * SEGMENT); /* the segment made ahead is too small for it */
    sync_log(&w);
    assert_int_equal(w.wal->number, 3);
    close_log(&w);
    assert_int_equal(access(next, F_OK), -1);
    open_log(&w);
    assert_int_equal(w.last, last);
    close_log(&w);
    world_close(&w);
}

static void zeros_pay_for_small_batches_only(void **state)
{
    (void)state;
    assert_true(wal_zeros_pay(WAL_HEAD, 0)); /* nothing written yet */
    assert_true(wal_zeros_pay(WAL_HEAD + 100 * WAL_ZEROS_BATCH, 100));
    assert_false(wal_zeros_pay(WAL_HEAD + 100 * WAL_ZEROS_BATCH + 8, 100));
}

static void writer_leaves_the_loops_core_while_that_core_is_busy(void **state)
{
    (void)state;
    struct wal_wakes wakes = {0};
    bw_time now = BW_SEC;
    for (unsigned i = 0; i < 100; i++)
        wal_wakes_note(&wakes, WAL_WAKE_SLOW / 2, now);
    assert_true(wal_wakes_together(&wakes, now));
    wal_wakes_note(&wakes, 2 * WAL_WAKE_SLOW, now); /* one late start is not enough */
    wal_wakes_note(&wakes, 0, now);
    assert_true(wal_wakes_together(&wakes, now));
    for (unsigned i = 0; i < 100; i++)
        wal_wakes_note(&wakes, 2 * WAL_WAKE_SLOW, now);
    assert_false(wal_wakes_together(&wakes, now + WAL_APART - 1));
    assert_true(wal_wakes_together(&wakes, now + WAL_APART));
}

static void next_segment_is_only_reserved_after_large_batches(void **state)
{
    (void)state;
    struct world w;
    char next[SCRATCH_MAX + WAL_NAME_MAX];
    world_open(&w);
    snprintf(next, sizeof next, "%s/wal-next.tmp", w.dir);
    append(&w, 1, SEGMENT / 2);
    sync_log(&w);
    wait_filled(&w, next, 0);
    assert_int_equal(w.wal->ahead_filled, 0);
    append(&w, 2, SEGMENT / 2);
    sync_log(&w);
    assert_int_equal(w.wal->number, 2);
    close_log(&w);
    open_log(&w);
    assert_int_equal(w.last, 2);
    append(&w, 3, 100); /* the zeros that follow the last batch are an end, not damage */
    sync_log(&w);
    close_log(&w);
    open_log(&w);
    assert_int_equal(w.last, 3);
    close_log(&w);
    world_close(&w);
}

static bool supports_direct(const struct world *w)
{
    char path[SCRATCH_MAX + WAL_NAME_MAX];
    snprintf(path, sizeof path, "%s/probe", w->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (fd >= 0)
        close(fd);
    unlink(path);
    return fd >= 0;
}

/* Whether the page cache has any page of the file from `from` to `end`. */
static bool is_cached(const char *path, size_t from, size_t end)
{
    unsigned char pages[64] = {0};
    int fd = open(path, O_RDONLY);
    void *bytes = mmap(NULL, end, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(fd >= 0 && bytes != MAP_FAILED && end <= sizeof pages * WAL_BLOCK);
    assert_int_equal(mincore(bytes, end, pages), 0);
    munmap(bytes, end);
    close(fd);
    bool any = false;
    for (size_t page = from / WAL_BLOCK; page < end / WAL_BLOCK; page++)
        any |= pages[page] & 1;
    return any;
}

static void batches_are_written_past_the_page_cache(void **state)
{
    (void)state;
    struct world w;
    char path[SCRATCH_MAX + WAL_NAME_MAX];
    world_open(&w);
    if (!supports_direct(&w) || sysconf(_SC_PAGESIZE) != WAL_BLOCK) {
        close_log(&w);
        world_close(&w);
        skip();
    }
    snprintf(path, sizeof path, "%s/wal-0000000000000001.log", w.dir);
    append(&w, 1, 100); /* no batch ends at the end of a block */
    sync_log(&w);
    append(&w, 2, (size_t)2 * WAL_BLOCK);
    sync_log(&w);
    assert_false(is_cached(path, WAL_HEAD, w.wal->offset));
    close_log(&w);
    open_log(&w); /* continues in the middle of a block */
    assert_int_equal(w.last, 2);
    append(&w, 3, (size_t)2 * WAL_BLOCK);
    sync_log(&w);
    assert_false(is_cached(path, (size_t)4 * WAL_BLOCK, w.wal->offset));
    close_log(&w);
    open_log(&w);
    assert_int_equal(w.last, 3);
    close_log(&w);
    world_close(&w);
}

static void segment_that_does_not_end_with_a_block_keeps_its_size(void **state)
{
    (void)state;
    struct world w;
    struct stat file;
    char path[SCRATCH_MAX + WAL_NAME_MAX];
    bw_index last = 0;
    world_open(&w);
    close_log(&w);
    snprintf(path, sizeof path, "%s/wal-0000000000000001.log", w.dir);
    unlink(path);
    w.segment = BW_WAL_SEGMENT_MIN + WAL_SECTOR;
    open_log(&w);
    while (w.wal->number < 3) {
        append(&w, ++last, 100);
        sync_log(&w);
    }
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_size, w.segment);
    close_log(&w);
    open_log(&w);
    assert_int_equal(w.last, last);
    close_log(&w);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durable_records_are_recovered),
        cmocka_unit_test(concurrent_commits_share_a_write),
        cmocka_unit_test(old_segments_are_removed_and_the_state_stays),
        cmocka_unit_test(lost_oldest_segment_is_damage_although_only_states_follow),
        cmocka_unit_test(a_gap_is_closed_only_if_a_snapshot_covers_everything_before_it),
        cmocka_unit_test(log_of_another_node_is_refused),
        cmocka_unit_test(torn_tail_is_truncated_whichever_sectors_are_missing),
        cmocka_unit_test(a_write_torn_at_any_byte_loses_nothing),
        cmocka_unit_test(next_segment_is_filled_in_pieces_and_complete_when_this_one_is_half_full),
        cmocka_unit_test(next_segment_is_created_ahead_used_and_removed_with_the_log),
        cmocka_unit_test(writer_leaves_the_loops_core_while_that_core_is_busy),
        cmocka_unit_test(zeros_pay_for_small_batches_only),
        cmocka_unit_test(next_segment_is_only_reserved_after_large_batches),
        cmocka_unit_test(batches_are_written_past_the_page_cache),
        cmocka_unit_test(segment_that_does_not_end_with_a_block_keeps_its_size),
        cmocka_unit_test(a_flipped_bit_is_never_mistaken_for_a_torn_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
