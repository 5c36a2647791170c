/* Server side of gRPC over HTTP/2 (RFC 9113 and gRPC's PROTOCOL-HTTP2) on nghttp2. Requests whose
 * content type is not gRPC go to the gateway, as on HTTP/1.1.
 *
 * A request is a stream: headers, then messages with a five-byte head each. A response is headers,
 * messages and trailers with the status; an error before any message is trailers only. Compression
 * is refused. Floods of SETTINGS, PING, resets and CONTINUATION end the connection, by limits of
 * nghttp2 and of this file. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "os/grow.h"
#include "serve/api/kv.h"
#include "serve/auth/auth.h"
#include "serve/front/gateway.h"
#include "serve/front/h2_head.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_BYTES 128u
#define GRPC_HEAD      5u
#define RESETS_MAX     2000u /* streams reset by the client minus streams that ended normally */
#define TEXT_MAX       512u
#define OUT_KEPT       4096u /* buffer size kept by an idle stream */
#define OUT_GROWS      ((size_t)1 << 20)
#define UNREAD_MAX     (4 * BW_FRONT_QUEUE_MAX) /* bytes of incomplete requests */

struct stream {
    struct bw_call call;
    struct bw_conn *conn;
    struct stream *next, **link;
    int32_t id;
    struct bw_h2_head head;
    char path[PATH_MAX_BYTES];
    enum bw_verb verb;
    struct bw_gateway *gateway;   /* requests that are not gRPC */
    bool grpc, compressed, begun; /* begun: the response headers were submitted */
    bool malformed;               /* the request was malformed, and the stream was reset */
    bool opened, complete;        /* the head is complete; the whole request is complete */
    uint64_t slow_ms;             /* since when the client is late, see h2_sweep; 0: it is not */
    enum bw_bind bind;            /* requested kind of lease binding */
    unsigned char proof_hash[BW_BIND_PROOF];
    size_t headers;
    unsigned char *in; /* incomplete or held-back messages */
    size_t in_used, in_size;
    bool held_back;     /* the client reads no responses: no further message is taken */
    size_t unconsumed;  /* received bytes whose flow-control window is not returned yet */
    unsigned char *out; /* messages to send; the account counts `out_size` */
    size_t out_used, out_at, out_size;
    uint64_t unread_ms; /* since when nothing was taken, see is_never_read */
    size_t unread_left;
    bool deferred, finished, trailers; /* waits for data; no more data comes; trailers are due */
    enum bw_code code;
    char text[TEXT_MAX];
};

struct session {
    nghttp2_session *h2;
    struct stream *first;
    int64_t resets;     /* reset streams minus normally ended ones */
    size_t unread;      /* bytes of incomplete requests of all streams */
    bool awaits_reader; /* a call waits for the client to read, or a stream is held back */
};

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

static struct session *session_of(const struct stream *stream)
{
    return stream->conn->state;
}

/* Percent-encodes a text for grpc-message. */
static void encode_text(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text && used + 4 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= 0x20 && c <= 0x7e && c != '%')
            out[used++] = (char)c;
        else
            used += (size_t)snprintf(out + used, size - used, "%%%02X", c);
    }
    out[used] = '\0';
}

static enum bw_account_of account_of(const struct stream *stream)
{
    const struct bw_call *call = stream->gateway ? &stream->gateway->call : &stream->call;
    return call->method && bw_method_streams(call->method) ? BW_ACCOUNT_STREAMS : BW_ACCOUNT_CALLS;
}

/* Changes the size of the output buffer. Returns false if memory cannot be allocated. */
static bool resize_out(struct stream *stream, size_t size)
{
    unsigned char *other = size ? realloc(stream->out, size) : NULL;
    if (size && !other)
        return false;
    if (!size)
        free(stream->out);
    bw_account_change(&stream->conn->account, account_of(stream), stream->out_size, size);
    stream->out = other;
    stream->out_size = size;
    return true;
}

/* Frees memory as the client reads. Otherwise a client could pin a whole response by leaving one
 * byte of it. */
static void shrink_out(struct stream *stream)
{
    size_t left = stream->out_used - stream->out_at;
    if (left && left > stream->out_size / 4)
        return;
    if (left)
        memmove(stream->out, stream->out + stream->out_at, left);
    stream->out_at = 0;
    stream->out_used = left;
    if (stream->out_size > OUT_KEPT)
        resize_out(stream, left > OUT_KEPT ? left : OUT_KEPT);
}

static ssize_t read_body(nghttp2_session *h2, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
                         nghttp2_data_source *source, void *context)
{
    struct stream *stream = source->ptr;
    (void)id;
    (void)context;
    size_t left = stream->out_used - stream->out_at, take = left < size ? left : size;
    if (take) {
        memcpy(to, stream->out + stream->out_at, take);
        stream->out_at += take;
    }
    shrink_out(stream);
    if (stream->out_used == 0) {
        if (stream->finished && stream->gateway) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        } else if (stream->finished) {
            char code[8], text[TEXT_MAX];
            snprintf(code, sizeof code, "%d", stream->code);
            encode_text(stream->text, text, sizeof text);
            nghttp2_nv trailers[] = {nv("grpc-status", code), nv("grpc-message", text)};
            *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(h2, stream->id, trailers, stream->text[0] ? 2 : 1);
        } else if (take == 0) {
            stream->deferred = true;
            return NGHTTP2_ERR_DEFERRED;
        }
    }
    return (ssize_t)take;
}

static void begin_answer(struct stream *stream)
{
    char hold_off[16] = "";
    nghttp2_nv headers[] = {nv(":status", "200"), nv("content-type", "application/grpc"),
                            nv("bellwether-bound", hold_off)};
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = read_body};
    if (stream->begun)
        return;
    stream->begun = true;
    if (stream->call.bound) {
        snprintf(hold_off, sizeof hold_off, "%u", bw_binding_hold_off_ms(stream->call.binding));
        headers[2].valuelen = strlen(hold_off);
    }
    nghttp2_submit_response(session_of(stream)->h2, stream->id, headers, stream->call.bound ? 3 : 2,
                            &provider);
}

static void more_to_send(struct stream *stream)
{
    if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(session_of(stream)->h2, stream->id);
    }
    bw_conn_dirty(stream->conn);
}

static size_t largest_out(const struct session *session)
{
    size_t largest = 0;
    for (const struct stream *at = session->first; at; at = at->next)
        largest = at->out_size > largest ? at->out_size : largest;
    return largest;
}

/* Decides whether a response may be queued. One response is admitted whatever its size; a second
 * large one is held or refused. The large response does not count against the others: while a
 * client reads it, its leases are renewed, its watches continue and its writes are answered. */
static bool admits(const struct stream *stream, size_t bytes)
{
    size_t unread = bw_account_total(&stream->conn->account);
    return unread <= BW_FRONT_QUEUE_MAX || unread + bytes <= BW_FRONT_UNREAD_MAX ||
           unread - largest_out(session_of(stream)) + bytes <= BW_FRONT_UNREAD_MAX ||
           BW_BUG(account_is_ignored);
}

static unsigned char *grow_out(struct stream *stream, size_t bytes)
{
    if (stream->out_size - stream->out_used < bytes) {
        size_t least = stream->out_used + bytes;
        size_t twice =
            2 * stream->out_size < OUT_GROWS ? 2 * stream->out_size : stream->out_size + OUT_GROWS;
        if (!resize_out(stream, least > twice ? least : twice))
            return NULL;
    }
    unsigned char *at = stream->out + stream->out_used;
    stream->out_used += bytes;
    return at;
}

static void on_call_send(struct bw_call *call, const ProtobufCMessage *message)
{
    struct stream *stream = call->wire;
    size_t length = protobuf_c_message_get_packed_size(message);
    unsigned char *at = admits(stream, length) ? grow_out(stream, GRPC_HEAD + length) : NULL;
    if (!at) {
        bw_call_end(call, BW_CODE_EXHAUSTED, BW_GATEWAY_UNREAD);
        return;
    }
    at[0] = 0;
    for (unsigned i = 0; i < 4; i++)
        at[1 + i] = (unsigned char)(length >> (24 - 8 * i));
    protobuf_c_message_pack(message, at + GRPC_HEAD);
    begin_answer(stream);
    more_to_send(stream);
}

static void on_call_end(struct bw_call *call, enum bw_code code, const char *text)
{
    struct stream *stream = call->wire;
    char digits[8], encoded[TEXT_MAX];
    stream->finished = true;
    stream->code = code;
    snprintf(stream->text, sizeof stream->text, "%s", text ? text : "");
    if (stream->begun) {
        more_to_send(stream);
        return;
    }
    stream->begun = true;
    snprintf(digits, sizeof digits, "%d", code);
    encode_text(stream->text, encoded, sizeof encoded);
    nghttp2_nv headers[] = {nv(":status", "200"), nv("content-type", "application/grpc"),
                            nv("grpc-status", digits), nv("grpc-message", encoded)};
    nghttp2_submit_response(session_of(stream)->h2, stream->id, headers, encoded[0] ? 4 : 3, NULL);
    bw_conn_dirty(stream->conn);
}

static bool is_full(const struct stream *stream)
{
    bool full = stream->conn->account.bytes[BW_ACCOUNT_STREAMS] > BW_FRONT_QUEUE_MAX ||
                bw_conn_backlog(stream->conn) > BW_FRONT_QUEUE_MAX;
    session_of(stream)->awaits_reader |= full;
    return full;
}

static bool is_crowded(const struct stream *stream)
{
    bool crowded = stream->conn->account.bytes[BW_ACCOUNT_CALLS] > BW_FRONT_QUEUE_MAX &&
                   !BW_BUG(account_is_ignored);
    session_of(stream)->awaits_reader |= crowded;
    return crowded;
}

static bool on_call_is_full(struct bw_call *call)
{
    return is_full(call->wire);
}

static bool on_call_is_crowded(struct bw_call *call)
{
    return is_crowded(call->wire);
}

/* ---- requests that are not gRPC ---- */

static void answer_head(struct bw_gateway *gateway, unsigned status, const char *type,
                        int64_t length)
{
    struct stream *stream = gateway->owner;
    char digits[8], bytes[24];
    snprintf(digits, sizeof digits, "%u", status);
    snprintf(bytes, sizeof bytes, "%lld", (long long)length);
    nghttp2_nv headers[4 + BW_GATEWAY_FIELDS_MAX] = {nv(":status", digits),
                                                     nv("content-type", type)};
    size_t count = 2;
    if (length >= 0)
        headers[count++] = nv("content-length", bytes);
    if (gateway->allow)
        headers[count++] = nv("allow", gateway->allow);
    for (const struct bw_http_field *field = gateway->fields; field && field->name; field++)
        headers[count++] = nv(field->name, field->value);
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = read_body};
    stream->begun = true;
    nghttp2_submit_response(session_of(stream)->h2, stream->id, headers, count,
                            stream->verb == BW_VERB_HEAD ? NULL : &provider);
    bw_conn_dirty(stream->conn);
}

static void answer_body(struct bw_gateway *gateway, const void *bytes, size_t length)
{
    struct stream *stream = gateway->owner;
    unsigned char *at = length && stream->verb != BW_VERB_HEAD ? grow_out(stream, length) : NULL;
    if (at)
        memcpy(at, bytes, length);
    more_to_send(stream);
}

static void answer_end(struct bw_gateway *gateway)
{
    struct stream *stream = gateway->owner;
    stream->finished = true;
    more_to_send(stream);
}

static bool answer_is_full(struct bw_gateway *gateway)
{
    return is_full(gateway->owner);
}

static bool answer_is_crowded(struct bw_gateway *gateway)
{
    return is_crowded(gateway->owner);
}

static bool answer_is_admitted(struct bw_gateway *gateway, size_t bytes)
{
    return admits(gateway->owner, bytes);
}

static const struct bw_gateway_wire wire = {answer_head,    answer_body,       answer_end,
                                            answer_is_full, answer_is_crowded, answer_is_admitted};

static void open_gateway(struct stream *stream)
{
    stream->call.ended = true;
    stream->gateway = calloc(1, sizeof *stream->gateway);
    if (!stream->gateway) {
        nghttp2_submit_rst_stream(session_of(stream)->h2, NGHTTP2_FLAG_NONE, stream->id,
                                  NGHTTP2_REFUSED_STREAM);
        return;
    }
    *stream->gateway = (struct bw_gateway){.front = stream->conn->front,
                                           .wire = &wire,
                                           .owner = stream,
                                           .needs_leader = stream->call.needs_leader,
                                           .accepts_gzip = stream->head.accepts_gzip,
                                           .has_page = stream->head.has_page,
                                           .origin = stream->head.origin,
                                           .caller = stream->call.caller};
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
    struct bw_conn *conn = context;
    struct session *session = conn->state;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    stream->conn = conn;
    stream->id = frame->hd.stream_id;
    stream->next = session->first;
    stream->link = &session->first;
    if (stream->next)
        stream->next->link = &stream->next;
    session->first = stream;
    stream->call = (struct bw_call){.service = conn->front->options.service,
                                    .caller = conn->caller,
                                    .wire = stream,
                                    .send = on_call_send,
                                    .end = on_call_end,
                                    .is_full = on_call_is_full,
                                    .is_crowded = on_call_is_crowded};
    nghttp2_session_set_stream_user_data(h2, stream->id, stream);
    return 0;
}

static bool is(const uint8_t *at, size_t length, const char *text)
{
    return length == strlen(text) && memcmp(at, text, length) == 0;
}

/* Resets the stream of a malformed request and ignores the rest of it. */
static void reset(struct stream *stream)
{
    stream->malformed = true;
    nghttp2_submit_rst_stream(session_of(stream)->h2, NGHTTP2_FLAG_NONE, stream->id,
                              NGHTTP2_PROTOCOL_ERROR);
}

static void take_field(struct stream *stream, const uint8_t *name, size_t name_length,
                       const uint8_t *value, size_t value_length)
{
    if (is(name, name_length, ":path") && value_length < PATH_MAX_BYTES) {
        memcpy(stream->path, value, value_length);
        stream->path[value_length] = '\0';
    } else if (is(name, name_length, ":method")) {
        stream->verb = bw_verb_of((const char *)value, value_length);
    } else if (is(name, name_length, "content-type")) {
        stream->grpc = value_length >= 16 && memcmp(value, "application/grpc", 16) == 0;
    } else if (is(name, name_length, "grpc-encoding")) {
        stream->compressed = !is(value, value_length, "identity");
    } else if (is(name, name_length, "bellwether-bind")) {
        stream->bind = bw_bind_read((const char *)value, value_length, stream->proof_hash);
    } else if (is(name, name_length, "hasleader") ||
               is(name, name_length, "grpc-metadata-hasleader")) {
        stream->call.needs_leader = is(value, value_length, "true");
    } else if (is(name, name_length, "token") || is(name, name_length, "authorization") ||
               is(name, name_length, "grpc-metadata-token")) {
        bw_auth_take_token(stream->call.service, (const char *)value, value_length,
                           &stream->call.caller);
    }
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *context)
{
    struct stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    (void)flags;
    (void)context;
    if (!stream || stream->malformed)
        return 0;
    stream->headers += name_length + value_length + 32;
    if (stream->headers > BW_FRONT_HEADERS_MAX)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    switch (bw_h2_head_field(&stream->head, name, name_length, value, value_length)) {
    case BW_H2_TAKE:
        take_field(stream, name, name_length, value, value_length);
        return 0;
    case BW_H2_PASS:
        return 0;
    case BW_H2_BAD:
        break;
    }
    reset(stream);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void open_call(struct stream *stream)
{
    struct bw_call *call = &stream->call;
    stream->opened = true;
    if (!bw_h2_head_end(&stream->head)) {
        reset(stream);
        return;
    }
    if (!stream->grpc) {
        open_gateway(stream);
        return;
    }
    if (stream->bind != BW_BIND_NOT)
        call->binding = bw_conn_binding(stream->conn, stream->bind, stream->proof_hash);
    call->method = bw_method_find(stream->path, strlen(stream->path));
    if (!call->method)
        bw_call_end(call, BW_CODE_UNIMPLEMENTED, "bellwether: method not implemented");
    else if (stream->compressed)
        bw_call_end(call, BW_CODE_UNIMPLEMENTED, "bellwether: compression is not supported");
    else
        bw_call_check_leader(call);
}

static void take_message(struct stream *stream, const unsigned char *bytes, size_t length)
{
    struct bw_call *call = &stream->call;
    if (!bw_call_may_take(call))
        return;
    bool deep = call->method->request == &api__txn_request__descriptor &&
                !bw_txn_is_shallow(bytes, length); /* unpacking would recurse to any depth */
    ProtobufCMessage *message =
        deep ? NULL : protobuf_c_message_unpack(call->method->request, NULL, length, bytes);
    if (!message) {
        bw_call_end(call, BW_CODE_INTERNAL, "grpc: error unmarshalling request");
        return;
    }
    bw_call_take(call, message, length);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* Returns true if the client does not read this stream's responses. A server with one thread per
 * stream would block in send at this point. */
static bool is_unread(const struct stream *stream)
{
    bool unread = stream->out_used - stream->out_at > BW_FRONT_STREAM_QUEUE &&
                  !BW_BUG(stream_requests_are_never_held);
    session_of(stream)->awaits_reader |= unread;
    return unread;
}

/* Passes all messages that have arrived completely to the method. */
static void take_messages(struct stream *stream)
{
    size_t used = 0;
    stream->held_back = false;
    while (!stream->call.ended && stream->in_used - used >= GRPC_HEAD) {
        if ((stream->held_back = is_unread(stream)))
            break;
        const unsigned char *at = stream->in + used;
        size_t length = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
        if (at[0] != 0) {
            bw_call_end(&stream->call, BW_CODE_UNIMPLEMENTED,
                        "bellwether: compression is not supported");
            break;
        }
        if (bw_call_is_oversize(&stream->call, length))
            break;
        if (stream->in_used - used - GRPC_HEAD < length)
            break;
        take_message(stream, at + GRPC_HEAD, length);
        stream->slow_ms = 0;
        used += GRPC_HEAD + length;
    }
    if (stream->call.ended)
        used = stream->in_used;
    if (used > 0) /* avoids moving a message once per small frame */
        memmove(stream->in, stream->in + used, stream->in_used - used);
    stream->in_used -= used;
    session_of(stream)->unread -= used;
    if (stream->in_used == 0 && stream->in_size > OUT_KEPT) {
        free(stream->in);
        stream->in = NULL;
        stream->in_size = 0;
    }
}

/* Returns the flow-control window of received bytes, except for a stream that is held back. */
static void consume(struct stream *stream, size_t length)
{
    stream->unconsumed += length;
    if (stream->held_back || stream->unconsumed == 0)
        return;
    nghttp2_session_consume(session_of(stream)->h2, stream->id, stream->unconsumed);
    stream->unconsumed = 0;
}

/* Returns false to close the connection. */
static bool take_data(struct stream *stream, const uint8_t *bytes, size_t length)
{
    struct session *session = session_of(stream);
    if (!bw_h2_head_body(&stream->head, length)) {
        reset(stream);
        return true;
    }
    if (stream->gateway ? stream->gateway->begun : stream->call.ended)
        return true;
    if (session->unread + length > UNREAD_MAX)
        return false;
    if (!bw_grow(&stream->in, &stream->in_size, stream->in_used + length, length, 1))
        return false;
    memcpy(stream->in + stream->in_used, bytes, length);
    stream->in_used += length;
    session->unread += length;
    if (!stream->gateway)
        take_messages(stream);
    else if (stream->in_used > BW_FRONT_BODY_MAX)
        bw_gateway_refuse_size(stream->gateway, stream->in_used);
    return true;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t length, void *context)
{
    struct stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    (void)flags;
    (void)context;
    if (!stream) {
        nghttp2_session_consume_connection(h2, length);
        return 0;
    }
    if (!stream->malformed && !take_data(stream, bytes, length))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    consume(stream, length);
    return 0;
}

static void no_more(struct stream *stream)
{
    struct bw_call *call = &stream->call;
    stream->complete = true;
    if (!stream->malformed && !bw_h2_head_whole(&stream->head))
        reset(stream);
    if (stream->malformed)
        return;
    if (stream->gateway && !stream->gateway->begun)
        bw_gateway_ask(stream->gateway, stream->verb, stream->path, (const char *)stream->in,
                       stream->in_used);
    if (call->ended || !call->method || stream->held_back)
        return;
    if (stream->in_used)
        bw_call_end(call, BW_CODE_INTERNAL, "grpc: message cut short");
    else
        bw_call_no_more(call);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
    struct stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    (void)context;
    if (!stream || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        open_call(stream);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        no_more(stream);
    return 0;
}

/* The client reads again: resumes calls and takes the messages that were held back. */
static void resume_calls(struct session *session)
{
    session->awaits_reader = false;
    for (struct stream *stream = session->first; stream; stream = stream->next) {
        if (stream->held_back) {
            take_messages(stream);
            consume(stream, 0);
            if (stream->complete)
                no_more(stream);
        }
        bw_call_writable(stream->gateway ? &stream->gateway->call : &stream->call);
    }
}

static void stream_free(struct stream *stream)
{
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    resize_out(stream, 0); /* while the account it belongs to is known */
    bw_call_gone(&stream->call);
    if (stream->gateway)
        bw_gateway_gone(stream->gateway);
    free(stream->gateway);
    session_of(stream)->unread -= stream->in_used;
    if (stream->unconsumed)
        nghttp2_session_consume_connection(session_of(stream)->h2, stream->unconsumed);
    free(stream->in);
    free(stream);
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *context)
{
    struct stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    struct session *session = ((struct bw_conn *)context)->state;
    session->resets += code == NGHTTP2_NO_ERROR ? -1 : 1;
    session->resets = session->resets < 0 ? 0 : session->resets;
    if (stream)
        stream_free(stream);
    return session->resets > RESETS_MAX ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static nghttp2_session *session_new(struct bw_conn *conn)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    nghttp2_session *h2 = NULL;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, BW_FRONT_STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1u << 20},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, BW_FRONT_HEADERS_MAX}};
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    if (nghttp2_option_new(&option) != 0) {
        nghttp2_session_callbacks_del(callbacks);
        return NULL;
    }
    nghttp2_option_set_no_http_messaging(option, 1); /* h2_head.h implements these rules */
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    if (nghttp2_session_server_new2(&h2, callbacks, conn, option) != 0)
        h2 = NULL;
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    if (h2) {
        nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, settings, 3);
        nghttp2_session_set_local_window_size(h2, NGHTTP2_FLAG_NONE, 0, 4 << 20);
    }
    return h2;
}

bool bw_h2_begin(struct bw_conn *conn)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return false;
    conn->state = session;
    session->h2 = session_new(conn);
    if (!session->h2) {
        free(session);
        conn->state = NULL;
        return false;
    }
    bw_conn_dirty(conn);
    return true;
}

static bool h2_bytes(struct bw_conn *conn, const unsigned char *bytes, size_t length)
{
    struct session *session = conn->state;
    ssize_t taken = nghttp2_session_mem_recv(session->h2, bytes, length);
    bw_conn_dirty(conn);
    return taken == (ssize_t)length;
}

static void h2_flush(struct bw_conn *conn)
{
    struct session *session = conn->state;
    const uint8_t *bytes;
    ssize_t length;
    while (bw_conn_backlog(conn) < BW_FRONT_QUEUE_MAX &&
           (length = nghttp2_session_mem_send(session->h2, &bytes)) > 0)
        bw_conn_put(conn, bytes, (size_t)length);
    if (session->awaits_reader)
        resume_calls(session);
    if (!nghttp2_session_want_read(session->h2) && !nghttp2_session_want_write(session->h2))
        conn->close_when_sent = true;
}

static void h2_gone(struct bw_conn *conn)
{
    struct session *session = conn->state;
    for (struct stream *at = session->first, *next; at; at = next) {
        next = at->next;
        stream_free(at);
    }
    nghttp2_session_del(session->h2);
    free(session);
}

/* Returns true if the client should send something next, so that the time until then is limited. A
 * client that streams may pause between messages, but not inside one. After the server has ended
 * the call, the client must end its side. */
static bool is_client_late(const struct stream *stream)
{
    const struct bw_call *call = &stream->call;
    bool streams = call->method && bw_method_streams(call->method);
    return !stream->complete && !stream->held_back &&
           (stream->in_used > 0 || call->ended || (!streams && !call->asked));
}

/* Returns true if a client leaves the flow-control window of a unary response closed for
 * BW_FRONT_UNREAD_MS. Clients read such a response at once, so this one has been abandoned. While
 * the socket still has bytes to send, the connection is slow and not the stream. */
static bool is_never_read(struct stream *stream, uint64_t now_ms)
{
    size_t left = stream->out_used - stream->out_at;
    if (left == 0 || left != stream->unread_left || bw_conn_backlog(stream->conn) > 0) {
        stream->unread_left = left;
        stream->unread_ms = now_ms;
    }
    return account_of(stream) == BW_ACCOUNT_CALLS &&
           now_ms >= stream->unread_ms + BW_FRONT_UNREAD_MS;
}

/* Resets streams that are too slow. A head that never ends blocks all other streams, so it ends the
 * connection. */
static bool h2_sweep(struct bw_conn *conn, uint64_t now_ms, bool leaderless)
{
    struct session *session = conn->state;
    for (struct stream *at = session->first; at; at = at->next) {
        bool late = at->slow_ms && now_ms >= at->slow_ms + BW_FRONT_STREAM_MS;
        if (is_never_read(at, now_ms)) {
            nghttp2_submit_rst_stream(session->h2, NGHTTP2_FLAG_NONE, at->id, NGHTTP2_CANCEL);
            bw_conn_dirty(conn);
            continue;
        }
        if (!is_client_late(at))
            at->slow_ms = 0;
        else if (!at->slow_ms)
            at->slow_ms = now_ms;
        else if (late && !at->opened)
            return false;
        else if (late)
            nghttp2_submit_rst_stream(session->h2, NGHTTP2_FLAG_NONE, at->id, NGHTTP2_CANCEL);
        if (late)
            bw_conn_dirty(conn);
        if (leaderless)
            bw_call_leaderless(at->gateway ? &at->gateway->call : &at->call);
    }
    return true;
}

const struct bw_protocol bw_protocol_h2 = {h2_bytes, h2_flush, h2_gone, NULL, h2_sweep};
