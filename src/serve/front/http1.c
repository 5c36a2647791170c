/* HTTP/1.1 on the service's port: one request after the other in the order they came, each handed
 * to the gateway when it is whole. What is wrong with a request is said (4xx), then the connection
 * ends, and what its caller still sends is passed over for a moment, so that the answer arrives.
 *
 * Bounds: BW_FRONT_HEADERS_MAX, BW_FRONT_MESSAGE_MAX; a head and a body must come in WITHIN_MS
 * each; who sends requests ahead is not read from beyond AHEAD_MAX. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "serve/api/auth.h"
#include "serve/front/gateway.h"
#include "serve/front/http1_head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WITHIN_MS     20000u
#define KEEP_MS       300000u /* between requests */
#define LINGER_MS     2000u
#define AHEAD_MAX     65536u
#define CHUNK_LINE    256u
#define IDLE_BYTES    4096u
#define PIECE_BYTES   262144u
#define TRAILERS_MAX  8192u
#define CONTINUE_TEXT "HTTP/1.1 100 Continue\r\n\r\n"

struct buffer { /* `used` bytes from `from` on */
    unsigned char *at;
    size_t from, used, size;
};

enum stage {
    HEAD,
    BODY,       /* `left` bytes of it are still to come */
    CHUNK_SIZE, /* a line */
    CHUNK,      /* `left` bytes, and the end of the line */
    TRAILERS,
    ANSWERING,
    DISCARD
};

struct http1 {
    struct buffer in, body;
    struct buffer answer; /* beyond what the connection's queue takes; in the account */
    size_t scanned;       /* of `in`: no end of the head in it */
    size_t left, trailers;
    enum stage stage;
    struct bw_http1_head head;
    struct bw_gateway ask;
    bool in_pieces, done; /* of the answer */
    bool paused, ended;   /* reading: for now; nothing more comes */
    uint64_t turn;        /* the last in which it asked something */
    unsigned asked;       /* in that turn */
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
    if (buffer->size - buffer->from - buffer->used < length) {
        size_t size = buffer->size ? 2 * buffer->size : 1024;
        if (size < buffer->used + length)
            size = buffer->used + length;
        unsigned char *larger = realloc(buffer->at, size);
        if (!larger)
            return false;
        buffer->at = larger;
        buffer->size = size;
    }
    if (length)
        memcpy(start(buffer) + buffer->used, bytes, length);
    buffer->used += length;
    return true;
}

static void drop(struct buffer *buffer, size_t length)
{
    buffer->used -= length;
    buffer->from = buffer->used ? buffer->from + length : 0;
    if (buffer->used == 0 && buffer->size > IDLE_BYTES) { /* idle connections hold little */
        free(buffer->at);
        *buffer = (struct buffer){0};
    }
}

/* ── the answer ── */

static struct http1 *http1_of(const struct bw_gateway *gateway)
{
    return ((struct bw_conn *)gateway->owner)->state;
}

static void answer_head(struct bw_gateway *gateway, unsigned status, const char *type,
                        int64_t length)
{
    struct http1 *h = http1_of(gateway);
    char text[512], date[64], framing[64] = "";
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    h->in_pieces = length < 0 && !h->head.old;
    h->head.close |= length < 0 && h->head.old;
    if (length >= 0)
        snprintf(framing, sizeof framing, "Content-Length: %lld\r\n", (long long)length);
    else if (h->in_pieces)
        snprintf(framing, sizeof framing, "Transfer-Encoding: chunked\r\n");
    int used = snprintf(text, sizeof text,
                        "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: %s\r\n%s%s%s%s%s\r\n", status,
                        bw_http_reason(status), date, type, framing,
                        gateway->allow ? "Allow: " : "", gateway->allow ? gateway->allow : "",
                        gateway->allow ? "\r\n" : "", h->head.close ? "Connection: close\r\n" : "");
    bw_conn_put(gateway->owner, text, (size_t)used);
    bw_conn_dirty(gateway->owner);
}

static enum bw_account_of account_of(const struct http1 *h)
{
    const struct bw_method *method = h->ask.call.method;
    return method && bw_method_streams(method) ? BW_ACCOUNT_STREAMS : BW_ACCOUNT_CALLS;
}

/* The connection's queue is filled, and again when the client has read it. */
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

/* A response is whole, however long it is: what the queue does not take now waits here. */
static void say(struct bw_conn *conn, const void *bytes, size_t length)
{
    struct http1 *h = conn->state;
    size_t before = h->answer.size;
    bw_conn_dirty(conn);
    if (h->answer.used == 0 && bw_conn_backlog(conn) + length <= BW_FRONT_QUEUE_MAX) {
        bw_conn_put(conn, bytes, length);
        return;
    }
    if (!put(&h->answer, bytes, length))
        conn->hang_up = true; /* no memory; the length or the last chunk that is missing shows it */
    bw_account_change(&conn->account, account_of(h), before, h->answer.size);
}

static void answer_body(struct bw_gateway *gateway, const void *bytes, size_t length)
{
    struct http1 *h = http1_of(gateway);
    char size[32];
    if (h->head.verb == BW_VERB_HEAD || length == 0)
        return;
    if (h->in_pieces)
        say(gateway->owner, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", length));
    say(gateway->owner, bytes, length);
    if (h->in_pieces)
        say(gateway->owner, "\r\n", 2);
}

static void answer_end(struct bw_gateway *gateway)
{
    struct http1 *h = http1_of(gateway);
    if (h->in_pieces && h->head.verb != BW_VERB_HEAD)
        say(gateway->owner, "0\r\n\r\n", 5);
    h->done = true;
    bw_conn_dirty(gateway->owner);
}

static bool answer_is_full(struct bw_gateway *gateway)
{
    const struct bw_conn *conn = gateway->owner;
    return bw_conn_backlog(conn) + bw_account_total(&conn->account) > BW_FRONT_QUEUE_MAX;
}

/* One response at a time. */
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
    h->ask = (struct bw_gateway){
        .front = conn->front, .wire = &wire, .owner = conn, .needs_leader = h->head.needs_leader};
    h->ask.caller = conn->caller;
    bw_auth_take_token(conn->front->options.service, h->head.token, strlen(h->head.token),
                       &h->ask.caller);
    h->done = h->in_pieces = false;
}

/* ── the request ── */

static void within(struct bw_conn *conn, uint64_t ms)
{
    conn->deadline_ms = ms ? uv_now(conn->front->options.loop) + ms : 0;
}

static void refuse(struct bw_conn *conn, struct http1 *h, unsigned status)
{
    new_ask(conn, h);
    h->head.close = true;
    bw_gateway_refuse(&h->ask, status, NULL);
    bw_gateway_gone(&h->ask);
    h->stage = DISCARD;
    drop(&h->in, h->in.used);
    within(conn, 0); /* see http1_sweep */
}

static void ask(struct bw_conn *conn, struct http1 *h)
{
    uint64_t turn = conn->front->turn;
    h->asked = h->turn == turn ? h->asked + 1 : 1;
    h->turn = turn;
    within(conn, 0);
    new_ask(conn, h);
    h->stage = ANSWERING;
    bw_gateway_ask(&h->ask, h->head.verb, h->head.path, (const char *)start(&h->body),
                   h->body.used);
}

static void to_stage(struct bw_conn *conn, struct http1 *h, enum stage stage)
{
    h->stage = stage;
    within(conn, WITHIN_MS);
    if (h->head.waits && h->in.used == 0) {
        bw_conn_put(conn, CONTINUE_TEXT, sizeof CONTINUE_TEXT - 1);
        bw_conn_dirty(conn);
    }
    bw_conn_quick(conn); /* some send the body only after the head was acknowledged */
}

static void begin_body(struct bw_conn *conn, struct http1 *h)
{
    if (h->head.length > BW_FRONT_MESSAGE_MAX) {
        refuse(conn, h, 413);
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

/* Each of these returns false if it needs more bytes. */
static bool take_head(struct bw_conn *conn, struct http1 *h)
{
    size_t empty = 0; /* lines before a request are passed over */
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
            within(conn, WITHIN_MS);
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

/* Moves what is there of the body; false: no memory. */
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

/* The length of a line with its end; 0: not whole. */
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
    if (size > BW_FRONT_MESSAGE_MAX - h->body.used) {
        refuse(conn, h, 413);
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

/* The answer is said: the next request, if there may be one. */
static bool take_end(struct bw_conn *conn, struct http1 *h)
{
    if (!h->done || h->answer.used)
        return false;
    bw_gateway_gone(&h->ask);
    drop(&h->body, h->body.used);
    h->done = false;
    if (h->head.close) {
        h->stage = DISCARD;
        conn->hang_up = true; /* once all of it is read, however slowly */
        return false;
    }
    h->stage = HEAD;
    within(conn, KEEP_MS);
    return true;
}

static bool (*const takes[])(struct bw_conn *conn, struct http1 *h) = {
    [HEAD] = take_head,   [BODY] = take_body,        [CHUNK_SIZE] = take_chunk_size,
    [CHUNK] = take_chunk, [TRAILERS] = take_trailer, [ANSWERING] = take_end};

/* Who sends no more may still read: what it asked for whole is answered, but a stream, which has
 * no end of its own, is not held for it. */
static bool has_nothing_left(const struct bw_conn *conn, const struct http1 *h)
{
    const struct bw_method *method = h->ask.call.method;
    return h->ended && !conn->rests &&
           (h->stage != ANSWERING || (method && bw_method_streams(method)));
}

/* Requests that were sent ahead do not keep others from their turn: some are answered at once, and
 * cost more than they take to send. */
static bool has_enough(const struct bw_conn *conn, const struct http1 *h)
{
    return h->stage == HEAD && h->in.used && h->turn == conn->front->turn &&
           h->asked >= BW_FRONT_TURN_REQUESTS && !BW_BUG(requests_ahead_are_all_taken);
}

static void go_on(struct bw_conn *conn)
{
    struct http1 *h = conn->state;
    pump(conn, h);
    if (h->stage == ANSWERING && !h->done)
        bw_call_room(&h->ask.call);
    while (h->stage != DISCARD && !has_enough(conn, h) && takes[h->stage](conn, h))
        ;
    if (has_enough(conn, h))
        bw_conn_rest(conn);
    if (has_nothing_left(conn, h))
        conn->hang_up = true;
    if (h->paused && h->in.used <= AHEAD_MAX) {
        h->paused = false;
        bw_conn_resume(conn);
    }
}

/* ── the connection ── */

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
    go_on(conn);
    if (h->stage == ANSWERING && h->in.used > AHEAD_MAX) {
        if (h->ask.call.method && bw_method_streams(h->ask.call.method))
            return false; /* a stream may never end */
        h->paused = true;
        bw_conn_pause(conn);
    }
    return true;
}

/* Who has said all may still read, and is answered. But an answer that waits for others may be long
 * in coming: nobody half closes for that, and who stands in line must not stay there for nobody. */
static bool http1_no_more(struct bw_conn *conn)
{
    struct http1 *h = conn->state;
    if (bw_election_is_in_line(&h->ask.call))
        return false;
    h->ended = true;
    go_on(conn);
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

/* Slow requests have the connection's deadline. Who was refused has a moment from when it was sent
 * its answers: earlier ones may be long, and read slowly. */
static bool http1_sweep(struct bw_conn *conn, uint64_t now_ms, bool leaderless)
{
    struct http1 *h = conn->state;
    (void)now_ms;
    if (h->stage == DISCARD && !conn->deadline_ms && bw_conn_backlog(conn) == 0)
        within(conn, LINGER_MS);
    if (leaderless)
        bw_call_leaderless(&h->ask.call);
    return !h->ended || !bw_election_is_in_line(&h->ask.call);
}

const struct bw_speech bw_speech_http1 = {http1_bytes, go_on, http1_gone, http1_no_more,
                                          http1_sweep};
