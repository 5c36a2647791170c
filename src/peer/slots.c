/* One record of an election as a slot of 8 KiB; see disk.h. Numbers are little-endian.
 *
 *   0   magic 8, checksum 8 (XXH64 of what follows), length 4 (of what follows)
 *   20  directory 8, election 4, sequence 8
 *   40  term 8, vote 4, starts 4, token 8, promise_epoch 8, promised_to 4, promised_ns 8
 *   84  snapshot_index 8, snapshot_term 8, voters 4, learners 4, runs 4, changes 4,
 *       members 4 each, runs of term 8 and count 4, changes of index 8, op 1, node 4
 */
#include "core/base/little.h"
#include "peer/disk.h"

#include <string.h>
#include <xxhash.h>

#define MAGIC UINT64_C(0x31746f6c73777062) /* "bpwslot1" */
#define HEAD  20u

struct pen {
    unsigned char *at;
};

static void put4(struct pen *pen, uint32_t value)
{
    bw_put32(pen->at, value);
    pen->at += 4;
}

static void put8(struct pen *pen, uint64_t value)
{
    bw_put64(pen->at, value);
    pen->at += 8;
}

static void put_durable(struct pen *pen, const struct bw_durable *d)
{
    put8(pen, d->term);
    put4(pen, d->vote);
    put4(pen, d->starts);
    put8(pen, d->token);
    put8(pen, d->promise_epoch);
    put4(pen, d->promised_to);
    put8(pen, (uint64_t)d->promised_ns);
}

static void put_log(struct pen *pen, const struct bw_peer_log *log)
{
    put8(pen, log->snapshot_index);
    put8(pen, log->snapshot_term);
    put4(pen, log->voters);
    put4(pen, log->learners);
    put4(pen, log->runs_count);
    put4(pen, log->changes_count);
    for (uint32_t i = 0; i < log->voters + log->learners; i++)
        put4(pen, log->members[i]);
    for (uint32_t i = 0; i < log->runs_count; i++) {
        put8(pen, log->runs[i].term);
        put4(pen, log->runs[i].count);
    }
    for (uint32_t i = 0; i < log->changes_count; i++) {
        put8(pen, log->changes[i].index);
        *pen->at++ = log->changes[i].op;
        put4(pen, log->changes[i].node);
    }
}

size_t bw_peer_slot_encode(unsigned char out[BW_PEER_SLOT_BYTES], uint64_t directory,
                           uint32_t election, uint64_t sequence,
                           const struct bw_peer_record *record)
{
    struct pen pen = {out + HEAD};
    put8(&pen, directory);
    put4(&pen, election);
    put8(&pen, sequence);
    put_durable(&pen, &record->durable);
    put_log(&pen, &record->log);
    size_t length = (size_t)(pen.at - out) - HEAD;
    bw_put64(out, MAGIC);
    bw_put64(out + 8, XXH64(out + HEAD, length, MAGIC));
    bw_put32(out + 16, (uint32_t)length);
    return HEAD + length;
}

struct eye {
    const unsigned char *at, *end;
    bool short_of;
};

static bool left(struct eye *eye, size_t bytes)
{
    eye->short_of = eye->short_of || (size_t)(eye->end - eye->at) < bytes;
    return !eye->short_of;
}

static uint32_t get4(struct eye *eye)
{
    uint32_t value = left(eye, 4) ? bw_get32(eye->at) : 0;
    eye->at += eye->short_of ? 0 : 4;
    return value;
}

static uint64_t get8(struct eye *eye)
{
    uint64_t value = left(eye, 8) ? bw_get64(eye->at) : 0;
    eye->at += eye->short_of ? 0 : 8;
    return value;
}

static void get_durable(struct eye *eye, struct bw_durable *d)
{
    d->term = get8(eye);
    d->vote = get4(eye);
    d->starts = get4(eye);
    d->token = get8(eye);
    d->promise_epoch = get8(eye);
    d->promised_to = get4(eye);
    d->promised_ns = (bw_time)get8(eye);
}

static bool get_log(struct eye *eye, struct bw_peer_log *log)
{
    log->snapshot_index = get8(eye);
    log->snapshot_term = get8(eye);
    log->voters = get4(eye);
    log->learners = get4(eye);
    log->runs_count = get4(eye);
    log->changes_count = get4(eye);
    if (log->voters > BW_RAFT_MEMBERS_MAX || log->learners > BW_RAFT_MEMBERS_MAX - log->voters ||
        log->runs_count > BW_RAFT_TERM_RUNS_MAX || log->changes_count > BW_RAFT_CHANGES_MAX)
        return false;
    for (uint32_t i = 0; i < log->voters + log->learners; i++)
        log->members[i] = get4(eye);
    for (uint32_t i = 0; i < log->runs_count; i++) {
        log->runs[i].term = get8(eye);
        log->runs[i].count = get4(eye);
    }
    for (uint32_t i = 0; i < log->changes_count; i++) {
        log->changes[i].index = get8(eye);
        log->changes[i].op = left(eye, 1) ? *eye->at++ : 0;
        log->changes[i].node = get4(eye);
    }
    return !eye->short_of && eye->at == eye->end;
}

bool bw_peer_slot_decode(const unsigned char in[BW_PEER_SLOT_BYTES], uint64_t directory,
                         uint32_t election, uint64_t *sequence, struct bw_peer_record *record)
{
    uint32_t length = bw_get32(in + 16);
    if (bw_get64(in) != MAGIC || length > BW_PEER_SLOT_BYTES - HEAD ||
        bw_get64(in + 8) != XXH64(in + HEAD, length, MAGIC))
        return false;
    struct eye eye = {.at = in + HEAD, .end = in + HEAD + length};
    memset(record, 0, sizeof *record);
    if (get8(&eye) != directory || get4(&eye) != election)
        return false;
    *sequence = get8(&eye);
    get_durable(&eye, &record->durable);
    return get_log(&eye, &record->log);
}
