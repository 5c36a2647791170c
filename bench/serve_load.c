/* A small gRPC client that puts load on any server with etcd's v3 API, ours or etcd. It has one
 * thread, epoll and nghttp2, and encodes messages by hand.
 *
 *   acquire + release, closed loop:
 *     serve_load cycles HOST:PORT CLIENTS CONNECTIONS SECONDS
 *   renewals with this many leases:
 *     serve_load keepalive HOST:PORT LEASES CONNECTIONS SECONDS
 *   grant leases and keep them:
 *     serve_load grant HOST:PORT LEASES CONNECTIONS
 *   a put every millisecond to each endpoint until one succeeds; a line on stdin starts it:
 *     serve_load probe HOST:PORT,HOST:PORT,... SECONDS
 *   COUNT puts of BYTES each to one key; ends early when all endpoints are gone:
 *     serve_load puts HOST:PORT,HOST:PORT,... KEY WRITERS COUNT BYTES
 *
 * A cycle is a transaction that creates a key with a lease if it is absent, then its deletion.
 * Prints one line of JSON: the figures, and the share of a core that the client uses. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 4096u
#define CONNS_MAX   512u
#define MESSAGE_MAX 256u

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "serve_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

struct message { /* a message to send, with its five bytes of header */
    unsigned char *bytes;
    size_t length, sent;
    bool more; /* a stream: more messages follow */
};

struct conn {
    int fd;
    nghttp2_session *h2;
    unsigned char *out;
    size_t out_used, out_size;
    bool dirty, want_write, broken;
    char host[64];
    uint16_t port;
};

struct client {
    struct conn *conn;
    unsigned id, phase;
    int64_t lease;
    uint64_t since;
    int32_t stream;
    int status;
    unsigned char in[1024];
    size_t in_used;
    struct message message;
    void (*done)(struct client *client);
    void (*answer)(struct client *client); /* streams: called for each message */
};

static struct conn conns[CONNS_MAX];
static unsigned conn_count;
static struct client *clients;
static int poller;
static uint64_t deadline, finished, errors, *latencies;
static size_t latency_count, latency_size;
static bool stopping;
static char authority[80];

/* ---- protobuf, only what is needed ---- */

static size_t varint(unsigned char *at, uint64_t value)
{
    size_t used = 0;
    do {
        at[used++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
    return used;
}

static size_t put_bytes(unsigned char *at, unsigned field, const void *bytes, size_t length)
{
    size_t used = varint(at, field << 3 | 2);
    used += varint(at + used, length);
    memcpy(at + used, bytes, length);
    return used + length;
}

static size_t put_number(unsigned char *at, unsigned field, uint64_t value)
{
    size_t used = varint(at, field << 3);
    return used + varint(at + used, value);
}

/* Returns the number in field `wanted` of a message; 0: absent. */
static uint64_t get_number(const unsigned char *at, size_t length, unsigned wanted)
{
    for (size_t i = 0; i < length;) {
        uint64_t parts[2] = {0, 0};
        for (unsigned part = 0; part < 2; part++)
            for (unsigned shift = 0; i < length; shift += 7) {
                unsigned char byte = at[i++];
                parts[part] |= (uint64_t)(byte & 127) << shift;
                if (byte < 128)
                    break;
            }
        if ((parts[0] & 7) == 0 && parts[0] >> 3 == wanted)
            return parts[1];
        if ((parts[0] & 7) == 2)
            i += parts[1];
    }
    return 0;
}

static void message_room(struct message *message, size_t bytes)
{
    free(message->bytes);
    message->bytes = malloc(bytes);
    if (!message->bytes)
        die("out of memory");
}

static void set_message(struct client *client, const unsigned char *body, size_t length)
{
    struct message *message = &client->message;
    message->bytes[0] = 0;
    for (unsigned i = 0; i < 4; i++)
        message->bytes[1 + i] = (unsigned char)(length >> (24 - 8 * i));
    memcpy(message->bytes + 5, body, length);
    message->length = length + 5;
    message->sent = 0;
}

/* ── HTTP/2 ── */

static ssize_t read_body(nghttp2_session *h2, int32_t id, uint8_t *buffer, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct client *client = source->ptr;
    struct message *message = &client->message;
    (void)h2;
    (void)id;
    (void)context;
    size_t left = message->length - message->sent, take = left < size ? left : size;
    memcpy(buffer, message->bytes + message->sent, take);
    message->sent += take;
    if (message->sent < message->length)
        return (ssize_t)take;
    if (message->more && take == 0)
        return NGHTTP2_ERR_DEFERRED;
    if (!message->more)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)take;
}

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

static void call(struct client *client, const char *path)
{
    nghttp2_nv headers[] = {nv(":method", "POST"), nv(":scheme", "http"),
                            nv(":path", path),     nv(":authority", authority),
                            nv("te", "trailers"),  nv("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source = {.ptr = client}, .read_callback = read_body};
    client->in_used = 0;
    client->status = -1;
    client->stream = nghttp2_submit_request(client->conn->h2, NULL, headers, 6, &provider, client);
    client->conn->dirty = true;
    if (client->stream < 0)
        client->conn->broken = true;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *context)
{
    struct client *client = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    (void)flags;
    (void)context;
    if (client && name_length == 11 && memcmp(name, "grpc-status", 11) == 0)
        client->status = value_length < 3 ? atoi((const char *)value) : 99;
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t length, void *context)
{
    struct client *client = nghttp2_session_get_stream_user_data(h2, id);
    (void)flags;
    (void)context;
    if (!client)
        return 0;
    size_t space = sizeof client->in - client->in_used, take = length < space ? length : space;
    memcpy(client->in + client->in_used, bytes, take);
    client->in_used += take;
    while (client->answer && client->in_used >= 5) {
        size_t whole = 5 + ((size_t)client->in[3] << 8 | client->in[4]);
        if (client->in_used < whole)
            break;
        client->answer(client);
        memmove(client->in, client->in + whole, client->in_used - whole);
        client->in_used -= whole;
    }
    return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *context)
{
    struct client *client = nghttp2_session_get_stream_user_data(h2, id);
    (void)code;
    (void)context;
    if (client && client->done)
        client->done(client);
    return 0;
}

static void conn_open(struct conn *conn)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(conn->port)};
    nghttp2_session_callbacks *callbacks;
    int one = 1;
    inet_pton(AF_INET, conn->host, &address.sin_addr);
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("cannot connect");
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(conn->fd, F_SETFL, O_NONBLOCK);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&conn->h2, callbacks, conn);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20};
    nghttp2_submit_settings(conn->h2, 0, &window, 1);
    nghttp2_session_set_local_window_size(conn->h2, 0, 0, 1 << 28);
    conn->dirty = true;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    epoll_ctl(poller, EPOLL_CTL_ADD, conn->fd, &event);
}

static void conn_flush(struct conn *conn)
{
    const uint8_t *bytes;
    ssize_t length;
    while ((length = nghttp2_session_mem_send(conn->h2, &bytes)) > 0) {
        if (conn->out_size - conn->out_used < (size_t)length) {
            conn->out_size = 2 * (conn->out_size + (size_t)length);
            conn->out = realloc(conn->out, conn->out_size);
        }
        memcpy(conn->out + conn->out_used, bytes, (size_t)length);
        conn->out_used += (size_t)length;
    }
    conn->dirty = false;
    size_t sent = 0;
    while (sent < conn->out_used) {
        ssize_t wrote = send(conn->fd, conn->out + sent, conn->out_used - sent, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EAGAIN)
            break;
        if (wrote <= 0) {
            conn->broken = true;
            return;
        }
        sent += (size_t)wrote;
    }
    memmove(conn->out, conn->out + sent, conn->out_used - sent);
    conn->out_used -= sent;
    bool wants = conn->out_used > 0;
    if (wants != conn->want_write) {
        struct epoll_event event = {.events = EPOLLIN | (wants ? EPOLLOUT : 0u), .data.ptr = conn};
        epoll_ctl(poller, EPOLL_CTL_MOD, conn->fd, &event);
        conn->want_write = wants;
    }
}

static void conn_read(struct conn *conn)
{
    static unsigned char buffer[1 << 18];
    ssize_t length = recv(conn->fd, buffer, sizeof buffer, 0);
    if (length < 0 && errno == EAGAIN)
        return;
    if (length <= 0 || nghttp2_session_mem_recv(conn->h2, buffer, (size_t)length) != length)
        conn->broken = true;
    conn->dirty = true;
}

/* Runs until `until` returns true. */
static void run(bool (*until)(void), int wait_ms)
{
    struct epoll_event events[CONNS_MAX];
    while (!until()) {
        for (unsigned i = 0; i < conn_count; i++)
            if (conns[i].dirty && !conns[i].broken)
                conn_flush(&conns[i]);
        int count = epoll_wait(poller, events, CONNS_MAX, wait_ms);
        for (int i = 0; i < count; i++) {
            struct conn *conn = events[i].data.ptr;
            if (conn->broken)
                continue;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                conn_read(conn);
            if (events[i].events & EPOLLOUT)
                conn->dirty = true;
            if (conn->broken)
                epoll_ctl(poller, EPOLL_CTL_DEL, conn->fd, NULL);
        }
    }
}

/* ---- measurements ---- */

static void note_latency(uint64_t since)
{
    if (latency_count == latency_size) {
        latency_size = latency_size ? 2 * latency_size : 1 << 16;
        latencies = realloc(latencies, latency_size * sizeof *latencies);
    }
    latencies[latency_count++] = now_ns() - since;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile(double part)
{
    return latency_count ? (double)latencies[(size_t)((double)(latency_count - 1) * part)] / 1000
                         : 0;
}

static void report(const char *what, double seconds, const struct rusage *before)
{
    struct rusage after;
    getrusage(RUSAGE_SELF, &after);
    double cpu = (double)(after.ru_utime.tv_sec - before->ru_utime.tv_sec + after.ru_stime.tv_sec -
                          before->ru_stime.tv_sec) +
                 (double)(after.ru_utime.tv_usec - before->ru_utime.tv_usec +
                          after.ru_stime.tv_usec - before->ru_stime.tv_usec) /
                     1e6;
    if (latency_count)
        qsort(latencies, latency_count, sizeof *latencies, compare);
    printf(
        "{\"what\": \"%s\", \"per_s\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"max_us\": %.0f, "
        "\"errors\": %llu, \"client_core\": %.2f}\n",
        what, (double)finished / seconds, percentile(0.5), percentile(0.99), percentile(1),
        (unsigned long long)errors, cpu / seconds);
}

static size_t client_key(const struct client *client, char *key)
{
    return (size_t)sprintf(key, "bench/%u/%u", (unsigned)getpid(), client->id);
}

static void acquire(struct client *client)
{
    unsigned char compare_part[64], put_part[96], op[112], body[240];
    char key[48];
    size_t key_length = client_key(client, key);
    size_t used = put_number(compare_part, 2, 1); /* CREATE == 0 */
    used += put_bytes(compare_part + used, 3, key, key_length);
    used += put_number(compare_part + used, 5, 0);
    size_t body_used = put_bytes(body, 1, compare_part, used);
    used = put_bytes(put_part, 1, key, key_length);
    used += put_bytes(put_part + used, 2, "v", 1);
    used += put_number(put_part + used, 3, (uint64_t)client->lease);
    used = put_bytes(op, 2, put_part, used);
    body_used += put_bytes(body + body_used, 2, op, used);
    set_message(client, body, body_used);
    client->phase = 1;
    client->since = now_ns();
    call(client, "/etcdserverpb.KV/Txn");
}

static void release(struct client *client)
{
    unsigned char body[64];
    char key[48];
    size_t key_length = client_key(client, key);
    set_message(client, body, put_bytes(body, 1, key, key_length));
    client->phase = 2;
    call(client, "/etcdserverpb.KV/DeleteRange");
}

static void cycle_step(struct client *client)
{
    if (client->status != 0) {
        errors++;
        if (client->conn->broken || errors > 1000)
            return;
    }
    if (client->phase == 1) {
        release(client);
        return;
    }
    if (client->phase == 2) {
        finished += client->status == 0;
        note_latency(client->since);
    }
    if (!stopping)
        acquire(client);
}

static void granted(struct client *client)
{
    if (client->status != 0)
        errors++;
    bool answered = client->in_used > 5; /* a refusal has no message */
    client->lease = answered ? (int64_t)get_number(client->in + 5, client->in_used - 5, 2) : 0;
    finished++;
}

static void grant(struct client *client)
{
    unsigned char body[16];
    set_message(client, body, put_number(body, 1, 3600));
    client->done = granted;
    call(client, "/etcdserverpb.Lease/LeaseGrant");
}

static uint64_t wanted;

static bool all_granted(void)
{
    return finished >= wanted;
}

static bool time_is_over(void)
{
    return now_ns() >= deadline;
}

static void parse_address(struct conn *conn, const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    if (!colon || (size_t)(colon - text) >= sizeof conn->host) {
        fprintf(stderr, "serve_load: invalid address '%.*s': expected HOST:PORT\n", (int)length,
                text);
        exit(64);
    }
    snprintf(conn->host, sizeof conn->host, "%.*s", (int)(colon - text), text);
    conn->port = (uint16_t)atoi(colon + 1);
}

static void open_conns(const char *address, unsigned count)
{
    snprintf(authority, sizeof authority, "%s", address);
    conn_count = count;
    for (unsigned i = 0; i < count; i++) {
        parse_address(&conns[i], address, strlen(address));
        conn_open(&conns[i]);
    }
}

/* Opens a connection to each of several endpoints. */
static void open_each(const char *addresses)
{
    for (const char *at = addresses; *at && conn_count < CONNS_MAX;) {
        size_t length = strcspn(at, ",");
        parse_address(&conns[conn_count], at, length);
        snprintf(authority, sizeof authority, "%s:%u", conns[conn_count].host,
                 conns[conn_count].port);
        conn_open(&conns[conn_count++]);
        at += length + (at[length] == ',');
    }
}

static void make_clients(unsigned count)
{
    clients = calloc(count, sizeof *clients);
    for (unsigned i = 0; i < count; i++) {
        clients[i] = (struct client){.conn = &conns[i % conn_count], .id = i};
        message_room(&clients[i].message, MESSAGE_MAX);
    }
}

/* Grants leases on each connection, a few at a time. */
static void grant_all(unsigned count)
{
    make_clients(count);
    for (unsigned next = 0; next < count;) {
        unsigned batch = count - next < 64 * conn_count ? count - next : 64 * conn_count;
        wanted = finished + batch;
        for (unsigned i = 0; i < batch; i++)
            grant(&clients[next + i]);
        run(all_granted, 1000);
        next += batch;
    }
    finished = 0;
}

static int cycles(int argc, char **argv)
{
    struct rusage before;
    if (argc != 4)
        return 64;
    unsigned count = (unsigned)atoi(argv[1]);
    open_conns(argv[0], (unsigned)atoi(argv[2]));
    grant_all(count);
    uint64_t start = now_ns();
    deadline = start + (uint64_t)(atof(argv[3]) * 1e9);
    getrusage(RUSAGE_SELF, &before);
    for (unsigned i = 0; i < count; i++) {
        clients[i].done = cycle_step;
        acquire(&clients[i]);
    }
    run(time_is_over, 100);
    stopping = true;
    report("acquire+release", (double)(now_ns() - start) / 1e9, &before);
    return 0;
}

/* One stream per connection carries the renewals of its leases, eight in flight at a time. */
static unsigned next_lease[CONNS_MAX], lease_count;

static void renew(struct client *client)
{
    unsigned char body[16];
    unsigned conn = (unsigned)(client->conn - conns);
    unsigned index = next_lease[conn];
    next_lease[conn] = index + conn_count < lease_count ? index + conn_count : conn;
    size_t length = put_number(body, 1, (uint64_t)clients[index].lease);
    struct message *message = &client->message;
    if (message->sent == message->length)
        message->length = message->sent = 0;
    unsigned char *at = message->bytes + message->length;
    at[0] = 0;
    at[1] = at[2] = at[3] = 0;
    at[4] = (unsigned char)length;
    memcpy(at + 5, body, length);
    message->length += 5 + length;
}

static void renewed(struct client *client)
{
    if (get_number(client->in + 5, client->in[4], 3) == 0)
        errors++;
    finished++;
    renew(client);
    nghttp2_session_resume_data(client->conn->h2, client->stream);
    client->conn->dirty = true;
}

static int keepalive(int argc, char **argv)
{
    struct rusage before;
    if (argc != 4)
        return 64;
    lease_count = (unsigned)atoi(argv[1]);
    open_conns(argv[0], (unsigned)atoi(argv[2]));
    grant_all(lease_count);
    struct client *streams = calloc(conn_count, sizeof *streams);
    uint64_t start = now_ns();
    deadline = start + (uint64_t)(atof(argv[3]) * 1e9);
    getrusage(RUSAGE_SELF, &before);
    for (unsigned i = 0; i < conn_count; i++) {
        streams[i] = (struct client){.conn = &conns[i], .answer = renewed};
        message_room(&streams[i].message, MESSAGE_MAX);
        streams[i].message.more = true;
        next_lease[i] = i;
        for (unsigned flight = 0; flight < 8; flight++)
            renew(&streams[i]);
        call(&streams[i], "/etcdserverpb.Lease/LeaseKeepAlive");
    }
    run(time_is_over, 100);
    report("keepalive", (double)(now_ns() - start) / 1e9, &before);
    return 0;
}

static int grant_only(int argc, char **argv)
{
    struct rusage before;
    if (argc != 3)
        return 64;
    open_conns(argv[0], (unsigned)atoi(argv[2]));
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns();
    unsigned count = (unsigned)atoi(argv[1]);
    grant_all(count);
    finished = count;
    report("grant", (double)(now_ns() - start) / 1e9, &before);
    return 0;
}

/* ── probe ── */

static bool succeeded;
static unsigned succeeded_at;

static void probe_done(struct client *client)
{
    if (client->status == 0 && !succeeded) {
        succeeded = true;
        succeeded_at = (unsigned)(client->conn - conns);
    }
    client->phase = 0;
}

static bool probe_turn(void)
{
    static uint64_t next;
    uint64_t now = now_ns();
    if (succeeded || now >= deadline)
        return true;
    if (now < next)
        return false;
    next = now + 1000000;
    for (unsigned i = 0; i < conn_count * 64; i++) {
        struct client *client = &clients[i];
        static const unsigned char body[] = {10, 5, 'p', 'r', 'o', 'b', 'e', 18, 1, 'v'};
        if (client->phase || client->conn->broken || i / conn_count != (now / 1000000) % 64)
            continue;
        client->phase = 1;
        client->done = probe_done;
        set_message(client, body, sizeof body);
        call(client, "/etcdserverpb.KV/Put");
    }
    return false;
}

static int probe(int argc, char **argv)
{
    char line[16];
    if (argc != 2)
        return 64;
    open_each(argv[0]);
    make_clients(conn_count * 64);
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    uint64_t start = now_ns();
    deadline = start + (uint64_t)(atof(argv[1]) * 1e9);
    run(probe_turn, 1);
    printf("{\"what\": \"probe\", \"ok\": %s, \"us\": %llu, \"endpoint\": %u}\n",
           succeeded ? "true" : "false", (unsigned long long)(now_ns() - start) / 1000,
           succeeded_at);
    return succeeded ? 0 : 1;
}

/* ── puts ── */

#define CONNS_PER_ENDPOINT 8u

static struct {
    const char *key;
    size_t bytes;
    uint64_t begun, ended, count;
    uint64_t refused[16]; /* by gRPC status; 15: all others */
    /* the newest acknowledged revision, and the number of the put that created it */
    uint64_t revision, number;
} writes;

/* Sends the next put. Its value begins with its number, so that a reader can tell which put wrote a
 * value. */
static void put_next(struct client *client)
{
    static unsigned char *body;
    static char *value;
    if (!body) {
        body = malloc(writes.bytes + 256);
        value = malloc(writes.bytes + 1);
        if (!body || !value)
            die("out of memory");
        memset(value, 'v', writes.bytes);
    }
    int head = snprintf(value, writes.bytes + 1, "%016llu", (unsigned long long)writes.begun);
    value[(size_t)head < writes.bytes ? (size_t)head : writes.bytes] = 'v';
    client->lease = (int64_t)writes.begun++;
    size_t used = put_bytes(body, 1, writes.key, strlen(writes.key));
    used += put_bytes(body + used, 2, value, writes.bytes);
    set_message(client, body, used);
    client->since = now_ns();
    call(client, "/etcdserverpb.KV/Put");
}

static uint64_t revision_of(const struct client *client)
{
    size_t length = client->in_used > 7 && client->in[5] == 10 ? client->in[6] : 0;
    return length && 7 + length <= client->in_used ? get_number(client->in + 7, length, 3) : 0;
}

static void put_done(struct client *client)
{
    uint64_t revision = client->status == 0 ? revision_of(client) : 0;
    writes.ended++;
    finished += revision > 0;
    errors += revision == 0;
    writes.refused[client->status > 0 && client->status < 15 ? client->status : 15] +=
        revision == 0;
    if (revision > 0)
        note_latency(client->since);
    if (revision > writes.revision) {
        writes.revision = revision;
        writes.number = (uint64_t)client->lease;
    }
    if (writes.begun < writes.count && !client->conn->broken)
        put_next(client);
}

static bool puts_are_over(void)
{
    bool alive = false;
    for (unsigned i = 0; i < conn_count; i++)
        alive |= !conns[i].broken;
    return !alive || writes.ended >= writes.count || now_ns() >= deadline;
}

static int puts_to_one_key(int argc, char **argv)
{
    struct rusage before;
    if (argc != 5)
        return 64;
    unsigned writers = (unsigned)atoi(argv[2]);
    writes.key = argv[1];
    writes.count = (uint64_t)atoll(argv[3]);
    writes.bytes = (size_t)atoll(argv[4]);
    for (unsigned i = 0; i < CONNS_PER_ENDPOINT; i++)
        open_each(argv[0]);
    make_clients(writers);
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns();
    deadline = start + (uint64_t)1800 * 1000000000u;
    for (unsigned i = 0; i < writers && writes.begun < writes.count; i++) {
        message_room(&clients[i].message, writes.bytes + 256);
        clients[i].done = put_done;
        put_next(&clients[i]);
    }
    run(puts_are_over, 100);
    report("puts", (double)(now_ns() - start) / 1e9, &before);
    printf("{\"acknowledged\": %llu, \"revision\": %llu, \"number\": %llu, \"refused\": [",
           (unsigned long long)finished, (unsigned long long)writes.revision,
           (unsigned long long)writes.number);
    for (unsigned i = 0; i < 16; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)writes.refused[i]);
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"cycles", cycles},
                    {"keepalive", keepalive},
                    {"grant", grant_only},
                    {"probe", probe},
                    {"puts", puts_to_one_key}};
    int code = 64;
    poller = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (argc > 2 && strcmp(argv[1], commands[i].name) == 0)
            code = commands[i].run(argc - 2, argv + 2);
    if (code == 64)
        fprintf(stderr, "usage: see the header of serve_load.c\n");
    return code;
}
