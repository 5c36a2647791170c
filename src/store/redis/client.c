/* One connection; see client.h. It tries each address of the host name in turn, within the owner's
 * time limit. */
#include "store/redis/client.h"

#include "os/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 65536u

#if HIREDIS_MAJOR < 1
typedef int redis_count; /* number of elements of an array */
#else
typedef size_t redis_count;
#endif

struct redis_wire {
    uv_loop_t *loop;
    struct redis_wire_events events;
    char host[256];
    uv_getaddrinfo_t lookup;
    struct addrinfo *addresses, *next_address;
    uv_tcp_t tcp;
    uv_connect_t connect;
    struct redis_tls_context *tls_context;
    struct redis_tls *tls;
    redisReader *reader;
    redisReplyObjectFunctions functions;
    void *(*create_array)(const redisReadTask *task, redis_count elements);
    bool looking_up, has_tcp, ready, closed;
    unsigned pending; /* loop callbacks that still refer to this struct */
    size_t parsed;    /* bytes passed to the reader since its last complete reply */
    char chunk[CHUNK];
};

struct outgoing {
    uv_write_t write;
    struct redis_wire *wire;
    char bytes[];
};

static void try_address(struct redis_wire *wire);

static void release(struct redis_wire *wire)
{
    if (--wire->pending > 0)
        return;
    if (wire->addresses)
        uv_freeaddrinfo(wire->addresses);
    redis_tls_free(wire->tls);
    if (wire->reader)
        redisReaderFree(wire->reader);
    free(wire);
}

static void end(struct redis_wire *wire, const char *why)
{
    if (!wire->closed)
        wire->events.end(wire->events.context, why);
}

/* ---- receiving ---- */

/* As hiredis does, but with a limit on the number of elements. */
static void *create_array(const redisReadTask *task, redis_count elements)
{
    const struct redis_wire *wire = task->privdata;
    return elements > REDIS_REPLY_ELEMENTS_MAX ? NULL : wire->create_array(task, elements);
}

static redisReader *new_reader(struct redis_wire *wire)
{
    redisReader *reader = redisReaderCreate();
    if (!reader)
        return NULL;
    wire->functions = *reader->fn;
    wire->create_array = wire->functions.createArray;
    wire->functions.createArray = create_array;
    reader->fn = &wire->functions;
    reader->privdata = wire;
    return reader;
}

static void parse(struct redis_wire *wire, const char *bytes, size_t length)
{
    void *reply = NULL;
    wire->parsed += length;
    bool good = redisReaderFeed(wire->reader, bytes, length) == REDIS_OK;
    while (good && !wire->closed) {
        good = redisReaderGetReply(wire->reader, &reply) == REDIS_OK;
        if (!good || !reply)
            break;
        wire->parsed = wire->reader->len - wire->reader->pos;
        wire->events.reply(wire->events.context, reply);
        freeReplyObject(reply);
    }
    if (!good)
        end(wire, "the server does not use the Redis protocol");
    else if (wire->parsed > REDIS_REPLY_BYTES_MAX)
        end(wire, "the server's reply is larger than 8 MiB");
}

static void become_ready(struct redis_wire *wire)
{
    wire->ready = true;
    wire->events.ready(wire->events.context);
}

static int flush_tls(struct redis_wire *wire);

/* Continues the handshake and sends its messages. */
static void shake_hands(struct redis_wire *wire)
{
    char why[BW_WHY_MAX + 1];
    int done = redis_tls_handshake(wire->tls, why);
    int error = flush_tls(wire);
    if (done < 0)
        end(wire, why);
    else if (error != 0)
        end(wire, "TLS: cannot send the handshake to the server");
    else if (done > 0)
        become_ready(wire);
}

static void decrypt(struct redis_wire *wire, const char *bytes, size_t length)
{
    static const char over[] = "TLS: the server closed the connection";
    char plain[16384];
    if (redis_tls_feed(wire->tls, bytes, length) != 0) {
        end(wire, over);
        return;
    }
    if (!wire->ready)
        shake_hands(wire);
    int got = 0;
    while (wire->ready && !wire->closed &&
           (got = redis_tls_read(wire->tls, plain, sizeof plain)) > 0)
        parse(wire, plain, (size_t)got);
    if (got < 0)
        end(wire, over);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    struct redis_wire *wire = handle->data;
    (void)size;
    *buffer = uv_buf_init(wire->chunk, sizeof wire->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct redis_wire *wire = stream->data;
    if (wire->closed || got == 0)
        return;
    wire->pending++; /* an event callback may close the connection */
    if (got < 0)
        end(wire, got == UV_EOF ? "the server closed the connection" : uv_strerror((int)got));
    else if (wire->tls)
        decrypt(wire, buffer->base, (size_t)got);
    else
        parse(wire, buffer->base, (size_t)got);
    release(wire);
}

/* ---- sending ---- */

static void on_written(uv_write_t *write, int status)
{
    struct outgoing *outgoing = (struct outgoing *)write;
    struct redis_wire *wire = outgoing->wire;
    free(outgoing);
    if (status < 0)
        end(wire, uv_strerror(status));
    release(wire);
}

/* Bytes that the socket accepts at once are not copied. */
static int write_bytes(struct redis_wire *wire, const char *bytes, size_t length)
{
    uv_stream_t *stream = (uv_stream_t *)&wire->tcp;
    uv_buf_t buffer = uv_buf_init((char *)bytes, (unsigned)length);
    if (stream->write_queue_size == 0) {
        int written = uv_try_write(stream, &buffer, 1);
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        } else if (written < 0 && written != UV_EAGAIN) {
            return BW_EIO;
        }
    }
    if (length == 0)
        return 0;
    struct outgoing *outgoing = malloc(sizeof *outgoing + length);
    if (!outgoing)
        return BW_EIO; /* a part may already be sent: only a new connection is usable */
    outgoing->wire = wire;
    memcpy(outgoing->bytes, bytes, length);
    buffer = uv_buf_init(outgoing->bytes, (unsigned)length);
    if (uv_write(&outgoing->write, stream, &buffer, 1, on_written) != 0) {
        free(outgoing);
        return BW_EIO;
    }
    wire->pending++;
    return 0;
}

static int flush_tls(struct redis_wire *wire)
{
    char bytes[16384];
    size_t length;
    while (!wire->closed && (length = redis_tls_drain(wire->tls, bytes, sizeof bytes)) > 0)
        if (write_bytes(wire, bytes, length) != 0)
            return BW_EIO; /* the server cannot decrypt what follows these bytes */
    return 0;
}

int redis_wire_send(struct redis_wire *wire, const char *bytes, size_t length)
{
    if (!wire->ready || wire->closed)
        return BW_EIO;
    if (wire->tcp.write_queue_size > REDIS_UNSENT_MAX)
        return BW_ELIMIT;
    if (!wire->tls)
        return write_bytes(wire, bytes, length);
    int error = redis_tls_write(wire->tls, bytes, length);
    int unsent = flush_tls(wire);
    return error ? error : unsent;
}

/* ---- open and close ---- */

static void on_tcp_closed(uv_handle_t *handle)
{
    struct redis_wire *wire = handle->data;
    release(wire);
}

static void on_tcp_replaced(uv_handle_t *handle)
{
    struct redis_wire *wire = handle->data;
    wire->has_tcp = false;
    if (!wire->closed)
        try_address(wire);
    release(wire);
}

static void start_tls(struct redis_wire *wire)
{
    wire->tls = redis_tls_new(wire->tls_context, wire->host);
    if (!wire->tls) {
        end(wire, "no memory for TLS");
        return;
    }
    shake_hands(wire);
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct redis_wire *wire = connect->data;
    if (!wire->closed && status != 0 && wire->next_address) {
        wire->pending++;
        uv_close((uv_handle_t *)&wire->tcp, on_tcp_replaced);
    } else if (!wire->closed && status != 0) {
        end(wire, uv_strerror(status));
    } else if (!wire->closed) {
        uv_tcp_nodelay(&wire->tcp, 1);
        uv_read_start((uv_stream_t *)&wire->tcp, on_alloc, on_read);
        if (wire->tls_context)
            start_tls(wire);
        else
            become_ready(wire);
    }
    release(wire);
}

static void try_address(struct redis_wire *wire)
{
    struct addrinfo *address = wire->next_address;
    wire->next_address = address->ai_next;
    uv_tcp_init(wire->loop, &wire->tcp);
    wire->tcp.data = wire->connect.data = wire;
    wire->has_tcp = true;
    wire->pending++;
    int status = uv_tcp_connect(&wire->connect, &wire->tcp, address->ai_addr, on_connect);
    if (status != 0)
        on_connect(&wire->connect, status);
}

static void on_lookup(uv_getaddrinfo_t *lookup, int status, struct addrinfo *addresses)
{
    struct redis_wire *wire = lookup->data;
    wire->looking_up = false;
    if (status == 0)
        wire->addresses = wire->next_address = addresses;
    if (!wire->closed && status != 0)
        end(wire, uv_strerror(status));
    else if (!wire->closed)
        try_address(wire);
    release(wire);
}

struct redis_wire *redis_wire_open(uv_loop_t *loop, const char *host, uint16_t port,
                                   struct redis_tls_context *tls,
                                   const struct redis_wire_events *events)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char service[8];
    struct redis_wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return NULL;
    wire->loop = loop;
    wire->events = *events;
    wire->tls_context = tls;
    wire->reader = new_reader(wire);
    snprintf(wire->host, sizeof wire->host, "%s", host);
    snprintf(service, sizeof service, "%u", (unsigned)port);
    wire->lookup.data = wire;
    wire->pending = 2; /* the owner and the name lookup */
    wire->looking_up = true;
    if (!wire->reader ||
        bw_loop_look_up(loop, &wire->lookup, on_lookup, host, service, &hints) != 0) {
        wire->pending = 1;
        release(wire);
        return NULL;
    }
    return wire;
}

void redis_wire_close(struct redis_wire *wire)
{
    wire->closed = true;
    if (wire->looking_up)
        uv_cancel((uv_req_t *)&wire->lookup);
    if (wire->has_tcp && !uv_is_closing((uv_handle_t *)&wire->tcp)) {
        wire->pending++;
        uv_close((uv_handle_t *)&wire->tcp, on_tcp_closed);
    }
    release(wire);
}
