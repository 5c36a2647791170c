/* A client that sends valid HTTP/2 frames but otherwise breaks the rules: second messages on unary
 * calls, resets and half-closes at any point, windows of zero, floods of cheap requests.
 *
 * A program of bytes controls it (from the fuzzer, or random from a seed). Each action is also a
 * function, for single tests. The client reads back the gRPC status and the end of each stream. */
#ifndef BW_TESTS_FUZZ_FRONT_CLIENT_H
#define BW_TESTS_FUZZ_FRONT_CLIENT_H

#include "fuzz/front_world.h"

#include <nghttp2/nghttp2.h>

#define CLIENT_STREAMS 512u /* ids 1, 3, 5, … */
#define FLOOD_MAX      64u

enum { F_DATA = 0, F_HEADERS = 1, F_RST = 3, F_SETTINGS = 4, F_PING = 6, F_WINDOW = 8 };

struct client_stream {
    int status; /* grpc-status; -1: none yet */
    bool ended, reset;
    /* the client ended this stream; if it sends more frames on it, the server ends the
     * connection */
    bool closed;
    size_t bytes;        /* bytes of DATA */
    unsigned char *data; /* kept only while on_message is set */
    size_t data_used, data_size;
};

struct client {
    struct bw_conn *conn;
    bool broken; /* the server closed the connection */
    uint32_t opened;
    struct client_stream streams[CLIENT_STREAMS];
    nghttp2_hd_inflater *inflater;
    unsigned char *in; /* bytes from the server that are not parsed yet */
    size_t in_used, in_size;
};

static struct client *reader; /* the client that receives bytes now */
static void (*on_message)(uint32_t id, const unsigned char *bytes, size_t length);

static void client_put(const unsigned char *bytes, size_t length)
{
    struct client *c = reader;
    if (!c)
        return;
    if (c->in_size - c->in_used < length) {
        c->in_size = 2 * (c->in_used + length);
        c->in = realloc(c->in, c->in_size);
        BW_ASSERT(c->in);
    }
    memcpy(c->in + c->in_used, bytes, length);
    c->in_used += length;
}

static struct client_stream *client_stream(struct client *c, uint32_t id)
{
    return id % 2 == 1 && id / 2 < CLIENT_STREAMS ? &c->streams[id / 2] : NULL;
}

static void read_head(struct client *c, struct client_stream *stream, const unsigned char *at,
                      size_t length)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, at, length, 1);
        BW_ASSERT(used >= 0);
        at += used;
        length -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) && stream && nv.namelen == 11 &&
            memcmp(nv.name, "grpc-status", 11) == 0)
            stream->status = atoi((const char *)nv.value);
        if (flags & NGHTTP2_HD_INFLATE_FINAL) {
            nghttp2_hd_inflate_end_headers(c->inflater);
            return;
        }
    }
}

static void read_messages(struct client_stream *stream, uint32_t id, const unsigned char *bytes,
                          size_t length)
{
    size_t at = 0;
    if (stream->data_size - stream->data_used < length) {
        stream->data_size = 2 * (stream->data_used + length);
        stream->data = realloc(stream->data, stream->data_size);
        BW_ASSERT(stream->data);
    }
    memcpy(stream->data + stream->data_used, bytes, length);
    stream->data_used += length;
    while (stream->data_used - at >= 5) {
        const unsigned char *m = stream->data + at;
        size_t size = (size_t)m[1] << 24 | (size_t)m[2] << 16 | (size_t)m[3] << 8 | m[4];
        if (stream->data_used - at - 5 < size)
            break;
        on_message(id, m + 5, size);
        at += 5 + size;
    }
    stream->data_used -= at;
    memmove(stream->data, stream->data + at, stream->data_used);
}

static void client_read(struct client *c)
{
    size_t at = 0;
    while (c->in_used - at >= 9) {
        const unsigned char *f = c->in + at;
        size_t length = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
        uint32_t id = ((uint32_t)f[5] << 24 | (uint32_t)f[6] << 16 | (uint32_t)f[7] << 8 | f[8]) &
                      0x7fffffffu;
        if (c->in_used - at - 9 < length)
            break;
        struct client_stream *stream = client_stream(c, id);
        if (f[3] == F_HEADERS)
            read_head(c, stream, f + 9, length);
        if (stream && f[3] == F_DATA)
            stream->bytes += length;
        if (stream && f[3] == F_DATA && length && on_message)
            read_messages(stream, id, f + 9, length);
        if (stream && (f[3] == F_DATA || f[3] == F_HEADERS) && (f[4] & 1))
            stream->ended = true;
        if (stream && f[3] == F_RST)
            stream->ended = stream->reset = true;
        at += 9 + length;
    }
    c->in_used -= at;
    memmove(c->in, c->in + at, c->in_used);
}

static void client_close(struct client *c)
{
    conn_end(c->conn);
    nghttp2_hd_inflate_del(c->inflater);
    free(c->in);
    for (uint32_t i = 0; i < CLIENT_STREAMS; i++)
        free(c->streams[i].data);
    if (reader == c)
        reader = NULL;
}

/* Sends bytes to the server, which may close the connection. */
static void client_bytes(struct client *c, const unsigned char *bytes, size_t length)
{
    if (c->broken || c->conn->close_when_sent)
        return;
    if (!c->conn->protocol->bytes(c->conn, bytes, length))
        c->broken = true;
}

static void client_frame(struct client *c, unsigned kind, unsigned flags, uint32_t id,
                         const unsigned char *body, size_t length)
{
    unsigned char head[9] = {
        (unsigned char)(length >> 16), (unsigned char)(length >> 8), (unsigned char)length,
        (unsigned char)kind,           (unsigned char)flags,         (unsigned char)(id >> 24),
        (unsigned char)(id >> 16),     (unsigned char)(id >> 8),     (unsigned char)id};
    client_bytes(c, head, sizeof head);
    if (length)
        client_bytes(c, body, length);
}

static void client_open(struct client *c, struct bw_front *front)
{
    *c = (struct client){0};
    for (uint32_t i = 0; i < CLIENT_STREAMS; i++)
        c->streams[i].status = -1;
    BW_ASSERT(nghttp2_hd_inflate_new(&c->inflater) == 0);
    on_put = client_put;
    reader = c;
    c->conn = conn_new(front, &bw_protocol_h2);
    client_frame(c, F_SETTINGS, 0, 0, NULL, 0);
    c->conn->protocol->flush(c->conn);
    c->conn->out_used = 0;
    client_frame(c, F_SETTINGS, 1, 0, NULL, 0); /* the server's limits apply from here on */
}

static size_t put_literal(unsigned char *at, const char *name, const char *value)
{
    size_t used = 0, name_length = strlen(name), value_length = strlen(value);
    at[used++] = 0x10;
    at[used++] = (unsigned char)name_length;
    memcpy(at + used, name, name_length);
    used += name_length;
    at[used++] = (unsigned char)value_length;
    memcpy(at + used, value, value_length);
    return used + value_length;
}

/* Opens a stream and returns its id. */
static uint32_t client_call(struct client *c, const char *path, const char *type)
{
    unsigned char head[512];
    size_t used = put_literal(head, ":method", "POST");
    uint32_t id = 2 * c->opened++ + 1;
    used += put_literal(head + used, ":scheme", "http");
    used += put_literal(head + used, ":path", path);
    used += put_literal(head + used, ":authority", "a");
    used += put_literal(head + used, "content-type", type);
    client_frame(c, F_HEADERS, 4, id, head, used);
    return id;
}

/* Sends one gRPC message in one DATA frame; `flags` 1: the last one. */
static void client_message(struct client *c, uint32_t id, unsigned flags,
                           const unsigned char *bytes, size_t length)
{
    unsigned char body[1024] = {0, 0, 0, (unsigned char)(length >> 8), (unsigned char)length};
    BW_ASSERT(length <= sizeof body - 5);
    memcpy(body + 5, bytes, length);
    c->streams[id / 2].closed |= flags & 1;
    client_frame(c, F_DATA, flags, id, body, 5 + length);
}

/* Sets the window of existing and future streams. */
static void client_window(struct client *c, uint32_t bytes)
{
    unsigned char body[6] = {0,
                             4,
                             (unsigned char)(bytes >> 24),
                             (unsigned char)(bytes >> 16),
                             (unsigned char)(bytes >> 8),
                             (unsigned char)bytes};
    client_frame(c, F_SETTINGS, 0, 0, body, sizeof body);
}

static void client_widen(struct client *c, uint32_t id, uint32_t bytes)
{
    unsigned char body[4] = {(unsigned char)(bytes >> 24), (unsigned char)(bytes >> 16),
                             (unsigned char)(bytes >> 8), (unsigned char)bytes};
    client_frame(c, F_WINDOW, 0, id, body, sizeof body);
}

/* Lets the server send everything. */
static inline void client_open_windows(struct client *c)
{
    client_widen(c, 0, 0x7fffffffu - 65535u);
    client_window(c, 0x7fffffffu);
}

static void client_reset(struct client *c, uint32_t id)
{
    client_frame(c, F_RST, 0, id, (const unsigned char[]){0, 0, 0, 8}, 4);
    c->streams[id / 2].closed = true;
}

/* One turn of the loop: the replica decides, and responses are sent. */
static void client_turn(struct client *c)
{
    decide_all(bw_service_replica(c->conn->front->options.service));
    uv_run(c->conn->front->options.loop, UV_RUN_NOWAIT);
    if (c->broken || c->conn->close_when_sent)
        return;
    c->conn->dirty = false;
    c->conn->protocol->flush(c->conn);
    c->conn->out_used = 0;
    client_read(c);
}

/* ---- programs ---- */

static const struct {
    const char *path;
    const char *bytes;
    size_t length;
} asks[] = {
#define ASK(path, text)                                                                            \
    {                                                                                              \
        path, text, sizeof text - 1                                                                \
    }
    ASK("/v3electionpb.Election/Campaign", "\x0a\x01"
                                           "e\x1a\x05value"),
    ASK("/v3electionpb.Election/Campaign", "\x0a\x01"
                                           "e\x10\x07"),
    ASK("/v3lockpb.Lock/Lock", "\x0a\x01"
                               "e"),
    ASK("/v3electionpb.Election/Leader", "\x0a\x01"
                                         "e"),
    ASK("/v3electionpb.Election/Observe", "\x0a\x01"
                                          "e"),
    ASK("/etcdserverpb.KV/Range", "\x0a\x01\x00\x12\x01\x00"),
    ASK("/etcdserverpb.KV/Put", "\x0a\x01k\x12\x05value"),
    ASK("/etcdserverpb.KV/DeleteRange", "\x0a\x01\x00\x12\x01\x00\x18\x01"),
    ASK("/etcdserverpb.Watch/Watch", "\x0a\x06\x0a\x01\x00\x12\x01\x00"),
    ASK("/etcdserverpb.Watch/Watch", "\x0a\x05\x0a\x01k\x18\x01"),
    ASK("/etcdserverpb.Watch/Watch", "\x1a\x00"),
    ASK("/etcdserverpb.Watch/Watch", "\x12\x02\x08\x01"),
    ASK("/etcdserverpb.Lease/LeaseGrant", "\x08\x0a\x10\x07"),
    ASK("/etcdserverpb.Lease/LeaseRevoke", "\x08\x07"),
    ASK("/etcdserverpb.Lease/LeaseKeepAlive", "\x08\x07"),
    ASK("/etcdserverpb.Lease/LeaseTimeToLive", "\x08\x07\x10\x01"),
    ASK("/etcdserverpb.Lease/LeaseLeases", ""),
    ASK("/etcdserverpb.Auth/UserAdd", "\x0a\x01u\x12\x01p"),
    ASK("/etcdserverpb.Auth/Authenticate", "\x0a\x01u\x12\x01p"),
    ASK("/etcdserverpb.Cluster/MemberList", ""),
    ASK("/etcdserverpb.Maintenance/Snapshot", ""),
#undef ASK
};
#define ASKS (sizeof asks / sizeof asks[0])

struct program {
    const unsigned char *at;
    size_t left;
};

static unsigned next_byte(struct program *p)
{
    if (p->left == 0)
        return 0;
    p->left--;
    return *p->at++;
}

/* Usually sends the message that the stream's method expects. */
static void act_message(struct client *c, struct program *p, uint32_t id, const unsigned char *kind)
{
    unsigned chosen = next_byte(p);
    unsigned ask = chosen & 0x80 ? chosen % ASKS : kind[id / 2];
    client_message(c, id, chosen & 0x40 ? 1 : 0, (const unsigned char *)asks[ask].bytes,
                   asks[ask].length);
}

static void act(struct client *c, struct program *p, unsigned char kind[CLIENT_STREAMS])
{
    unsigned what = next_byte(p), which = next_byte(p);
    uint32_t id = c->opened ? 2 * (which % c->opened) + 1 : 1;
    /* Most actions avoid closed streams: a frame on a closed stream ends the connection, and with
     * it the program of actions. */
    for (unsigned i = 0; i < c->opened && c->streams[id / 2].closed && what < 0xfe; i++)
        id = 2 * ((id / 2 + 1) % c->opened) + 1;
    if (c->opened == 0 || (c->streams[id / 2].closed && what < 0xfe))
        what = what & 1 ? 11 : 0;
    switch (what % 12) {
    case 0:
    case 1:
        if (c->opened < CLIENT_STREAMS) {
            kind[c->opened] = (unsigned char)(which % ASKS);
            id = client_call(c, asks[which % ASKS].path,
                             what & 0x80 ? "application/json" : "application/grpc");
            act_message(c, p, id, kind);
        }
        break;
    case 2:
    case 3:
        act_message(c, p, id, kind);
        break;
    case 4:
        client_reset(c, id);
        break;
    case 5:
        client_frame(c, F_DATA, 1, id, NULL, 0);
        c->streams[id / 2].closed = true;
        break;
    case 6:
        client_frame(c, F_DATA, 0, id, (const unsigned char *)"\0\0\0\0\x09half", 9);
        break;
    case 7:
        client_window(c, which & 1 ? 0 : 65535);
        break;
    case 8:
        client_widen(c, which & 1 ? id : 0, 1 + next_byte(p) * 64u);
        break;
    case 9:
        for (unsigned i = which % FLOOD_MAX; i > 0 && c->opened; i--)
            client_message(c, id, 0, (const unsigned char *)asks[kind[id / 2]].bytes,
                           asks[kind[id / 2]].length);
        break;
    case 10:
        client_frame(c, what < 0xfe ? F_PING : which, 0, what < 0xfe ? 0 : id,
                     (const unsigned char *)"12345678", 8);
        break;
    default:
        client_turn(c);
        break;
    }
}

static void play(struct bw_front *front, const unsigned char *bytes, size_t length)
{
    static struct client c;
    unsigned char kind[CLIENT_STREAMS] = {0};
    struct program p = {bytes, length};
    client_open(&c, front);
    while (p.left && !c.broken && !c.conn->close_when_sent)
        act(&c, &p, kind);
    client_turn(&c);
    client_close(&c);
}

#endif
