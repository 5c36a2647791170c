/* Refuses a connection for which there is no memory. libuv accepts no further connection of a
 * listener until the program has taken the last one with uv_accept. So a listener whose callback
 * returns without uv_accept, because it could not allocate, would be deaf for ever.
 *
 * A refuser is a part of the listener's owner and allocates nothing. It takes the connection and
 * closes it. While it does so, it counts as one open handle of the owner. */
#ifndef BW_OS_REFUSE_H
#define BW_OS_REFUSE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct bw_refuser {
    uv_tcp_t tcp;
    uv_stream_t *listener;
    uint32_t *handles;                     /* of the owner */
    void (*released)(uv_handle_t *handle); /* gives up that handle; handle->data is the owner */
    bool busy, due; /* a connection is being closed; the next one waits to be refused */
};

static inline void bw_refuse(struct bw_refuser *refuser);

static inline void bw_refuser_closed(uv_handle_t *handle)
{
    struct bw_refuser *refuser = (struct bw_refuser *)(void *)handle;
    bool again = refuser->due && !uv_is_closing((uv_handle_t *)refuser->listener);
    refuser->busy = refuser->due = false;
    if (again)
        bw_refuse(refuser);
    refuser->released(handle);
}

/* Call it instead of uv_accept in the listener's callback. */
static inline void bw_refuse(struct bw_refuser *refuser)
{
    if (refuser->busy) {
        refuser->due = true;
        return;
    }
    refuser->busy = true;
    ++*refuser->handles;
    uv_tcp_init(refuser->listener->loop, &refuser->tcp);
    refuser->tcp.data = refuser->listener->data;
    uv_accept(refuser->listener, (uv_stream_t *)&refuser->tcp);
    uv_close((uv_handle_t *)&refuser->tcp, bw_refuser_closed);
}

#endif
