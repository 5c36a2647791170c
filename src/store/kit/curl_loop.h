/* libcurl's multi interface on a libuv loop. The loop polls libcurl's sockets and runs its timer.
 *
 * No callback of the caller runs inside libcurl. After each step this module calls `turned`, which
 * may add and remove easy handles and close everything. */
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
    uint32_t handles; /* libuv handles not yet closed */
    bool closed;
    void *context;
    void (*turned)(void *context);
    void (*on_closed)(void *context);
};

/* Returns 0 or BW_ENOMEM. At most `kept` idle connections stay open. */
int bw_curl_loop_open(struct bw_curl_loop *curl, uv_loop_t *loop, long kept,
                      void (*turned)(void *context), void *context);
/* The caller must have removed all easy handles. The loop calls `closed` when the struct may be
 * freed. */
void bw_curl_loop_close(struct bw_curl_loop *curl, void (*closed)(void *context));

#endif
