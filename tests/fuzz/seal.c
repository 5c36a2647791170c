/* libFuzzer: an attacker between two peers, controlled by a script of bytes. It records, repeats,
 * reorders, changes, truncates and forges frames, while the peers restart, forget each other and
 * let time pass.
 *
 * Checks: a received frame was sent by the other peer and is unchanged; it is received once,
 * whatever restarts (a kept frame: once until the window is lost); nodes, handshakes and bytes stay
 * within their limits. */
#include "net/sealed/seal.h"
#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 256u
#define FRAME_MAX  256u

struct frame {
    unsigned char bytes[FRAME_MAX];
    size_t length;
    bool changed;
    unsigned to; /* 0 or 1: the receiver */
};

static struct {
    struct bw_keyring *ring;
    struct bw_seal *seal[2];
    struct frame frames[FRAMES_MAX];
    unsigned count;
    bool received[FRAMES_MAX], kept[FRAMES_MAX];
    bw_time now;
} w;

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

static struct bw_seal *start(unsigned which)
{
    struct bw_seal *seal = NULL;
    const struct bw_seal_options options = {
        .ring = w.ring, .cluster = 1, .self = which + 1, .peers_max = 2};
    BW_ASSERT(bw_seal_new(&seal, &options) == 0);
    bw_seal_clock(seal, w.now);
    return seal;
}

static void record(const unsigned char *bytes, size_t length, unsigned to, bool kept)
{
    if (w.count == FRAMES_MAX || length > FRAME_MAX)
        return;
    w.frames[w.count] = (struct frame){.length = length, .to = to};
    memcpy(w.frames[w.count].bytes, bytes, length);
    w.received[w.count] = false;
    w.kept[w.count++] = kept;
}

/* The payload is the frame's number among those recorded. */
static void send_frame(unsigned from, unsigned lane)
{
    unsigned char out[FRAME_MAX],
        number[2] = {(unsigned char)w.count, (unsigned char)(w.count >> 8)};
    bw_node to = lane == 3 ? BW_NODE_NONE : 2 - from;
    int made = lane == 1   ? bw_seal_make_stream(w.seal[from], to, 1, number, 2, out, sizeof out)
               : lane == 2 ? bw_seal_make_kept(w.seal[from], to, 1, number, 2, out, sizeof out)
                           : bw_seal_make(w.seal[from], to, 1, number, 2, out, sizeof out);
    BW_ASSERT(made == (int)BW_SEAL_OVERHEAD + 2);
    record(out, (size_t)made, 1 - from, lane == 2);
}

static void check_received(unsigned to, const struct bw_sealed *opened, const struct frame *frame)
{
    BW_ASSERT(opened->length == 2 && opened->kind == 1 && opened->from == 2 - to);
    unsigned number = (unsigned)opened->payload[0] | (unsigned)opened->payload[1] << 8;
    BW_ASSERT(number < w.count && !frame->changed && w.frames[number].to == to);
    BW_ASSERT(!w.received[number]);
    w.received[number] = true;
}

static void deliver(unsigned to, const struct frame *frame)
{
    struct bw_sealed opened;
    struct bw_seal_counts counts;
    int result = bw_seal_open(w.seal[to], frame->bytes, frame->length, &opened);
    if (result == BW_SEAL_FRAME)
        check_received(to, &opened, frame);
    if (result == BW_SEAL_REPLY) {
        BW_ASSERT(opened.reply_length <= BW_SEAL_REPLY_MAX);
        record(opened.reply, opened.reply_length, 1 - to, false);
    }
    bw_seal_counts(w.seal[to], &counts);
    BW_ASSERT(counts.peers <= 1);
}

/* After a window is lost, kept frames are accepted again. */
static void lose_window(unsigned which)
{
    for (unsigned i = 0; i < w.count; i++)
        if (w.kept[i] && w.frames[i].to == which)
            w.received[i] = false;
}

static void restart(unsigned which)
{
    bw_seal_free(w.seal[which]);
    w.seal[which] = start(which);
    lose_window(which);
}

static void change(const unsigned char *at)
{
    struct frame frame = w.frames[at[0] % w.count];
    size_t place = (at[1] | (size_t)(at[2] & 1) << 8) % (frame.length ? frame.length : 1);
    if (at[2] & 2)
        frame.length = place;
    else
        frame.bytes[place] ^= at[3];
    frame.changed = at[2] & 2 ? true : at[3] != 0;
    deliver(at[2] & 4 ? 1 - frame.to : frame.to, &frame);
}

static void pass_time(bw_time span)
{
    w.now += span;
    bw_seal_clock(w.seal[0], w.now);
    bw_seal_clock(w.seal[1], w.now);
}

/* One step: an opcode and up to four bytes; returns how many were used. */
static size_t step(const unsigned char *at, size_t left)
{
    unsigned which = at[0] >> 7;
    switch (at[0] % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
        send_frame(which, at[0] % 16);
        return 1;
    case 4:
    case 5:
    case 6: /* mostly in order */
        if (w.count > 0)
            deliver(w.frames[w.count - 1].to, &w.frames[w.count - 1]);
        return 1;
    case 7:
    case 8:
        if (left > 1 && w.count > 0)
            deliver(w.frames[at[1] % w.count].to, &w.frames[at[1] % w.count]);
        return 2;
    case 9:
    case 10:
        if (left > 4 && w.count > 0)
            change(at + 1);
        return 5;
    case 11:
        restart(which);
        return 1;
    case 12:
        bw_seal_forget(w.seal[which], 2 - which);
        lose_window(which);
        return 1;
    case 13:
        pass_time(at[0] * 100 * BW_MS);
        return 1;
    default: { /* raw bytes */
        struct frame raw = {.length = left - 1 < FRAME_MAX ? left - 1 : FRAME_MAX, .changed = true};
        memcpy(raw.bytes, at + 1, raw.length);
        deliver(which, &raw);
        return 1;
    }
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    if (!w.ring)
        w.ring = bw_keyring_public();
    w.count = 0;
    w.now = 1000 * BW_SEC;
    w.seal[0] = start(0);
    w.seal[1] = start(1);
    for (size_t at = 0; at < length;)
        at += step(bytes + at, length - at);
    bw_seal_free(w.seal[0]);
    bw_seal_free(w.seal[1]);
    return 0;
}
