/* libcurl's multi interface on a libuv loop. The loop polls libcurl's sockets and runs its timer.
 *
 * No callback of the caller runs inside libcurl. After each step this module calls `turned`, which
 * may add and remove easy handles and close everything.
 *
 * If libcurl runs out of memory, its multi handle must not be used again: libcurl 7.88 fails every
 * later transfer on it, or crashes. Then `broken` is set when `turned` is called. The caller must
 * remove all easy handles, call bw_curl_loop_restart, and fail the transfers. */
#ifndef BW_STORE_KIT_CURL_LOOP_H
#define BW_STORE_KIT_CURL_LOOP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct bw_curl_socket;

struct bw_curl_loop {
    CURLM *multi;
    uv_loop_t *loop;
    uv_timer_t timer;
    struct bw_curl_socket *sockets;
    long kept;        /* idle connections that stay open */
    uint32_t handles; /* libuv handles not yet closed */
    bool closed;
    bool broken; /* `multi` must be replaced; it may be NULL */
    void *context;
    void (*turned)(void *context);
    void (*on_closed)(void *context);
};

/* Returns 0 or BW_ENOMEM. At most `kept` idle connections stay open. */
int bw_curl_loop_open(struct bw_curl_loop *curl, uv_loop_t *loop, long kept,
                      void (*turned)(void *context), void *context);
/* Starts a transfer. If that fails, sets `broken` and calls `turned` soon. */
void bw_curl_loop_add(struct bw_curl_loop *curl, CURL *easy);
/* Replaces a broken multi handle; all connections close. Without memory for a new one, the loop
 * stays broken. The caller must have removed all easy handles. */
void bw_curl_loop_restart(struct bw_curl_loop *curl);
/* The caller must have removed all easy handles. The loop calls `closed` when the struct may be
 * freed. */
void bw_curl_loop_close(struct bw_curl_loop *curl, void (*closed)(void *context));

#endif
