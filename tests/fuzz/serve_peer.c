/* libFuzzer: a real node with real sockets and a real log receives anything from two other nodes.
 * It neither crashes nor leaks, and it can start again from what it stored.
 *
 * The input is a sequence of frames: 1 kind (+64: from node 3, else from 2), 2 length, payload.
 * Kind 0 is raw bytes instead of a frame. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "fuzz/fuzz_dir.h"
#include "os/crash.h"
#include "serve/mesh/mesh.h"
#include "system/kit/ports.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define CLUSTER 77u
#define HEAD    3u
#define HELLO   28u

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

/* The build with crash points has small segments and early snapshots; no point is selected. */
void bw_crash_point(const char *name)
{
    (void)name;
}

void bw_crash_step(const char *file, const char *step)
{
    (void)file, (void)step;
}

void bw_crash_torn(const char *name, int fd, const void *bytes, size_t length, long long at)
{
    (void)name, (void)fd, (void)bytes, (void)length, (void)at;
}

void bw_crash_hole(const char *name, int fd, const void *bytes, size_t length, long long at)
{
    (void)name, (void)fd, (void)bytes, (void)length, (void)at;
}

static uv_loop_t loop;
static struct bw_replica_member members[3];
static bool closed, over;

static void on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results)
{
    (void)context, (void)request, (void)entry, (void)refusal, (void)results;
}

static void on_answered(void *context, uint64_t request, bw_time ttl_ns)
{
    (void)context, (void)request, (void)ttl_ns;
}

static void on_failed(void *context, uint64_t request, int error)
{
    (void)context, (void)request, (void)error;
}

static void on_changed(void *context, bool restored)
{
    (void)context, (void)restored;
}

static void on_led(void *context)
{
    (void)context;
}

static void on_ended(void *context, enum bw_replica_end end, const char *why)
{
    (void)context, (void)end;
    BW_ASSERT(why[0]);
    over = true;
}

static void on_closed(void *context)
{
    (void)context;
    closed = true;
}

static void begin(void)
{
    if (fuzz_dir[0])
        return;
    fuzz_dir_make();
    BW_ASSERT(uv_loop_init(&loop) == 0);
    for (uint32_t i = 0; i < 3; i++) {
        members[i] = (struct bw_replica_member){.id = i + 1, .port = free_port()};
        snprintf(members[i].name, sizeof members[i].name, "n%u", i);
        snprintf(members[i].host, sizeof members[i].host, "127.0.0.1");
    }
}

static struct bw_replica *replica_open(void)
{
    struct bw_replica *replica = NULL;
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    struct bw_replica_options options = {
        .loop = &loop,
        .directory = fuzz_dir,
        .cluster = CLUSTER,
        .self = 1,
        .members = members,
        .count = 3,
        .registry = {.quota = 1 << 20, .leases_max = 64, .history = 1024},
        .applied = on_applied,
        .answered = on_answered,
        .failed = on_failed,
        .changed = on_changed,
        .led = on_led,
        .ended = on_ended};
    int error = bw_replica_open(&replica, &options, why);
    if (error)
        fprintf(stderr, "%s\n", why);
    BW_ASSERT(error == 0);
    closed = over = false;
    return replica;
}

static void replica_close(struct bw_replica *replica)
{
    bw_replica_close(replica, on_closed);
    while (!closed)
        uv_run(&loop, UV_RUN_ONCE);
}

static int connect_as(bw_node from)
{
    unsigned char hello[5 + HELLO];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(members[0].port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    BW_ASSERT(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    bw_put32(hello, 1 + HELLO);
    hello[4] = BW_FRAME_HELLO;
    bw_put32(hello + 5, BW_MESH_VERSION);
    bw_put32(hello + 9, BW_MESH_VERSION_MIN);
    bw_put64(hello + 13, CLUSTER);
    bw_put32(hello + 21, from);
    bw_put32(hello + 25, 1);
    bw_put32(hello + 29, members[from - 1].port);
    BW_ASSERT(send(fd, hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello);
    return fd;
}

static void turn(unsigned times)
{
    for (unsigned i = 0; i < times && !over; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void send_frame(int fd, unsigned kind, const unsigned char *bytes, size_t length)
{
    unsigned char head[5];
    bw_put32(head, (uint32_t)length + 1);
    head[4] = (unsigned char)kind;
    if (kind != 0 && send(fd, head, sizeof head, MSG_NOSIGNAL) < 0)
        return; /* the node closed the connection */
    if (length && send(fd, bytes, length, MSG_NOSIGNAL) < 0)
        return;
    turn(3);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    begin();
    fuzz_dir_write("met", "", 0);
    struct bw_replica *replica = replica_open();
    int two = connect_as(2), three = connect_as(3);
    turn(3);
    while (length >= HEAD && !over) {
        size_t piece = (size_t)bytes[1] | (size_t)bytes[2] << 8;
        piece = piece < length - HEAD ? piece : length - HEAD;
        send_frame(bytes[0] & 64 ? three : two, bytes[0] % 32, bytes + HEAD, piece);
        bytes += HEAD + piece;
        length -= HEAD + piece;
    }
    turn(20);
    close(two);
    close(three);
    turn(3);
    replica_close(replica);
    replica_close(replica_open()); /* the stored data is valid */
    fuzz_dir_empty();
    return 0;
}
