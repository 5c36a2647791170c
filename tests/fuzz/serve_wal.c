/* libFuzzer: a segment of the log with any content is read, or refused with a reason; reading it
 * again gives the same result. Checksums would reject nearly all inputs, so the input describes
 * what to checksum: pieces of 1 kind, 2 length, bytes. Kind 0: raw; 1: a valid batch for its place;
 * 2: a hole of zeros; 3: a changed byte in the segment's head. */
#include "core/base/error.h"
#include "fuzz/fuzz_dir.h"
#include "serve/wal/format.h"
#include "serve/wal/wal.h"

#include <uv.h>

#define CLUSTER       77u
#define NODE          3u
#define SEGMENT_BYTES 16384u
#define PIECE         3u

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

static unsigned char segment[SEGMENT_BYTES];

struct found {
    uint64_t sum, records;
};

static void add(struct found *found, const void *bytes, size_t length)
{
    found->sum = XXH3_64bits_withSeed(bytes, length, found->sum);
    found->records++;
}

static void found_entry(void *context, const struct bw_wal_entry *entry)
{
    add(context, entry->bytes, entry->length);
}

static void found_state(void *context, const struct bw_durable *state)
{
    add(context, &state->term, sizeof state->term);
}

static void found_truncate(void *context, bw_index from)
{
    add(context, &from, sizeof from);
}

static void found_snapshot(void *context, bw_index index, bw_term term)
{
    add(context, &index, sizeof index);
    add(context, &term, sizeof term);
}

static void on_durable(void *context, uint64_t commit)
{
    (void)context;
    (void)commit;
}

static void head_write(void)
{
    memset(segment, 0, sizeof segment);
    memcpy(segment, "BWWAL\0\0\1", 8);
    bw_put64(segment + 8, CLUSTER);
    bw_put32(segment + 16, NODE);
    bw_put64(segment + 24, 1);
    bw_put64(segment + 40, XXH3_64bits(segment, 40));
}

/* Writes a valid batch at `at`. Returns the offset where it ends. */
static size_t seal(size_t at, const unsigned char *bytes, size_t length)
{
    size_t padded = (length + 7) / 8 * 8;
    if (at + WAL_BATCH_HEAD + padded > SEGMENT_BYTES || padded == 0)
        return at;
    struct wal_place place = {CLUSTER, NODE, 1, at};
    uint64_t seed = wal_seed(&place);
    unsigned char *records = segment + at + WAL_BATCH_HEAD;
    memcpy(records, bytes, length);
    wal_mask(seed, records, records, padded);
    bw_put32(segment + at, (uint32_t)padded);
    bw_put32(segment + at + 4, wal_length_sum(seed, (uint32_t)padded));
    bw_put64(segment + at + 8, wal_records_sum(seed, records, padded));
    return at + WAL_BATCH_HEAD + padded;
}

static size_t place_piece(unsigned kind, size_t at, const unsigned char *bytes, size_t length)
{
    size_t end = at + (length + 7) / 8 * 8;
    if (kind == 1)
        return seal(at, bytes, length);
    if (kind == 3 && length >= 2)
        segment[bytes[0] % WAL_HEAD_USED] ^= bytes[1];
    if (kind == 3 || end > SEGMENT_BYTES)
        return at;
    if (kind == 0)
        memcpy(segment + at, bytes, length);
    return end;
}

static void segment_write(const unsigned char *bytes, size_t length)
{
    size_t at = WAL_HEAD;
    head_write();
    while (length >= PIECE) {
        size_t piece = (size_t)bytes[1] | (size_t)bytes[2] << 8;
        piece = piece < length - PIECE ? piece : length - PIECE;
        at = place_piece(bytes[0] % 4, at, bytes + PIECE, piece);
        bytes += PIECE + piece;
        length -= PIECE + piece;
    }
    fuzz_dir_write("wal-0000000000000001.log", segment, SEGMENT_BYTES);
}

static int read_log(struct found *found)
{
    uv_loop_t loop;
    struct bw_wal *wal = NULL;
    char why[BW_WAL_WHY_MAX + 1] = "";
    struct bw_wal_options options = {.directory = fuzz_dir,
                                     .cluster = CLUSTER,
                                     .node = NODE,
                                     .loop = &loop,
                                     .context = found,
                                     .found_entry = found_entry,
                                     .found_state = found_state,
                                     .found_truncate = found_truncate,
                                     .found_snapshot = found_snapshot,
                                     .durable = on_durable};
    BW_ASSERT(uv_loop_init(&loop) == 0);
    int error = bw_wal_open(&wal, &options, why);
    BW_ASSERT(error == 0 || error == BW_EDAMAGED || error == BW_EVERSION || error == BW_EDENIED);
    BW_ASSERT(error ? why[0] && !wal : wal != NULL);
    if (wal)
        bw_wal_close(wal);
    uv_run(&loop, UV_RUN_DEFAULT);
    BW_ASSERT(uv_loop_close(&loop) == 0);
    return error;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct found first = {0}, second = {0};
    fuzz_dir_make();
    segment_write(bytes, length);
    int error = read_log(&first);
    BW_ASSERT(read_log(&second) == error); /* a truncated tail changes nothing */
    BW_ASSERT(error || (first.sum == second.sum && first.records == second.records));
    return 0;
}
