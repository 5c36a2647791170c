/* Measures the cost of a sealed frame: seal, open, refuse a replay, refuse a frame from an unknown
 * sender, and UDP round trips on loopback through the whole stack. Prints figures and has no target
 * values. */
#include "net/sealed/datagram.h"
#include "net/sealed/seal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAMES  200000u
#define TRIPS   50000u
#define PAYLOAD 100u

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "net_seal: %s\n", what);
    exit(1);
}

static struct bw_seal *seal_of(struct bw_keyring *ring, bw_node self)
{
    struct bw_seal *seal = NULL;
    const struct bw_seal_options options = {
        .ring = ring, .cluster = 1, .self = self, .peers_max = 4};
    if (bw_seal_new(&seal, &options) != 0)
        die("cannot create a seal");
    return seal;
}

static void meet(struct bw_seal *a, struct bw_seal *b)
{
    static struct bw_sealed out;
    unsigned char frame[BW_SEAL_REPLY_MAX];
    size_t length = (size_t)bw_seal_start_handshake(a, 2, frame, sizeof frame);
    struct bw_seal *hearer = b;
    while (bw_seal_open(hearer, frame, length, &out) == BW_SEAL_REPLY) {
        length = out.reply_length;
        memcpy(frame, out.reply, length);
        hearer = hearer == b ? a : b;
    }
}

static double each_ns(double from, unsigned count)
{
    return (now_s() - from) / count * 1e9;
}

static void frames(struct bw_keyring *ring)
{
    static unsigned char payload[PAYLOAD], out[FRAMES][PAYLOAD + BW_SEAL_OVERHEAD];
    static struct bw_sealed opened;
    struct bw_seal *one = seal_of(ring, 1), *two = seal_of(ring, 2), *three = seal_of(ring, 3);
    meet(one, two);
    double from = now_s();
    for (unsigned i = 0; i < FRAMES; i++)
        if (bw_seal_make(one, 2, 1, payload, PAYLOAD, out[i], sizeof out[i]) < 0)
            die("cannot seal");
    printf("seal a frame of %u bytes      %8.0f ns\n", PAYLOAD, each_ns(from, FRAMES));
    from = now_s();
    for (unsigned i = 0; i < FRAMES; i++)
        if (bw_seal_open(two, out[i], sizeof out[i], &opened) != BW_SEAL_FRAME)
            die("cannot open");
    printf("open it                        %8.0f ns\n", each_ns(from, FRAMES));
    from = now_s();
    for (unsigned i = 0; i < FRAMES; i++)
        bw_seal_open(two, out[i], sizeof out[i], &opened);
    printf("refuse a replay                %8.0f ns\n", each_ns(from, FRAMES));
    bw_seal_make(three, 2, 1, payload, PAYLOAD, out[0], sizeof out[0]);
    from = now_s();
    for (unsigned i = 0; i < FRAMES; i++)
        bw_seal_open(two, out[0], sizeof out[0], &opened);
    printf("refuse an unknown sender       %8.0f ns\n", each_ns(from, FRAMES));
    bw_seal_free(one);
    bw_seal_free(two);
    bw_seal_free(three);
}

struct end {
    struct bw_datagram *datagram;
    uint32_t trips;
};

static void on_frame(void *context, const struct bw_sealed *frame, const struct sockaddr *from)
{
    struct end *end = context;
    if (++end->trips < TRIPS)
        bw_datagram_send_to(end->datagram, from, frame->from, 1, frame->payload, frame->length);
}

static void trips(struct bw_keyring *ring)
{
    static unsigned char payload[PAYLOAD];
    char why[BW_DATAGRAM_WHY_MAX + 1];
    uv_loop_t loop;
    struct end ends[2] = {0};
    struct bw_seal *seals[2] = {seal_of(ring, 1), seal_of(ring, 2)};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uv_loop_init(&loop);
    meet(seals[0], seals[1]);
    for (unsigned i = 0; i < 2; i++) {
        const struct bw_datagram_options options = {.loop = &loop,
                                                    .seal = seals[i],
                                                    .listen = (struct sockaddr *)&any,
                                                    .peers_max = 4,
                                                    .context = &ends[i],
                                                    .frame = on_frame};
        if (bw_datagram_open(&ends[i].datagram, &options, why) != 0)
            die(why);
    }
    double from = now_s();
    bw_datagram_send_to(ends[0].datagram, bw_datagram_bound(ends[1].datagram), 2, 1, payload,
                        PAYLOAD);
    while (ends[1].trips < TRIPS)
        uv_run(&loop, UV_RUN_ONCE);
    printf("UDP round trip                 %8.0f ns\n", each_ns(from, TRIPS));
    for (unsigned i = 0; i < 2; i++)
        bw_datagram_close(ends[i].datagram, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    bw_seal_free(seals[0]);
    bw_seal_free(seals[1]);
}

int main(void)
{
    struct bw_keyring *ring = bw_keyring_public();
    frames(ring);
    trips(ring);
    bw_keyring_free(ring);
    return 0;
}
