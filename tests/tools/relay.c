/* A slow link: relays UDP and TCP to one target, and delays each packet.
 *
 *     relay LISTEN:PORT TARGET:PORT [--delay MS] [--jitter MS] [--loss PERCENT] [--seed N]
 *
 * Addresses are IPv4. With port 0 the kernel chooses the port. The first line of stdout is always
 * "listening PORT". The relay delays each datagram by delay +- jitter, so datagrams can overtake
 * each other. It delays the bytes of a TCP connection in the same way, but keeps their order; the
 * end of the connection comes last. Replies are delayed, too. Only datagrams are lost. The target
 * sees the relay's address instead of the client's. Tests use the relay on kernels without netem.
 *
 * Clients, connections and bytes in flight are bounded: further ones are dropped, or wait at their
 * sender. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define CLIENTS_MAX     512u
#define UNDER_WAY_MAX   16384u
#define DATAGRAM_MAX    65536u
#define WAITING_MAX     (1u << 20) /* bytes that may wait, per direction of a connection */
#define CONNECTIONS_MAX 1024u
#define PORT_TRIES      20u

static struct {
    uv_loop_t *loop;
    struct sockaddr_in listen, target;
    double delay_ms, jitter_ms, loss;
    unsigned seed;
    uv_udp_t udp;
    uv_tcp_t tcp;
    uint32_t clients, under_way, connections;
    struct client *first;
    char buffer[DATAGRAM_MAX];
} w;

static double unit(void)
{
    return rand_r(&w.seed) / ((double)RAND_MAX + 1);
}

static double wait_ms(void)
{
    double ms = w.delay_ms + (2 * unit() - 1) * w.jitter_ms;
    return ms > 0 ? ms : 0;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)handle, (void)suggested;
    *out = uv_buf_init(w.buffer, sizeof w.buffer);
}

/* ---- datagrams ---- */

/* A UDP client. The relay uses one socket per client towards the target. */
struct client {
    struct client *next;
    struct sockaddr_in from;
    uv_udp_t udp;
};

struct datagram {
    uv_timer_t timer;
    uv_udp_t *by;
    struct sockaddr_in to;
    size_t length;
    char bytes[];
};

static void free_handle(uv_handle_t *handle)
{
    w.under_way--;
    free(handle); /* the timer is the first member of the allocated struct */
}

static void on_due(uv_timer_t *timer)
{
    struct datagram *datagram = (struct datagram *)timer;
    uv_buf_t buffer = uv_buf_init(datagram->bytes, (unsigned)datagram->length);
    uv_udp_try_send(datagram->by, &buffer, 1, (struct sockaddr *)&datagram->to);
    uv_close((uv_handle_t *)timer, free_handle);
}

static void pass_datagram(uv_udp_t *by, const struct sockaddr_in *to, const char *bytes,
                          size_t length)
{
    if (w.under_way >= UNDER_WAY_MAX || unit() * 100 < w.loss)
        return;
    struct datagram *new = malloc(sizeof *new + length);
    if (!new)
        return;
    w.under_way++;
    new->by = by;
    new->to = *to;
    new->length = length;
    memcpy(new->bytes, bytes, length);
    uv_timer_init(w.loop, &new->timer);
    uv_update_time(w.loop);
    uv_timer_start(&new->timer, on_due, (uint64_t)(wait_ms() + 0.5), 0);
}

static void on_answer(uv_udp_t *udp, ssize_t got, const uv_buf_t *buffer,
                      const struct sockaddr *from, unsigned flags)
{
    const struct client *client = udp->data;
    (void)flags;
    if (got >= 0 && from)
        pass_datagram(&w.udp, &client->from, buffer->base, (size_t)got);
}

static struct client *client_of(const struct sockaddr_in *from)
{
    struct client *client = w.first;
    while (client && (client->from.sin_port != from->sin_port ||
                      client->from.sin_addr.s_addr != from->sin_addr.s_addr))
        client = client->next;
    if (client || w.clients == CLIENTS_MAX || !(client = calloc(1, sizeof *client)))
        return client;
    struct sockaddr_in any = {.sin_family = AF_INET};
    client->from = *from;
    client->udp.data = client;
    uv_udp_init(w.loop, &client->udp);
    uv_udp_bind(&client->udp, (struct sockaddr *)&any, 0);
    uv_udp_recv_start(&client->udp, on_room, on_answer);
    client->udp.data = client;
    client->next = w.first;
    w.first = client;
    w.clients++;
    return client;
}

static void on_datagram(uv_udp_t *udp, ssize_t got, const uv_buf_t *buffer,
                        const struct sockaddr *from, unsigned flags)
{
    (void)udp, (void)flags;
    if (got < 0 || !from)
        return;
    struct client *client = client_of((const struct sockaddr_in *)from);
    if (client)
        pass_datagram(&client->udp, &w.target, buffer->base, (size_t)got);
}

/* ---- connections ---- */

/* one of the two sockets of a relayed connection; the relay writes its bytes to the other */
struct end {
    uv_tcp_t tcp;
    struct end *other;
    struct pair *pair;
    size_t waiting; /* bytes read from it, but not yet written to the other socket */
    double due_ms;  /* when the last chunk is due; the next chunk must not be due earlier */
    bool open;      /* can be written to */
};

struct pair {
    struct end near, far;
    uv_connect_t connect;
    uint32_t handles;
    bool closing;
};

struct chunk {
    uv_timer_t timer;
    uv_write_t write;
    struct end *from;
    ssize_t length; /* negative: end of the stream, as read */
    char bytes[];
};

static void on_bytes(uv_stream_t *tcp, ssize_t got, const uv_buf_t *buffer);

static void release(struct pair *pair)
{
    if (--pair->handles > 0)
        return;
    w.connections--;
    free(pair);
}

static void on_end_closed(uv_handle_t *handle)
{
    struct end *end = handle->data;
    release(end->pair);
}

static void close_pair(struct pair *pair)
{
    if (pair->closing)
        return;
    pair->closing = true;
    uv_close((uv_handle_t *)&pair->near.tcp, on_end_closed);
    uv_close((uv_handle_t *)&pair->far.tcp, on_end_closed);
}

static void on_chunk_closed(uv_handle_t *handle)
{
    struct chunk *chunk = (struct chunk *)handle;
    struct pair *pair = chunk->from->pair;
    w.under_way--;
    free(chunk);
    release(pair);
}

static void end_chunk(struct chunk *chunk)
{
    struct end *from = chunk->from;
    from->waiting -= chunk->length > 0 ? (size_t)chunk->length : 0;
    if (!from->pair->closing && from->waiting < WAITING_MAX && from->open)
        uv_read_start((uv_stream_t *)&from->tcp, on_room, on_bytes);
    uv_close((uv_handle_t *)&chunk->timer, on_chunk_closed);
}

static void on_written(uv_write_t *write, int status)
{
    struct chunk *chunk = write->data;
    if (status < 0)
        close_pair(chunk->from->pair);
    end_chunk(chunk);
}

static void on_chunk_due(uv_timer_t *timer)
{
    struct chunk *chunk = (struct chunk *)timer;
    struct end *to = chunk->from->other;
    uv_buf_t buffer = uv_buf_init(chunk->bytes, chunk->length > 0 ? (unsigned)chunk->length : 0);
    chunk->write.data = chunk;
    if (chunk->from->pair->closing || chunk->length <= 0) {
        /* a half-close closes the whole connection; peers do not use half-closed connections */
        close_pair(chunk->from->pair);
        end_chunk(chunk);
    } else if (uv_write(&chunk->write, (uv_stream_t *)&to->tcp, &buffer, 1, on_written) != 0) {
        close_pair(chunk->from->pair);
        end_chunk(chunk);
    }
}

/* Queues a chunk after all earlier ones. */
static void on_bytes(uv_stream_t *tcp, ssize_t got, const uv_buf_t *buffer)
{
    struct end *end = tcp->data;
    if (got == 0)
        return;
    struct chunk *chunk = malloc(sizeof *chunk + (got > 0 ? (size_t)got : 0));
    if (!chunk) {
        close_pair(end->pair);
        return;
    }
    chunk->from = end;
    chunk->length = got;
    if (got > 0)
        memcpy(chunk->bytes, buffer->base, (size_t)got);
    w.under_way++;
    end->pair->handles++;
    end->waiting += got > 0 ? (size_t)got : 0;
    if (got < 0)
        end->open = false;
    if (got < 0 || end->waiting >= WAITING_MAX)
        uv_read_stop(tcp);
    uv_update_time(w.loop);
    double now = (double)uv_now(w.loop), due = now + wait_ms();
    end->due_ms = due > end->due_ms ? due : end->due_ms;
    uv_timer_init(w.loop, &chunk->timer);
    uv_timer_start(&chunk->timer, on_chunk_due, (uint64_t)(end->due_ms - now + 0.5), 0);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct pair *pair = connect->data;
    if (pair->closing)
        return;
    if (status < 0) {
        close_pair(pair);
        return;
    }
    uv_tcp_nodelay(&pair->far.tcp, 1);
    uv_read_start((uv_stream_t *)&pair->near.tcp, on_room, on_bytes);
    uv_read_start((uv_stream_t *)&pair->far.tcp, on_room, on_bytes);
}

static void on_accept(uv_stream_t *listener, int status)
{
    struct pair *pair =
        status == 0 && w.connections < CONNECTIONS_MAX ? calloc(1, sizeof *pair) : NULL;
    if (!pair)
        return;
    w.connections++;
    pair->handles = 2;
    struct end *ends[] = {&pair->near, &pair->far};
    for (unsigned i = 0; i < 2; i++) {
        *ends[i] = (struct end){.pair = pair, .other = ends[1 - i], .open = true};
        uv_tcp_init(w.loop, &ends[i]->tcp);
        ends[i]->tcp.data = ends[i];
    }
    pair->connect.data = pair;
    if (uv_accept(listener, (uv_stream_t *)&pair->near.tcp) != 0 ||
        uv_tcp_connect(&pair->connect, &pair->far.tcp, (struct sockaddr *)&w.target,
                       on_connected) != 0) {
        close_pair(pair);
        return;
    }
    uv_tcp_nodelay(&pair->near.tcp, 1);
}

/* ---- beginning ---- */

static bool read_address(const char *text, struct sockaddr_in *out)
{
    char host[64] = "";
    const char *colon = strchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    return uv_ip4_addr(host, atoi(colon + 1), out) == 0;
}

static bool read_options(int count, char **words)
{
    if (count < 3 || !read_address(words[1], &w.listen) || !read_address(words[2], &w.target))
        return false;
    w.seed = 1;
    for (int i = 3; i + 1 < count; i += 2) {
        double value = strtod(words[i + 1], NULL);
        if (strcmp(words[i], "--delay") == 0)
            w.delay_ms = value;
        else if (strcmp(words[i], "--jitter") == 0)
            w.jitter_ms = value;
        else if (strcmp(words[i], "--loss") == 0)
            w.loss = value;
        else if (strcmp(words[i], "--seed") == 0)
            w.seed = (unsigned)value;
        else
            return false;
    }
    return count % 2 == 1;
}

static int listen_both(void)
{
    int length = sizeof w.listen;
    uv_udp_init(w.loop, &w.udp);
    uv_tcp_init(w.loop, &w.tcp);
    int error = uv_udp_bind(&w.udp, (struct sockaddr *)&w.listen, 0);
    if (!error)
        error = uv_udp_getsockname(&w.udp, (struct sockaddr *)&w.listen, &length);
    if (!error)
        error = uv_tcp_bind(&w.tcp, (struct sockaddr *)&w.listen, 0);
    if (!error)
        error = uv_listen((uv_stream_t *)&w.tcp, 128, on_accept);
    if (!error)
        error = uv_udp_recv_start(&w.udp, on_room, on_datagram);
    return error;
}

/* Listens on one port for both UDP and TCP. With port 0, tries again if the port that the kernel
 * chose for UDP is in use for TCP. */
static int listen_somewhere(void)
{
    bool any = w.listen.sin_port == 0;
    int error = listen_both();
    for (unsigned i = 0; any && error == UV_EADDRINUSE && i < PORT_TRIES; i++) {
        uv_close((uv_handle_t *)&w.udp, NULL);
        uv_close((uv_handle_t *)&w.tcp, NULL);
        uv_run(w.loop, UV_RUN_NOWAIT);
        w.listen.sin_port = 0;
        error = listen_both();
    }
    return error;
}

int main(int count, char **words)
{
    if (!read_options(count, words)) {
        fprintf(stderr, "usage: relay LISTEN:PORT TARGET:PORT [--delay MS] [--jitter MS] "
                        "[--loss PERCENT] [--seed N]\n");
        return 64;
    }
    signal(SIGPIPE, SIG_IGN);
    w.loop = uv_default_loop();
    int error = listen_somewhere();
    if (error) {
        fprintf(stderr, "relay: cannot listen on %s: %s\n", words[1], uv_strerror(error));
        return 1;
    }
    printf("listening %d\n", ntohs(w.listen.sin_port));
    fflush(stdout);
    return uv_run(w.loop, UV_RUN_DEFAULT);
}
