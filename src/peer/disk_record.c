/* Encodes one record of an election as a slot of 8 KiB; see disk.h. Numbers are little-endian.
 *
 *   0   magic 8, checksum 8 (XXH64 of the rest), length 4 (of the rest)
 *   20  directory 8, election 4, sequence 8
 *   40  term 8, vote 4, starts 4, token 8, promise_epoch 8, promised_to 4, promised_ns 8
 *   84  snapshot_index 8, snapshot_term 8, voters 4, learners 4, runs 4, changes 4,
 *       members 4 each, runs of term 8 and count 4, changes of index 8, op 1, node 4 */
#include "core/base/little.h"
#include "peer/disk.h"

#include <string.h>
#include <xxhash.h>

#define MAGIC UINT64_C(0x31746f6c73777062) /* "bpwslot1" */
#define HEAD  20u

struct writer {
    unsigned char *at;
};

static void put4(struct writer *writer, uint32_t value)
{
    bw_put32(writer->at, value);
    writer->at += 4;
}

static void put8(struct writer *writer, uint64_t value)
{
    bw_put64(writer->at, value);
    writer->at += 8;
}

static void put_durable(struct writer *writer, const struct bw_durable *d)
{
    put8(writer, d->term);
    put4(writer, d->vote);
    put4(writer, d->starts);
    put8(writer, d->token);
    put8(writer, d->promise_epoch);
    put4(writer, d->promised_to);
    put8(writer, (uint64_t)d->promised_ns);
}

static void put_log(struct writer *writer, const struct bw_peer_log *log)
{
    put8(writer, log->snapshot_index);
    put8(writer, log->snapshot_term);
    put4(writer, log->voters);
    put4(writer, log->learners);
    put4(writer, log->runs_count);
    put4(writer, log->changes_count);
    for (uint32_t i = 0; i < log->voters + log->learners; i++)
        put4(writer, log->members[i]);
    for (uint32_t i = 0; i < log->runs_count; i++) {
        put8(writer, log->runs[i].term);
        put4(writer, log->runs[i].count);
    }
    for (uint32_t i = 0; i < log->changes_count; i++) {
        put8(writer, log->changes[i].index);
        *writer->at++ = log->changes[i].op;
        put4(writer, log->changes[i].node);
    }
}

size_t bw_peer_slot_encode(unsigned char out[BW_PEER_SLOT_BYTES], uint64_t directory,
                           uint32_t election, uint64_t sequence,
                           const struct bw_peer_record *record)
{
    struct writer writer = {out + HEAD};
    put8(&writer, directory);
    put4(&writer, election);
    put8(&writer, sequence);
    put_durable(&writer, &record->durable);
    put_log(&writer, &record->log);
    size_t length = (size_t)(writer.at - out) - HEAD;
    bw_put64(out, MAGIC);
    bw_put64(out + 8, XXH64(out + HEAD, length, MAGIC));
    bw_put32(out + 16, (uint32_t)length);
    return HEAD + length;
}

struct reader {
    const unsigned char *at, *end;
    bool truncated;
};

static bool has_bytes(struct reader *reader, size_t bytes)
{
    reader->truncated = reader->truncated || (size_t)(reader->end - reader->at) < bytes;
    return !reader->truncated;
}

static uint32_t get4(struct reader *reader)
{
    uint32_t value = has_bytes(reader, 4) ? bw_get32(reader->at) : 0;
    reader->at += reader->truncated ? 0 : 4;
    return value;
}

static uint64_t get8(struct reader *reader)
{
    uint64_t value = has_bytes(reader, 8) ? bw_get64(reader->at) : 0;
    reader->at += reader->truncated ? 0 : 8;
    return value;
}

static void get_durable(struct reader *reader, struct bw_durable *d)
{
    d->term = get8(reader);
    d->vote = get4(reader);
    d->starts = get4(reader);
    d->token = get8(reader);
    d->promise_epoch = get8(reader);
    d->promised_to = get4(reader);
    d->promised_ns = (bw_time)get8(reader);
}

static bool get_log(struct reader *reader, struct bw_peer_log *log)
{
    log->snapshot_index = get8(reader);
    log->snapshot_term = get8(reader);
    log->voters = get4(reader);
    log->learners = get4(reader);
    log->runs_count = get4(reader);
    log->changes_count = get4(reader);
    if (log->voters > BW_RAFT_MEMBERS_MAX || log->learners > BW_RAFT_MEMBERS_MAX - log->voters ||
        log->runs_count > BW_RAFT_TERM_RUNS_MAX || log->changes_count > BW_RAFT_CHANGES_MAX)
        return false;
    for (uint32_t i = 0; i < log->voters + log->learners; i++)
        log->members[i] = get4(reader);
    for (uint32_t i = 0; i < log->runs_count; i++) {
        log->runs[i].term = get8(reader);
        log->runs[i].count = get4(reader);
    }
    for (uint32_t i = 0; i < log->changes_count; i++) {
        log->changes[i].index = get8(reader);
        log->changes[i].op = has_bytes(reader, 1) ? *reader->at++ : 0;
        log->changes[i].node = get4(reader);
    }
    return !reader->truncated && reader->at == reader->end;
}

bool bw_peer_slot_decode(const unsigned char in[BW_PEER_SLOT_BYTES], uint64_t directory,
                         uint32_t election, uint64_t *sequence, struct bw_peer_record *record)
{
    uint32_t length = bw_get32(in + 16);
    if (bw_get64(in) != MAGIC || length > BW_PEER_SLOT_BYTES - HEAD ||
        bw_get64(in + 8) != XXH64(in + HEAD, length, MAGIC))
        return false;
    struct reader reader = {.at = in + HEAD, .end = in + HEAD + length};
    memset(record, 0, sizeof *record);
    if (get8(&reader) != directory || get4(&reader) != election)
        return false;
    *sequence = get8(&reader);
    get_durable(&reader, &record->durable);
    return get_log(&reader, &record->log);
}
