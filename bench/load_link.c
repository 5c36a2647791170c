/* The client side of gRPC for the load programs; see load_link.h. */
#include "load_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct conn conns[CONNS_MAX];
unsigned conn_count;
struct client *clients;
uint64_t deadline, finished, errors;

static int poller = -1;
static uint64_t *latencies;
static size_t latency_count, latency_size;
static char authority[80];

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

_Noreturn void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- protobuf, only what is needed ---- */

size_t varint(unsigned char *at, uint64_t value)
{
    size_t used = 0;
    do {
        at[used++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
    return used;
}

size_t put_bytes(unsigned char *at, unsigned field, const void *bytes, size_t length)
{
    size_t used = varint(at, field << 3 | 2);
    used += varint(at + used, length);
    memcpy(at + used, bytes, length);
    return used + length;
}

size_t put_number(unsigned char *at, unsigned field, uint64_t value)
{
    size_t used = varint(at, field << 3);
    return used + varint(at + used, value);
}

uint64_t get_number(const unsigned char *at, size_t length, unsigned wanted)
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

unsigned count_fields(const unsigned char *at, size_t length, unsigned wanted)
{
    unsigned count = 0;
    for (size_t i = 0; i < length;) {
        uint64_t parts[2] = {0, 0};
        for (unsigned part = 0; part < 2; part++)
            for (unsigned shift = 0; i < length; shift += 7) {
                unsigned char byte = at[i++];
                parts[part] |= (uint64_t)(byte & 127) << shift;
                if (byte < 128)
                    break;
            }
        count += parts[0] >> 3 == wanted;
        if ((parts[0] & 7) == 2)
            i += parts[1];
    }
    return count;
}

void message_reserve(struct message *message, size_t bytes)
{
    free(message->bytes);
    message->bytes = malloc(bytes);
    if (!message->bytes)
        die("out of memory");
}

void set_message(struct client *client, const unsigned char *body, size_t length)
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

void call(struct client *client, const char *path)
{
    const char *token = getenv("LOAD_TOKEN");
    nghttp2_nv headers[] = {nv(":method", "POST"),
                            nv(":scheme", client->conn->tls ? "https" : "http"),
                            nv(":path", path),
                            nv(":authority", authority),
                            nv("te", "trailers"),
                            nv("content-type", "application/grpc"),
                            nv("token", token ? token : "")};
    nghttp2_data_provider provider = {.source = {.ptr = client}, .read_callback = read_body};
    client->in_used = 0;
    client->status = -1;
    client->stream =
        nghttp2_submit_request(client->conn->h2, NULL, headers, token ? 7 : 6, &provider, client);
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

size_t answer_length(const struct client *client)
{
    const unsigned char *at = client->in;
    return (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t length, void *context)
{
    struct client *client = nghttp2_session_get_stream_user_data(h2, id);
    (void)flags;
    (void)context;
    if (!client)
        return 0;
    if (client->in_size - client->in_used < length) {
        client->in_size = 2 * (client->in_used + length) + 64;
        client->in = realloc(client->in, client->in_size);
        if (!client->in)
            die("out of memory");
    }
    memcpy(client->in + client->in_used, bytes, length);
    client->in_used += length;
    while (client->answer && client->in_used >= 5) {
        size_t whole = 5 + answer_length(client);
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

static SSL_CTX *tls_context(const char *ca)
{
    static SSL_CTX *context;
    static const unsigned char protocol[] = "\2h2";
    if (context)
        return context;
    context = SSL_CTX_new(TLS_client_method());
    if (!context || SSL_CTX_load_verify_locations(context, ca, NULL) != 1)
        die("cannot load LOAD_CA");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(context, protocol, 3);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return context;
}

/* Completes the handshake while the socket still blocks. */
static void tls_open(struct conn *conn)
{
    const char *ca = getenv("LOAD_CA");
    if (!ca)
        return;
    conn->tls = SSL_new(tls_context(ca));
    if (!conn->tls || SSL_set_fd(conn->tls, conn->fd) != 1 || SSL_connect(conn->tls) != 1)
        die("cannot open a TLS connection");
}

/* Like send and recv: -1 with EAGAIN if the socket is not ready. */
static ssize_t conn_send(const struct conn *conn, const void *bytes, size_t length)
{
    if (!conn->tls)
        return send(conn->fd, bytes, length, MSG_NOSIGNAL);
    int done = SSL_write(conn->tls, bytes, length > 1 << 20 ? 1 << 20 : (int)length);
    errno = EAGAIN;
    return done > 0 ? done : SSL_get_error(conn->tls, done) == SSL_ERROR_WANT_WRITE ? -1 : 0;
}

static ssize_t conn_receive(const struct conn *conn, void *bytes, size_t length)
{
    if (!conn->tls)
        return recv(conn->fd, bytes, length, 0);
    int done = SSL_read(conn->tls, bytes, (int)length);
    errno = EAGAIN;
    return done > 0 ? done : SSL_get_error(conn->tls, done) == SSL_ERROR_WANT_READ ? -1 : 0;
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
    tls_open(conn);
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
    if (poller < 0)
        poller = epoll_create1(EPOLL_CLOEXEC);
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
        ssize_t wrote = conn_send(conn, conn->out + sent, conn->out_used - sent);
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
    do {
        ssize_t length = conn_receive(conn, buffer, sizeof buffer);
        if (length < 0 && errno == EAGAIN)
            return;
        if (length <= 0 || nghttp2_session_mem_recv(conn->h2, buffer, (size_t)length) != length)
            conn->broken = true;
        conn->dirty = true;
    } while (conn->tls && !conn->broken);
}

void run(bool (*until)(void), int wait_ms)
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

void note_latency(uint64_t since)
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

void forget_latencies(void)
{
    latency_count = 0;
}

void sort_latencies(void)
{
    if (latency_count)
        qsort(latencies, latency_count, sizeof *latencies, compare);
}

double percentile(double part)
{
    return latency_count ? (double)latencies[(size_t)((double)(latency_count - 1) * part)] / 1000
                         : 0;
}

void report(const char *what, double seconds, const struct rusage *before)
{
    struct rusage after;
    getrusage(RUSAGE_SELF, &after);
    double cpu = (double)(after.ru_utime.tv_sec - before->ru_utime.tv_sec + after.ru_stime.tv_sec -
                          before->ru_stime.tv_sec) +
                 (double)(after.ru_utime.tv_usec - before->ru_utime.tv_usec +
                          after.ru_stime.tv_usec - before->ru_stime.tv_usec) /
                     1e6;
    sort_latencies();
    printf(
        "{\"what\": \"%s\", \"per_s\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"max_us\": %.0f, "
        "\"errors\": %llu, \"client_core\": %.2f}\n",
        what, (double)finished / seconds, percentile(0.5), percentile(0.99), percentile(1),
        (unsigned long long)errors, cpu / seconds);
}

static void parse_address(struct conn *conn, const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    if (!colon || (size_t)(colon - text) >= sizeof conn->host) {
        fprintf(stderr, "load: invalid address '%.*s': expected HOST:PORT\n", (int)length, text);
        exit(64);
    }
    snprintf(conn->host, sizeof conn->host, "%.*s", (int)(colon - text), text);
    conn->port = (uint16_t)atoi(colon + 1);
}

void open_conns(const char *address, unsigned count)
{
    snprintf(authority, sizeof authority, "%s", address);
    conn_count = count;
    for (unsigned i = 0; i < count; i++) {
        parse_address(&conns[i], address, strlen(address));
        conn_open(&conns[i]);
    }
}

void open_each(const char *addresses)
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

void make_clients(unsigned count)
{
    clients = calloc(count, sizeof *clients);
    for (unsigned i = 0; i < count; i++) {
        clients[i] = (struct client){.conn = &conns[i % conn_count], .id = i};
        message_reserve(&clients[i].message, MESSAGE_MAX);
    }
}
