/* libcurl's multi interface on a libuv loop: its sockets are polled by the loop, its time-outs are
 * the loop's timer. Nothing of the caller's runs within libcurl: `turned` is called behind each
 * step, and may add, remove and close as it likes. */
#ifndef BW_STORE_CURL_LOOP_H
#define BW_STORE_CURL_LOOP_H

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
    uint32_t handles; /* of the loop, not yet closed */
    bool closed;
    void *context;
    void (*turned)(void *context);
    void (*on_closed)(void *context);
};

/* Returns 0 or BW_ENOMEM. At most `kept` idle connections stay open. */
int bw_curl_loop_open(struct bw_curl_loop *curl, uv_loop_t *loop, long kept,
                      void (*turned)(void *context), void *context);
/* The easy handles must be removed before. `closed` is called from the loop when the struct may be
 * freed. */
void bw_curl_loop_close(struct bw_curl_loop *curl, void (*closed)(void *context));

#endif
