/* libcurl's multi interface on a libuv loop; see curl_loop.h. */
#include "store/kit/curl_loop.h"

#include "core/base/error.h"

#include <stdlib.h>

#define BROKEN_MS 100u /* delay before a transfer that could not start is reported */

struct bw_curl_socket {
    uv_poll_t poll;
    curl_socket_t fd;
    struct bw_curl_loop *curl;
    struct bw_curl_socket *next, *previous;
};

static void count_closed(struct bw_curl_loop *curl)
{
    if (--curl->handles == 0)
        curl->on_closed(curl->context);
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct bw_curl_socket *each = handle->data;
    struct bw_curl_loop *curl = each->curl;
    free(each);
    count_closed(curl);
}

static void drop_socket(struct bw_curl_socket *each)
{
    struct bw_curl_loop *curl = each->curl;
    *(each->previous ? &each->previous->next : &curl->sockets) = each->next;
    if (each->next)
        each->next->previous = each->previous;
    uv_poll_stop(&each->poll);
    uv_close((uv_handle_t *)&each->poll, on_socket_closed);
}

static struct bw_curl_socket *add_socket(struct bw_curl_loop *curl, curl_socket_t fd)
{
    struct bw_curl_socket *each = calloc(1, sizeof *each);
    if (!each || uv_poll_init_socket(curl->loop, &each->poll, fd) != 0) {
        free(each);
        return NULL;
    }
    each->poll.data = each;
    each->fd = fd;
    each->curl = curl;
    each->next = curl->sockets;
    if (each->next)
        each->next->previous = each;
    curl->sockets = each;
    curl->handles++;
    return each;
}

static void act(struct bw_curl_loop *curl, curl_socket_t fd, int flags)
{
    int running;
    if (!curl->broken && curl_multi_socket_action(curl->multi, fd, flags, &running) != CURLM_OK)
        curl->broken = true;
    curl->turned(curl->context);
}

/* If polling the socket failed, reports it as readable and writable. libcurl then uses the socket,
 * sees the error itself, and can replace a closed kept connection by a new one. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct bw_curl_socket *each = poll->data;
    int flags = status < 0 ? CURL_CSELECT_IN | CURL_CSELECT_OUT : 0;
    flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
    flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
    act(each->curl, each->fd, flags);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
    struct bw_curl_loop *curl = context;
    struct bw_curl_socket *each = known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        curl_multi_assign(curl->multi, fd, NULL);
        if (each)
            drop_socket(each);
        return 0;
    }
    if (!each && !(each = add_socket(curl, fd)))
        return -1;
    curl_multi_assign(curl->multi, fd, each);
    int events = what & CURL_POLL_IN ? UV_READABLE : 0;
    events |= what & CURL_POLL_OUT ? UV_WRITABLE : 0;
    return uv_poll_start(&each->poll, events, on_poll) == 0 ? 0 : -1;
}

static void on_timer(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_time(CURLM *multi, long ms, void *context)
{
    struct bw_curl_loop *curl = context;
    (void)multi;
    if (curl->closed || curl->broken)
        return 0;
    if (ms < 0)
        uv_timer_stop(&curl->timer);
    else
        uv_timer_start(&curl->timer, on_timer, (uint64_t)ms, 0);
    return 0;
}

static CURLM *make_multi(struct bw_curl_loop *curl)
{
    CURLM *multi = curl_multi_init();
    if (!multi)
        return NULL;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_time);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, curl);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, curl->kept);
    return multi;
}

void bw_curl_loop_add(struct bw_curl_loop *curl, CURL *easy)
{
    if (!curl->broken && curl_multi_add_handle(curl->multi, easy) == CURLM_OK)
        return;
    curl->broken = true;
    uv_timer_start(&curl->timer, on_timer, BROKEN_MS, 0);
}

void bw_curl_loop_restart(struct bw_curl_loop *curl)
{
    curl_multi_cleanup(curl->multi);
    while (curl->sockets)
        drop_socket(curl->sockets);
    uv_timer_stop(&curl->timer);
    curl->multi = make_multi(curl);
    curl->broken = !curl->multi;
}

int bw_curl_loop_open(struct bw_curl_loop *curl, uv_loop_t *loop, long kept,
                      void (*turned)(void *context), void *context)
{
    *curl = (struct bw_curl_loop){.loop = loop, .kept = kept, .turned = turned, .context = context};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return BW_ENOMEM;
    curl->multi = make_multi(curl);
    if (!curl->multi) {
        curl_global_cleanup();
        return BW_ENOMEM;
    }
    uv_timer_init(loop, &curl->timer);
    curl->timer.data = curl;
    curl->handles = 1;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    count_closed(handle->data);
}

void bw_curl_loop_close(struct bw_curl_loop *curl, void (*closed)(void *context))
{
    curl->closed = true;
    curl->on_closed = closed;
    curl_multi_cleanup(curl->multi);
    curl_global_cleanup();
    while (curl->sockets)
        drop_socket(curl->sockets);
    uv_close((uv_handle_t *)&curl->timer, on_timer_closed);
}
