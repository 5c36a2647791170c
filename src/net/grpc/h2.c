/* HTTP/2 with nghttp2 over a link; see h2.h. */
#include "net/grpc/h2.h"

#include "core/base/error.h"
#include "os/grow.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_WINDOW     (1 << 20)
#define CONNECTION_WINDOW (8 << 20)
#define HEADERS_OUT_MAX   16u
#define FLUSH_BYTES       65536u

struct bw_h2 {
    struct bw_h2_options options;
    struct bw_link *link;
    nghttp2_session *session;
    uv_idle_t flusher; /* sends what was requested in this turn of the loop */
    uv_timer_t limit;  /* time limit until `up`; later it reports a failure */
    struct bw_h2_stream *streams;
    char authority[272];
    char why[BW_LINK_WHY_MAX + 1];
    uint64_t received_ms;
    bool up, down, closed;
    unsigned handles;
    uint8_t out[FLUSH_BYTES];
};

struct bw_h2_stream {
    struct bw_h2 *h2;
    struct bw_h2_stream *next, *previous;
    const struct bw_h2_hooks *hooks; /* NULL: cancelled */
    void *context;
    int32_t id;
    uint8_t *out; /* not yet sent */
    size_t out_length, out_size, out_sent;
    size_t header_bytes;
    bool last, deferred;
};

/* ---- failure ---- */

static void on_failed(uv_timer_t *timer)
{
    struct bw_h2 *h2 = timer->data;
    h2->options.down(h2->options.context, h2->why);
}

static void fail(struct bw_h2 *h2, const char *why)
{
    if (h2->down || h2->closed)
        return;
    h2->down = true;
    snprintf(h2->why, sizeof h2->why, "%s", why);
    uv_timer_start(&h2->limit, on_failed, 0, 0);
}

static void on_late(uv_timer_t *timer)
{
    fail(timer->data, "no HTTP/2 SETTINGS from the server in time");
}

/* ---- streams ---- */

static void free_stream(struct bw_h2_stream *stream)
{
    *(stream->previous ? &stream->previous->next : &stream->h2->streams) = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    free(stream->out);
    free(stream);
}

static ssize_t on_wants_data(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t length,
                             uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct bw_h2_stream *stream = source->ptr;
    size_t left = stream->out_length - stream->out_sent;
    size_t now = left < length ? left : length;
    (void)session;
    (void)id;
    (void)context;
    if (now == 0 && !stream->last) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (now)
        memcpy(buffer, stream->out + stream->out_sent, now);
    stream->out_sent += now;
    if (stream->out_sent == stream->out_length) {
        stream->out_sent = stream->out_length = 0;
        if (stream->last)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)now;
}

static void flush(struct bw_h2 *h2)
{
    const uint8_t *bytes;
    size_t used = 0;
    ssize_t got;
    while (!h2->down && (got = nghttp2_session_mem_send(h2->session, &bytes)) > 0) {
        size_t length = (size_t)got;
        if (used + length > FLUSH_BYTES) {
            bw_link_write(h2->link, h2->out, used);
            used = 0;
        }
        if (length > FLUSH_BYTES) {
            bw_link_write(h2->link, bytes, length);
            continue;
        }
        memcpy(h2->out + used, bytes, length);
        used += length;
    }
    if (used && !h2->down)
        bw_link_write(h2->link, h2->out, used);
    if (!h2->down && !nghttp2_session_want_read(h2->session) &&
        !nghttp2_session_want_write(h2->session))
        fail(h2, "the server violated HTTP/2");
}

static void on_flush(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    flush(idle->data);
}

static void flush_soon(struct bw_h2 *h2)
{
    uv_idle_start(&h2->flusher, on_flush);
}

#define NAME_VALUE(n, v)                                                                           \
    (nghttp2_nv)                                                                                   \
    {                                                                                              \
        (uint8_t *)(n), (uint8_t *)(v), strlen(n), strlen(v), NGHTTP2_NV_FLAG_NONE                 \
    }

static int32_t submit(struct bw_h2_stream *stream, const char *path,
                      const struct bw_h2_header *headers, size_t count)
{
    struct bw_h2 *h2 = stream->h2;
    nghttp2_nv list[HEADERS_OUT_MAX] = {
        NAME_VALUE(":method", "POST"), NAME_VALUE(":scheme", h2->options.tls ? "https" : "http"),
        NAME_VALUE(":path", path), NAME_VALUE(":authority", h2->authority)};
    size_t used = 4;
    for (size_t i = 0; i < count && used < HEADERS_OUT_MAX; i++)
        list[used++] = NAME_VALUE(headers[i].name, headers[i].value);
    nghttp2_data_provider body = {.source = {.ptr = stream}, .read_callback = on_wants_data};
    return nghttp2_submit_request(h2->session, NULL, list, used, &body, stream);
}

struct bw_h2_stream *bw_h2_post(struct bw_h2 *h2, const char *path,
                                const struct bw_h2_header *headers, size_t count,
                                const struct bw_h2_hooks *hooks, void *context)
{
    struct bw_h2_stream *stream = h2->down ? NULL : calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (struct bw_h2_stream){.h2 = h2, .hooks = hooks, .context = context};
    stream->id = submit(stream, path, headers, count);
    if (stream->id < 0) {
        free(stream);
        return NULL;
    }
    if ((stream->next = h2->streams))
        stream->next->previous = stream;
    h2->streams = stream;
    flush_soon(h2);
    return stream;
}

int bw_h2_send(struct bw_h2_stream *stream, const uint8_t *bytes, size_t length, bool last)
{
    size_t needed = stream->out_length + length;
    if (needed > BW_H2_STREAM_QUEUE_MAX || stream->last)
        return BW_ELIMIT;
    if (!bw_grow(&stream->out, &stream->out_size, needed, 256, 1))
        return BW_ELIMIT;
    if (length)
        memcpy(stream->out + stream->out_length, bytes, length);
    stream->out_length = needed;
    stream->last = last;
    if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(stream->h2->session, stream->id);
    }
    flush_soon(stream->h2);
    return 0;
}

void bw_h2_cancel(struct bw_h2_stream *stream)
{
    struct bw_h2 *h2 = stream->h2;
    stream->hooks = NULL;
    stream->last = true; /* do not wait for more data */
    if (h2->down || h2->closed)
        return;
    nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    flush_soon(h2);
}

/* ---- frames from the server ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *context)
{
    struct bw_h2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    const struct bw_h2 *h2 = context;
    (void)flags;
    if (!stream || h2->closed || h2->down)
        return 0;
    stream->header_bytes += name_length + value_length + 32; /* RFC 9113, section 6.5.2 */
    if (stream->header_bytes > BW_H2_HEADERS_MAX)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the stream is reset */
    if (stream->hooks)
        stream->hooks->header(stream->context, (const char *)name, (const char *)value,
                              value_length);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t length, void *context)
{
    struct bw_h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    const struct bw_h2 *h2 = context;
    (void)flags;
    if (stream && stream->hooks && !h2->closed && !h2->down)
        stream->hooks->data(stream->context, bytes, length);
    return 0;
}

static int on_stream_end(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
    struct bw_h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    struct bw_h2 *h2 = context;
    if (!stream)
        return 0;
    const struct bw_h2_hooks *hooks = h2->closed || h2->down ? NULL : stream->hooks;
    void *owner = stream->context;
    free_stream(stream);
    if (hooks)
        hooks->ended(owner, code);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct bw_h2 *h2 = context;
    (void)session;
    bool settings = frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        fail(h2, "the server sent GOAWAY");
    } else if (settings && !h2->up && !h2->down) {
        h2->up = true;
        uv_timer_stop(&h2->limit);
        h2->options.up(h2->options.context);
    }
    return 0;
}

static void on_bytes(void *context, const uint8_t *bytes, size_t length)
{
    struct bw_h2 *h2 = context;
    if (h2->down || h2->closed)
        return;
    h2->received_ms = bw_h2_now_ms();
    ssize_t taken = nghttp2_session_mem_recv(h2->session, bytes, length);
    if (h2->closed)
        return;
    if (taken < 0 || (size_t)taken != length)
        fail(h2, "the server does not speak HTTP/2");
    else
        flush_soon(h2);
}

/* ---- opening and closing ---- */

static void on_link_up(void *context)
{
    struct bw_h2 *h2 = context;
    h2->received_ms = bw_h2_now_ms();
    flush(h2);
}

static void on_link_down(void *context, const char *why)
{
    fail(context, why);
}

static int make_session(struct bw_h2 *h2)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0}, /* no pushed streams */
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, BW_H2_HEADERS_MAX}};
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return BW_ENOMEM;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_end);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    int error = nghttp2_session_client_new(&h2->session, callbacks, h2);
    nghttp2_session_callbacks_del(callbacks);
    if (error == 0)
        error = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
                                        sizeof settings / sizeof settings[0]);
    if (error == 0)
        error = nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                                      CONNECTION_WINDOW);
    return error == 0 ? 0 : BW_ENOMEM;
}

static int open_link(struct bw_h2 *h2)
{
    struct bw_link_options link = {.loop = h2->options.loop,
                                   .host = h2->options.host,
                                   .port = h2->options.port,
                                   .tls = h2->options.tls,
                                   .within_ms = h2->options.within_ms,
                                   .setup_ms = h2->options.setup_ms,
                                   .context = h2,
                                   .up = on_link_up,
                                   .bytes = on_bytes,
                                   .down = on_link_down};
    bool six = strchr(h2->options.host, ':') != NULL;
    snprintf(h2->authority, sizeof h2->authority, "%s%s%s:%u", six ? "[" : "", h2->options.host,
             six ? "]" : "", h2->options.port);
    h2->link = bw_link_open(&link);
    return h2->link ? 0 : BW_ENOMEM;
}

struct bw_h2 *bw_h2_open(const struct bw_h2_options *options)
{
    struct bw_h2 *h2 = calloc(1, sizeof *h2);
    if (!h2)
        return NULL;
    h2->options = *options;
    if (make_session(h2) != 0 || open_link(h2) != 0) {
        nghttp2_session_del(h2->session);
        free(h2);
        return NULL;
    }
    uv_idle_init(options->loop, &h2->flusher);
    uv_timer_init(options->loop, &h2->limit);
    h2->flusher.data = h2->limit.data = h2;
    h2->handles = 2;
    h2->received_ms = bw_h2_now_ms();
    uv_timer_start(&h2->limit, on_late, options->within_ms + options->setup_ms, 0);
    return h2;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct bw_h2 *h2 = handle->data;
    if (--h2->handles > 0)
        return;
    nghttp2_session_del(h2->session);
    while (h2->streams)
        free_stream(h2->streams); /* NOLINT(clang-analyzer-unix.Malloc): it unlinks itself */
    free(h2);
}

void bw_h2_close(struct bw_h2 *h2)
{
    h2->closed = true;
    bw_link_close(h2->link);
    uv_close((uv_handle_t *)&h2->flusher, on_handle_closed);
    uv_close((uv_handle_t *)&h2->limit, on_handle_closed);
}

uint64_t bw_h2_now_ms(void)
{
    return uv_hrtime() / 1000000;
}

int bw_h2_fd(const struct bw_h2 *h2)
{
    return h2->link && h2->up && !h2->down && !h2->closed ? bw_link_fd(h2->link) : -1;
}

uint64_t bw_h2_received_ms(const struct bw_h2 *h2)
{
    return h2->received_ms;
}

void bw_h2_ping(struct bw_h2 *h2)
{
    if (h2->down || h2->closed)
        return;
    nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
    flush_soon(h2);
}
