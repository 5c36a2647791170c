/* Datagrams and streams between peers on real sockets: batches, bounds, garbage and replays, the
 * hint of a killed process, and a death notice sent by another process. */
#include "system/peer/net_host.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static uv_loop_t loop;
static struct bw_keyring *ring;
static struct host one, two;

static int start(void **state)
{
    (void)state;
    uv_loop_init(&loop);
    ring = bw_keyring_public();
    host_open(&one, &loop, 1, ring);
    host_open(&two, &loop, 2, ring);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    host_close(&one, &loop);
    host_close(&two, &loop);
    bw_keyring_free(ring);
    int busy = UV_EBUSY;
    for (unsigned i = 0; i < 1000 && (busy = uv_loop_close(&loop)) != 0; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(busy, 0); /* nothing is left open */
    return 0;
}

static void datagrams_go_both_ways_after_a_handshake(void **state)
{
    (void)state;
    introduce(&one, &two, &loop);
    two.echo = true;
    assert_int_equal(bw_datagram_send(one.datagram, 2, 1, "ping", 4), 0);
    await(&loop, &one.datagrams, 1);
    assert_int_equal(one.from, 2);
    assert_string_equal(one.text, "ping");
    assert_int_equal(bw_datagram_send(one.datagram, 3, 1, "ping", 4), BW_ENOTMEMBER);
    static char big[BW_DATAGRAM_PAYLOAD_MAX + 1];
    assert_int_equal(bw_datagram_send(one.datagram, 2, 1, big, sizeof big), BW_ELIMIT);
    assert_int_equal(bw_datagram_send(one.datagram, 2, 1, big, sizeof big - 1), 0);
    await(&loop, &two.datagrams, 2);
    assert_int_equal(two.length, BW_DATAGRAM_PAYLOAD_MAX);
}

static void unverified_sender_learns_that_its_frame_was_lost(void **state)
{
    (void)state;
    bw_datagram_send_to(one.datagram, (struct sockaddr *)&two.at, BW_NODE_NONE, 1, "join", 4);
    await(&loop, &one.lost, 1);
    assert_int_equal(two.datagrams, 0);
    bw_datagram_send_to(one.datagram, (struct sockaddr *)&two.at, BW_NODE_NONE, 1, "join", 4);
    await(&loop, &two.datagrams, 1);
    assert_string_equal(two.text, "join");
}

static void one_turn_of_the_loop_sends_and_receives_batches(void **state)
{
    (void)state;
    struct bw_datagram_counts before, sent, got;
    introduce(&one, &two, &loop);
    bw_datagram_counts(one.datagram, &before);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(bw_datagram_send(one.datagram, 2, 1, "beat", 4), 0);
    await(&loop, &two.datagrams, 200);
    bw_datagram_counts(one.datagram, &sent);
    bw_datagram_counts(two.datagram, &got);
    assert_int_equal(sent.frames_out - before.frames_out, 200);
    assert_int_equal(sent.batches_out - before.batches_out, 4); /* of 64 */
    assert_true(got.batches_in < 20);
}

/* A socket that belongs to no peer, like an attacker's. */
static int raw_socket(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = loopback();
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0);
    return fd;
}

static void garbage_is_counted_and_replays_are_dropped(void **state)
{
    (void)state;
    unsigned char frame[BW_DATAGRAM_MAX], junk[1800];
    struct bw_seal_counts counts, after;
    struct bw_datagram_counts udp;
    int fd = raw_socket();
    introduce(&one, &two, &loop);
    int size = bw_seal_make(one.seal, 2, 1, "recorded", 8, frame, sizeof frame);
    assert_true(size > 0);
    bw_seal_counts(two.seal, &counts);
    for (unsigned i = 0; i < 5; i++)
        sendto(fd, frame, (size_t)size, 0, (struct sockaddr *)&two.at, sizeof two.at);
    memset(junk, 0x5a, sizeof junk);
    for (unsigned i = 0; i < 20; i++)
        sendto(fd, junk, 90 * i, 0, (struct sockaddr *)&two.at, sizeof two.at);
    bw_datagram_send(one.datagram, 2, 1, "behind", 6);
    while (strcmp(two.text, "behind") != 0)
        await(&loop, &two.datagrams, two.datagrams + 1);
    bw_seal_counts(two.seal, &after);
    bw_datagram_counts(two.datagram, &udp);
    assert_int_equal(two.datagrams, 2); /* "recorded" once, and the last one */
    assert_int_equal(after.dropped[BW_SEAL_DROP_REPLAY] - counts.dropped[BW_SEAL_DROP_REPLAY], 4);
    assert_int_equal(after.dropped[BW_SEAL_DROP_MALFORMED], 1); /* 0 bytes */
    assert_int_equal(after.dropped[BW_SEAL_DROP_VERSION], 15);
    assert_int_equal(udp.truncated, 4); /* longer than any valid frame */
    close(fd);
}

/* ---- streams ---- */

static void a_long_frame_goes_by_a_connection_made_for_it(void **state)
{
    (void)state;
    static unsigned char big[BW_SEAL_PAYLOAD_MAX];
    two.echo = true;
    assert_int_equal(bw_stream_send(one.stream, 2, (struct sockaddr *)&two.at, 1, big, sizeof big),
                     0);
    await(&loop, &one.frames, 1);
    assert_int_equal(one.length, sizeof big);
    assert_int_equal(two.from, 1);
    assert_true(bw_stream_connected(one.stream, 2) && bw_stream_connected(two.stream, 1));
    for (unsigned i = 0; i < 5; i++)
        bw_stream_send(one.stream, 2, (struct sockaddr *)&two.at, 1, big, sizeof big);
    await(&loop, &one.frames, 6);
    struct bw_stream_counts counts;
    bw_stream_counts(one.stream, &counts);
    assert_int_equal(counts.dialled, 1);
    assert_int_equal(one.down + two.down, 0);
}

static void clean_close_gives_no_hint_and_kept_connection_is_reconnected(void **state)
{
    (void)state;
    assert_int_equal(bw_stream_keep(one.stream, 2, (struct sockaddr *)&two.at, NULL), 0);
    await(&loop, &one.up, 1);
    await(&loop, &two.up, 1);
    struct sockaddr_in at = two.at;
    bw_stream_stop_keeping(one.stream, 2);
    assert_int_equal(bw_stream_keep(one.stream, 2, (struct sockaddr *)&at, NULL), 0);
    await(&loop, &one.up, 2);
    await(&loop, &two.up, 1);
    assert_int_equal(one.down, 0);
    assert_int_equal(two.down, 0);
}

static void a_client_calls_asks_and_is_answered(void **state)
{
    (void)state;
    struct host client;
    uint64_t link = 0;
    host_open(&client, &loop, BW_NODE_NONE, ring);
    two.echo = true;
    assert_int_equal(bw_stream_call(client.stream, (struct sockaddr *)&two.at, NULL, &link), 0);
    assert_int_equal(bw_stream_answer(client.stream, link, 1, "status?", 7), 0);
    await(&loop, &client.frames, 1);
    assert_int_equal(client.called, 1);
    assert_int_equal(client.from, 2);
    assert_string_equal(client.text, "status?");
    assert_int_equal(two.from, BW_NODE_NONE);
    bw_stream_close_link(client.stream, link);
    assert_int_equal(bw_stream_answer(client.stream, link, 1, "x", 1), BW_ENOTMEMBER);
    struct sockaddr_in unused = client.at;
    host_close(&client, &loop);
    host_open(&client, &loop, BW_NODE_NONE, ring);
    assert_int_equal(bw_stream_call(client.stream, (struct sockaddr *)&unused, NULL, &link), 0);
    await(&loop, &client.refused, 1);
    host_close(&client, &loop);
}

static int dial_raw(const struct host *host)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&host->at, sizeof host->at), 0);
    return fd;
}

static uint32_t refused_by(struct host *host)
{
    struct bw_stream_counts counts;
    bw_stream_counts(host->stream, &counts);
    return (uint32_t)counts.refused;
}

static void connection_with_invalid_frames_is_closed(void **state)
{
    (void)state;
    static const unsigned char too_long[] = {0xff, 0xff, 0xff, 0x7f, 0};
    static const unsigned char long_stranger[] = {0, 0x10, 0, 0, 0};
    unsigned char no_frame[4 + BW_SEAL_OVERHEAD] = {BW_SEAL_OVERHEAD};
    const struct {
        const unsigned char *bytes;
        size_t length;
    } says[] = {{too_long, sizeof too_long},
                {long_stranger, sizeof long_stranger},
                {no_frame, sizeof no_frame},
                {(const unsigned char *)"GET / HTTP/1.1\r\n\r\n", 18}};
    for (unsigned i = 0; i < 4; i++) {
        char end;
        int fd = dial_raw(&two);
        assert_int_equal(write(fd, says[i].bytes, says[i].length), (ssize_t)says[i].length);
        while (refused_by(&two) < i + 1)
            uv_run(&loop, UV_RUN_ONCE);
        assert_true(read(fd, &end, 1) <= 0);
        close(fd);
    }
    assert_int_equal(two.up + two.down + two.frames, 0);
}

static void silent_connections_are_bounded(void **state)
{
    (void)state;
    int fds[150];
    struct bw_stream_counts counts;
    for (unsigned i = 0; i < 150; i++) {
        fds[i] = dial_raw(&two);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    while (bw_stream_counts(two.stream, &counts), counts.accepted < 150)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(counts.links <= 65);
    assert_int_equal(counts.refused, 150 - counts.links);
    two.echo = true; /* a node still gets through */
    bw_stream_send(one.stream, 2, (struct sockaddr *)&two.at, 1, "still", 5);
    await(&loop, &one.frames, 1);
    for (unsigned i = 0; i < 150; i++)
        close(fds[i]);
}

/* ---- another process ---- */

/* A node in its own process: it reports its address, keeps a connection to the parent, seals a
 * death notice to node 1, and runs until it is killed. */
struct child {
    pid_t pid;
    struct sockaddr_in at;
    size_t length;
    unsigned char words[256];
};

static void run_child(int out, struct sockaddr_in parent)
{
    uv_loop_t own;
    struct host host;
    struct child says = {.pid = getpid()};
    uv_loop_init(&own);
    host_open(&host, &own, 3, ring);
    bw_datagram_set_address(host.datagram, 1, (struct sockaddr *)&parent);
    says.at = host.at;
    int size = bw_seal_make_kept(host.seal, 1, 4, "dead", 4, says.words, sizeof says.words);
    says.length = (size_t)size;
    bw_stream_keep(host.stream, 1, (struct sockaddr *)&parent, NULL);
    if (write(out, &says, sizeof says) != sizeof says)
        _exit(1);
    uv_run(&own, UV_RUN_DEFAULT);
    _exit(0);
}

static struct child start_child(void)
{
    int pipes[2];
    struct child child;
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(120); /* ends soon after the test in any case */
        run_child(pipes[1], one.at);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &child, sizeof child), sizeof child);
    close(pipes[0]);
    return child;
}

static void killed_process_gives_a_hint_and_its_death_notice_is_received_once(void **state)
{
    (void)state;
    struct child child = start_child();
    await(&loop, &one.up, 1);
    assert_int_equal(one.up_node, 3);
    kill(child.pid, SIGKILL);
    await(&loop, &one.down, 1);
    assert_int_equal(one.down_node, 3);
    assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
    int fd = raw_socket(); /* a sender without a key and with another socket */
    for (unsigned i = 0; i < 3; i++)
        sendto(fd, child.words, child.length, 0, (struct sockaddr *)&one.at, sizeof one.at);
    await(&loop, &one.datagrams, 1);
    introduce(&one, &two, &loop);
    assert_int_equal(one.datagrams, 1);
    assert_int_equal(one.from, 3);
    assert_string_equal(one.text, "dead");
    close(fd);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        STORY(datagrams_go_both_ways_after_a_handshake),
        STORY(unverified_sender_learns_that_its_frame_was_lost),
        STORY(one_turn_of_the_loop_sends_and_receives_batches),
        STORY(garbage_is_counted_and_replays_are_dropped),
        STORY(a_long_frame_goes_by_a_connection_made_for_it),
        STORY(clean_close_gives_no_hint_and_kept_connection_is_reconnected),
        STORY(a_client_calls_asks_and_is_answered),
        STORY(connection_with_invalid_frames_is_closed),
        STORY(silent_connections_are_bounded),
        STORY(killed_process_gives_a_hint_and_its_death_notice_is_received_once),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
