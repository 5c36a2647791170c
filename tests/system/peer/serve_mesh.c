/* Two nodes' connections on one loop: which frames arrive first when both lanes are full. */
#include "serve/mesh/mesh.h"

#include "system/kit/ports.h"
#include "unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define HANG_MS    60000
#define BULK       24u /* frames: more than the socket buffers of the kernel take */
#define BULK_BYTES ((size_t)4 << 20)
#define URGENT     8u

static struct {
    uv_loop_t loop;
    uv_timer_t timeout;
    struct bw_mesh *mesh[2];
    uint32_t closed;
    bool out_of_time;
    /* what the second node received: frames of each lane, BULK frames before each URGENT frame */
    uint32_t bulk, urgent, bulk_before[URGENT];
    uint32_t disorder; /* frames out of the order of their lane */
} w;

static void on_frame(void *context, bw_node from, enum bw_mesh_frame kind,
                     const unsigned char *bytes, size_t length)
{
    (void)context;
    (void)from;
    uint32_t *count = kind == BW_FRAME_PIECE ? &w.bulk : &w.urgent;
    w.disorder += length == 0 || bytes[0] != *count;
    if (kind != BW_FRAME_PIECE && w.urgent < URGENT)
        w.bulk_before[w.urgent] = w.bulk;
    (*count)++;
}

static void on_node(void *context, bw_node node)
{
    (void)context;
    (void)node;
}

static enum bw_mesh_verdict on_judge(void *context, const struct bw_replica_member *from)
{
    (void)context;
    (void)from;
    return BW_MESH_OK;
}

static void on_refused(void *context, bw_node node, enum bw_mesh_verdict verdict)
{
    (void)context;
    (void)node;
    (void)verdict;
}

static void on_timeout(uv_timer_t *timer)
{
    (void)timer;
    w.out_of_time = true;
}

static void on_closed(void *context)
{
    (void)context;
    w.closed++;
}

static void turn(void)
{
    uv_run(&w.loop, UV_RUN_ONCE);
    assert_false(w.out_of_time);
}

static void world_open(void)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    struct bw_replica_member other = {.id = 2, .port = free_port(), .host = "127.0.0.1"};
    memset(&w, 0, sizeof w);
    uv_loop_init(&w.loop);
    uv_timer_init(&w.loop, &w.timeout);
    uv_timer_start(&w.timeout, on_timeout, HANG_MS, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct bw_mesh_options options = {.loop = &w.loop,
                                          .cluster = 77,
                                          .self = i + 1,
                                          .host = "127.0.0.1",
                                          .port = i == 1 ? other.port : 0, /* 0: does not listen */
                                          .own_host = "127.0.0.1",
                                          .frame = on_frame,
                                          .closed = on_node,
                                          .opened = on_node,
                                          .judge = on_judge,
                                          .refused = on_refused};
        assert_int_equal(bw_mesh_open(&w.mesh[i], &options, why), 0);
    }
    assert_int_equal(bw_mesh_add(w.mesh[0], &other), 0);
    while (!bw_mesh_connected(w.mesh[0], 2))
        turn();
}

static void world_close(void)
{
    for (uint32_t i = 0; i < 2; i++)
        bw_mesh_close(w.mesh[i], on_closed);
    uv_close((uv_handle_t *)&w.timeout, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static bool send_frame(enum bw_mesh_frame kind, enum bw_mesh_lane lane, uint32_t number,
                       const unsigned char *rest, size_t length)
{
    unsigned char head = (unsigned char)number;
    struct bw_part parts[] = {{&head, 1}, {rest, length}};
    return bw_mesh_send(w.mesh[0], 2, kind, lane, parts, 2);
}

/* 96 MB wait when the URGENT frames are sent. Of these, only what the kernel and the connection
 * have taken already may arrive first; the socket buffers of a connection over loopback take some
 * megabytes. */
static void urgent_frames_overtake_waiting_bulk_frames(void **state)
{
    (void)state;
    unsigned char *rest = calloc(1, BULK_BYTES);
    world_open();
    for (uint32_t i = 0; i < BULK; i++)
        assert_true(send_frame(BW_FRAME_PIECE, BW_LANE_BULK, i, rest, BULK_BYTES));
    for (uint32_t i = 0; i < URGENT; i++)
        assert_true(send_frame(BW_FRAME_REPLY, BW_LANE_URGENT, i, NULL, 0));
    while (w.bulk < BULK || w.urgent < URGENT)
        turn();
    assert_int_equal(w.disorder, 0);
    for (uint32_t i = 0; i < URGENT; i++)
        assert_in_range(w.bulk_before[i], 0, BULK / 3);
    world_close();
    free(rest);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent_frames_overtake_waiting_bulk_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
