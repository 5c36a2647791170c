/* Frames over connections, the identity of the other side, and the connections to keep; see
 * stream.h.
 *
 * The side that dialled sends HELLO as its first frame, and again when the other side had not
 * verified it. The other side answers the first HELLO it accepts with its own HELLO. So when a side
 * receives a HELLO, it knows the sender, and it knows that the sender has verified it. Only then
 * does it send payloads. BYE announces a clean close. */
#include "net/sealed/stream.h"

#include "core/base/error.h"
#include "core/base/little.h"
#include "net/sealed/datagram.h"
#include "net/sealed/stream_state.h"
#include "net/seed.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_WITHIN_MS  5000u
#define UNIDENTIFIED_MAX 64u /* incoming and unidentified; the oldest one is replaced */
#define PAUSE_MIN_MS     5u
#define PAUSE_MAX_MS     1000u
#define BACKLOG          128

static void dial_keep(struct keep *keep);

void stream_release(struct bw_stream *stream)
{
    if (--stream->handles > 0)
        return;
    void (*closed)(void *context) = stream->closed;
    void *context = stream->options.context;
    free(stream);
    if (closed)
        closed(context);
}

/* ---- lookup ---- */

static struct link *find_link(const struct bw_stream *stream, uint64_t id)
{
    struct link *link = stream->links;
    while (link && link->id != id)
        link = link->next;
    return link;
}

/* Returns an identified connection, or else one that is being established. */
static struct link *find_node(const struct bw_stream *stream, bw_node node)
{
    struct link *coming = NULL;
    for (struct link *link = stream->links; link && node != BW_NODE_NONE; link = link->next) {
        if (link->node == node && link->known && !link->bye)
            return link;
        if (link->node == node && link->dialled && !link->bye)
            coming = link;
    }
    return coming;
}

bool bw_stream_connected(const struct bw_stream *stream, bw_node node)
{
    const struct link *link = find_node(stream, node);
    return link && link->known;
}

static struct keep *find_keep(const struct bw_stream *stream, bw_node node)
{
    struct keep *keep = stream->keeps;
    while (keep && keep->node != node)
        keep = keep->next;
    return keep;
}

/* ---- outgoing frames ---- */

static int write_frame(struct link *link, unsigned kind, const void *payload, size_t length)
{
    struct bw_stream *stream = link->stream;
    int size = bw_seal_make_stream(stream->options.seal, link->node, kind, payload, length,
                                   stream->frame + HEAD_BYTES, BW_SEAL_FRAME_MAX);
    if (size < 0)
        return size;
    bw_put32(stream->frame, (uint32_t)size);
    if (!stream_link_write(link, stream->frame, HEAD_BYTES + (size_t)size))
        return BW_ELIMIT;
    stream->counts.frames_out++;
    return 0;
}

static void write_reply(struct link *link, const struct bw_sealed *opened)
{
    unsigned char bytes[HEAD_BYTES + BW_SEAL_REPLY_MAX];
    bw_put32(bytes, (uint32_t)opened->reply_length);
    memcpy(bytes + HEAD_BYTES, opened->reply, opened->reply_length);
    stream_link_write(link, bytes, HEAD_BYTES + opened->reply_length);
}

static void write_waiting(struct link *link)
{
    struct waiting *at = link->first;
    link->first = link->last = NULL;
    link->waiting_bytes = 0;
    while (at) {
        struct waiting *next = at->next;
        write_frame(link, at->kind, at->bytes, at->length);
        free(at);
        at = next;
    }
}

static int wait_for(struct link *link, unsigned kind, const void *payload, size_t length)
{
    struct bw_stream *stream = link->stream;
    size_t size = sizeof(struct waiting) + length;
    if (length > BW_SEAL_PAYLOAD_MAX || link->waiting_bytes + size > BW_STREAM_QUEUE_MAX) {
        stream->counts.queue_full++;
        return BW_ELIMIT;
    }
    struct waiting *new = malloc(size);
    if (!new)
        return BW_ENOMEM;
    *new = (struct waiting){.kind = kind, .length = length};
    if (length)
        memcpy(new->bytes, payload, length);
    if (link->last)
        link->last->next = new;
    else
        link->first = new;
    link->last = new;
    link->waiting_bytes += size;
    return 0;
}

static bool is_on_demand(const struct link *link)
{
    return link->dialled && !link->kept && !link->called;
}

static int send_on(struct link *link, unsigned kind, const void *payload, size_t length)
{
    if (kind > BW_SEAL_KIND_MAX)
        return BW_EINVAL;
    if (!link->known)
        return wait_for(link, kind, payload, length);
    if (is_on_demand(link))
        stream_link_time(link, BW_STREAM_IDLE_MS);
    if (uv_stream_get_write_queue_size((uv_stream_t *)&link->tcp) + length > BW_STREAM_QUEUE_MAX) {
        link->stream->counts.queue_full++;
        return BW_ELIMIT;
    }
    return write_frame(link, kind, payload, length);
}

/* ---- incoming frames ---- */

static void become_known(struct link *link, bw_node node)
{
    struct bw_stream *stream = link->stream;
    bool first = !bw_stream_connected(stream, node);
    link->known = true;
    link->node = node;
    uv_timer_stop(&link->timer);
    if (is_on_demand(link))
        stream_link_time(link, BW_STREAM_IDLE_MS);
    struct keep *keep = link->kept ? find_keep(stream, node) : NULL;
    if (keep)
        keep->failures = 0;
    if (!link->dialled && !link->hello_sent)
        write_frame(link, KIND_HELLO, NULL, 0);
    link->hello_sent = true;
    write_waiting(link);
    if (link->called && stream->options.called)
        stream->options.called(stream->options.context, link->id, NULL);
    if (first && node != BW_NODE_NONE && stream->options.up)
        stream->options.up(stream->options.context, node);
}

/* Processes a verified frame. Returns false to close the connection. */
static bool take_frame(struct link *link)
{
    struct bw_stream *stream = link->stream;
    const struct bw_sealed *opened = &stream->opened;
    bool expected = link->called || !link->dialled ? !link->known || link->node == opened->from
                                                   : link->node == opened->from;
    if (!expected)
        return false; /* another node uses that address now */
    stream->counts.frames_in++;
    if (opened->kind == KIND_HELLO && !link->known)
        become_known(link, opened->from);
    else if (opened->kind == KIND_BYE)
        link->bye = true;
    else if (opened->kind <= BW_SEAL_KIND_MAX && link->known)
        stream->options.frame(stream->options.context, opened, link->id);
    return true;
}

/* A dropped frame means that the sender is foreign. Exception: on an identified connection a frame
 * may be late because of a handshake elsewhere. */
static bool is_harmless(const struct link *link, enum bw_seal_drop drop)
{
    return drop == BW_SEAL_DROP_FLOOD || (link->known && drop == BW_SEAL_DROP_REPLAY);
}

static bool open_frame(struct link *link, const unsigned char *bytes, size_t length)
{
    struct bw_stream *stream = link->stream;
    const struct bw_stream_options *options = &stream->options;
    struct bw_sealed *opened = &stream->opened;
    bw_seal_clock(options->seal, (bw_time)uv_hrtime());
    int result = bw_seal_open(options->seal, bytes, length, opened);
    if (result < 0)
        return is_harmless(link, opened->drop);
    if (result == BW_SEAL_FRAME)
        return take_frame(link);
    if (result == BW_SEAL_REPLY)
        write_reply(link, opened);
    if (opened->lost)
        write_frame(link, KIND_HELLO, NULL, 0);
    if (opened->met && opened->from != BW_NODE_NONE && options->met)
        options->met(options->context, opened->from, opened->restarted);
    return true;
}

/* The longest frame accepted on this connection. */
static size_t frame_max(const struct link *link)
{
    return link->known ? BW_SEAL_FRAME_MAX : UNIDENTIFIED_FRAME_MAX;
}

bool stream_on_bytes(struct link *link)
{
    size_t used = 0;
    while (!link->closing && link->in_used - used >= HEAD_BYTES) {
        size_t length = bw_get32(link->in + used);
        if (length < BW_SEAL_OVERHEAD || length > frame_max(link))
            return false;
        if (link->in_used - used < HEAD_BYTES + length)
            break;
        if (!open_frame(link, link->in + used + HEAD_BYTES, length))
            return false;
        used += HEAD_BYTES + length;
    }
    memmove(link->in, link->in + used, link->in_used - used);
    link->in_used -= used;
    return true;
}

/* ---- connections ---- */

void stream_on_up(struct link *link)
{
    link->up = true;
    if (link->dialled)
        write_frame(link, KIND_HELLO, NULL, 0);
}

static void retry_later(struct keep *keep);

void stream_on_gone(struct link *link, const char *why)
{
    struct bw_stream *stream = link->stream;
    const struct bw_stream_options *options = &stream->options;
    bw_node node = link->node;
    if (stream->closing)
        return;
    if (link->called && !link->known && options->called)
        options->called(options->context, link->id, why);
    bool hint =
        link->known && !link->bye && node != BW_NODE_NONE && !bw_stream_connected(stream, node);
    struct keep *keep = link->kept ? find_keep(stream, node) : NULL;
    if (keep)
        retry_later(keep);
    if (!hint)
        return;
    stream->counts.hints++;
    if (options->down)
        options->down(options->context, node);
}

/* Closes cleanly. */
static void end_link(struct link *link)
{
    if (link->known)
        write_frame(link, KIND_BYE, NULL, 0);
    stream_link_close(link);
}

void stream_on_time(struct link *link)
{
    if (link->known) {
        end_link(link);
        return;
    }
    link->stream->counts.refused++;
    stream_link_close(link);
    stream_on_gone(link, "the other side did not identify itself as a node in time");
}

static struct link *dial(struct bw_stream *stream, bw_node node, const struct sockaddr *address,
                         const char *host)
{
    socklen_t length = bw_sockaddr_length(address);
    if (length == 0 || stream->counts.links >= stream->options.links_max)
        return NULL;
    struct link *link = stream_link_new(stream);
    if (!link)
        return NULL;
    link->node = node;
    memcpy(&link->address, address, length);
    if (host)
        snprintf(link->host, sizeof link->host, "%s", host);
    else
        uv_ip_name(address, link->host, sizeof link->host);
    stream_link_time(link, KNOWN_WITHIN_MS);
    stream_link_dial(link);
    return link;
}

int bw_stream_send(struct bw_stream *stream, bw_node to, const struct sockaddr *address,
                   unsigned kind, const void *payload, size_t length)
{
    if (kind > BW_SEAL_KIND_MAX || to == BW_NODE_NONE)
        return BW_EINVAL;
    struct link *link = find_node(stream, to);
    if (!link)
        link = dial(stream, to, address, NULL);
    return link ? send_on(link, kind, payload, length) : BW_ELIMIT;
}

int bw_stream_call(struct bw_stream *stream, const struct sockaddr *address, const char *host,
                   uint64_t *link)
{
    struct link *new = dial(stream, BW_NODE_NONE, address, host);
    if (!new)
        return BW_ELIMIT;
    new->called = true;
    *link = new->id;
    return 0;
}

int bw_stream_answer(struct bw_stream *stream, uint64_t link, unsigned kind, const void *payload,
                     size_t length)
{
    struct link *found = find_link(stream, link);
    return found ? send_on(found, kind, payload, length) : BW_ENOTMEMBER;
}

void bw_stream_close_link(struct bw_stream *stream, uint64_t link)
{
    struct link *found = find_link(stream, link);
    if (found)
        end_link(found);
}

/* ---- connections to keep ---- */

static void on_pause(uv_timer_t *timer)
{
    dial_keep(timer->data);
}

static void retry_later(struct keep *keep)
{
    uint64_t pause = (uint64_t)PAUSE_MIN_MS << (keep->failures < 8 ? keep->failures : 8);
    keep->failures++;
    pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    uint64_t jitter = bw_rng_below(&keep->stream->rng, pause / 2 + 1);
    uv_timer_start(&keep->timer, on_pause, pause + jitter, 0);
}

static void dial_keep(struct keep *keep)
{
    struct link *link =
        dial(keep->stream, keep->node, (const struct sockaddr *)&keep->address, keep->host);
    if (link)
        link->kept = true;
    else
        retry_later(keep);
}

static struct link *kept_link(const struct bw_stream *stream, bw_node node)
{
    struct link *link = stream->links;
    while (link && !(link->kept && link->node == node))
        link = link->next;
    return link;
}

static struct keep *add_keep(struct bw_stream *stream, bw_node node)
{
    struct keep *keep = calloc(1, sizeof *keep);
    if (!keep)
        return NULL;
    keep->stream = stream;
    keep->node = node;
    uv_timer_init(stream->options.loop, &keep->timer);
    keep->timer.data = keep;
    keep->next = stream->keeps;
    stream->keeps = keep;
    stream->keep_count++;
    stream->handles++;
    return keep;
}

int bw_stream_keep(struct bw_stream *stream, bw_node node, const struct sockaddr *address,
                   const char *host)
{
    socklen_t length = bw_sockaddr_length(address);
    struct keep *keep = find_keep(stream, node);
    char digits[HOST_MAX + 1] = "";
    if (length == 0 || node == BW_NODE_NONE)
        return BW_EINVAL;
    if (!host)
        uv_ip_name(address, digits, sizeof digits);
    host = host ? host : digits;
    if (keep && memcmp(&keep->address, address, length) == 0 && strcmp(keep->host, host) == 0)
        return 0;
    if (!keep && stream->keep_count >= stream->options.links_max)
        return BW_ELIMIT;
    struct link *old = kept_link(stream, node);
    if (!keep)
        keep = add_keep(stream, node);
    if (!keep)
        return BW_ENOMEM;
    memset(&keep->address, 0, sizeof keep->address);
    memcpy(&keep->address, address, length);
    snprintf(keep->host, sizeof keep->host, "%s", host);
    keep->failures = 0;
    uv_timer_stop(&keep->timer);
    if (old)
        end_link(old);
    dial_keep(keep);
    return 0;
}

static void on_keep_closed(uv_handle_t *handle)
{
    struct keep *keep = handle->data;
    struct bw_stream *stream = keep->stream;
    free(keep);
    stream_release(stream);
}

void bw_stream_stop_keeping(struct bw_stream *stream, bw_node node)
{
    struct link *link = kept_link(stream, node);
    for (struct keep **at = &stream->keeps; *at; at = &(*at)->next)
        if ((*at)->node == node) {
            struct keep *keep = *at;
            *at = keep->next;
            stream->keep_count--;
            uv_close((uv_handle_t *)&keep->timer, on_keep_closed);
            break;
        }
    if (link)
        end_link(link);
}

/* ---- listening ---- */

/* Too many unidentified connections: closes the oldest. Nodes identify themselves quickly. */
static void evict_unidentified(struct bw_stream *stream)
{
    struct link *oldest = NULL;
    uint32_t unidentified = 0;
    for (struct link *link = stream->links; link; link = link->next)
        if (!link->known && !link->dialled) {
            oldest = link;
            unidentified++;
        }
    if (oldest &&
        (unidentified > UNIDENTIFIED_MAX || stream->counts.links > stream->options.links_max)) {
        stream->counts.refused++;
        stream_link_close(oldest);
    }
}

static void on_accept(uv_stream_t *listener, int status)
{
    struct bw_stream *stream = listener->data;
    struct link *link = status == 0 ? stream_link_new(stream) : NULL;
    if (!link && status == 0)
        bw_refuse(&stream->refuser);
    if (!link || !stream_link_accept(link, listener))
        return;
    stream_link_time(link, KNOWN_WITHIN_MS);
    evict_unidentified(stream);
}

static int listen_on(struct bw_stream *stream, char *why)
{
    const struct sockaddr *address = stream->options.listen;
    int error = bw_sockaddr_length(address) ? 0 : UV_EINVAL;
    if (!error)
        error = uv_tcp_bind(&stream->listener, address, 0);
    if (!error)
        error = uv_listen((uv_stream_t *)&stream->listener, BACKLOG, on_accept);
    if (error)
        snprintf(why, BW_STREAM_WHY_MAX + 1, "cannot listen for connections: %s",
                 uv_strerror(error));
    return error ? bw_listen_error(-error) : 0;
}

static void on_listener_closed(uv_handle_t *handle)
{
    stream_release(handle->data);
}

int bw_stream_open(struct bw_stream **out, const struct bw_stream_options *options, char *why)
{
    struct bw_stream *stream = calloc(1, sizeof *stream);
    if (!stream || options->links_max == 0) {
        snprintf(why, BW_STREAM_WHY_MAX + 1, "out of memory for connections");
        free(stream);
        return BW_ENOMEM;
    }
    stream->options = *options;
    bw_net_seed(&stream->rng);
    uv_tcp_init(options->loop, &stream->listener);
    stream->listener.data = stream;
    stream->handles = 1;
    stream->refuser = (struct bw_refuser){.listener = (uv_stream_t *)&stream->listener,
                                          .handles = &stream->handles,
                                          .released = on_listener_closed};
    int error = options->listen ? listen_on(stream, why) : 0;
    if (error)
        uv_close((uv_handle_t *)&stream->listener, on_listener_closed);
    else
        *out = stream;
    return error;
}

void bw_stream_close(struct bw_stream *stream, void (*closed)(void *context))
{
    stream->closing = true;
    stream->closed = closed;
    while (stream->keeps)
        bw_stream_stop_keeping(stream, stream->keeps->node);
    while (stream->links)
        end_link(stream->links);
    uv_close((uv_handle_t *)&stream->listener, on_listener_closed);
}

void bw_stream_counts(const struct bw_stream *stream, struct bw_stream_counts *out)
{
    *out = stream->counts;
}
