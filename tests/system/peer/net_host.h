/* Hosts on the loopback for the tests of datagrams and streams: real sockets, one libuv loop. */
#ifndef BW_TESTS_SYSTEM_PEER_NET_HOST_H
#define BW_TESTS_SYSTEM_PEER_NET_HOST_H

#include "unit/unit.h"

#include "core/base/error.h"
#include "net/sealed/datagram.h"
#include "net/sealed/stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#define HANG_MS 60000u /* a test that takes longer hangs, even on a slow machine */

struct host {
    bw_node id;
    struct bw_seal *seal;
    struct bw_datagram *datagram;
    struct bw_stream *stream;
    struct sockaddr_in at; /* address for UDP and TCP */
    /* Counters of received events, and details of the last event: */
    uint32_t datagrams, frames, met, restarted, lost, up, down, called, refused;
    bw_node from, up_node, down_node;
    uint64_t link;
    size_t length;
    char text[64];
    bool echo;
};

static inline void note(struct host *host, const struct bw_sealed *frame)
{
    host->from = frame->from;
    host->length = frame->length;
    snprintf(host->text, sizeof host->text, "%.*s", (int)frame->length, (char *)frame->payload);
}

static inline void on_datagram(void *context, const struct bw_sealed *frame,
                               const struct sockaddr *from)
{
    struct host *host = context;
    note(host, frame);
    host->datagrams++;
    if (host->echo)
        bw_datagram_send_to(host->datagram, from, frame->from, 2, frame->payload, frame->length);
}

static inline void on_met(void *context, bw_node node, bool restarted, const struct sockaddr *from)
{
    struct host *host = context;
    (void)node, (void)from;
    host->met++;
    host->restarted += restarted;
}

static inline void on_lost(void *context, bw_node node, const struct sockaddr *from)
{
    (void)node, (void)from;
    ((struct host *)context)->lost++;
}

static inline void on_frame(void *context, const struct bw_sealed *frame, uint64_t link)
{
    struct host *host = context;
    note(host, frame);
    host->frames++;
    host->link = link;
    if (host->echo)
        bw_stream_answer(host->stream, link, 2, frame->payload, frame->length);
}

static inline void on_up(void *context, bw_node node)
{
    struct host *host = context;
    host->up++;
    host->up_node = node;
}

static inline void on_down(void *context, bw_node node)
{
    struct host *host = context;
    host->down++;
    host->down_node = node;
}

static inline void on_called(void *context, uint64_t link, const char *why)
{
    struct host *host = context;
    (void)link;
    host->called++;
    host->refused += why != NULL;
}

static inline struct sockaddr_in loopback(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Opens a host. If the port chosen for UDP is in use for TCP, tries another one. */
static inline void host_open_with(struct host *host, uv_loop_t *loop, bw_node id,
                                  struct bw_keyring *ring, struct bw_credentials *credentials)
{
    char why[256] = "";
    struct sockaddr_in any = loopback();
    *host = (struct host){.id = id};
    const struct bw_seal_options seal = {.ring = ring, .cluster = 5, .self = id, .peers_max = 16};
    assert_int_equal(bw_seal_new(&host->seal, &seal), 0);
    for (unsigned tries = 0; !host->stream && tries < 20; tries++) {
        const struct bw_datagram_options udp = {.loop = loop,
                                                .seal = host->seal,
                                                .listen = (struct sockaddr *)&any,
                                                .peers_max = 16,
                                                .context = host,
                                                .frame = on_datagram,
                                                .met = on_met,
                                                .lost = on_lost};
        assert_int_equal(bw_datagram_open(&host->datagram, &udp, why), 0);
        memcpy(&host->at, bw_datagram_bound(host->datagram), sizeof host->at);
        const struct bw_stream_options tcp = {.loop = loop,
                                              .seal = host->seal,
                                              .listen = (struct sockaddr *)&host->at,
                                              .credentials = credentials,
                                              .links_max = 100,
                                              .context = host,
                                              .frame = on_frame,
                                              .up = on_up,
                                              .down = on_down,
                                              .called = on_called};
        if (bw_stream_open(&host->stream, &tcp, why) != 0)
            bw_datagram_close(host->datagram, NULL);
    }
    assert_non_null(host->stream);
}

static inline void host_open(struct host *host, uv_loop_t *loop, bw_node id,
                             struct bw_keyring *ring)
{
    host_open_with(host, loop, id, ring, NULL);
}

static inline void on_hang(uv_timer_t *timer)
{
    (void)timer;
    fprintf(stderr, "what was waited for did not come\n");
    abort();
}

/* Runs the loop until `*count` is at least `wanted`. */
static inline void await(uv_loop_t *loop, const uint32_t *count, uint32_t wanted)
{
    uv_timer_t hang;
    uv_timer_init(loop, &hang);
    uv_timer_start(&hang, on_hang, HANG_MS, 0);
    while (*count < wanted)
        uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&hang, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

static inline void host_close(struct host *host, uv_loop_t *loop)
{
    bw_stream_close(host->stream, NULL);
    bw_datagram_close(host->datagram, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    uv_run(loop, UV_RUN_NOWAIT);
    bw_seal_free(host->seal);
}

/* Gives each host the other's address and lets them verify each other. */
static inline void introduce(struct host *a, struct host *b, uv_loop_t *loop)
{
    uint32_t met_a = a->met, met_b = b->met;
    bw_datagram_set_address(a->datagram, b->id, (struct sockaddr *)&b->at);
    bw_datagram_set_address(b->datagram, a->id, (struct sockaddr *)&a->at);
    assert_int_equal(bw_datagram_start_handshake(a->datagram, (struct sockaddr *)&b->at, b->id), 0);
    await(loop, &b->met, met_b + 1);
    await(loop, &a->met, met_a + 1);
}

#endif
