/* Calls: converts messages to the bytes of a stream and back, and reads the final status; see
 * grpc.h.
 *
 *   message on the wire: 1 byte compressed (0), 4 bytes length (big-endian), the message
 *   end: trailers grpc-status (decimal), grpc-message (percent-encoded) */
#include "net/grpc/state.h"

#include "core/base/bug.h"
#include "core/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX 5u

static enum grpc_rank rank_of(const struct bw_grpc_head *head)
{
    if (head->early)
        return GRPC_EARLY;
    if (!head->within_ms)
        return GRPC_STREAM;
    return head->urgent && !BW_BUG(grpc_urgent_waits_its_turn) ? GRPC_URGENT : GRPC_ORDINARY;
}

static void queue_call(struct bw_grpc_call *call)
{
    struct bw_grpc *channel = call->channel;
    call->rank = rank_of(&call->head);
    call->ahead = channel->queue[call->rank].last;
    *(call->ahead ? &call->ahead->behind : &channel->queue[call->rank].first) = call;
    channel->queue[call->rank].last = call;
}

static void unqueue_call(struct bw_grpc_call *call)
{
    struct bw_grpc *channel = call->channel;
    *(call->ahead ? &call->ahead->behind : &channel->queue[call->rank].first) = call->behind;
    *(call->behind ? &call->behind->ahead : &channel->queue[call->rank].last) = call->ahead;
    call->ahead = call->behind = NULL;
}

static void unlink_call(struct bw_grpc_call *call)
{
    struct bw_grpc *channel = call->channel;
    if (call->begun_ms == 0)
        unqueue_call(call);
    *(call->previous ? &call->previous->next : &channel->calls) = call->next;
    if (call->next)
        call->next->previous = call->previous;
    channel->count--;
    channel->timed -= call->head.within_ms != 0;
    channel->at_once -= call->begun_ms != 0 && call->head.within_ms != 0;
}

static void free_call(struct bw_grpc_call *call)
{
    free(call->out);
    free(call->in);
    free(call);
}

/* A call must not be freed while its own hook runs. */
static void free_after_hook(struct bw_grpc_call *call)
{
    call->gone = true;
    if (!call->in_hook)
        free_call(call);
}

/* ---- incoming ---- */

static void refuse(struct bw_grpc_call *call, const char *why)
{
    call->refused = true;
    call->result.code = BW_GRPC_INTERNAL;
    snprintf(call->result.why, sizeof call->result.why, "%s", why);
}

static bool begin_message(struct bw_grpc_call *call)
{
    const uint8_t *p = call->prefix;
    size_t length = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (p[0] != 0 || length > BW_GRPC_MESSAGE_MAX) {
        refuse(call, p[0] ? "the server sent a compressed message"
                          : "the server sent a message that is too long");
        return false;
    }
    if (length > call->in_size) {
        free(call->in);
        call->in = malloc(length);
        call->in_size = call->in ? length : 0;
        if (!call->in) {
            refuse(call, "out of memory for a response");
            return false;
        }
    }
    call->in_need = length;
    return true;
}

/* Passes a complete message to the hook. Returns false if the hook ended the call. `in_have`
 * includes the prefix. */
static bool end_message(struct bw_grpc_call *call)
{
    struct bw_grpc *channel = call->channel;
    size_t length = call->in_need;
    call->in_have = call->in_need = 0;
    channel->slow = channel->failed = channel->late = 0;
    call->in_hook = true;
    call->hooks.message(call->context, call->in, length);
    call->in_hook = false;
    if (call->gone)
        free_call(call);
    else
        return true;
    return false;
}

static void on_data(void *context, const uint8_t *bytes, size_t length)
{
    struct bw_grpc_call *call = context;
    while (!call->refused && length > 0) {
        bool prefix = call->in_have < PREFIX;
        size_t have = prefix ? call->in_have : call->in_have - PREFIX;
        size_t want = (prefix ? PREFIX : call->in_need) - have;
        size_t now = want < length ? want : length;
        if (now)
            memcpy((prefix ? call->prefix : call->in) + have, bytes, now);
        call->in_have += now;
        bytes += now;
        length -= now;
        if (prefix && call->in_have == PREFIX && !begin_message(call))
            return;
        if (call->in_have >= PREFIX && call->in_have == PREFIX + call->in_need &&
            !end_message(call))
            return;
    }
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Keeps the server's text as one printable line. */
static void keep_message(struct bw_grpc_call *call, const char *text, size_t length)
{
    size_t used = 0;
    for (size_t i = 0; i < length && used < BW_GRPC_WHY_MAX; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < length && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
            c = (char)(digit(text[i + 1]) << 4 | digit(text[i + 2]));
            i += 2;
        }
        call->result.why[used++] = (unsigned char)c < ' ' || c == 0x7f ? ' ' : c;
    }
    call->result.why[used] = '\0';
}

static void on_header(void *context, const char *name, const char *value, size_t length)
{
    struct bw_grpc_call *call = context;
    char number[8] = "";
    snprintf(number, sizeof number, "%.*s", length < 7 ? (int)length : 7, value);
    if (call->refused)
        return;
    if (strcmp(name, ":status") == 0)
        call->http_status = atoi(number);
    else if (strcmp(name, "grpc-status") == 0)
        call->result.code = number[0] >= '0' && number[0] <= '9' ? atoi(number) : BW_GRPC_UNKNOWN;
    else if (strcmp(name, "grpc-message") == 0)
        keep_message(call, value, length);
    if (call->hooks.header)
        call->hooks.header(call->context, name, value, length);
}

static void on_ended(void *context, uint32_t code)
{
    struct bw_grpc_call *call = context;
    char why[64] = "the server ended the call without a status";
    call->stream = NULL;
    if (call->http_status && call->http_status != 200)
        snprintf(why, sizeof why, "the server answered with HTTP status %d", call->http_status);
    else if (code != 0)
        snprintf(why, sizeof why, "the server reset the call (HTTP/2 error %u)", code);
    call->result.sent = code != 7; /* REFUSED_STREAM: the server did not process it */
    grpc_call_end(call, BW_GRPC_UNAVAILABLE, why);
}

static const struct bw_h2_hooks stream_hooks = {on_header, on_data, on_ended};

/* ---- start and end ---- */

/* Keeps a status that the server sent; -1: none yet. A truncated response is an error. */
void grpc_call_end(struct bw_grpc_call *call, int code, const char *why)
{
    struct bw_grpc_result *result = &call->result;
    if (call->stream)
        result->sent = true;
    if (result->code < 0) {
        result->code = code;
        snprintf(result->why, sizeof result->why, "%s", why);
    }
    if (result->code == BW_GRPC_OK && call->in_have != 0) {
        result->code = BW_GRPC_INTERNAL;
        snprintf(result->why, sizeof result->why, "the server's response is truncated");
    }
    struct bw_grpc *channel = call->channel;
    unlink_call(call);
    call->hooks.done(call->context, result);
    free_after_hook(call);
    grpc_begin_waiting(channel);
}

static size_t add_header(struct bw_h2_header *list, size_t count, const char *name,
                         const char *value)
{
    list[count] = (struct bw_h2_header){name, value};
    return count + 1;
}

void grpc_call_begin(struct bw_grpc_call *call)
{
    struct bw_h2_header list[8];
    char timeout[24];
    size_t count = add_header(list, 0, "te", "trailers");
    count = add_header(list, count, "content-type", "application/grpc");
    count = add_header(list, count, "user-agent", "bellwether");
    uint64_t now = bw_h2_now_ms();
    if (call->head.within_ms) {
        call->until_ms = now + call->head.within_ms;
        snprintf(timeout, sizeof timeout, "%llum", (unsigned long long)call->head.within_ms);
        count = add_header(list, count, "grpc-timeout", timeout);
    }
    for (unsigned i = 0; i < BW_GRPC_OWN_MAX; i++)
        if (call->name[i][0])
            count = add_header(list, count, call->name[i], call->value[i]);
    if (call->channel->name[0] && !call->head.early)
        count = add_header(list, count, call->channel->name, call->channel->value);
    unqueue_call(call);
    call->begun_ms = now;
    call->channel->at_once += call->head.within_ms != 0;
    call->stream = bw_h2_post(call->channel->h2, call->path, list, count, &stream_hooks, call);
    if (!call->stream || (call->out_length && bw_h2_send(call->stream, call->out, call->out_length,
                                                         call->out_last) != 0)) {
        call->until_ms = now; /* the next tick ends it */
        return;
    }
    free(call->out);
    call->out = NULL;
    call->out_length = 0;
}

static void copy_head(struct bw_grpc_call *call, const struct bw_grpc_head *head)
{
    call->head = *head;
    snprintf(call->path, sizeof call->path, "%s", head->path);
    for (unsigned i = 0; i < BW_GRPC_OWN_MAX; i++)
        if (head->own[i].name) {
            snprintf(call->name[i], sizeof call->name[i], "%s", head->own[i].name);
            snprintf(call->value[i], sizeof call->value[i], "%s", head->own[i].value);
        }
}

struct bw_grpc_call *bw_grpc_call(struct bw_grpc *channel, const struct bw_grpc_head *head,
                                  const struct bw_grpc_hooks *hooks, void *context, char *why)
{
    bool reachable = channel->state != GRPC_PAUSING;
    struct bw_grpc_call *call =
        reachable && channel->count < BW_GRPC_CALLS_MAX ? calloc(1, sizeof *call) : NULL;
    if (!call) {
        snprintf(why, BW_GRPC_WHY_MAX + 1, "%s", reachable ? "too many calls" : channel->why);
        return NULL;
    }
    call->channel = channel;
    call->hooks = *hooks;
    call->context = context;
    call->result.code = -1;
    copy_head(call, head);
    call->made_ms = bw_h2_now_ms();
    if (head->within_ms)
        call->until_ms = call->made_ms + head->within_ms;
    call->next = channel->calls;
    if (call->next)
        call->next->previous = call;
    channel->calls = call;
    queue_call(call);
    channel->count++;
    channel->timed += head->within_ms != 0;
    call->serial = ++channel->serial;
    if (head->within_ms)
        grpc_tick_soon(channel);
    grpc_begin_waiting(channel);
    return call;
}

static int keep_waiting(struct bw_grpc_call *call, const uint8_t *prefix, const uint8_t *bytes,
                        size_t length, bool last)
{
    if (call->out_length + length > BW_H2_STREAM_QUEUE_MAX / 2)
        return BW_ELIMIT;
    uint8_t *out = realloc(call->out, call->out_length + PREFIX + length);
    if (!out)
        return BW_ELIMIT;
    memcpy(out + call->out_length, prefix, PREFIX);
    if (length)
        memcpy(out + call->out_length + PREFIX, bytes, length);
    call->out = out;
    call->out_length += PREFIX + length;
    call->out_last = last;
    return 0;
}

int bw_grpc_send(struct bw_grpc_call *call, const uint8_t *bytes, size_t length, bool last)
{
    uint8_t prefix[PREFIX] = {0, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
                              (uint8_t)(length >> 8), (uint8_t)length};
    if (length > BW_GRPC_MESSAGE_MAX)
        return BW_ELIMIT;
    if (!call->stream)
        return keep_waiting(call, prefix, bytes, length, last);
    int error = bw_h2_send(call->stream, prefix, PREFIX, false);
    return error ? error : bw_h2_send(call->stream, bytes, length, last);
}

void bw_grpc_cancel(struct bw_grpc_call *call)
{
    struct bw_grpc *channel = call->channel;
    unlink_call(call);
    if (call->stream && call->channel->h2)
        bw_h2_cancel(call->stream);
    free_after_hook(call);
    grpc_begin_waiting(channel);
}
