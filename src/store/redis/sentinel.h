/* Asks Redis sentinels for the current master, one sentinel after another. Each sentinel has
 * `share_ms` to answer. The next query starts with the sentinel that answered last. */
#ifndef BW_STORE_REDIS_SENTINEL_H
#define BW_STORE_REDIS_SENTINEL_H

#include "store/redis/link.h"

struct redis_sentinel {
    uv_loop_t *loop;
    struct bw_url_host host[BW_URL_HOSTS_MAX];
    uint32_t hosts, first, tried;
    char master[256];
    char password[512]; /* for the sentinels; "": none */
    struct redis_tls_context *tls;
    struct redis_wire *wire;
    unsigned replies;
    unsigned share_ms;
    uv_timer_t timer;
    void (*answer)(void *context, const struct bw_url_host *master, const char *why);
    void *context;
    void (*on_closed)(struct redis_sentinel *sentinel);
    char why[BW_WHY_MAX + 1];
};

/* The caller owns the struct and has set all fields up to `tls`. */
void redis_sentinel_open(struct redis_sentinel *sentinel);
/* `answer` is called once, from the loop: with the master, or with NULL and the reason. */
void redis_sentinel_ask(struct redis_sentinel *sentinel, unsigned share_ms,
                        void (*answer)(void *context, const struct bw_url_host *master,
                                       const char *why),
                        void *context);
/* `answer` is not called any more. */
void redis_sentinel_stop(struct redis_sentinel *sentinel);
void redis_sentinel_close(struct redis_sentinel *sentinel,
                          void (*closed)(struct redis_sentinel *sentinel));

#endif
