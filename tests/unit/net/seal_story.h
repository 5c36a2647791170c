/* Seals that exchange frames in memory: shared by the tests of the seal. */
#ifndef BW_TESTS_UNIT_NET_SEAL_STORY_H
#define BW_TESTS_UNIT_NET_SEAL_STORY_H

#include "unit/unit.h"

#include "core/base/error.h"
#include "net/sealed/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLUSTER UINT64_C(77)
#define KEY_ONE "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_TWO "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8="

struct frame {
    unsigned char bytes[4096];
    size_t length;
};

/* A temporary key file; the test removes it. */
struct key_file {
    char path[64];
};

static inline void write_keys(const struct key_file *file, const char *text)
{
    FILE *out = fopen(file->path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static inline struct key_file key_file(const char *text)
{
    struct key_file file = {"/tmp/bellwether-keys-XXXXXX"};
    int fd = mkstemp(file.path);
    assert_true(fd >= 0);
    close(fd);
    write_keys(&file, text);
    return file;
}

static inline struct bw_keyring *ring_of(const char *text)
{
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    struct bw_keyring *ring = NULL;
    struct key_file file = key_file(text);
    assert_int_equal(bw_keyring_load(&ring, file.path, why), 0);
    unlink(file.path);
    return ring;
}

static inline struct bw_seal *seal_of(bw_node self, struct bw_keyring *ring)
{
    struct bw_seal *seal = NULL;
    const struct bw_seal_options options = {
        .ring = ring, .cluster = CLUSTER, .self = self, .peers_max = 8};
    assert_int_equal(bw_seal_new(&seal, &options), 0);
    bw_seal_clock(seal, 1000 * BW_SEC);
    return seal;
}

static inline struct frame frame_of(struct bw_seal *seal, bw_node to, const char *text)
{
    struct frame frame;
    int made = bw_seal_make(seal, to, 7, text, strlen(text), frame.bytes, sizeof frame.bytes);
    assert_int_equal(made, (int)(strlen(text) + BW_SEAL_OVERHEAD));
    frame.length = (size_t)made;
    return frame;
}

static inline struct frame keep(struct bw_seal *seal, bw_node to, const char *text)
{
    struct frame frame;
    int made = bw_seal_make_kept(seal, to, 9, text, strlen(text), frame.bytes, sizeof frame.bytes);
    assert_true(made > 0);
    frame.length = (size_t)made;
    return frame;
}

static inline int open_frame(struct bw_seal *seal, const struct frame *frame, struct bw_sealed *out)
{
    return bw_seal_open(seal, frame->bytes, frame->length, out);
}

static inline struct frame reply_of(const struct bw_sealed *opened)
{
    struct frame frame = {.length = opened->reply_length};
    memcpy(frame.bytes, opened->reply, opened->reply_length);
    return frame;
}

static inline void assert_received(struct bw_seal *seal, const struct frame *frame,
                                   const char *text)
{
    struct bw_sealed out;
    assert_int_equal(open_frame(seal, frame, &out), BW_SEAL_FRAME);
    assert_int_equal(out.length, strlen(text));
    assert_memory_equal(out.payload, text, strlen(text));
}

static inline void assert_dropped(struct bw_seal *seal, const struct frame *frame,
                                  enum bw_seal_drop why)
{
    struct bw_sealed out;
    struct bw_seal_counts before, after;
    bw_seal_counts(seal, &before);
    int result = open_frame(seal, frame, &out);
    bw_seal_counts(seal, &after);
    assert_int_equal(result, why == BW_SEAL_DROP_UNVERIFIED ? BW_SEAL_REPLY : BW_EDENIED);
    assert_string_equal(bw_seal_drop_name(out.drop), bw_seal_drop_name(why));
    assert_int_equal(after.dropped[why], before.dropped[why] + 1);
    assert_int_equal(after.opened, before.opened);
}

/* Passes replies back and forth until there are none; returns their number. */
static inline unsigned exchange(struct bw_seal *a, struct bw_seal *b, struct frame to_b)
{
    struct bw_seal *receiver = b, *other = a;
    struct bw_sealed out;
    unsigned replies = 0;
    while (open_frame(receiver, &to_b, &out) == BW_SEAL_REPLY) {
        to_b = reply_of(&out);
        struct bw_seal *next = other;
        other = receiver;
        receiver = next;
        assert_true(++replies < 10);
    }
    return replies;
}

/* Performs a handshake: afterwards both have verified each other. */
static inline void handshake(struct bw_seal *a, bw_node b_is, struct bw_seal *b)
{
    struct frame hello = frame_of(a, b_is, "hello");
    assert_int_equal(exchange(a, b, hello), 3);
    assert_true(bw_seal_knows(a, b_is));
}

#endif
