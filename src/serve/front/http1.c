/* HTTP/1.1 on the service's port. Requests are processed in order, each handed to the gateway when
 * it is complete. An invalid request is answered with a 4xx status, and then the connection is
 * closed. Before it closes, the server discards incoming bytes for DRAIN_MS, so that the response
 * is not lost to a reset.
 *
 * Bounds: BW_FRONT_HEADERS_MAX, BW_FRONT_BODY_MAX; a head and a body must each arrive within
 * WITHIN_MS; the server stops reading from a client that pipelines more than AHEAD_MAX bytes. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "os/grow.h"
#include "serve/auth/auth.h"
#include "serve/front/gateway.h"
#include "serve/front/http1_head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WITHIN_MS     20000u
#define KEEP_MS       300000u /* idle time between requests */
#define DRAIN_MS      2000u
#define AHEAD_MAX     65536u
#define CHUNK_LINE    256u
#define IDLE_BYTES    4096u
#define PIECE_BYTES   262144u
#define TRAILERS_MAX  8192u
#define CONTINUE_TEXT "HTTP/1.1 100 Continue\r\n\r\n"

struct buffer { /* `used` bytes starting at `from` */
    unsigned char *at;
    size_t from, used, size;
};

enum stage {
    HEAD,
    BODY,       /* `left` bytes are still missing */
    CHUNK_SIZE, /* a line */
    CHUNK,      /* `left` bytes and the CRLF behind them */
    TRAILERS,
    ANSWERING,
    DISCARD
};

struct http1 {
    struct buffer in, body;
    struct buffer answer; /* what the connection's queue does not take; counted in the account */
    size_t scanned;       /* bytes of `in` without an end of the head */
    size_t left, trailers;
    enum stage stage;
    struct bw_http1_head head;
    struct bw_gateway ask;
    bool chunked_answer, answered; /* the response: chunked; complete */
    bool paused, ended;            /* reading: paused; the client half-closed */
    uint64_t turn;                 /* the last turn in which a request was processed */
    unsigned asked;                /* requests processed in that turn */
};

static unsigned char *start(const struct buffer *buffer)
{
    return buffer->at ? buffer->at + buffer->from : NULL;
}

static bool put(struct buffer *buffer, const void *bytes, size_t length)
{
    if (buffer->from && buffer->size - buffer->from - buffer->used < length) {
        memmove(buffer->at, start(buffer), buffer->used);
        buffer->from = 0;
    }
    if (!bw_grow(&buffer->at, &buffer->size, buffer->from + buffer->used + length, 1024, 1))
        return false;
    if (length)
        memcpy(start(buffer) + buffer->used, bytes, length);
    buffer->used += length;
    return true;
}

static void drop(struct buffer *buffer, size_t length)
{
    buffer->used -= length;
    buffer->from = buffer->used ? buffer->from + length : 0;
    if (buffer->used == 0 && buffer->size > IDLE_BYTES) { /* idle connections hold little memory */
        free(buffer->at);
        *buffer = (struct buffer){0};
    }
}

/* ---- the response ---- */

static struct http1 *http1_of(const struct bw_gateway *gateway)
{
    return ((struct bw_conn *)gateway->owner)->state;
}

static void answer_head(struct bw_gateway *gateway, unsigned status, const char *type,
                        int64_t length)
{
    struct http1 *h = http1_of(gateway);
    char text[512], date[64], framing[64] = "";
    const struct bw_http_field *field = gateway->fields;
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    h->chunked_answer = length < 0 && !h->head.is_http10;
    h->head.close |= length < 0 && h->head.is_http10;
    if (length >= 0)
        snprintf(framing, sizeof framing, "Content-Length: %lld\r\n", (long long)length);
    else if (h->chunked_answer)
        snprintf(framing, sizeof framing, "Transfer-Encoding: chunked\r\n");
    int used =
        snprintf(text, sizeof text, "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: %s\r\n%s%s%s%s%s",
                 status, bw_http_status_text(status), date, type, framing,
                 gateway->allow ? "Allow: " : "", gateway->allow ? gateway->allow : "",
                 gateway->allow ? "\r\n" : "", h->head.close ? "Connection: close\r\n" : "");
    bw_conn_put(gateway->owner, text, (size_t)used);
    for (; field && field->name; field++) {
        bw_conn_put(gateway->owner, field->name, strlen(field->name));
        bw_conn_put(gateway->owner, ": ", 2);
        bw_conn_put(gateway->owner, field->value, strlen(field->value));
        bw_conn_put(gateway->owner, "\r\n", 2);
    }
    bw_conn_put(gateway->owner, "\r\n", 2);
    bw_conn_dirty(gateway->owner);
}

static enum bw_account_of account_of(const struct http1 *h)
{
    const struct bw_method *method = h->ask.call.method;
    return method && bw_method_streams(method) ? BW_ACCOUNT_STREAMS : BW_ACCOUNT_CALLS;
}

/* Refills the connection's queue as the client reads. */
static void pump(struct bw_conn *conn, struct http1 *h)
{
    size_t before = h->answer.size;
    while (h->answer.used && bw_conn_backlog(conn) < BW_FRONT_QUEUE_MAX) {
        size_t piece = h->answer.used < PIECE_BYTES ? h->answer.used : PIECE_BYTES;
        bw_conn_put(conn, start(&h->answer), piece);
        drop(&h->answer, piece);
    }
    bw_account_change(&conn->account, account_of(h), before, h->answer.size);
}

/* Queues a part of the response. The connection's queue has a limit, a response has none: what does
 * not fit waits in `answer`. */
static void queue_response(struct bw_conn *conn, const void *bytes, size_t length)
{
    struct http1 *h = conn->state;
    size_t before = h->answer.size;
    bw_conn_dirty(conn);
    if (BW_BUG(http1_queues_whole_responses) ||
        (h->answer.used == 0 && bw_conn_backlog(conn) + length <= BW_FRONT_QUEUE_MAX)) {
        bw_conn_put(conn, bytes, length);
        return;
    }
    if (!put(&h->answer, bytes, length))
        conn->incomplete = true; /* out of memory */
    bw_account_change(&conn->account, account_of(h), before, h->answer.size);
}

static void answer_body(struct bw_gateway *gateway, const void *bytes, size_t length)
{
    struct http1 *h = http1_of(gateway);
    char size[32];
    if (h->head.verb == BW_VERB_HEAD || length == 0)
        return;
    if (h->chunked_answer)
        queue_response(gateway->owner, size,
                       (size_t)snprintf(size, sizeof size, "%zx\r\n", length));
    queue_response(gateway->owner, bytes, length);
    if (h->chunked_answer)
        queue_response(gateway->owner, "\r\n", 2);
}

static void answer_end(struct bw_gateway *gateway)
{
    struct http1 *h = http1_of(gateway);
    if (h->chunked_answer && h->head.verb != BW_VERB_HEAD)
        queue_response(gateway->owner, "0\r\n\r\n", 5);
    h->answered = true;
    bw_conn_dirty(gateway->owner);
}

static bool answer_is_full(struct bw_gateway *gateway)
{
    const struct bw_conn *conn = gateway->owner;
    return bw_conn_backlog(conn) + bw_account_total(&conn->account) > BW_FRONT_QUEUE_MAX;
}

/* HTTP/1.1 processes one response at a time. */
static bool answer_is_crowded(struct bw_gateway *gateway)
{
    (void)gateway;
    return false;
}

static bool answer_is_admitted(struct bw_gateway *gateway, size_t bytes)
{
    (void)gateway;
    (void)bytes;
    return true;
}

static const struct bw_gateway_wire wire = {answer_head,    answer_body,       answer_end,
                                            answer_is_full, answer_is_crowded, answer_is_admitted};

static void new_ask(struct bw_conn *conn, struct http1 *h)
{
    h->ask = (struct bw_gateway){.front = conn->front,
                                 .wire = &wire,
                                 .owner = conn,
                                 .needs_leader = h->head.needs_leader,
                                 .accepts_gzip = h->head.accepts_gzip,
                                 .has_page = h->head.has_page,
                                 .origin = h->head.origin,
                                 .by_name = h->head.by_name};
    h->ask.caller = conn->caller;
    bw_auth_take_token(conn->front->options.service, h->head.token, strlen(h->head.token),
                       &h->ask.caller);
    h->answered = h->chunked_answer = false;
}

/* ---- the request ---- */

static void set_deadline(struct bw_conn *conn, uint64_t ms)
{
    conn->deadline_ms = ms ? uv_now(conn->front->options.loop) + ms : 0;
}

static void begin_refusal(struct bw_conn *conn, struct http1 *h)
{
    new_ask(conn, h);
    h->head.close = true;
}

static void end_refusal(struct bw_conn *conn, struct http1 *h)
{
    bw_gateway_gone(&h->ask);
    h->stage = DISCARD;
    drop(&h->in, h->in.used);
    set_deadline(conn, 0); /* http1_sweep sets the deadline */
}

static void refuse(struct bw_conn *conn, struct http1 *h, unsigned status)
{
    begin_refusal(conn, h);
    bw_gateway_refuse(&h->ask, status, NULL);
    end_refusal(conn, h);
}

static void refuse_size(struct bw_conn *conn, struct http1 *h, uint64_t bytes)
{
    begin_refusal(conn, h);
    bw_gateway_refuse_size(&h->ask, bytes);
    end_refusal(conn, h);
}

static void ask(struct bw_conn *conn, struct http1 *h)
{
    uint64_t turn = conn->front->turn;
    h->asked = h->turn == turn ? h->asked + 1 : 1;
    h->turn = turn;
    set_deadline(conn, 0);
    new_ask(conn, h);
    h->stage = ANSWERING;
    bw_gateway_ask(&h->ask, h->head.verb, h->head.path, (const char *)start(&h->body),
                   h->body.used);
}

static void to_stage(struct bw_conn *conn, struct http1 *h, enum stage stage)
{
    h->stage = stage;
    set_deadline(conn, WITHIN_MS);
    if (h->head.expects_continue && h->in.used == 0) {
        bw_conn_put(conn, CONTINUE_TEXT, sizeof CONTINUE_TEXT - 1);
        bw_conn_dirty(conn);
    }
    bw_conn_quick(conn); /* some clients send the body only after the head was acknowledged */
}

static void begin_body(struct bw_conn *conn, struct http1 *h)
{
    if (h->head.length > BW_FRONT_BODY_MAX) {
        refuse_size(conn, h, h->head.length);
        return;
    }
    h->left = h->head.length;
    h->trailers = 0;
    if (h->head.chunked)
        to_stage(conn, h, CHUNK_SIZE);
    else if (h->left)
        to_stage(conn, h, BODY);
    else
        ask(conn, h);
}

/* The functions take_... each process one stage of a request. They return false if more bytes must
 * arrive first. */
static bool take_head(struct bw_conn *conn, struct http1 *h)
{
    size_t empty = 0; /* empty lines before a request are ignored */
    while (empty + 2 <= h->in.used && memcmp(start(&h->in) + empty, "\r\n", 2) == 0)
        empty += 2;
    if (empty) {
        drop(&h->in, empty);
        h->scanned = 0;
    }
    if (h->in.used == 0)
        return false;
    size_t from = h->scanned > 3 ? h->scanned - 3 : 0;
    const unsigned char *end = memmem(start(&h->in) + from, h->in.used - from, "\r\n\r\n", 4);
    size_t length = end ? (size_t)(end - start(&h->in)) + 4 : h->in.used;
    if (length > BW_FRONT_HEADERS_MAX) {
        h->head = (struct bw_http1_head){0};
        refuse(conn, h, 431);
        return true;
    }
    if (!end) {
        if (h->scanned == 0)
            set_deadline(conn, WITHIN_MS);
        h->scanned = h->in.used;
        return false;
    }
    unsigned status = bw_http1_head_read(&h->head, (const char *)start(&h->in), length);
    drop(&h->in, length);
    h->scanned = 0;
    if (status)
        refuse(conn, h, status);
    else
        begin_body(conn, h);
    return true;
}

/* Moves the received part of the body from the input buffer to `body`. Returns false if memory
 * cannot be allocated. */
static bool move_body(struct http1 *h)
{
    size_t take = h->in.used < h->left ? h->in.used : h->left;
    if (!put(&h->body, start(&h->in), take))
        return false;
    drop(&h->in, take);
    h->left -= take;
    return true;
}

static bool take_body(struct bw_conn *conn, struct http1 *h)
{
    if (!move_body(h)) {
        refuse(conn, h, 503);
        return true;
    }
    if (h->left)
        return false;
    ask(conn, h);
    return true;
}

/* Returns the length of a line including CRLF; 0: incomplete; SIZE_MAX: longer than `most`. */
static size_t line_length(const struct http1 *h, size_t most)
{
    const unsigned char *end = h->in.used ? memmem(start(&h->in), h->in.used, "\r\n", 2) : NULL;
    size_t length = end ? (size_t)(end - start(&h->in)) + 2 : 0;
    return length > most || (!end && h->in.used > most) ? SIZE_MAX : length;
}

static bool take_chunk_size(struct bw_conn *conn, struct http1 *h)
{
    uint64_t size;
    size_t length = line_length(h, CHUNK_LINE);
    if (length == 0)
        return false;
    if (length == SIZE_MAX ||
        !bw_http1_chunk_read((const char *)start(&h->in), length - 2, &size)) {
        refuse(conn, h, 400);
        return true;
    }
    if (size > BW_FRONT_BODY_MAX - h->body.used) {
        refuse_size(conn, h, size > UINT64_MAX - h->body.used ? size : size + h->body.used);
        return true;
    }
    drop(&h->in, length);
    h->left = (size_t)size;
    h->stage = size ? CHUNK : TRAILERS;
    return true;
}

static bool take_chunk(struct bw_conn *conn, struct http1 *h)
{
    if (!move_body(h)) {
        refuse(conn, h, 503);
        return true;
    }
    if (h->left || h->in.used < 2)
        return false;
    if (memcmp(start(&h->in), "\r\n", 2) != 0) {
        refuse(conn, h, 400);
        return true;
    }
    drop(&h->in, 2);
    h->stage = CHUNK_SIZE;
    return true;
}

static bool take_trailer(struct bw_conn *conn, struct http1 *h)
{
    size_t length = line_length(h, TRAILERS_MAX);
    if (length == 0)
        return false;
    if (length == SIZE_MAX || (h->trailers += length) > TRAILERS_MAX) {
        refuse(conn, h, 431);
        return true;
    }
    drop(&h->in, length);
    if (length == 2)
        ask(conn, h);
    return true;
}

/* Called when the response is complete: prepares for the next request, or closes the connection. */
static bool take_end(struct bw_conn *conn, struct http1 *h)
{
    if (!h->answered || h->answer.used)
        return false;
    bw_gateway_gone(&h->ask);
    drop(&h->body, h->body.used);
    h->answered = false;
    if (h->head.close) {
        h->stage = DISCARD;
        conn->close_when_sent = true; /* after the client has read everything, however slowly */
        return false;
    }
    h->stage = HEAD;
    set_deadline(conn, KEEP_MS);
    return true;
}

static bool (*const takes[])(struct bw_conn *conn, struct http1 *h) = {
    [HEAD] = take_head,   [BODY] = take_body,        [CHUNK_SIZE] = take_chunk_size,
    [CHUNK] = take_chunk, [TRAILERS] = take_trailer, [ANSWERING] = take_end};

/* A half-closed client still receives its responses: every complete request is answered. A
 * streaming method never ends by itself, so the server does not keep it for such a client. */
static bool has_nothing_left(const struct bw_conn *conn, const struct http1 *h)
{
    const struct bw_method *method = h->ask.call.method;
    return h->ended && !conn->yielded &&
           (h->stage != ANSWERING || (method && bw_method_streams(method)));
}

/* Limits the pipelined requests per turn, so that other connections get their turn. A short request
 * may be expensive to answer. */
static bool used_its_share(const struct bw_conn *conn, const struct http1 *h)
{
    return h->stage == HEAD && h->in.used && h->turn == conn->front->turn &&
           h->asked >= BW_FRONT_TURN_REQUESTS && !BW_BUG(requests_ahead_are_all_taken);
}

/* Streams, and candidates in the queue of an election. The server reads on meanwhile, because it
 * would otherwise not notice a disconnect; it closes the connection of a client that pipelines
 * more than AHEAD_MAX behind such a call. */
static bool may_never_end(const struct http1 *h)
{
    const struct bw_call *call = &h->ask.call;
    return h->stage == ANSWERING && call->method &&
           (bw_method_streams(call->method) || bw_election_may_wait(call)) &&
           !BW_BUG(http1_pauses_candidates);
}

static void advance(struct bw_conn *conn)
{
    struct http1 *h = conn->state;
    pump(conn, h);
    if (h->stage == ANSWERING && !h->answered)
        bw_call_writable(&h->ask.call);
    while (h->stage != DISCARD && !used_its_share(conn, h) && takes[h->stage](conn, h))
        ;
    if (used_its_share(conn, h))
        bw_conn_yield(conn);
    if (has_nothing_left(conn, h))
        conn->close_when_sent = true;
    if (h->paused && (h->in.used <= AHEAD_MAX || may_never_end(h))) {
        h->paused = false;
        bw_conn_resume(conn);
    }
}

/* ---- the connection ---- */

bool bw_http1_begin(struct bw_conn *conn)
{
    conn->state = calloc(1, sizeof(struct http1));
    return conn->state;
}

static bool http1_bytes(struct bw_conn *conn, const unsigned char *bytes, size_t length)
{
    struct http1 *h = conn->state;
    if (h->stage == DISCARD)
        return true;
    if (!put(&h->in, bytes, length))
        return false;
    advance(conn);
    bw_conn_dirty(conn); /* it may have refilled the connection's queue */
    if (h->stage == ANSWERING && h->in.used > AHEAD_MAX) {
        if (may_never_end(h))
            return false;
        h->paused = true;
        bw_conn_pause(conn);
    }
    return true;
}

/* A half-closed client still receives its responses. The exception is a call that waits in an
 * election's queue. Its response may take long, and a candidate that has gone must not keep its
 * place. */
static bool http1_no_more(struct bw_conn *conn)
{
    struct http1 *h = conn->state;
    if (bw_election_is_queued(&h->ask.call))
        return false;
    h->ended = true;
    advance(conn);
    bw_conn_dirty(conn);
    return !has_nothing_left(conn, h) || bw_conn_backlog(conn) > 0;
}

static void http1_gone(struct bw_conn *conn)
{
    struct http1 *h = conn->state;
    bw_gateway_gone(&h->ask);
    free(h->in.at);
    free(h->body.at);
    free(h->answer.at);
    free(h);
}

/* Slow requests are ended by the connection's deadline. A refused client gets DRAIN_MS, counted
 * from when all responses were sent: earlier responses may be long and read slowly. */
static bool http1_sweep(struct bw_conn *conn, uint64_t now_ms, bool leaderless)
{
    struct http1 *h = conn->state;
    (void)now_ms;
    if (h->stage == DISCARD && !conn->deadline_ms && bw_conn_backlog(conn) == 0)
        set_deadline(conn, DRAIN_MS);
    if (leaderless)
        bw_call_leaderless(&h->ask.call);
    return !h->ended || !bw_election_is_queued(&h->ask.call);
}

const struct bw_protocol bw_protocol_http1 = {http1_bytes, advance, http1_gone, http1_no_more,
                                              http1_sweep};
